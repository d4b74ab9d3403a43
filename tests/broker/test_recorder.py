"""What is recorded of a virtual host, and what is not."""

from __future__ import annotations

import pytest
from tests.broker.peer import World

from leporid.amqp.tables import encode_table
from leporid.broker.changes import (
    Change,
    DropBinding,
    DropExchange,
    DropQueue,
    PutBinding,
    PutExchange,
    PutQueue,
)
from leporid.broker.exchange import Exchange
from leporid.broker.exchanges import Binding
from leporid.broker.queues import QueueState
from leporid.broker.recorder import Recorder
from leporid.broker.vhost import VirtualHost


def ends(vhost: VirtualHost, *, durable: bool) -> tuple[Exchange, QueueState]:
    name = f"durable {durable}"
    exchange = vhost.add_exchange(
        name, "topic", durable=durable, auto_delete=False, internal=True, arguments={"k": 1}
    )
    return exchange, vhost.make_queue(name, queue_id=5 if durable else 0, arguments={"a": None})


@pytest.fixture
def vhost() -> VirtualHost:
    return World().broker.vhosts["/"]


def test_durable_things_come_and_go(vhost: VirtualHost):
    changes: list[Change] = []
    recorder = Recorder("/", changes.append)
    exchange, queue = ends(vhost, durable=True)
    binding = Binding(exchange.name, queue.name, "queue", "k", {"x": True})
    recorder.added_exchange(exchange)
    recorder.added_queue(queue)
    recorder.bound(binding, exchange, queue)
    recorder.unbound(binding, queue)
    recorder.removed_queue(queue)
    recorder.removed_exchange(exchange)
    name = "durable True"
    encoded = encode_table({"x": True})
    assert changes == [
        PutExchange("/", name, "topic", False, True, encode_table({"k": 1})),
        PutQueue(5, "/", name, False, encode_table({"a": None})),
        PutBinding("/", name, name, "queue", "k", encoded),
        DropBinding("/", name, name, "queue", "k", encoded),
        DropQueue(5),
        DropExchange("/", name),
    ]


def test_what_is_transient_at_one_end_leaves_no_record(vhost: VirtualHost):
    changes: list[Change] = []
    recorder = Recorder("/", changes.append)
    exchange, queue = ends(vhost, durable=False)
    durable, _ = ends(vhost, durable=True)
    recorder.added_exchange(exchange)
    recorder.added_queue(queue)
    for source in (exchange, durable):
        binding = Binding(source.name, queue.name, "queue", "", {})
        recorder.bound(binding, source, queue)
        recorder.unbound(binding, source, queue)
        recorder.unbound(binding, queue)
    recorder.removed_queue(queue)
    recorder.removed_exchange(exchange)
    assert changes == []
