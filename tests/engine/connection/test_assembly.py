"""A message whose frames do not arrive together; faults in their order: test_connection_faults."""

from __future__ import annotations

import gc
import resource
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.engine import frames
from tests.engine.disk_fake import Disk
from tests.engine.frames import (
    basic_publish,
    bodies,
    content_header,
    frame,
    method,
    publish,
)
from tests.engine.restarts import Broker
from tests.engine.session_fake import CHANNEL_CLOSE_OK, Peer, make_engine
from tests.engine.slices import cut_often, ended, turns
from tests.engine.stream_world import World

from leporid.amqp.errors import AccessRefused
from leporid.engine.bounds.accounts import Account
from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue


@pytest.mark.parametrize("size", [1, 3, 4087, 4088, 4089, 8176, 20_000, 300_000])
def test_bodies_of_many_frames(size):
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue}, frame_max=4096)
    body = bytes(range(256)) * (size // 256 + 1)
    peer.feed(publish(1, "q", body[:size], step=4088))
    got = peer.get(queue)
    assert got is not None
    assert got.body == body[:size]
    assert got.frames == -(-size // 4088)


def test_a_half_sent_message_of_a_refused_channel_is_forgotten():
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue})
    peer.feed(basic_publish(1, "q") + content_header(1, 10) + bodies(1, b"12345"))
    peer.connection.refuse_channel(1)
    peer.feed(bodies(1, b"67890") + frame(frames.METHOD, 1, CHANNEL_CLOSE_OK))
    assert queue.ready_count == 0
    assert peer.faults == []
    assert 1 not in peer.connection.channels


def test_the_content_of_a_servers_method_is_waited_for_and_not_kept(peer):
    """Such a peer never published, so it is not among those that wait when memory is short."""
    peer.feed(method(1, frames.BASIC, 50, b""), content_header(1, 64 * 2**20))
    tracemalloc.start()
    for _ in range(64):
        peer.feed(frame(frames.BODY, 1, bytes(100_000)))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000
    assert not peer.session.methods


# ------------------------------------------------------------- what is kept, and for whom


def begun(channel: int, size: int, key: str = "q", *, exchange: str = "") -> bytes:
    """A message of that size, up to the first byte of its body."""
    head = basic_publish(channel, key, exchange=exchange) + content_header(channel, size)
    return head + bodies(channel, b"1")


def test_nothing_is_kept_for_an_exchange_that_is_not_there(peer):
    peer.feed(begun(1, 1000, exchange="nowhere"))
    assert peer.faults == [(1, 404)]
    peer.feed(bodies(1, bytes(999)))
    assert peer.connection.content_bytes == 0
    assert peer.faults == [(1, 404)]


def test_nothing_is_kept_for_who_may_not_publish(peer):
    def refuse(exchange: str) -> None:
        raise AccessRefused(f"access to exchange '{exchange}' in vhost '/' refused")

    peer.session.route_cache = refuse
    for channel in (1, 2):
        peer.feed(begun(channel, 10**6) + bodies(channel, bytes(10_000)))
    assert peer.faults == [(1, 403), (2, 403)]
    assert peer.connection.content_bytes == peer.connection.content_count == 0


def test_unfinished_content_is_counted(engine, queue, peer):
    connection = peer.connection
    peer.feed(begun(1, 2000) + bodies(1, bytes(499)), begun(2, 300))
    assert connection.content_count == 2
    assert 500 < connection.content_bytes == connection.account.bytes < 600
    peer.feed(bodies(2, bytes(299)))
    assert connection.content_count == 1
    peer.feed(bodies(1, bytes(1500)))
    assert (connection.content_count, connection.content_bytes) == (0, 0)
    assert connection.account.bytes == 0
    assert queue.ready_count == 2


@pytest.mark.parametrize(
    "end",
    [
        lambda peer: peer.connection.close_channel(1),
        lambda peer: peer.connection.refuse_channel(1),
        lambda peer: peer.connection.shut(),
        lambda peer: peer.connection.lost(),
        lambda peer: peer.feed(basic_publish(1, "q")),
        lambda peer: peer.feed(bodies(1, bytes(3000))),
    ],
)
def test_unfinished_content_that_will_not_be_finished_does_not_count(
    peer, end: Callable[[Peer], None]
):
    peer.feed(begun(1, 2000) + bodies(1, bytes(500)))
    end(peer)
    assert (peer.connection.content_count, peer.connection.content_bytes) == (0, 0)
    assert peer.connection.account.bytes == 0


