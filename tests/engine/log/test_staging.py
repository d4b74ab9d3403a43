"""Large transactions: their bytes are where they are going to be before the commit.

Segments are small here, so that a transaction is staged early; test_replay_transactions.py has
what a crash leaves of one.
"""

from __future__ import annotations

import resource
from pathlib import Path
from random import Random

import pytest
from tests.engine.disk_fake import Disk, recover
from tests.engine.frames import (
    NO_PROPERTIES,
    PERSISTENT,
    Returned,
    ack,
    longstr,
    properties,
    publish,
    table,
)
from tests.engine.restarts import Broker
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import cut_often, steps_of

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue

SEGMENT_BYTES = 4096
MIB = 1024 * 1024


@pytest.fixture
def broker() -> Broker:
    broker = Broker("qr", SEGMENT_BYTES)
    broker.peer.channels[2].select_tx()
    return broker


def send(broker: Broker, name: str, *bodies: bytes, raw: bytes = PERSISTENT) -> None:
    for body in bodies:
        broker.peer.feed(publish(2, name, body, raw=raw))


def some_bodies(count: int = 40, seed: int = 1, size: int = 700) -> list[bytes]:
    chance = Random(seed)
    return [b"%d-" % at + chance.randbytes(chance.randrange(size)) for at in range(count)]


def declare(engine: Engine, names: str) -> list[Queue]:
    return [engine.queue(number, name, True) for number, name in enumerate(names, 1)]


def segments_of(broker: Broker) -> int:
    return len(broker.engine.logs.segments)


@pytest.mark.parametrize("raw", [PERSISTENT, NO_PROPERTIES])
def test_a_large_transaction_comes_whole_and_in_order(broker: Broker, raw: bytes):
    bodies = some_bodies()
    send(broker, "q", *bodies, raw=raw)
    assert broker.bodies() == []
    broker.send("q", b"another channel's")
    broker.peer.channels[2].commit()
    assert broker.bodies() == [b"another channel's", *bodies]
    broker.disk.sync(broker.engine)
    assert broker.bodies() == [b"another channel's", *bodies]
    broker.restart()
    assert broker.bodies() == [b"another channel's", *(bodies if raw == PERSISTENT else [])]


def test_the_next_transaction_of_the_channel_is_another(broker: Broker):
    expected = []
    for seed in range(3):
        bodies = some_bodies(seed=seed)
        send(broker, "q", *bodies)
        broker.peer.channels[2].commit()
        broker.send("q", b"between")
        expected += [*bodies, b"between"]
    assert broker.bodies() == expected
    broker.crash(short=0)
    assert broker.bodies() == expected


def test_a_rollback_forgets_what_was_staged(broker: Broker):
    send(broker, "q", *some_bodies())
    before = segments_of(broker)
    broker.peer.channels[2].rollback()
    broker.peer.channels[2].commit()
    assert (broker.bodies(), segments_of(broker)) == ([], before)


def test_a_queue_that_is_deleted_before_the_commit_gets_nothing_and_others_all(broker: Broker):
    """Half of the messages are for that queue alone, so their records are for nobody."""
    gone = broker.queues["x"] = broker.engine.queue(9, "x", True)
    mine, others = some_bodies(seed=2), some_bodies(seed=3)
    for each, other in zip(mine, others, strict=True):
        send(broker, "q", each)
        send(broker, "x", other)
    gone.retire()
    broker.peer.channels[2].commit()
    assert broker.bodies() == mine
    broker.crash(short=0)
    assert broker.bodies() == mine
    assert [report.damaged for report in broker.reports] == [[]] * len(broker.reports)


def test_durable_and_transient_messages_of_one_transaction(broker: Broker):
    lasting, passing = some_bodies(seed=4), some_bodies(4000, seed=5)
    for each in lasting:
        send(broker, "q", each)
    send(broker, "r", *passing, raw=NO_PROPERTIES)
    broker.peer.channels[2].commit()
    assert (broker.bodies("q"), broker.bodies("r")) == (lasting, passing)
    broker.crash(short=0)
    assert (broker.bodies("q"), broker.bodies("r")) == (lasting, [])


