"""Delayed messages: what a transaction, a crash and a restart make of them; looking at them."""

from __future__ import annotations

import random

import pytest
from tests.engine.delay_world import World, delayed, headers_of, int64
from tests.engine.frames import PERSISTENT, properties, publish, table
from tests.engine.session_fake import make_engine
from tests.engine.slices import SOME, cut_often, steps_of

from leporid.amqp.properties import decode_properties
from leporid.engine.internal.delays import delay_of


@pytest.fixture
def world(engine, disk):
    return World(engine, disk)


# ------------------------------------------------------------------ transactions


def commit(world) -> None:
    world.peer.channel.commit()


def test_a_delay_begins_with_the_commit(world):
    world.peer.channel.select_tx()
    world.send(b"x", delayed(100))
    world.send(b"y", PERSISTENT)
    world.sleep(60)
    assert world.waiting() == 0
    commit(world)
    assert (world.waiting(), world.came()) == (1, [b"y"])
    world.sleep(100)
    assert world.q.ready_count == 0
    world.sleep(1)
    assert world.came() == [b"x"]


def test_a_rolled_back_delay_never_comes(world):
    world.peer.channel.select_tx()
    world.send(b"x", delayed(100))
    world.peer.channel.rollback()
    world.sleep(200)
    assert (world.came(), world.waiting()) == ([], 0)


def test_a_moment_that_passes_before_the_commit_is_now(world):
    world.peer.channel.select_tx()
    world.send(b"x", world.at(world.wall_ms + 50))
    world.sleep(60)
    commit(world)
    world.sleep(2)
    assert world.came() == [b"x"]


def test_a_transaction_with_delays_is_whole_after_a_crash(world):
    world.peer.channel.select_tx()
    for number in range(5):
        world.send(b"%d" % number * 50, delayed(100))
        world.send(b"now", PERSISTENT)
    commit(world)
    assert world.disk.begin(world.engine)
    total = sum(len(data) for *_, data in world.disk.job[1])
    for written in (total - 8, total):
        other = World.__new__(World)
        other.engine, other.disk = world.engine, world.disk
        other.restart(world.disk.crashed(written))
        whole = written == total
        assert (other.waiting(), other.q.ready_count) == ((5, 5) if whole else (0, 0))


# ------------------------------------------------------------------ crashes and restarts


def test_a_restart_keeps_what_waits_and_when_it_is_due(world):
    world.send(b"a", delayed(500))
    world.send(b"b", world.at(world.wall_ms + 300), "p")
    world.send(b"c", delayed(100))
    world.disk.sync(world.engine)
    world.sleep(50)
    world.restart(off_ms=200)
    assert (world.waiting("d"), world.waiting("p")) == (2, 1)
    world.run()
    world.sleep(1)
    assert world.came() == [b"c"]
    world.sleep(49)
    assert world.came() == []
    world.sleep(1)
    assert world.came() == [b"b"]
    world.sleep(200)
    got = world.peer.get(world.q)
    assert got is not None
    assert (got.body, got.redelivered, headers_of(got.raw)) == (b"a", False, {"x-delay": -500})


def test_a_clock_that_was_ahead_holds_nothing_back(world):
    """A machine may begin years ahead; then its clock is set, and the broker starts again."""
    for number, delay in enumerate((200, 100)):
        world.send(b"%d" % number, delayed(delay))
    world.send(b"far", world.at(world.wall_ms + 10_000))
    world.disk.sync(world.engine)
    world.restart(off_ms=-(10**12))
    assert world.came() == []
    world.sleep(100)
    assert world.came() == []
    world.sleep(1)
    assert world.came() == [b"1"]
    world.sleep(100)
    assert world.came() == [b"0"]
    # This moment was said, and is still to come.
    assert world.waiting() == 1


def test_what_fell_due_meanwhile_comes_in_the_order_of_moments(world):
    for number, delay in enumerate((30, 10, 3_000_000, 20)):
        world.send(b"%d" % number, delayed(delay))
    world.disk.sync(world.engine)
    world.restart(off_ms=10_000_000)  # more than that clock has ever shown
    world.sleep(1)
    assert world.came() == [b"1", b"3", b"0", b"2"]


def test_what_was_fired_is_either_here_or_there_after_a_crash(world):
    """In one transaction: whatever part of the write survives, there is one, and only one."""
    for number in range(3):
        world.send(b"%d" % number, delayed(10))
    world.disk.sync(world.engine)
    world.sleep(11)
    assert world.disk.begin(world.engine)
    total = sum(len(data) for *_, data in world.disk.job[1])
    for written in range(0, total + 8, 8):
        other = World.__new__(World)
        other.engine, other.disk = world.engine, world.disk
        other.restart(world.disk.crashed(min(total, written)))
        other.sleep(20)
        assert sorted(other.came()) == [b"0", b"1", b"2"]
        assert other.waiting() == 0


