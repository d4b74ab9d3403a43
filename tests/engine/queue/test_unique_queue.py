"""Deduplication of queues: what is the same, and for how long."""

from __future__ import annotations

import gc
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.browsing import bodies
from tests.engine.frames import (
    Confirm,
    Returned,
    ack,
    array,
    longstr,
    nack,
    properties,
    publish,
    table,
)
from tests.engine.restarts import Broker
from tests.engine.session_fake import Peer
from tests.engine.slices import ended

from leporid.engine.bounds.sharded_dict import ShardedDict
from leporid.engine.engine import Engine
from leporid.engine.queue.lease import Lease
from leporid.engine.queue.unique_queue import UniqueQueue, dedup_key

HEADER = "x-deduplication-header"


def raw(
    key: bytes | str | None, *, mode: int | None = None, expiration: str | None = None
) -> bytes:
    """Properties with that header: a text, or a value as it is encoded."""
    value = longstr(key) if isinstance(key, str) else key
    headers = table(other=longstr("o")) if value is None else table(**{HEADER: value})
    return properties(headers=headers, delivery_mode=mode, expiration=expiration)


@pytest.fixture
def unique(engine: Engine, peer: Peer) -> UniqueQueue:
    queue = peer.queues["u"] = engine.unique_queue(0, "u", False)
    assert isinstance(queue, UniqueQueue)
    return queue


def send(peer: Peer, key: bytes | str | None, body: bytes = b"", *, to: str = "u") -> None:
    peer.feed(publish(2, to, body, raw=raw(key)))


# ------------------------------------------------------------------ what is the same


def key(value: bytes) -> bytes | None:
    return dedup_key(properties(headers=table(**{HEADER: value})))


@pytest.mark.parametrize(
    "same",
    [
        [
            *(b"b\x05", b"B\x05", b"s\x00\x05", b"u\x00\x05", b"I\x00\x00\x00\x05"),
            *(b"i\x00\x00\x00\x05", b"l" + struct.pack(">q", 5), b"L" + struct.pack(">q", 5)),
            b"T" + struct.pack(">Q", 5),
        ],
        [b"b\xff", b"s\xff\xff", b"I\xff\xff\xff\xff", b"l" + struct.pack(">q", -1)],
        [b"B\xff", b"u\x00\xff"],
        [b"f" + struct.pack(">f", 0.5), b"d" + struct.pack(">d", 0.5)],
        [longstr("text"), b"x" + longstr("text")[1:]],
        [b"t\x01", b"t\x07"],
        [b"V"],
        [array(b"t\x01")],
        [b"F" + table(a=b"t\x01")],
        [b"D\x01\x00\x00\x00\x05"],
    ],
)
def test_values_that_are_the_same_and_no_others(same: list[bytes]):
    assert len({key(value) for value in same}) == 1
    others = [b"b\x06", b"d" + struct.pack(">d", 5.0), longstr("5"), longstr(""), b"t\x00"]
    others += [array(), b"F" + table(), b"D\x02\x00\x00\x00\x05", longstr("V"), longstr("t1")]
    assert key(same[0]) not in {key(other) for other in others}
    assert None not in {key(value) for value in [*same, *others]}


def test_long_values_are_remembered_by_their_hash():
    keys = {key(longstr("x" * size + end)) for size in (63, 64, 65, 50_000) for end in "ab"}
    assert len(keys) == 8
    assert all(found is not None and len(found) <= 65 for found in keys)


def test_the_first_of_several_headers_counts_and_others_do_not():
    twice = table(**{HEADER: longstr("a")})[4:] + table(**{HEADER: longstr("b")})[4:]
    assert dedup_key(properties(headers=struct.pack(">I", len(twice)) + twice)) == key(longstr("a"))
    for name in (HEADER[:-1], HEADER + "s", "X" + HEADER[1:]):
        assert dedup_key(properties(headers=table(**{name: longstr("a")}))) is None
    assert dedup_key(properties(message_id="a")) is None
    assert dedup_key(b"\x20") is None


# ------------------------------------------------------------------ while it is in the queue


def test_a_message_is_not_enqueued_twice(unique: UniqueQueue, peer: Peer):
    for body in (b"1", b"2", b"3"):
        send(peer, "a", body)
    send(peer, "b", b"4")
    send(peer, None, b"5")
    send(peer, None, b"6")
    assert bodies(unique) == [b"1", b"4", b"5", b"6"]
    assert unique.known == 2


def test_its_publisher_gets_a_confirm_and_no_return(
    unique: UniqueQueue, peer: Peer, engine: Engine
):
    peer.channel.select_confirm()
    for _ in range(2):
        peer.feed(publish(1, "u", b"x", raw=raw("a"), mandatory=True))
    events = peer.events()
    assert not any(isinstance(event, Returned) for event in events)
    assert [event.tag for event in events if isinstance(event, Confirm)][-1] == 2
    assert (engine.queues.unroutable, engine.queues.published, unique.ready_count) == (0, 1, 1)