def test_a_full_queue_refuses_some_and_the_rest_is_there(broker: Broker):
    broker.queues["q"].set_limits(max_length=10, overflow="reject-publish")
    bodies = some_bodies()
    send(broker, "q", *bodies)
    broker.peer.channels[2].commit()
    assert broker.bodies() == bodies[:10]
    broker.crash(short=0)
    assert broker.bodies() == bodies[:10]


def test_settles_of_the_same_transaction(broker: Broker):
    before, after = some_bodies(seed=6), some_bodies(seed=7)
    for body in before:
        broker.send("q", body)
    for _ in before[:30]:
        assert broker.peer.channels[2].get(broker.queues["q"], False)
    broker.peer.feed(ack(2, 30, multiple=True))
    send(broker, "q", *after)
    broker.peer.channels[2].commit()
    broker.crash(short=0)
    assert broker.bodies() == before[30:] + after


def test_what_was_settled_is_cleaned(broker: Broker):
    bodies = some_bodies(200, seed=8)
    send(broker, "q", *bodies)
    broker.peer.channels[2].commit()
    for _ in bodies[:-1]:
        assert broker.peer.get(broker.queues["q"]) is not None
    for _ in range(200):
        broker.send("r", bytes(300))
        broker.disk.sync(broker.engine)
        broker.engine.clock.now_ms += 100
        broker.engine.run()
    assert broker.bodies() == bodies[-1:]
    broker.restart()
    assert broker.bodies() == bodies[-1:]
    assert max(len(data) for data in broker.disk.files.values()) < sum(map(len, bodies))


def test_an_unroutable_message_comes_back_between_staged_ones(broker: Broker):
    bodies = some_bodies()
    send(broker, "q", *bodies[:20])
    broker.peer.feed(publish(2, "nowhere", b"back", mandatory=True))
    send(broker, "q", *bodies[20:])
    broker.peer.channels[2].commit()
    (returned,) = broker.peer.events()
    assert isinstance(returned, Returned)
    assert returned.body == b"back"
    assert broker.bodies() == bodies


def test_queues_that_came_since_get_copies(broker: Broker):
    """Routes through a deduplication cache are found again at the commit."""
    broker.queues["c"] = broker.engine.cache(7, "c", True, size=1000, ttl_ms=None)
    names = ["c", "q"]

    def routed(key: str) -> list[Queue]:
        return [broker.queues[name] for name in names]

    broker.peer.session.routed = routed  # type: ignore[method-assign]
    broker.peer.session.caches["x"] = broker.engine.route_cache(
        "x", lambda key, raw: routed(key), True
    )
    bodies = some_bodies(seed=9)
    for at, body in enumerate(bodies):
        key = table(**{"x-deduplication-header": longstr(str(at))})
        raw = properties(delivery_mode=2, headers=key)
        broker.peer.feed(publish(2, "", body, raw=raw, exchange="x"))
    names.append("r")
    broker.peer.channels[2].commit()
    assert broker.peer.faults == []
    assert broker.bodies("q") == broker.bodies("r") == bodies
    broker.crash(short=0)
    assert broker.bodies("q") == broker.bodies("r") == bodies


@pytest.mark.parametrize("names", ["q", "qr", "qrs"])
@pytest.mark.parametrize("raw", [PERSISTENT, NO_PROPERTIES])
def test_large_bodies_keep_their_memory(names: str, raw: bytes):
    """Between small messages, to one queue, to two, and to three."""
    engine = make_engine()
    disk = Disk()
    disk.attach(engine)
    queues = declare(engine, names)
    peer = Peer(engine)
    peer.session.caches["x"] = engine.route_cache("x", lambda key, raw: queues, True)
    peer.channel.select_tx()
    large = [Random(at).randbytes(size) for at, size in enumerate((6 * MIB, 5 * MIB + 3))]
    bodies = [b"first", large[0], b"between", large[1]]
    for body in bodies:
        peer.feed(publish(1, "", body, raw=raw, exchange="x", step=131_064))
    peer.channel.commit()
    disk.sync(engine)
    found: list[Queue] = []
    after, reports, _ = recover(disk.copy(), lambda engine: found.extend(declare(engine, names)))
    assert [report.damaged for report in reports] == [[]] * len(reports)
    for queue in queues:
        assert peer.drain(queue) == bodies
    if raw == PERSISTENT:
        for queue in found:
            assert Peer(after).drain(queue) == bodies