@pytest.mark.parametrize("size", range(1, 200, 11))
def test_what_was_fired_at_the_end_of_a_segment_is_not_doubled_either(world, size):
    for number in range(40):
        world.send(b"%02d" % number + b"x" * size, delayed(10))
    world.disk.sync(world.engine)
    world.sleep(11)
    world.disk.sync(world.engine)
    assert not world.engine.logs.dirty  # no end of an entry is left for the next generation
    world.restart()
    world.sleep(20)
    assert sorted(int(body[:2]) for body in world.came()) == list(range(40))


def test_what_has_to_go_to_several_logs_is_never_lost(world):
    """Into a stream, whose log is another: the entry ends when the copy is on disk."""
    stream = world.engine.stream(7, "stream")
    world.caches["d"].forget()
    world.resolve = lambda key, raw: [world.q, stream]
    cache = world.engine.route_cache("s", world.resolve, True)
    store = world.engine.delays(8, cache, world.route)
    world.engine.publish([store], "p", "q", delayed(5), b"x")
    world.disk.sync(world.engine)
    world.sleep(6)
    assert store.ready_count == 0
    assert world.disk.begin(world.engine)
    world.disk.complete(world.engine)
    assert world.engine.logs.dirty  # the end of the entry comes with the next
    world.disk.sync(world.engine)
    assert (stream.next_offset, world.q.ready_count) == (1, 1)


def test_the_store_of_a_transient_exchange_ends_with_the_process(engine, disk):
    cache = engine.route_cache("t", lambda key, raw: [], True)
    store = engine.delays(0, cache, lambda keys, raw: [])
    engine.publish([store], "t", "k", delayed(500), b"x")
    assert not engine.logs.dirty
    assert not disk.sync(engine)
    assert store.ready_count == 1


def test_what_waits_goes_with_its_exchange(world):
    world.send(b"x", delayed(5))
    store = world.store()
    world.peer.channel.select_tx()
    world.send(b"y", delayed(5))
    assert store.retire() == 1
    world.peer.channel.commit()
    world.sleep(10)
    assert world.came() == []
    assert store.ready_count == 0


def test_a_log_of_delays_is_cleaned_like_any(world):
    for _ in range(30):
        world.peer.feed(publish(1, "q", b"x" * 100, raw=delayed(5), exchange="d") * 20)
        world.sleep(6)
        world.came()
        world.disk.settle(world.engine)
    assert len(world.disk.files) < 12


def test_an_old_delay_moves_with_the_log(world):
    world.send(b"old", delayed(10_000_000))
    for _ in range(40):
        world.peer.feed(publish(1, "q", b"x" * 100, raw=delayed(5), exchange="d") * 20)
        world.sleep(6)
        world.came()
        world.disk.settle(world.engine)
    world.restart()
    world.sleep(10_000_000)
    assert world.came() == [b"old"]


# ------------------------------------------------------------------ looking and cancelling


def test_what_waits_is_listed_by_its_moment(world):
    moments = [70, 10, 90, 30, 10, 50]
    for number, delay in enumerate(moments):
        world.send(b"%d" % number, delayed(delay))
    store = world.store()
    order = [1, 4, 3, 5, 0, 2]
    assert store.upcoming(10) == order
    assert store.upcoming(3) == order[:3]
    assert store.upcoming(0) == []
    for at, seq in enumerate(order):
        due_ms, came_ms, exchange, key, body_bytes, raw = store.message(seq)
        assert (due_ms - came_ms, exchange, key, body_bytes) == (moments[seq], "d", "q", 1)
        assert raw == delayed(moments[seq])
        assert store.content(seq) == (delayed(moments[seq]), b"%d" % seq)
        assert store.upcoming(2, (due_ms, seq)) == order[at + 1 : at + 3]
    due_ms, *_ = store.message(3)
    assert store.cancel(3)
    assert store.upcoming(9, (due_ms, 3)) == [5, 0, 2]
    assert store.upcoming(9) == [1, 4, 5, 0, 2]


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_pages_have_everything_once_and_in_order(world, limit):
    choose = random.Random(limit)
    moments = [choose.randint(1, 60) for _ in range(300)]
    for number, delay in enumerate(moments):
        world.send(b"%d" % number, delayed(delay))
    store = world.store()
    for number in range(0, 300, 3):
        store.cancel(number)
    there = [number for number in range(300) if number % 3]
    listed: list[int] = []
    while page := store.upcoming(limit, after_of(store, listed)):
        assert len(page) <= limit
        listed += page
    assert listed == sorted(there, key=lambda number: (moments[number], number))


