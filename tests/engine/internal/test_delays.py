"""Delayed messages: when they come, and in which order."""

from __future__ import annotations

import struct
from itertools import count
from random import Random

import pytest
from tests.engine.delay_world import YEARS_MS, World, delayed, headers_of, int64, with_headers
from tests.engine.frames import (
    PERSISTENT,
    Confirm,
    Delivery,
    Returned,
    array,
    longstr,
    properties,
    table,
)
from tests.engine.slices import cut_often, steps_of, turns

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.properties import decode_properties
from leporid.engine.internal.delays import delay_of


@pytest.fixture
def world(engine, disk):
    return World(engine, disk)


# ------------------------------------------------------------------ when


def test_a_delayed_message_comes_when_it_is_due_and_not_before(world):
    world.send(b"x", delayed(50))
    world.sleep(50)
    assert (world.q.ready_count, world.waiting()) == (0, 1)
    world.sleep(1)  # clocks are cut to milliseconds: one more, and it is never early
    assert (world.came(), world.waiting()) == ([b"x"], 0)


@pytest.mark.parametrize("exchange", ["d", "p"])
def test_a_moment_counts_on_any_exchange(world, exchange):
    world.send(b"number", world.at(world.wall_ms + 20_000), exchange)
    seconds = (world.wall_ms + 10_000) // 1000
    stamp = with_headers(x_deliver_at=b"T" + struct.pack(">Q", seconds))
    world.send(b"timestamp", stamp, exchange)
    world.send(b"text", with_headers(x_deliver_at=longstr(str(world.wall_ms + 30_000))), exchange)
    assert world.waiting(exchange) == 3
    world.sleep(10_001)
    assert world.came() == [b"timestamp"]
    world.sleep(10_000)
    assert world.came() == [b"number"]
    world.sleep(10_000)
    assert world.came() == [b"text"]


def test_a_delay_means_nothing_to_other_exchanges(world):
    world.send(b"x", delayed(50), "p")
    assert world.came() == [b"x"]


def test_what_is_due_already_goes_at_once(world):
    for raw in (
        delayed(0), delayed(-5), with_headers(x_delay=longstr("soon")),
        with_headers(x_delay=b"t\x01"), with_headers(x_delay=b"V"), PERSISTENT,
        with_headers(x_delay=longstr("-7")), world.at(world.wall_ms), world.at(5),
    ):  # fmt: skip
        world.send(b"x", raw)
    assert world.q.ready_count == 9
    assert world.caches["d"].delays is None


def test_a_moment_beats_a_delay(world):
    raw = with_headers(x_deliver_at=int64(world.wall_ms + 10), x_delay=int64(500))
    world.send(b"x", raw)
    world.sleep(11)
    got = world.peer.get(world.q)
    assert got is not None
    assert headers_of(got.raw) == {"x-deliver-at": 1 - world.wall_ms, "x-delay": -500}


@pytest.mark.parametrize("mark", ["past", "negative", "text"])
def test_a_moment_that_has_passed_leaves_it_to_the_delay(world, mark):
    """So a consumer that copies headers and adds a delay is not served at once, in a loop."""
    value = {
        "past": int64(world.wall_ms - 1),
        "negative": int64(-world.wall_ms - 10**9),
        "text": longstr(str(-world.wall_ms)),
    }[mark]
    world.send(b"x", with_headers(x_deliver_at=value, x_delay=int64(50)))
    world.send(b"not delayed here", with_headers(x_deliver_at=value, x_delay=int64(50)), "p")
    assert (world.came(), world.waiting()) == ([b"not delayed here"], 1)
    world.sleep(51)
    assert world.came() == [b"x"]


