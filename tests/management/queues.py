"""Queues of the world behind the HTTP routes, for the tests that read them."""

from __future__ import annotations

from typing import Any

import httpx
import pyarrow as pa
from tests.engine.session_fake import Peer
from tests.management.conftest import PERSISTENT, World

from leporid.engine.queue.queue import Queue

URL = "/api/queues/%2F/orders"


def queue_of(world: World, name: str = "orders", arguments: dict[str, Any] | None = None) -> Queue:
    made = world.vhost.create_queue(
        name, durable=True, auto_delete=False, arguments=arguments or {}, owner=None
    )
    assert isinstance(made.engine, Queue)
    return made.engine


def fill(
    world: World,
    queue: Queue,
    count: int,
    *,
    body: bytes = b"%d",
    key: str = "k",
    properties: bytes = PERSISTENT,
) -> None:
    for number in range(count):
        text = body % number if b"%" in body else body
        world.engine.publish([queue], "", key, properties, text)
    world.sync()


def peer_of(world: World, queue: Queue) -> Peer:
    return Peer(world.engine, {"orders": queue})


def table_of(answer: httpx.Response) -> pa.Table:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    read = pa.ipc.open_stream(answer.content).read_all()
    read.validate(full=True)
    return read