def test_a_commit_copies_few_bytes_however_many_there_are():
    """Each page of a copy would be a page fault; a transaction has 16,384 of them."""
    engine = make_engine()
    queue = engine.queue(1, "q", True)
    peer = Peer(engine, {"q": queue})
    peer.channel.select_tx()
    body = bytes(64 * 1024)
    for _ in range(1024):
        peer.feed(publish(1, "q", body, raw=PERSISTENT))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    peer.channel.commit()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000
    assert queue.ready_count == 1024


def virtual_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def test_memory_is_given_back_in_steps():
    """That of a rollback, and that of messages that were acknowledged."""
    engine = make_engine()
    queue = engine.queue(1, "q", True)
    peer = Peer(engine, {"q": queue})
    peer.channel.select_tx()
    kept = []
    for end in (peer.channel.rollback, peer.channel.commit) * 2:
        engine.clock.monotonic_ns = None
        for _ in range(64):
            peer.feed(publish(1, "q", bytes(MIB), step=131_064))
        assert peer.faults == []
        end()
        peer.drain(queue)
        cut_often(engine)
        given = steps_of(engine, lambda: -virtual_bytes())
        assert max(given[:-1]) <= 16 * MIB
        assert len([each for each in given if each]) >= 4
        kept.append(virtual_bytes())
    # Memory that was given back to the C library is used again.
    assert kept[3] - kept[1] < 16 * MIB


def transient_engine() -> Engine:
    return make_engine(transient_segment_bytes=SEGMENT_BYTES)


def test_copies_between_staged_messages_of_a_log_in_memory():
    """A message that is copied does not fit into the segment, so another one is the active one."""
    engine = transient_engine()
    queues = {name: engine.queue(0, name, False) for name in "qrs"}
    cache = engine.cache(0, "c", False, size=1000, ttl_ms=None)
    peer = Peer(engine, queues)
    routed = [cache, queues["r"]]
    peer.session.routed = lambda key: list(routed)  # type: ignore[method-assign]
    peer.session.caches["x"] = engine.route_cache("x", lambda key, raw: list(routed), True)
    peer.channel.select_tx()
    bodies = some_bodies(60, seed=10)
    for at, body in enumerate(bodies):
        peer.feed(publish(1, "q", body))
        key = table(**{"x-deduplication-header": longstr(str(at))})
        peer.feed(publish(1, "", body, raw=properties(headers=key), exchange="x"))
    routed.append(queues["s"])
    peer.channel.commit()
    assert peer.faults == []
    for queue in queues.values():
        assert peer.drain(queue) == bodies
    for _ in range(3):
        peer.feed(*(publish(1, "q", body) for body in bodies))
        peer.channel.commit()
        assert peer.drain(queues["q"]) == bodies


def test_a_consumer_has_each_message_before_the_next_is_appended():
    """A full queue delivers before it refuses, so that the segment is empty now and then."""
    engine = transient_engine()
    queue = engine.queue(0, "q", False)
    queue.set_limits(max_length=1, overflow="reject-publish")
    peer = Peer(engine, {"q": queue}, channels=(1, 2))
    peer.channels[2].consume(queue, "c", True, 0, 0)
    peer.channel.select_tx()
    for seed in range(3):
        bodies = some_bodies(60, seed=seed)
        peer.feed(*(publish(1, "q", body) for body in bodies))
        peer.channel.commit()
        assert peer.bodies() == bodies
    assert queue.ready_count == 0
