"""A broker with a disk in memory behind the HTTP routes, on a port of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import httpx
import pytest
import uvloop
from tests.engine.disk_fake import Disk
from tests.management.fake_backups import Backups
from tests.server.client import PATIENCE_S
from tests.server.test_http import TOTALS

from leporid.amqp.properties import Properties, encode_properties
from leporid.broker.access.access import Access, User, guest
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import Permissions
from leporid.broker.broker import Broker
from leporid.broker.settings.unknown_arguments import OnUnknown
from leporid.engine.engine import Engine
from leporid.engine.stream.stream import Stream
from leporid.filterserver.filter_class import FilterClass, FilterClassStatus
from leporid.filterserver.host import FilterProcess
from leporid.management.application import routes
from leporid.management.surroundings import Surroundings
from leporid.server.addresses import bind, is_loopback
from leporid.server.http import HttpServer, application

SECRET = b"s" * 32
PERSISTENT = encode_properties(Properties(delivery_mode=2))


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loop that the broker runs on.

    asyncio's own does not switch off Nagle's algorithm on our sockets: 40 ms for each request.
    """
    return {"uvloop": uvloop.new_event_loop}


class World:
    """A broker, its disk, and what the routes are given."""

    def __init__(self, *, unknown_arguments: OnUnknown = "warn") -> None:
        self.engine = Engine(7)
        self.engine.clock.wall_ms = 1_700_000_000_000
        self.disk = Disk()
        self.disk.attach(self.engine)
        reader = User(
            "reader",
            salted_sha256("secret", SECRET),
            permissions={"/": Permissions.of(read="^(orders|many)$", write="^amq.default$")},
        )
        users = [guest(SECRET), reader, User("stranger", salted_sha256("secret", SECRET))]
        self.changes: list[Any] = []
        self.numbers = itertools.count()
        self.broker = Broker(
            self.engine,
            Access(users, SECRET),
            record=self.changes.append,
            random_bytes=lambda count: next(self.numbers).to_bytes(count),
            unknown_arguments=lambda vhost: unknown_arguments,
        )
        self.vhost = self.broker.add_vhost("/")
        self.syncing = True
        self.look: Callable[[], None] = lambda: None
        self.filter_class_status = FilterClassStatus()
        self.backups = Backups()
        self.around = Surroundings(
            broker=self.broker,
            engine=self.engine,
            is_loopback=is_loopback,
            set_clock=self.set_clock,
            wake=self.turn,
            until_synced=self.until_synced,
            monotonic=time.monotonic,
            try_filter_class=self.try_filter_class,
            filter_class_status=lambda name: self.filter_class_status,
            backups=self.backups,
            guest_registers=True,
            look=lambda: self.look(),
        )

    async def try_filter_class(self, filter_class: FilterClass) -> None:
        process = await FilterProcess.start(filter_class.class_name, filter_class.source)
        await process.end()

    def set_clock(self) -> None:
        """The time stands still."""

    def turn(self) -> None:
        self.engine.run()

    async def until_synced(self, generation: int) -> bool:
        while not self.syncing:
            await asyncio.sleep(0)
        self.sync()
        return self.engine.logs.synced >= generation

    def sync(self) -> None:
        self.engine.run()
        self.disk.sync(self.engine)

    def stream(self, name: str = "orders", arguments: dict[str, Any] | None = None) -> Stream:
        queue = self.vhost.create_queue(
            name,
            durable=True,
            auto_delete=False,
            arguments={"x-queue-type": "stream", **(arguments or {})},
            owner=None,
        )
        assert isinstance(queue.engine, Stream)
        return queue.engine

    def fill(
        self,
        stream: Stream,
        count: int,
        *,
        body: bytes = b"%d",
        key: str = "k%d",
        properties: bytes = PERSISTENT,
        exchange: str = "",
    ) -> None:
        """Append messages `count` times and sync."""
        for _ in range(count):
            at = stream.next_offset
            self.engine.publish(
                [stream],
                exchange,
                key % at if "%" in key else key,
                properties,
                body % at if b"%" in body else body,
            )
        self.sync()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.around.stop()


@contextlib.asynccontextmanager
async def serving(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """Serve a world; gives a client that is guest."""
    app = application(TOTALS, list, routes(world.around))
    server = HttpServer(app, bind(["127.0.0.1"], 0))
    await server.start()
    host, port = server.address
    # Tables are encoded by threads that let others go first: on a busy machine they may get no
    # processor for longer than the five seconds that httpx waits by itself.
    async with httpx.AsyncClient(
        base_url=f"http://{host}:{port}",
        trust_env=False,
        verify=False,  # else each client reads all certificates that the machine trusts: 30 ms
        auth=("guest", "guest"),
        timeout=PATIENCE_S,
    ) as client:
        yield client
    await server.stop()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(world) as client:
        yield client