@pytest.mark.parametrize("exchange", ["d", "p"])
@pytest.mark.parametrize("kind", ["number", "timestamp", "text"])
def test_a_moment_that_was_waited_for_comes_back_negative(world, exchange, kind):
    at_ms = world.wall_ms // 1000 * 1000 + 5000
    value = {
        "number": int64(at_ms),
        "timestamp": b"T" + struct.pack(">Q", at_ms // 1000),
        "text": longstr(str(at_ms)),
    }[kind]
    world.send(
        b"x", with_headers(before=longstr("b"), x_deliver_at=value, after=int64(1)), exchange
    )
    world.sleep(5001)
    got = world.peer.get(world.q)
    assert got is not None
    assert headers_of(got.raw) == {"before": "b", "x-deliver-at": -at_ms, "after": 1}
    world.send(b"again", got.raw, exchange)
    assert world.came() == [b"again"]


@pytest.mark.parametrize(
    ("value", "delay_ms", "after"),
    [
        (b"b\x64", 100, -100),
        (b"B\x64", 100, -100),
        (b"B\xc8", 200, -200),
        (b"s\x01\x00", 256, -256),
        (b"u\x01\x00", 256, -256),
        (b"u\xff\xff", 65535, -65535),
        (b"I\x00\x00\x01\x00", 256, -256),
        (b"i\xff\xff\xff\xff", 4294967295, -4294967295),
        (int64(3_000_000_000), 3_000_000_000, -3_000_000_000),
        (b"L" + struct.pack(">q", 9), 9, -9),
        (b"f" + struct.pack(">f", 12.75), 12, -12),
        (b"d" + struct.pack(">d", 99.9), 99, -99),
        (longstr("1500"), 1500, -1500),
        (longstr("+8"), 8, -8),
    ],
)
def test_a_delay_may_be_written_in_any_way_and_comes_back_negative(world, value, delay_ms, after):
    raw = properties(
        headers=table(**{"before": longstr("b"), "x-delay": value, "after": longstr("a")}),
        delivery_mode=2,
        message_id="m",
    )
    assert delay_of(raw) == delay_ms
    world.send(b"x", raw)
    world.sleep(delay_ms)
    assert world.q.ready_count == 0
    world.sleep(1)
    got = world.peer.get(world.q)
    assert got is not None
    found = decode_properties(got.raw)
    assert found.headers == {"before": "b", "x-delay": after, "after": "a"}
    assert list(found.headers) == ["before", "x-delay", "after"]
    assert (found.message_id, found.delivery_mode) == ("m", 2)
    assert delay_of(got.raw) == 0


@pytest.mark.parametrize(
    ("fields", "exchange", "text"),
    [
        ({"x_delay": int64(YEARS_MS + 1)}, "d", "x-delay': long 315360000001 is more than ten"),
        ({"x_delay": longstr("9" * 60)}, "d", "more than ten years"),
        ({"x_deliver_at": longstr("soon")}, "p", "neither a timestamp nor a number"),
        ({"x_deliver_at": b"t\x01"}, "d", "x-deliver-at': bool true is neither"),
        ({"x_deliver_at": int64(2**62)}, "p", "more than ten years"),
        ({"x_deliver_at": int64(1_795_265_325)}, "p", "is seconds since 1970: milliseconds are"),
        ({"x_deliver_at": longstr("1795265325")}, "p", "is seconds since 1970"),
        ({"x_deliver_at": b"T" + b"\xff" * 8}, "p", "more than ten years"),
    ],
)
def test_what_is_no_moment_is_refused(world, fields, exchange, text):
    world.send(b"x", with_headers(**fields), exchange)
    ((_, fault),) = world.peer.session.faults
    assert fault.code == 406
    assert text in fault.text


def test_ten_years_are_not_too_long(world):
    world.send(b"x", delayed(YEARS_MS))
    assert not world.peer.faults
    assert world.waiting() == 1


def test_order_is_that_of_moments_then_of_arrival(world):
    for number, delay in enumerate((30, 10, 20, 10, 30, 10)):
        world.send(b"%d" % number, delayed(delay))
    world.sleep(100)
    assert world.came() == [b"1", b"3", b"5", b"2", b"0", b"4"]


def test_the_engine_says_when_it_must_run_although_nothing_came(world):
    world.send(b"late", delayed(5000))
    assert world.engine.next_due_ms == world.engine.clock.now_ms + 5001
    world.send(b"soon", delayed(100))
    assert world.engine.next_due_ms == world.engine.clock.now_ms + 101
    world.sleep(101)
    assert world.engine.next_due_ms == world.engine.clock.now_ms - 101 + 5001


def test_a_time_to_live_rings_no_timer_while_the_message_waits(world):
    headers = table(**{"x-delay": int64(5000)})
    world.send(b"x", properties(headers=headers, delivery_mode=2, expiration="50"))
    assert world.engine.next_due_ms == world.engine.clock.now_ms + 5001


def test_the_wall_clock_may_jump_while_the_broker_runs(world):
    world.send(b"x", delayed(100))
    world.send(b"y", world.at(world.wall_ms + 200), "p")
    world.engine.clock.wall_ms += 3_600_000
    world.sleep(99)
    assert world.came() == []
    world.sleep(2)
    assert world.came() == [b"x"]
    world.engine.clock.wall_ms -= 7_200_000
    world.sleep(100)
    assert world.came() == [b"y"]


def test_many_due_at_once_take_several_turns(world):
    for number in range(2500):
        world.send(b"%d" % number, delayed(10))
    world.engine.clock.now_ms += 11
    world.engine.run()
    assert 0 < world.q.ready_count < 2500
    assert world.engine.busy
    world.run()
    assert world.came() == [b"%d" % number for number in range(2500)]
    assert world.waiting() == 0


def test_moments_that_come_ever_sooner_do_not_pile_up_timers(world):
    for number in range(5000):
        world.send(b"x", delayed(100_000 - number))
    for _ in range(3):
        world.run()
    world.sleep(101_000)
    assert len(world.came()) == 5000


# ------------------------------------------------------------------ the way in and out


def test_a_delayed_message_counts_as_routed(world):
    world.send(b"x", delayed(5), key="nowhere", mandatory=True)
    assert not [each for each in world.peer.events() if isinstance(each, Returned)]
    world.sleep(6)
    assert world.store().unroutable == 1
    assert world.waiting() == 0


def test_a_confirm_waits_for_the_disk(world):
    world.peer.channel.select_confirm()
    world.send(b"x", properties(headers=table(**{"x-delay": int64(500)}), delivery_mode=1))
    assert not [each for each in world.peer.events() if isinstance(each, Confirm)]
    world.disk.sync(world.engine)
    assert [each.tag for each in world.peer.events() if isinstance(each, Confirm)] == [1]


def test_a_time_to_live_begins_when_the_message_enters_a_queue(world):
    headers = table(**{"x-delay": int64(100)})
    world.send(b"x", properties(headers=headers, delivery_mode=2, expiration="50"))
    world.sleep(101)
    assert world.q.ready_count == 1
    world.sleep(49)
    assert world.q.ready_count == 1
    world.sleep(1)
    assert world.q.ready_count == 0


def test_priority_counts_when_it_fires(world):
    world.q.set_priorities(9)
    for priority in (1, 7):
        headers = table(**{"x-delay": int64(5)})
        raw = properties(headers=headers, delivery_mode=2, priority=priority)
        world.send(b"%d" % priority, raw)
    world.sleep(6)
    assert world.came() == [b"7", b"1"]


def test_copies_are_made_when_it_fires(world):
    headers = table(**{
        "x-delay": int64(5), "CC": array(longstr("c")), "BCC": array(longstr("q")),
    })  # fmt: skip
    world.send(b"x", properties(headers=headers, delivery_mode=2), key="nowhere")
    assert world.waiting() == 1
    world.sleep(6)
    ((keys, raw),) = world.routed
    assert keys == ["nowhere", "c", "q"]
    got = world.peer.get(world.q)
    assert got is not None
    assert got.key == "nowhere"
    assert got.raw == raw
    assert headers_of(got.raw) == {"x-delay": -5, "CC": ["c"]}


def test_copies_must_be_arrays_when_it_is_published(world):
    world.send(b"x", with_headers(x_delay=int64(5), CC=longstr("q")))
    ((_, fault),) = world.peer.session.faults
    assert fault.code == 406
    assert world.waiting() == 0


def test_a_queue_that_is_full_by_then_gets_it_later(world):
    world.q.set_limits(max_length=1, overflow="reject-publish")
    world.send(b"a", delayed(5))
    world.send(b"b", delayed(6))
    world.sleep(10)
    assert (world.came(), world.waiting()) == ([b"a"], 0)
    world.sleep(100)
    assert world.came() == [b"b"]


def test_a_full_queue_may_hand_it_to_its_dead_letters(world):
    found = []
    world.q.dead_letters = lambda reason, exchange, key, raw, body: found.append((reason, body))
    world.q.set_limits(max_length=1, overflow="reject-publish-dlx")
    world.send(b"a", delayed(5))
    world.send(b"b", delayed(6))
    world.sleep(10)
    assert (world.came(), found) == ([b"a"], [("maxlen", b"b")])


def test_dead_letters_of_what_is_sent_on_are_counted_as_published(world):
    morgue = world.engine.queue(0, "morgue", False)
    world.q.dead_letters = lambda reason, exchange, key, raw, body: world.engine.publish(
        [morgue], exchange, key, raw, body
    )
    world.q.set_limits(max_length=0, overflow="reject-publish-dlx")
    world.send(b"a", delayed(5))
    assert world.engine.queues.published == 1
    world.sleep(10)
    assert morgue.ready_count == 1
    assert world.engine.queues.published == 2


def test_an_exchange_that_refuses_a_key_by_then_is_asked_without_its_rule(world):
    def resolve(key, raw):
        raise PreconditionFailed("x-strict-keys")

    cache = world.engine.route_cache("s", resolve, True)
    store = world.engine.delays(9, cache, world.route)
    world.engine.publish([store], "p", "q", delayed(5), b"x")
    world.sleep(6)
    assert world.came() == [b"x"]


def slow_store(world):
    """The store of an exchange whose routes are found in many steps."""
    steps = []

    def resolve(key, raw):
        for _ in range(5):
            steps.append(key)
            yield
        return world.resolve(key, raw)

    world.engine.clock.monotonic_ns = count(0, 1_000_000).__next__
    cache = world.engine.route_cache("s", resolve, True)
    return world.engine.delays(9, cache, world.route), steps


def test_a_message_whose_route_takes_long_stays_until_it_is_found(world):
    store, steps = slow_store(world)
    for body in (b"x", b"y"):
        world.engine.publish([store], "s", "q", delayed(5), body)
    world.engine.clock.now_ms += 6
    world.engine.clock.wall_ms += 6
    turns = 0
    while not world.q.ready_count:
        assert store.ready_count == 2
        world.engine.run()
        turns += 1
    assert turns > 2
    world.run()
    assert world.came() == [b"x", b"y"]
    assert steps == ["q"] * 5  # the route is kept for the second
    assert (store.fired, store.ready_count) == (2, 0)


def test_a_message_may_be_cancelled_while_its_route_is_being_found(world):
    store, steps = slow_store(world)
    world.engine.publish([store], "s", "q", delayed(5), b"x")
    world.engine.clock.now_ms += 6
    world.engine.clock.wall_ms += 6
    while not steps:
        world.engine.run()
    assert store.cancel(*store.upcoming(1))
    world.run()
    assert world.came() == []
    world.engine.publish([store], "s", "q", delayed(5), b"y")
    world.sleep(6)
    assert world.came() == [b"y"]


def test_a_consumer_gets_it_in_the_turn_in_which_it_is_due(world):
    world.peer.channel.consume(world.q, "c", True, 0, 0)
    world.send(b"x", delayed(5))
    world.engine.clock.now_ms += 6
    got = [each for each in world.peer.events() if isinstance(each, Delivery)]
    assert [(each.exchange, each.key, each.redelivered) for each in got] == [("d", "q", False)]


def test_messages_of_the_broker_are_counted_once(world):
    world.send(b"x", delayed(5))
    assert world.engine.queues.published == 1
    world.sleep(6)
    assert world.engine.queues.published == 1
    assert world.store().fired == 1


# ------------------------------------------------------------------ in steps

VAST = 7 * 2**20 + 1


def due_vast(world) -> bytes:
    """The body of a vast message that has come to be due, and of which a part is copied."""
    body = Random(1).randbytes(VAST)
    world.send(body, delayed(50), step=100_000)
    world.disk.sync(world.engine)
    cut_often(world.engine)
    world.engine.clock.now_ms += 51
    world.engine.clock.wall_ms += 51
    world.engine.run()
    assert (world.q.ready_count, world.waiting()) == (0, 1)
    return body


def test_a_vast_body_is_stored_anew_in_steps(world):
    body = due_vast(world)
    world.send(b"other", PERSISTENT)
    assert sum(1 for _ in turns(world.engine)) >= VAST // 2**21
    world.engine.clock.monotonic_ns = None
    world.disk.sync(world.engine)
    world.restart()
    assert (world.came(), world.waiting()) == ([b"other", body], 0)


def test_a_vast_message_that_is_cancelled_meanwhile_does_not_come(world):
    due_vast(world)
    (first,) = [entry for entry in range(10) if world.store().message(entry) is not None]
    assert world.store().cancel(first)
    for _ in turns(world.engine):
        pass
    world.engine.clock.monotonic_ns = None
    assert (world.came(), world.waiting()) == ([], 0)


def test_a_crash_while_a_vast_body_is_copied_loses_nothing(world):
    body = due_vast(world)
    world.engine.run()
    world.engine.clock.monotonic_ns = None
    world.disk.sync(world.engine)
    world.restart()
    world.run()
    assert (world.came(), world.waiting()) == ([body], 0)


def test_a_due_message_is_appended_to_many_streams_in_steps(world):
    engine = world.engine
    streams = [engine.stream(number, f"s{number}") for number in range(100, 200)]
    world.resolve = lambda _key, _raw: [*streams, world.q]
    world.send(b"x", delayed(50))
    world.disk.sync(engine)
    cut_often(engine, units=8)
    engine.clock.now_ms += 51
    engine.clock.wall_ms += 51
    steps = steps_of(engine, lambda: sum(stream.next_offset for stream in streams))
    assert max(steps) <= 3 * 8
    assert [stream.next_offset for stream in streams] == [1] * 100
    assert (world.came(), world.waiting()) == ([b"x"], 0)
