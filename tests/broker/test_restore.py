"""A broker that is started again has what was recorded."""

from __future__ import annotations

import itertools
import logging

import pytest
from tests.broker.at_once import drop_vhost
from tests.broker.engine_fake import FakeCache, FakeQueue, fake_of
from tests.broker.peer import World
from tests.broker.recording import Recording, drops

from leporid.amqp.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueUnbind,
)
from leporid.amqp.tables import Value, encode_table
from leporid.broker.stored import (
    StoredBinding,
    StoredCache,
    StoredExchange,
    StoredQueue,
    StoredVhost,
)

EMPTY = encode_table({})


def recorded(*, drop_other: bool = False) -> tuple[World, Recording]:
    """Make a world whose changes are in a recording."""
    world, recording = World(), Recording(["/", "other"])
    peer, other = world.peer(), world.peer(vhost="other")
    peer.call(ExchangeDeclare(exchange="e", type="topic", durable=True, internal=True))
    peer.call(ExchangeDeclare(exchange="gone", durable=True))
    peer.call(ExchangeDeclare(exchange="transient"))
    arguments: dict[str, Value] = {"x-max-length": 5, "x-queue-type": "quorum"}
    peer.call(QueueDeclare(queue="q", durable=True, arguments=arguments))
    peer.call(QueueDeclare(queue="gone", durable=True))
    peer.call(QueueDeclare(queue="transient"))
    for queue, exchange in itertools.product(
        ("q", "gone", "transient"), ("e", "gone", "transient", "amq.direct")
    ):
        for key in ("a.*", "b"):
            bind = QueueBind(queue=queue, exchange=exchange, routing_key=key)
            peer.call(bind)
    peer.call(ExchangeBind(destination="e", source="amq.fanout"))
    peer.call(QueueUnbind(queue="q", exchange="amq.direct", routing_key="a.*"))
    peer.call(QueueDelete(queue="gone"))
    peer.call(ExchangeDelete(exchange="gone"))
    other.call(QueueDeclare(queue="q", durable=True, auto_delete=True))
    if drop_other:
        drop_vhost(world.broker, "other")
    recording.extend(world.changes)
    return world, recording


def test_everything_durable_is_back_and_nothing_else():
    _, recording = recorded()
    world = World()
    world.broker.restore(recording.snapshot())
    assert world.changes == []
    peer, other = world.peer(), world.peer(vhost="other")
    arguments: dict[str, Value] = {"x-max-length": 5, "x-queue-type": "quorum"}
    again = QueueDeclare(queue="q", durable=True, arguments=arguments)
    assert peer.call(again) == QueueDeclareOk("q", 0, 0)
    again = QueueDeclare(queue="q", durable=True, auto_delete=True)
    assert other.call(again) == QueueDeclareOk("q", 0, 0)
    peer.call(ExchangeDeclare(exchange="e", type="topic", durable=True, internal=True))
    vhost = world.broker.vhosts["/"]
    assert [queue.name for queue in vhost.queues()] == ["q"]
    assert vhost.find_exchange("gone") is vhost.find_exchange("transient") is None
    assert peer.connection.publish(1, "amq.fanout", "a.b") == 1
    assert peer.connection.publish(1, "amq.fanout", "c") == 0
    assert peer.connection.publish(1, "amq.direct", "b") == 1
    assert peer.connection.publish(1, "amq.direct", "a.*") == 0
    assert world.changes == []


def test_queues_keep_their_numbers_and_new_ones_get_others():
    first, recording = recorded()
    world = World()
    world.broker.restore(recording.snapshot())
    old, new = (each.broker.vhosts["/"].queue("q") for each in (first, world))
    assert old.id == new.id != 0
    engine = fake_of(new.engine, FakeQueue)
    assert (engine.id, engine.durable) == (old.id, True)
    world.peer().call(QueueDeclare(queue="new", durable=True))
    assert world.broker.vhosts["/"].queue("new").id == recording.next_queue_id


def test_a_dropped_vhost_stays_dropped():
    _, recording = recorded(drop_other=True)
    assert recording.of(StoredVhost) == (StoredVhost("/"),)
    assert all(each.vhost == "/" for each in recording.of(StoredQueue))


def test_what_makes_no_sense_is_left_out_and_reported(caplog: pytest.LogCaptureFixture):
    recording = Recording(["/"])
    recording.put(
        StoredExchange("/", "e", "x-future", False, False, EMPTY),
        StoredExchange("lost", "e", "direct", False, False, EMPTY),
        StoredExchange("/", "good", "direct", False, False, EMPTY),
        StoredQueue(1, "/", "q", False, b"\0\0\0\x09"),
        StoredQueue(2, "/", "good", False, EMPTY),
        StoredBinding("/", "e", "good", "queue", "k", EMPTY),
        StoredBinding("/", "good", "q", "queue", "k", EMPTY),
        StoredBinding("/", "good", "good", "queue", "k", EMPTY),
        StoredBinding("/", "amq.direct", "good", "exchange", "k", EMPTY),
    )
    world = World()
    with caplog.at_level(logging.ERROR):
        world.broker.restore(recording.snapshot())
    assert len(caplog.records) == 5
    assert world.peer().connection.publish(1, "good", "k") == 1
    assert world.peer().connection.publish(1, "amq.direct", "k") == 1


def deduplicating(name: str, *, durable: bool = True, **more: Value) -> ExchangeDeclare:
    arguments = {"x-cache-size": 5, **{key.replace("_", "-"): more[key] for key in more}}
    kind = "x-message-deduplication"
    return ExchangeDeclare(exchange=name, type=kind, durable=durable, arguments=arguments)


def test_what_a_durable_exchange_remembers_has_the_number_that_it_had():
    world, recording = World(), Recording(["/"])
    peer = world.peer()
    peer.call(deduplicating("one"))
    peer.call(deduplicating("gone"))
    peer.call(deduplicating("two", x_cache_ttl=9))
    peer.call(deduplicating("passing", durable=False))
    peer.call(deduplicating("memory", x_cache_persistence="memory"))
    peer.call(ExchangeDelete(exchange="gone"))
    recording.extend(world.changes)
    assert [cache.exchange for cache in recording.of(StoredCache)] == ["one", "two"]
    again = World()
    again.broker.restore(recording.snapshot())
    assert again.changes == []
    caches = {
        one.id: (one.name, one.durable, one.limits)
        for one in again.engine.queues
        if isinstance(one, FakeCache) and one.id
    }
    assert caches == {
        recording.of(StoredCache)[0].id: ("cache of one", True, {"size": 5, "ttl_ms": None}),
        recording.of(StoredCache)[1].id: ("cache of two", True, {"size": 5, "ttl_ms": 9}),
    }
    assert again.broker.new_queue_id() > max(caches)
    again.peer().call(ExchangeDelete(exchange="one"))
    assert drops(again.changes, StoredCache) == [recording.of(StoredCache)[0].identity]
    assert [one.retired for one in again.engine.queues if one.name == "cache of one"] == [True]
