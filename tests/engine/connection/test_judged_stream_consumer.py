"""Consumers of streams that ask a filter class: order, bounds, and what nobody judges."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.asking import Asking, bodies_of
from tests.engine.frames import ack
from tests.engine.stream_world import World, numbered
from tests.engine.tagged import of_tags, send

from leporid.filterserver.message import Message

AHEAD = 2000


def world_of(count: int, **options: int) -> World:
    world = World(**options)
    world.send(*numbered(count))
    world.sync()
    return world


def even(body: bytes) -> bool:
    return int(body) % 2 == 0


def all_pass(body: bytes) -> bool:
    return True


def none_passes(body: bytes) -> bool:
    return False


# ------------------------------------------------------------------ judging


def test_what_passes_is_delivered_in_order_under_its_offset():
    world = world_of(10)
    asking = Asking(world)
    asking.rest()
    assert asking.got == []
    assert world.engine.verdicts.take() == [asking.reader]
    assert asking.judge(even) == numbered(10)
    assert asking.reader.judging == 0
    asking.rest()
    assert asking.got == [0, 2, 4, 6, 8]
    assert (asking.reader.offset, asking.reader.settled_offset) == (10, 10)
    assert world.engine.verdicts.take() == []
    assert asking.messages() == []
    world.send(*numbered(2, start=10))
    world.sync()
    asking.judge_all(even)
    assert asking.got == [0, 2, 4, 6, 8, 10]


def test_the_class_is_only_asked_about_what_the_other_filters_let_pass():
    world = World()
    send(world, ({"x-tag": "a" if number % 500 == 3 else "b"} for number in range(2000)))
    world.sync()
    skipped = world.stream.filtering[0]
    asking = Asking(world, of_tags(b"a"))
    assert len(asking.messages()) == 4
    asking.reader.judged(b"\1\0\1\1")
    asking.rest()
    assert asking.got == [3, 1003, 1503]
    assert world.stream.filtering[0] > skipped  # whole batches have no such tag
    assert asking.reader.settled_offset == 2000


def test_it_begins_where_it_says():
    world = world_of(10)
    asking = Asking(world, offset=7)
    assert asking.judge(all_pass) == numbered(3, start=7)
    later = Asking(world, offset=12)
    assert later.messages() == []
    world.send(*numbered(4, start=10))
    world.sync()
    assert later.judge(all_pass) == numbered(2, start=12)
    later.rest()
    assert later.got == [12, 13]


def test_batches_are_bounded_by_messages_and_by_bytes():
    world = World()
    world.send(*(b"x" * 100 for _ in range(10)))
    world.sync()
    asking = Asking(world)
    assert len(asking.messages(most=3)) == 3
    asking.reader.judged(b"\1" * 3)
    assert len(asking.messages(bytes_max=250)) in (2, 3)
    asking.reader.give_back()
    assert len(asking.messages(bytes_max=1)) == 1


def test_there_is_one_batch_at_a_time():
    asking = Asking(world_of(2))
    asking.messages(most=1)
    with pytest.raises(ValueError, match="a batch is out already"):
        asking.reader.batch(1, 1000)
    with pytest.raises(ValueError, match="2 verdicts for 1 messages"):
        asking.reader.judged(b"\1\1")


def test_a_batch_that_nobody_judged_is_asked_about_again_in_its_place():
    asking = Asking(world_of(6))
    assert bodies_of(asking.messages(most=4)) == numbered(4)
    asking.reader.give_back()
    assert asking.turn() == []
    assert (asking.reader.offset, asking.reader.settled_offset) == (0, 0)
    asking.judge_all(even, most=4)
    assert asking.got == [0, 2, 4]


def test_what_comes_while_a_batch_is_out_comes_after_it():
    world = world_of(3)
    asking = Asking(world)
    asking.messages()
    world.send(*numbered(3, start=3))
    world.sync()
    asking.rest()
    assert asking.got == []
    asking.reader.judged(b"\1\0\1")
    asking.judge_all(all_pass)
    assert asking.got == [0, 2, 3, 4, 5]


# ------------------------------------------------------------------ credit and bounds


def test_it_gets_as_many_as_it_has_credit_for():
    asking = Asking(world_of(10), prefetch=2, settles=False)
    asking.judge_all(even)
    assert asking.got == [0, 2]
    assert asking.turn() == []
    # The next one that is delivered, as far as is known.
    assert (asking.reader.offset, asking.reader.settled_offset) == (4, 0)
    asking.peer.feed(ack(1, 2, multiple=True))
    assert asking.turn() == [4, 6]
    asking.peer.feed(ack(1, 4, multiple=True))
    assert asking.turn() == [8]
    assert (asking.reader.offset, asking.reader.settled_offset) == (10, 8)


def test_what_passed_and_is_not_delivered_is_bounded():
    asking = Asking(world_of(AHEAD + 500), prefetch=1, settles=False)
    asking.judge_all(all_pass, most=300)
    assert asking.got == [0]
    judged = AHEAD + 1  # what was delivered makes room for one more
    assert asking.reader.judging == 0
    asking.peer.feed(ack(1, 1))
    assert asking.turn() == [1]
    assert asking.judge(all_pass) == [b"%d" % judged]


def test_what_does_not_pass_takes_no_room():
    world = world_of(3 * AHEAD)
    asking = Asking(world, prefetch=1, settles=False)
    asking.judge_all(none_passes)
    assert asking.reader.settled_offset == 3 * AHEAD


def test_what_the_class_refused_counts_as_read():
    asking = Asking(world_of(10), settles=False)
    asking.judge(lambda body: int(body) == 5, most=8)
    asking.rest()
    assert (asking.got, asking.reader.settled_offset) == ([5], 5)
    asking.peer.feed(ack(1, 1))
    # 8 and 9 wait for their verdicts.
    assert (asking.reader.offset, asking.reader.settled_offset) == (8, 8)


# ------------------------------------------------------------------ going away


def test_verdicts_for_who_is_gone_are_dropped():
    world = world_of(4)
    asking = Asking(world)
    asking.messages()
    asking.peer.channel.cancel(asking.reader)
    asking.reader.judged(b"\1" * 4)
    world.engine.run()
    assert asking.turn() == []
    assert asking.reader.offset == 0
    assert asking.reader.batch(10, 1000) is None
    asking.reader.give_back()
    # Another one of that name has nothing to do with it.
    again = Asking(world)
    again.judge_all(even)
    assert again.got == [0, 2]


def test_who_is_gone_before_it_is_asked_has_no_batch():
    world = world_of(4)
    asking = Asking(world)
    asking.rest()
    asking.peer.connection.close_channel(1)
    assert [each.batch(10, 1000) for each in world.engine.verdicts.take()] == [None]


def test_a_stream_that_is_deleted_while_a_batch_is_out():
    world = world_of(4)
    asking = Asking(world)
    asking.messages()
    asking.peer.channel.cancel(asking.reader)
    world.stream.retire()
    world.sync()
    asking.reader.judged(b"\1" * 4)
    assert asking.turn() == []


def test_retention_waits_for_what_is_judged():
    world = World(segment_bytes=4096, max_bytes=8192)
    world.send(*numbered(10, size=100))
    world.sync()
    asking = Asking(world)
    assert len(asking.messages()) == 10
    for start in range(10, 400, 65):
        world.send(*numbered(65, start=start, size=100))
        world.sync()
    assert world.stream.first == 0
    asking.reader.judged(b"\0\1" * 5)
    asking.judge_all(all_pass)
    assert asking.got == [1, 3, 5, 7, 9, *range(10, 400)]
    world.send(*numbered(50, start=400, size=100))
    world.sync()
    assert world.stream.first > 100


def test_retention_skips_what_was_judged_what_is_out_and_what_waits():
    world = World(segment_bytes=4096, max_bytes=8192)
    world.engine.streams.set_hold(50)
    world.send(*numbered(10, size=100))
    world.sync()
    asking = Asking(world, prefetch=1, settles=False)
    asking.judge(all_pass, most=4)
    asking.rest()
    assert asking.got == [0]
    assert bodies_of(asking.messages(most=4)) == numbered(4, start=4, size=100)
    for start in range(10, 400, 65):
        world.send(*numbered(65, start=start, size=100))
        world.sync()
    first = world.stream.first
    assert first > 10
    # The verdicts of what is gone come late.
    asking.reader.judged(b"\1" * 4)
    asking.judge(all_pass, most=2)
    asking.peer.feed(ack(1, 1))
    asking.rest()
    assert asking.got == [0, first]
    assert asking.reader.skipped == first - 1


# ------------------------------------------------------------------ at any moment


def numbers_of(messages: list[Message]) -> list[int]:
    return [int(str(each.headers["n"])) for each in messages]


@settings(max_examples=60)
@given(st.data())
def test_whatever_happens_in_between_what_passes_comes_once_and_in_order(data):
    world = World(segment_bytes=4096)
    prefetch = data.draw(st.integers(1, 40))
    passing = data.draw(st.sets(st.integers(0, 400)))
    asking = Asking(world, of_tags(b"a") if data.draw(st.booleans()) else None, prefetch=prefetch)
    sent: list[int] = []
    asked: list[int] = []
    out = 0
    for _ in range(data.draw(st.integers(1, 25))):
        step = data.draw(st.sampled_from(("send", "turn", "ask", "judge", "give back")))
        if step == "send":
            count = data.draw(st.integers(1, 60))
            for number in range(len(sent), len(sent) + count):
                send(world, [{"x-tag": "a", "n": number}])
                sent.append(number)
            world.sync()
        elif step == "turn":
            asking.turn()
        elif step == "ask" and not out:
            asked = numbers_of(asking.messages(data.draw(st.integers(1, 50))))
            out = len(asked)
        elif step == "judge" and out:
            asking.reader.judged(bytes(number in passing for number in asked))
            out = 0
        elif step == "give back" and out:
            asking.reader.give_back()
            out = 0
        assert asking.got == [number for number in sent if number in passing][: len(asking.got)]
    if out:
        asking.reader.give_back()
    while asked_now := numbers_of(asking.messages()):
        asking.reader.judged(bytes(number in passing for number in asked_now))
    asking.rest()
    assert asking.got == [number for number in sent if number in passing]
    assert asking.reader.settled_offset == len(sent)
