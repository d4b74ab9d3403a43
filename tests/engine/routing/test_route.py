"""Routes: every publisher treats full queues alike, and a route is found again after a change."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.engine.delay_world import World, delayed
from tests.engine.disk_fake import Disk
from tests.engine.frames import publish
from tests.engine.session_fake import make_engine
from tests.management.arrows import batches_in, stream_of

from leporid.engine.tables.publisher import Publisher
from leporid.engine.tables.rows import encode

Send = Callable[[World, bytes], None]


@pytest.fixture
def world() -> World:
    disk = Disk()
    return World(make_engine(), disk)


def by_channel(world: World, body: bytes) -> None:
    world.peer.feed(publish(1, "q", body, exchange="p"))


def by_transaction(world: World, body: bytes) -> None:
    channel = world.peer.channels[2]
    channel.select_tx()
    world.peer.feed(publish(2, "q", body, exchange="p"))
    channel.commit()


def by_table(world: World, body: bytes) -> None:
    batch = pa.record_batch({"body": pa.array([body]), "routing_key": pa.array(["q"])})
    ((rows, parts),) = batches_in(stream_of(batch))
    publisher = Publisher(world.engine.publishing, world.caches.__getitem__)
    publisher.publish(encode(rows, parts, exchange=b"p", body_bytes_max=100), 0, 1)


def when_due(world: World, body: bytes) -> None:
    world.send(body, delayed(5))


WAYS = [by_channel, by_transaction, by_table, when_due]
# A transaction's letters are published before its own messages, which are one fact after a crash.
IN_ORDER = [by_channel, by_table, when_due]


@pytest.mark.parametrize("send", WAYS)
def test_a_full_queue_refuses_nothing_that_a_consumer_takes_at_once(world, send: Send):
    world.q.set_limits(max_length=1, overflow="reject-publish")
    world.peer.channel.consume(world.q, "c", True, 0, 0)
    bodies = [b"%d" % number for number in range(4)]
    for body in bodies:
        send(world, body)
    world.sleep(10)
    assert sorted(each.body for each in world.peer.deliveries()) == bodies


@pytest.mark.parametrize("send", IN_ORDER)
def test_a_message_comes_before_its_own_dead_letter(world, send: Send):
    """Where one of its queues is full and sends it on to the other one."""
    full = world.engine.queue(0, "full", False)
    full.set_limits(max_length=0, overflow="reject-publish-dlx")
    full.dead_letters = lambda reason, exchange, key, raw, body: world.engine.publish(
        [world.q], exchange, key, raw, b"letter of " + body
    )
    for cache in world.caches.values():
        cache.forget()
    world.resolve = lambda key, raw: [full, world.q]
    world.make_caches()
    send(world, b"x")
    world.sleep(10)
    assert world.came() == [b"x", b"letter of x"]


@pytest.mark.parametrize("send", WAYS)
def test_a_way_is_asked_for_again_after_it_changed(world, send: Send):
    other = world.engine.queue(0, "other", False)
    send(world, b"1")
    world.sleep(10)
    world.caches["p"].retire()
    world.caches["d"].retire()
    world.resolve = lambda key, raw: [other]
    world.make_caches()
    send(world, b"2")
    world.sleep(10)
    assert (world.peer.drain(world.q), world.peer.drain(other)) == ([b"1"], [b"2"])


@pytest.mark.slow
def test_more_queues_than_a_record_can_name(engine, peer):
    queues = [engine.queue(0, f"{number}", False) for number in range(2**16 + 3)]
    peer.session.caches["x"] = engine.route_cache("x", lambda key, raw: queues, True)
    peer.feed(publish(1, "key", b"body", exchange="x"))
    ((channel, fault),) = peer.session.faults
    assert (channel, fault.code) == (1, 506)
    assert not any(queue.ready_count for queue in queues)
