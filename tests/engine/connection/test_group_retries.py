"""What members of a group give back: kept, held, delivered again, and given up."""

from __future__ import annotations

import pytest
from tests.engine.frames import ack, nack, properties, reject, table
from tests.engine.group_world import GRACE_MS, GroupWorld, facts
from tests.engine.slices import cut_often, turns
from tests.engine.stream_world import numbered

from leporid.broker.stream.choices import choice_of


def member(count: int = 3, **options) -> GroupWorld:
    world = GroupWorld(**options)
    world.send(*numbered(count))
    return world


def test_a_message_that_comes_back_holds_nobody_and_comes_again_later():
    world = member()
    assert [facts(each) for each in world.came()] == [
        (b"0", 0, 0, False), (b"1", 1, 0, False), (b"2", 2, 0, False)
    ]  # fmt: skip
    world.peer.feed(ack(1, 1) + nack(1, 2) + ack(1, 3))
    assert world.came() == []
    assert (world.reader.settled_offset, world.retries.waiting) == (3, 1)
    world.wait(999)
    assert world.came() == []
    world.wait(1)
    (again,) = world.came()
    assert facts(again) == (b"1", 1, 1, True)
    assert b"x-stream-nameS\x00\x00\x00\x01s" in again.raw
    world.peer.feed(ack(1, again.tag))
    assert (world.retries.waiting, world.retries.unacked_count) == (0, 0)


def test_each_delay_is_longer_until_it_is_given_up():
    world = member(1)
    (delivery,) = world.came()
    for count, delay_ms in enumerate((1000, 2000, 2500), 1):
        world.peer.feed(nack(1, delivery.tag))
        world.wait(0)
        world.wait(delay_ms - 1)
        assert world.came() == []
        world.wait(1)
        (delivery,) = world.came()
        assert facts(delivery) == (b"0", 0, count, True)
    world.peer.feed(nack(1, delivery.tag))
    world.wait(10_000)
    assert world.came() == []
    assert world.reasons == [("delivery_limit", b"0")]
    assert (world.retries.waiting, world.retries.retried, world.dead.ready_count) == (0, 3, 1)


@pytest.mark.parametrize("letters", [True, False])
def test_without_requeue_it_is_given_up_at_once(letters: bool):
    world = member(letters=letters)
    first = world.came()
    world.peer.feed(reject(1, first[0].tag, requeue=False) + ack(1, 3))
    world.peer.feed(nack(1, first[1].tag, requeue=False))
    world.wait(0)
    assert world.reasons == ([("rejected", b"0"), ("rejected", b"1")] if letters else [])
    assert (world.reader.settled_offset, world.retries.dropped) == (3, 0)


@pytest.mark.parametrize(("letters", "dropped"), [(True, 0), (False, 1)])
def test_a_limit_of_none_gives_up_what_comes_back_first(letters: bool, dropped: int):
    world = member(1, limit=0, letters=letters)
    world.peer.feed(nack(1, world.came()[0].tag))
    world.wait(0)
    assert world.reasons == [("delivery_limit", b"0")] * letters
    assert (world.retries.dropped, world.reader.settled_offset) == (dropped, 1)


def test_no_limit_tries_again_for_ever():
    world = member(1, limit=None, letters=False)
    for count in range(40):
        (delivery,) = world.came()
        assert facts(delivery)[2] == count
        world.peer.feed(nack(1, delivery.tag))
        world.wait(0)
        world.wait(2500)


def test_a_reject_counts_when_no_cancel_came_with_it():
    world = member(2)
    tags = [each.tag for each in world.came()]
    world.peer.feed(reject(1, tags[1]) + ack(1, tags[0]))
    world.wait(GRACE_MS - 1)
    assert (world.reader.settled_offset, world.reader.has_unsettled) == (1, True)
    world.wait(1)
    assert (world.reader.settled_offset, world.reader.has_unsettled) == (2, False)
    world.wait(1000)
    assert [facts(each) for each in world.came()] == [(b"1", 1, 1, True)]


def test_what_is_rejected_before_a_cancel_was_not_handled():
    world = member(4, prefetch=3)
    tags = [each.tag for each in world.came()]
    world.peer.feed(ack(1, tags[0]) + reject(1, tags[1]) + nack(1, tags[2]))
    world.leave()
    assert world.stored == 1
    world.join()
    # In order; what was given back by basic.nack was handled, and is retried as well.
    assert [facts(each)[:3] for each in world.came()] == [(b"1", 1, 0), (b"2", 2, 0), (b"3", 3, 0)]
    assert world.retries.waiting == 1


def test_what_is_rejected_after_a_cancel_was_not_handled_either():
    world = member(2)
    tags = [each.tag for each in world.came()]
    world.peer.channel.cancel(world.reader)
    world.peer.feed(reject(1, tags[0]) + reject(1, tags[1]))
    world.wait(GRACE_MS)
    assert (world.reader.settled_offset, world.retries.waiting) == (0, 0)


def test_a_channel_that_closes_counts_for_what_was_retried_only():
    world = member(2)
    world.peer.feed(nack(1, world.came()[0].tag))
    world.wait(0)
    world.wait(1000)
    assert [facts(each) for each in world.came()] == [(b"0", 0, 1, True)]
    world.leave()
    assert world.stored == 1
    world.join()
    world.wait(0)
    assert [facts(each)[:3] for each in world.came()] == [(b"1", 1, 0)]
    world.wait(2000)
    assert [facts(each) for each in world.came()] == [(b"0", 0, 2, True)]


