"""Messages of the broker's own wait within limits, and none of them harms who notes it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.management.conftest import World
from tests.management.queues import queue_of

from leporid.amqp.properties import Properties
from leporid.amqp.tables import MAX_TABLE_BYTES, MAX_TABLE_DEPTH, Value
from leporid.broker.events import outbox as module
from leporid.broker.events.outbox import Notice, Outbox
from leporid.broker.exchange.types import Binding
from leporid.engine.queue.queue import Queue


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def queue(world: World) -> Queue:
    """Bound to amq.topic with every key."""
    found = queue_of(world, "q")
    world.vhost.bindings.bind(Binding("amq.topic", "q", "queue", "#", {}), None)
    return found


def notice(world: World, key: str = "k", size: int = 0) -> Notice:
    exchange = world.vhost.exchange("amq.topic")
    return Notice(world.vhost, exchange, key, Properties(headers={"n": 1}), b"", size)


def test_it_is_published_in_a_later_turn_in_order(world: World, queue: Queue):
    outbox = Outbox(world.engine, "things")
    for key in ("a", "b"):
        assert outbox.admits(0)
        outbox.put(notice(world, key))
    assert queue.ready_count == 0
    world.turn()
    assert (queue.ready_count, outbox.published, outbox.dropped) == (2, 2, 0)


def test_what_there_is_no_room_for_is_counted_and_told_once(
    world: World,
    queue: Queue,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(module, "MESSAGES_MAX", 2)
    outbox = Outbox(world.engine, "things")
    for _ in range(2):
        for _ in range(4):
            if outbox.admits(0):
                outbox.put(notice(world))
        world.turn()
    assert (queue.ready_count, outbox.dropped) == (4, 4)
    assert [each for each in caplog.messages if "things are dropped" in each] == [
        "things are dropped: too many wait to be published; further ones are counted only"
    ] * 2


def test_bytes_have_a_limit_too(world: World, queue: Queue):
    outbox = Outbox(world.engine, "things")
    assert outbox.admits(module.BYTES_MAX - module.MESSAGE_BYTES)
    outbox.put(notice(world, size=module.BYTES_MAX - module.MESSAGE_BYTES))
    assert not outbox.admits(0)
    world.turn()
    assert outbox.admits(0)
    assert not outbox.admits(module.BYTES_MAX)


def test_a_defect_costs_one_message(world: World, queue: Queue, caplog: pytest.LogCaptureFixture):
    outbox = Outbox(world.engine, "things")
    nowhere: Any = None
    broken = notice(world)._replace(vhost=nowhere)
    for each in (broken, notice(world)):
        assert outbox.admits(0)
        outbox.put(each)
    world.turn()
    assert queue.ready_count == 1
    assert any("defect" in each for each in caplog.messages)


def test_what_nobody_could_read_is_dropped(
    world: World, queue: Queue, caplog: pytest.LogCaptureFixture
):
    outbox = Outbox(world.engine, "things")
    large: dict[str, Value] = {"h": "x" * MAX_TABLE_BYTES}
    deep: dict[str, Value] = {}
    for _ in range(MAX_TABLE_DEPTH + 1):
        deep = {"h": deep}
    for headers in (large, deep):
        outbox.put(notice(world)._replace(properties=Properties(headers=headers)))
    outbox.put(notice(world))
    world.turn()
    assert (queue.ready_count, outbox.dropped) == (1, 2)
    assert not any("defect" in each for each in caplog.messages)


def test_what_comes_to_no_queue_or_a_deleted_exchange_is_nothing(world: World):
    outbox = Outbox(world.engine, "things")
    made = world.vhost.create_exchange(
        "x", "topic", durable=False, auto_delete=False, internal=False, arguments={}
    )
    outbox.put(notice(world))
    outbox.put(notice(world)._replace(exchange=made))
    world.vhost.delete_exchange(made, if_unused=False)
    world.turn()
    assert outbox.published == 1