def test_a_key_is_free_when_its_message_has_left(unique: UniqueQueue, peer: Peer, engine: Engine):
    send(peer, "a", b"1")
    got = peer.get(unique, no_ack=False)
    assert got is not None
    send(peer, "a", b"still there")
    peer.feed(nack(1, got.tag))
    send(peer, "a", b"back in its place")
    got = peer.get(unique, no_ack=False)
    assert got is not None
    peer.feed(ack(1, got.tag))
    assert unique.known == 0
    send(peer, "a", b"2")
    assert peer.drain(unique) == [b"2"]
    send(peer, "a", b"3")
    ended(unique.purging())
    send(peer, "a", b"4")
    Lease(unique, 1).acknowledge()
    send(peer, "a", b"5")
    assert bodies(unique) == [b"5"]


def test_what_expires_or_is_dropped_frees_its_key(unique: UniqueQueue, peer: Peer, engine: Engine):
    peer.feed(publish(2, "u", b"1", raw=raw("a", expiration="100")))
    engine.clock.now_ms += 100
    engine.run()
    send(peer, "a", b"2")
    unique.set_limits(max_length=1)
    send(peer, "b", b"3")
    engine.run()
    assert bodies(unique) == [b"3"]
    send(peer, "a", b"4")
    engine.run()
    assert bodies(unique) == [b"4"]


def test_a_dead_letter_that_comes_back_is_no_duplicate(
    unique: UniqueQueue, peer: Peer, engine: Engine
):
    def back(reason: str, exchange: str, key: str, properties: bytes, body: bytes) -> None:
        engine.publish([unique], exchange, key, properties, body + b"+")

    unique.dead_letters = back
    send(peer, "a", b"1")
    for _ in range(2):
        got = peer.get(unique, no_ack=False)
        assert got is not None
        peer.feed(nack(1, got.tag, requeue=False))
        engine.run()
    assert bodies(unique) == [b"1++"]
    send(peer, "a", b"2")
    assert unique.ready_count == 1
    peer.drain(unique)
    assert unique.known == 0


def test_many_dead_letters_at_once_free_their_keys_once(
    unique: UniqueQueue, peer: Peer, engine: Engine
):
    found: list[bytes] = []
    unique.dead_letters = lambda *letter: found.append(letter[-1])
    for number in range(3000):
        peer.feed(publish(2, "u", b"%d" % number, raw=raw(f"k{number}", expiration="100")))
    engine.clock.now_ms += 100
    while len(found) < 3000:
        engine.run()
    assert (unique.known, unique.ready_count, unique.unacked_count) == (0, 0, 0)


def test_other_queues_get_what_one_has_already(unique: UniqueQueue, peer: Peer, engine: Engine):
    other = engine.queue(0, "o", False)
    peer.session.caches["both"] = engine.route_cache("both", lambda *_: [unique, other], True)
    for body in (b"1", b"2"):
        peer.feed(publish(2, "k", body, raw=raw("a"), exchange="both"))
    assert bodies(unique) == [b"1"]
    assert bodies(other) == [b"1", b"2"]


def test_in_a_transaction_too(unique: UniqueQueue, peer: Peer):
    peer.channel.select_tx()
    for body in (b"1", b"2"):
        peer.feed(publish(1, "u", body, raw=raw("a")))
    assert unique.ready_count == 0
    peer.channel.commit()
    assert bodies(unique) == [b"1"]
    peer.feed(publish(1, "u", b"3", raw=raw("b")))
    peer.channel.rollback()
    assert unique.known == 1


def test_a_full_queue_that_has_the_message_says_so(unique: UniqueQueue, peer: Peer):
    unique.set_limits(max_length=1, overflow="reject-publish")
    peer.channel.select_confirm()
    for key_ in ("a", "a", "b"):
        peer.feed(publish(1, "u", b"x", raw=raw(key_)))
    confirms = [event for event in peer.events() if isinstance(event, Confirm)]
    assert [event.tag for event in confirms if event.refused] == [3]
    assert unique.known == 1
    peer.drain(unique)
    peer.feed(publish(1, "u", b"x", raw=raw("b")))
    assert unique.ready_count == 1  # what was refused is not remembered


def test_in_a_transaction_a_full_queue_buries_no_duplicate(unique: UniqueQueue, peer: Peer):
    dead_lettered: list[bytes] = []
    unique.set_limits(max_length=1, overflow="reject-publish-dlx")
    unique.dead_letters = lambda *letter: dead_lettered.append(letter[-1])
    send(peer, "a", b"1")
    peer.channel.select_tx()
    for key_, body in (("a", b"2"), ("b", b"3")):
        peer.feed(publish(1, "u", body, raw=raw(key_), mandatory=True))
    peer.channel.commit()
    assert dead_lettered == [b"3"]
    assert bodies(unique) == [b"1"]
    assert not [event for event in peer.events() if isinstance(event, Returned)]


# ------------------------------------------------------------------ restarts