def refusals(peer: Peer) -> list[tuple[int, str]]:
    assert all(
        (fault.code, fault.closes_connection) == (506, False) for _, fault in peer.session.faults
    )
    return [(channel, fault.text) for channel, fault in peer.session.faults]


def test_a_connection_may_send_so_much_at_a_time_and_no_more(engine, queue):
    peer = Peer(engine, {"q": queue}, channels=range(1, 5))
    peer.connection.account.limit = 20_000
    for channel in (1, 2, 3):
        peer.feed(begun(channel, 8000))
    for channel in (1, 2):
        peer.feed(bodies(channel, bytes(7000)))
    # It is refused when its header says how long it will be, or else when it comes.
    peer.feed(begun(4, 8000))
    assert [channel for channel, _ in refusals(peer)] == [4]
    peer.feed(bodies(3, bytes(7000)))
    assert [channel for channel, _ in refusals(peer)] == [4, 3]
    for _, text in refusals(peer):
        assert text.startswith("RESOURCE_ERROR - unfinished messages: the connection keeps 14")
        assert "may keep 20000" in text
    # The others go on, and make room.
    for channel in (1, 2):
        peer.feed(bodies(channel, bytes(999)))
    assert len(peer.faults) == queue.ready_count == 2
    assert peer.connection.account.bytes == 0


def test_one_message_may_be_sent_however_little_memory_there_is(engine, queue):
    peer = Peer(engine, {"q": queue}, channels=(1, 2))
    peer.connection.account.limit = 1000
    peer.feed(begun(1, 8000) + bodies(1, bytes(7000)))
    assert peer.faults == []
    peer.feed(begun(2, 100))
    assert peer.faults == [(2, 506)]
    peer.feed(bodies(1, bytes(999)))
    assert queue.ready_count == 1


def test_users_and_the_broker_have_limits_of_their_own(engine, queue):
    user = Account("user 'u'", 1000)
    peer = Peer(engine, {"q": queue})
    peer.connection.account.move(user)
    peer.feed(begun(1, 8000))
    assert peer.faults == [(1, 506)]
    assert user.bytes == 0


# ------------------------------------------------------------- large bodies, in their place

LARGE = 5 * 2**20 + 3


def random_body(size: int = LARGE, seed: int = 1) -> bytes:
    return Random(seed).randbytes(size)


def fan(engine: Engine, peer: Peer, durable: tuple[bool, ...]) -> list[Queue]:
    """An exchange `fan` with so many queues."""
    queues = [engine.queue(at if kept else 0, f"q{at}", kept) for at, kept in enumerate(durable, 1)]
    peer.session.caches["fan"] = engine.route_cache("fan", lambda _key, _raw: queues, True)
    return queues


def page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@pytest.mark.parametrize("raw", [frames.NO_PROPERTIES, frames.PERSISTENT])
def test_the_last_frame_of_a_large_body_copies_nothing(raw):
    """A copy takes new pages: a fault for each 4 KiB."""
    engine = make_engine()
    queue = engine.queue(1, "q", True)
    disk = Disk()
    disk.attach(engine)
    peer = Peer(engine, {"q": queue})
    body = random_body(40 * 2**20)
    data = publish(1, "q", body, raw=raw, step=100_000)
    peer.feed(data[:-100_008])
    before = page_faults()
    peer.feed(data[-100_008:])
    assert page_faults() - before < len(body) // 4096 // 10
    disk.sync(engine)
    got = peer.get(queue)
    assert got is not None
    assert got.body == body


@pytest.mark.parametrize("size", [4 * 2**20, LARGE, 17 * 2**20 + 1])
@pytest.mark.parametrize(
    "durable",
    [(False,), (True,), (False, False), (True,) * 2, (True,) * 3, (True, False), (True,) * 400],
    ids=lambda kept: f"{len(kept)} queues, {sum(kept)} durable",
)
@pytest.mark.parametrize("key", ["", "kk"])
def test_a_large_body_comes_whole_wherever_it_goes(size, durable, key):
    engine = make_engine()
    disk = Disk()
    disk.attach(engine)
    peer = Peer(engine)
    queues = fan(engine, peer, durable)
    body = random_body(size)
    peer.feed(publish(1, key, body, exchange="fan", raw=frames.PERSISTENT, step=100_000))
    disk.settle(engine)
    for queue in dict.fromkeys((queues[0], queues[-1])):
        got = peer.get(queue)
        assert got is not None
        assert got.body == body
    for queue in queues:
        ended(queue.purging())
    disk.settle(engine)
    assert engine.logs.transient.bytes <= 2 * 2**20