def test_retries_and_first_deliveries_have_one_credit():
    world = member(6, prefetch=2)
    world.peer.feed(nack(1, world.came()[0].tag))
    assert [each.body for each in world.came()] == [b"2"]
    world.wait(1000)
    assert world.came() == []
    # One of either in turn.
    came = []
    for _ in range(3):
        world.peer.feed(ack(1, 0, multiple=True))
        came.append([each.body for each in world.came()])
    assert came == [[b"0", b"3"], [b"4", b"5"], []]


def test_retries_wait_for_the_limit_of_the_channel_too():
    world = member(3, prefetch=2)
    channel = world.peer.channel
    world.peer.feed(nack(1, world.came()[0].tag))
    assert [each.body for each in world.came()] == [b"2"]
    world.wait(1000)
    assert world.came() == []  # the retry waits for the member's credit
    channel.prefetch_global = 1
    world.peer.feed(ack(1, 2))  # and now for that of the channel
    assert world.came() == []
    world.peer.feed(ack(1, 3))
    assert [facts(each) for each in world.came()] == [(b"0", 0, 1, True)]
    # The limit goes while somebody waits for it.
    world.send(b"3", b"4")
    assert world.came() == []
    channel.prefetch_global = 0
    assert [each.body for each in world.came()] == [b"3"]


def test_a_transaction_gives_back_what_it_commits():
    world = member(3)
    channel = world.peer.channel
    channel.select_tx()
    tags = [each.tag for each in world.came()]
    world.peer.feed(nack(1, tags[0]) + reject(1, tags[1], requeue=False) + ack(1, tags[2]))
    world.wait(GRACE_MS)
    assert (world.retries.waiting, world.reasons, world.reader.settled_offset) == (0, [], 0)
    channel.commit()
    world.wait(0)
    assert (world.retries.waiting, world.reasons) == (1, [("rejected", b"1")])
    assert world.reader.settled_offset == 3


def test_a_crash_forgets_no_return_that_is_on_disk():
    world = member(3)
    deliveries = world.came()
    world.peer.feed(*(nack(1, each.tag) for each in deliveries))
    world.wait(0)
    assert world.store() == 3
    assert world.stored == 0  # not before what is kept is on disk
    world.sync()
    world.store()
    assert world.stored == 3
    world.wait(400)
    world.crash()
    assert (world.came(), world.retries.waiting) == ([], 3)
    world.wait(599)
    assert world.came() == []
    world.wait(1)
    again = world.came()
    assert [facts(each) for each in again] == [(b"%d" % at, at, 1, True) for at in range(3)]
    world.peer.feed(nack(1, again[1].tag) + ack(1, again[0].tag) + ack(1, again[2].tag))
    world.wait(0)
    world.sync()
    world.crash()
    world.wait(2000)
    assert [facts(each) for each in world.came()] == [(b"1", 1, 2, True)]
    world.crash()
    assert [facts(each) for each in world.came()] == [(b"1", 1, 2, True)]


def test_what_retention_dropped_is_not_tried_again():
    world = member(0, prefetch=100)
    world.stream.set_retention(max_bytes=1000)
    tags = []
    for number in numbered(30, size=100_000):
        world.send(number)
        tags += [each.tag for each in world.came()]
    world.wait(1000)
    world.peer.feed(nack(1, tags[0]))
    world.wait(0)
    assert world.stream.first > 0
    assert (world.retries.missed, world.retries.waiting) == (1, 0)


def test_what_the_filter_of_a_newer_version_leaves_out_is_not_delivered():
    world = GroupWorld()
    for tag in ("A", "B"):
        raw = properties(headers=table(**{"x-tag": tagged(tag)}), delivery_mode=2)
        world.send(tag.encode(), raw=raw)
    world.peer.feed(*(nack(1, each.tag) for each in world.came()))
    world.wait(0)
    world.store()
    world.leave()
    world.join(choice_of({"x-filter-tags": "B"}))
    world.wait(1000)
    assert [facts(each)[0] for each in world.came()] == [b"B"]
    assert (world.retries.filtered, world.retries.waiting) == (1, 0)


def tagged(text: str) -> bytes:
    return b"S" + len(text).to_bytes(4, "big") + text.encode()


def test_many_at_once_are_kept_in_several_turns():
    world = member(1200, prefetch=2000)
    assert len(world.came()) == 1200
    world.peer.feed(nack(1, 0, multiple=True))
    world.engine.run()
    assert world.retries.retried == 500
    assert (world.reader.settled_offset, world.retries.waiting) == (500, 500)
    assert world.engine.busy
    world.wait(1)
    world.wait(1)
    assert (world.retries.retried, world.reader.settled_offset) == (1200, 1200)


def test_a_group_that_is_forgotten_forgets_what_waited():
    world = member(2)
    tags = [each.tag for each in world.came()]
    world.peer.feed(nack(1, tags[0]))
    world.wait(0)
    world.wait(1000)
    (again,) = world.came()
    world.retries.retire()
    world.peer.feed(nack(1, tags[1]) + nack(1, again.tag))
    world.wait(5000)
    assert (world.came(), world.retries.waiting, world.dead.ready_count) == ([], 0, 0)
    assert not world.peer.faults


def test_nothing_that_comes_back_counts_as_settled_before_it_is_kept():
    world = member(600, prefetch=600)
    assert len(world.came()) == 600
    cut_often(world.engine)
    world.peer.feed(nack(1, 0, multiple=True))
    assert world.peer.channel.unacked_count
    assert (world.reader.settled_offset, world.reader.has_unsettled) == (0, True)
    for _ in turns(world.engine):
        assert world.reader.settled_offset <= world.retries.waiting
    world.engine.clock.monotonic_ns = None
    world.wait(GRACE_MS)
    assert (world.reader.settled_offset, world.retries.waiting) == (600, 600)