class Unique(Broker):
    """With one queue, u, that takes nothing twice."""

    def declare(self, engine: Engine) -> None:
        self.queues["u"] = engine.unique_queue(1, "u", True)

    def publish(self, key: str | None, body: bytes, mode: int = 2) -> None:
        self.send("u", body, raw(key, mode=mode))

    @property
    def queue(self) -> UniqueQueue:
        queue = self.queues["u"]
        assert isinstance(queue, UniqueQueue)
        return queue


def test_a_duplicate_is_confirmed_when_the_first_is_on_disk():
    broker = Unique(names="u")
    broker.peer.channel.select_confirm()
    broker.publish("a", b"1")
    other = Peer(broker.engine, broker.queues)
    other.channel.select_confirm()
    other.feed(publish(1, "u", b"2", raw=raw("a", mode=2)))
    assert not [event for event in other.events() if isinstance(event, Confirm)]
    broker.disk.sync(broker.engine)
    assert [event.tag for event in other.events() if isinstance(event, Confirm)] == [1]


@pytest.mark.parametrize("orderly", [True, False])
def test_what_is_in_the_queue_is_known_after_a_restart(orderly: bool):
    broker = Unique(names="u")
    for number in range(20):
        broker.publish(f"k{number}", b"%d" % number)
    broker.publish("transient", b"gone", mode=1)
    for _ in range(5):
        broker.peer.get(broker.queue)
    broker.engine.run()
    broker.disk.sync(broker.engine)
    broker.stop() if orderly else broker.restart()
    assert broker.queue.known == 15
    for number in range(20):
        broker.publish(f"k{number}", b"again %d" % number)
    broker.publish("transient", b"new")
    assert broker.bodies("u") == [
        *(b"%d" % number for number in range(5, 20)),
        *(b"again %d" % number for number in range(5)),
        b"new",
    ]


def test_a_message_that_came_twice_through_a_crash_is_known_until_both_have_left():
    broker = Unique(names="u")
    broker.publish("a", b"1")
    broker.disk.sync(broker.engine)
    broker.peer.get(broker.queue)  # settled, but the log does not say so yet
    broker.publish("a", b"2")
    disk = broker.disk.copy()
    assert broker.disk.begin(broker.engine)
    assert broker.disk.job is not None
    record = broker.disk.job[1][0][3]
    size = int.from_bytes(record[:4], "little")
    broker.restart(broker.disk.crashed(size))
    assert disk.files.keys() == broker.disk.files.keys()
    found = broker.queue.ready_count
    assert broker.queue.known == 1
    for left in range(found - 1, -1, -1):
        broker.peer.get(broker.queue)
        assert broker.queue.known == (1 if left else 0)


@settings(max_examples=40)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.sampled_from([None, "a", "b", "c"])),
            st.tuples(st.just("send durable"), st.sampled_from([None, "a", "b", "c"])),
            st.tuples(st.just("take"), st.booleans()),
            st.tuples(st.just("end"), st.booleans()),
            st.tuples(st.just("purge"), st.none()),
            st.tuples(st.just("restart"), st.booleans()),
        ),
        max_size=60,
    )
)
def test_against_a_list(events):
    broker = Unique(names="u")
    ready: list[tuple[int, str | None, bool]] = []
    taken: list[tuple[int, str | None, bool]] = []
    leases: list[Lease] = []
    for number, (what, value) in enumerate(events):
        if what.startswith("send"):
            durable = what == "send durable"
            broker.publish(value, b"%d" % number, 2 if durable else 1)
            if value is None or value not in {entry[1] for entry in ready + taken}:
                ready.append((number, value, durable))
        elif what == "take" and ready:
            leases.append(Lease(broker.queue, 1))
            taken.append(ready.pop(0))
        elif what == "end" and leases:
            if value:
                leases.pop().acknowledge()
                taken.pop()
            else:
                leases.pop().release()
                ready = sorted([*ready, taken.pop()])
        elif what == "purge":
            ended(broker.queue.purging())
            ready = []
        elif what == "restart":
            broker.engine.run()
            broker.disk.sync(broker.engine)
            broker.stop() if value else broker.restart()
            ready = [entry for entry in sorted(ready + taken) if entry[2]]
            taken, leases = [], []
        assert bodies(broker.queue) == [b"%d" % entry[0] for entry in ready]
        keys = {entry[1] for entry in ready + taken} - {None}
        assert broker.queue.known == len(keys)


def test_keys_are_in_no_large_dict(engine: Engine, peer: Peer, unique: UniqueQueue) -> None:
    """A dict of Python's that grows copies all it has in one piece."""
    for number in range(5000):
        send(peer, f"key {number}")
    assert unique.known == 5000
    parts = [each for each in gc.get_referents(unique) if isinstance(each, dict | ShardedDict)]
    most, known = 0, 0
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            found = sum(isinstance(key, bytes) and b"key " in key for key in part)
            most, known = max(most, found), known + found
        elif not isinstance(part, type):
            parts += gc.get_referents(part)
    assert known == 5000
    assert most < 2000