def after_of(store, listed):
    return (store.message(listed[-1])[0], listed[-1]) if listed else None


@pytest.mark.parametrize("step_ms", [-1, 0, 1])
def test_a_page_after_a_cancelled_message_leaves_none_out(world, step_ms):
    """The clocks are read one after the other, and may differ by another millisecond then."""
    for number in range(10):
        world.send(b"%d" % number, delayed(100))
    store = world.store()
    after = after_of(store, [3])
    assert all(store.cancel(number) for number in range(4))
    world.engine.clock.wall_ms += step_ms
    assert store.upcoming(100, after) == [4, 5, 6, 7, 8, 9]


def test_nothing_comes_after_an_id_that_is_later_than_anything(world):
    world.send(b"x", delayed(100))
    assert world.store().upcoming(9, (2**64 - 1, 0)) == []


def test_a_cancelled_message_never_comes(world):
    world.send(b"a", delayed(10))
    world.send(b"b", delayed(10))
    world.disk.sync(world.engine)
    store = world.store()
    assert store.cancel(0)
    assert not store.cancel(0)
    assert not store.cancel(77)
    assert (store.message(0), store.ready_count, store.cancelled) == (None, 1, 1)
    world.disk.sync(world.engine)
    world.restart()
    assert world.waiting() == 1
    world.sleep(20)
    assert world.came() == [b"b"]
    assert not world.store().cancel(1)


def test_many_cancelled_messages_leave_nothing_behind(world):
    for number in range(6000):
        world.send(b"x", delayed(1000 + number))
    store = world.store()
    assert all(store.cancel(number) for number in range(5990))
    assert store.upcoming(100) == list(range(5990, 6000))
    world.sleep(10_000)
    assert len(world.came()) == 10


def test_timers_of_what_was_cancelled_are_forgotten_in_slices(world):
    for number in range(6000):
        world.send(b"x", delayed(100_000 + number))
    store = world.store()
    assert store.due.count == 6000
    assert all(store.cancel(number) for number in range(6000))
    cut_often(world.engine)
    assert max(steps_of(world.engine, lambda: 6000 - store.due.count)) < SOME
    assert store.due.count < 1024  # so few are left until they are due


# ------------------------------------------------------------------ publishing as the broker


def test_a_dead_letter_may_be_delayed(world):
    world.send(b"x", delayed(5))
    world.engine.publish([world.store(), world.q], "d", "q", delayed(20), b"letter")
    assert world.came() == [b"letter"]
    world.sleep(25)
    assert sorted(world.came()) == [b"letter", b"x"]


def test_a_transient_message_is_kept_on_disk_while_it_waits(world):
    raw = properties(headers=table(**{"x-delay": int64(100)}), delivery_mode=1)
    world.send(b"x", raw)
    world.disk.sync(world.engine)
    world.restart()
    world.sleep(102)
    got = world.peer.get(world.q)
    assert got is not None
    assert decode_properties(got.raw).delivery_mode == 1


def test_a_message_published_twice_by_a_producer_waits_once(world):
    world.send(b"x", delayed(5))
    store = world.store()
    for _ in range(2):
        world.engine.publish([store, world.q], "d", "q", delayed(9), b"y", b"me", 4)
    assert store.ready_count == 2
    assert world.came() == [b"y"]
    world.engine.publish([store], "d", "q", delayed(9), b"y", b"me", 5)
    assert store.ready_count == 3


def test_the_parts_say_what_they_are(world):
    world.send(b"x", delayed(5))
    assert repr(world.store()) == "<Delays 'd' count=1>"
    assert delay_of(b"\x00") == 0
    assert make_engine().next_due_ms == 0


def test_waiting_messages_are_counted_by_when_they_are_due(world):
    for number in range(50):
        world.send(b"x", delayed(1000 * (number + 1)))
    store = world.caches["d"].delays
    assert store.cancel(0)
    now_ms = world.wall_ms
    edges = [now_ms + 10_500, now_ms + 20_500, now_ms + 60_000]
    for most in (7, 1000):
        counts, at, rounds = [0, 0, 0, 0], 0, 0
        while True:
            at = store.count_due(edges, counts, at, most)
            rounds += 1
            if not at:
                break
        assert counts == [9, 10, 30, 0]
        assert rounds == (8 if most == 7 else 1)
    counts = [0]
    assert store.count_due([], counts, 0, 1000) == 0
    assert counts == [49]
    with pytest.raises(ValueError, match="have 4 counts"):
        store.count_due(edges, [0], 0, 1000)