def test_a_large_body_is_there_after_a_restart_beside_others():
    broker = Broker("qs", segment_bytes=2**16)
    body = random_body()
    for name, part in (("q", b"1"), ("s", body), ("q", b"2"), ("q", body), ("s", b"3")):
        broker.peer.feed(publish(1, name, part, raw=frames.PERSISTENT, step=100_000))
    broker.disk.sync(broker.engine)
    broker.restart()
    assert broker.bodies("q") == [b"1", b"2", body]
    assert broker.bodies("s") == [body, b"3"]


def test_a_large_body_goes_into_a_stream_and_a_queue():
    world = World(segment_bytes=2**16)
    queue = world.engine.queue(1, "q", True)
    world.peer.session.caches["fan"] = world.engine.route_cache(
        "fan", lambda _key, _raw: [world.stream, queue], True
    )
    body = random_body()
    world.peer.feed(
        publish(1, "", body, exchange="fan", raw=frames.PERSISTENT, step=100_000),
        publish(1, "", b"next", exchange="fan", raw=frames.PERSISTENT),
    )
    world.sync()
    assert world.read(0)[0] == body
    assert world.read(1) == {1: b"next"}
    got = world.peer.get(queue)
    assert got is not None
    assert got.body == body
    world.restart()
    assert world.read(0)[0] == body
    assert world.read(1) == {1: b"next"}


VAST = 7 * 2**20 + 1


def test_a_vast_body_is_copied_in_slices():
    """For a stream and an even number of queues: in two logs, one with a target that fills up."""
    world = World(segment_bytes=2**16)
    engine, peer = world.engine, world.peer
    queues = [engine.queue(1, "q", True), engine.queue(2, "r", True)]
    peer.session.caches["fan"] = engine.route_cache(
        "fan", lambda _key, _raw: [world.stream, *queues], True
    )
    body = random_body(VAST)
    data = publish(1, "", body, exchange="fan", raw=frames.PERSISTENT, step=100_000)
    peer.feed(data[:-100_008])
    cut_often(engine)
    peer.feed(data[-100_008:])
    # All of it is copied, and a slice has time for two megabytes.
    assert sum(1 for _ in turns(engine)) >= VAST // 2**21
    engine.clock.monotonic_ns = None
    world.sync()
    assert world.read(0) == {0: body}
    for queue in queues:
        got = peer.get(queue)
        assert got is not None
        assert got.body == body
    world.restart()
    assert world.read(0) == {0: body}


@pytest.mark.parametrize("transactional", [False, True])
def test_a_large_body_that_no_queue_takes_comes_back(transactional):
    peer = Peer(make_engine())
    body = random_body()
    if transactional:
        peer.channel.select_tx()
    peer.feed(publish(1, "nowhere", body, mandatory=True, step=100_000))
    if transactional:
        peer.channel.commit()
    assert [event.body for event in peer.events() if isinstance(event, frames.Returned)] == [body]


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish-dlx"])
def test_a_large_body_that_has_no_room_becomes_a_dead_letter(
    engine, queue, peer, dead_letters, overflow
):
    queue.set_limits(max_length=0, overflow=overflow)
    body = random_body()
    peer.feed(publish(1, "q", body, step=100_000))
    engine.run()
    assert dead_letters.bodies == [body]
    assert engine.logs.transient.bytes <= 2 * 2**20


@pytest.mark.memory
def test_a_large_body_that_is_not_sent_on_leaves_nothing():
    gc.collect()  # what other tests have left goes now, and not meanwhile
    engine = make_engine()
    for _ in turns(engine):
        pass
    before = mapped_bytes()
    for _ in range(5):
        peer = Peer(engine, {"q": engine.queue(0, "q", False)})
        peer.feed(publish(1, "q", random_body(), step=100_000)[:-10])
        assert mapped_bytes() > before + LARGE // 2
        peer.connection.lost()
        engine.run()
    assert mapped_bytes() < before + LARGE
