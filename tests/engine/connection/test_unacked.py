"""Unsettled deliveries of a channel; its model is in tests/model/test_unacked_model.py."""

import random

import pytest
from tests.engine.allocations import allocated_bytes
from tests.engine.connection.test_credit import Several
from tests.engine.frames import ack, nack, publish
from tests.engine.session_fake import Peer

from leporid.engine.queue.queue import Queue


@pytest.mark.parametrize("gap", [2, 3, 50, 999])
def test_tags_are_found_among_any_number_of_holes(queue, peer, gap):
    peer.feed(publish(2, "q") * 3000)
    for _ in range(1000):
        assert peer.channel.get(queue, False)
    for tag in range(1, 1001):
        if tag % gap:
            peer.feed(ack(1, tag))
    for _ in range(2000):
        assert peer.channel.get(queue, False)
    left = [tag for tag in range(1, 1001) if tag % gap == 0]
    assert peer.channel.unacked_count == 2000 + len(left)
    for tag in reversed(left):
        peer.feed(nack(1, tag, requeue=False))
    assert peer.faults == []
    assert queue.unacked_count == 2000
    peer.feed(ack(1, 3000, multiple=True))
    assert queue.unacked_count == 0
    peer.feed(ack(1, 1500))
    assert peer.faults == [(1, 406)]


def test_one_old_delivery_and_thousands_after_it(queue, peer):
    peer.feed(publish(2, "q"))
    assert peer.channel.get(queue, False)
    peer.channel.consume(queue, "c", False, 0, 0)
    for _ in range(20):
        peer.feed(publish(2, "q") * 500)
        deliveries = peer.deliveries()
        assert len(deliveries) == 500
        peer.feed(b"".join(ack(1, each.tag) for each in deliveries))
    assert peer.channel.unacked_count == 1
    peer.feed(ack(1, 1))
    assert peer.faults == []
    assert queue.unacked_count == 0


def test_a_channel_that_goes_with_unsettled_deliveries_lets_go_of_them(engine, queue, peer):
    peer.feed(publish(2, "q") * 100)
    for _ in range(100):
        assert peer.channel.get(queue, False)
    queue.retire()
    peer.connection.close_channel(1)
    del peer.channels[1]
    assert engine.queue(0, "again", False).ready_count == 0


@pytest.mark.parametrize("tag", [2, 3, 5])
@pytest.mark.parametrize("multiple", [False, True])
def test_a_hole_between_unsettled_deliveries_is_unknown(queue, peer, tag, multiple):
    peer.feed(publish(2, "q") * 6)
    for _ in range(6):
        assert peer.channel.get(queue, False)
    for each in (2, 3, 5):
        peer.feed(ack(1, each))
    peer.feed(ack(1, tag, multiple))
    assert peer.faults == [(1, 406)]
    assert queue.ready_count == 3


def test_one_old_delivery_does_not_keep_the_place_of_those_after_it(engine, queue, peer):
    peer.feed(publish(1, "q"))
    peer.get(queue, no_ack=False)
    before = allocated_bytes()
    for tag in range(2, 20_000):
        peer.feed(publish(1, "q"))
        peer.get(queue, no_ack=False)
        peer.feed(ack(1, tag))
        engine.connections.take_touched()
    assert allocated_bytes() - before < 100_000
    assert peer.channel.unacked_count == 1


class Session:
    """A channel that is delivered messages and settles them, and what must be unsettled."""

    def __init__(self, queue: Queue, peer: Peer, chance: random.Random) -> None:
        self.queue, self.peer, self.chance = queue, peer, chance
        self.unsettled: dict[int, None] = {}
        self.last = 0

    def get(self, count: int) -> None:
        self.peer.feed(publish(2, "q") * count)
        for _ in range(count):
            got = self.peer.get(self.queue, no_ack=False)
            assert got is not None
            assert got.tag == self.last + 1
            self.last = got.tag
            self.unsettled[got.tag] = None

    def settle(self, tag: int, *, multiple: bool) -> None:
        self.peer.feed(ack(1, tag, multiple))
        for each in [each for each in self.unsettled if each <= tag] if multiple else [tag]:
            del self.unsettled[each]

    def settle_most(self) -> None:
        """Settle one after the other until few are left, in some order, so that holes remain."""
        tags = list(self.unsettled)
        first = self.chance.randrange(len(tags))
        order = self.chance.choice([tags[first:], tags[:first], tags, tags[::-1]])
        kept = self.chance.choice([2, 3, 7, 50, len(tags)])
        for tag in order:
            if tag % kept:
                self.settle(tag, multiple=False)

    def settle_up_to_some(self) -> None:
        tags = list(self.unsettled)
        if tags:
            self.settle(self.chance.choice(tags[:3] + tags[len(tags) // 2 :]), multiple=True)

    def check(self) -> None:
        assert self.peer.faults == []
        assert self.peer.channel.unacked_count == len(self.unsettled)


@pytest.mark.parametrize("seed", range(40))
def test_all_are_found_whatever_was_settled_while_others_came(queue, peer, seed):
    session = Session(queue, peer, random.Random(seed))
    for _ in range(25):
        session.get(session.chance.choice([1, 5, 20, 100, 300]))
        session.settle_most()
        for _ in range(session.chance.choice([0, 0, 1, 3])):
            session.get(session.chance.choice([1, 3, 30]))
            session.settle_up_to_some()
        session.check()
    tags = list(session.unsettled)
    session.chance.shuffle(tags)
    for tag in tags[1:]:
        session.settle(tag, multiple=False)
    session.check()
    settled = session.chance.choice([tag for tag in range(1, session.last) if tag not in tags[:1]])
    peer.feed(ack(1, settled))
    assert peer.faults == [(1, 406)]


@pytest.mark.parametrize("came", [0, 1, 2, 10, 30, 37, 38, 39, 50, 56, 57])
@pytest.mark.parametrize("kept", [1, 2, 590, 601, 899])
@pytest.mark.parametrize("how", ["singly", "together", "in two halves", "after a rollback"])
def test_all_are_found_while_the_rest_is_moved(queue, peer, came, kept, how):
    session = Session(queue, peer, random.Random(came))
    session.get(900)  # of a room of 1024
    for tag in range(1, 880):
        if tag % 50 and tag != kept and tag < max(601, kept):
            session.settle(tag, multiple=False)
    session.get(came)
    tags = list(session.unsettled)
    session.chance.shuffle(tags)
    if how == "after a rollback":
        peer.channel.select_tx()
        for tag in tags[::2]:
            peer.feed(ack(1, tag))
        session.get(came)
        peer.channel.rollback()
        session.check()
        for tag in session.unsettled:
            peer.feed(ack(1, tag))
        peer.channel.commit()
        session.unsettled.clear()
    elif how == "singly":
        for tag in tags:
            session.settle(tag, multiple=False)
    elif how == "in two halves":
        session.settle(tags[0], multiple=True)
        session.check()
        session.get(20)
        session.settle(session.last, multiple=True)
    else:
        session.settle(session.last, multiple=True)
    session.check()
    peer.feed(ack(1, kept))
    assert peer.faults == [(1, 406)]


def test_a_rollback_puts_back_what_was_settled_while_others_came(engine, queue):
    for seed in range(20):
        chance = random.Random(seed)
        peer = Peer(engine, {"q": queue}, channels=(1, 2))
        session = Session(queue, peer, chance)
        session.get(300)
        session.settle_most()
        peer.channel.select_tx()
        before = dict(session.unsettled)
        session.get(chance.choice([1, 20, 60]))
        came = list(session.unsettled)[len(before) :]
        session.settle_most()
        session.get(100)
        session.settle_most()
        peer.channel.rollback()
        session.unsettled = dict.fromkeys([*before, *range(came[0], session.last + 1)])
        session.check()
        for tag in chance.sample(list(session.unsettled), len(session.unsettled)):
            session.settle(tag, multiple=False)
        peer.channel.commit()
        session.check()


LATE_ACKS_MAX = 4096


@pytest.mark.parametrize("tag", [1, LATE_ACKS_MAX // 2, LATE_ACKS_MAX + 5])
def test_of_very_many_all_may_be_settled_late(tag: int):
    several = Several(LATE_ACKS_MAX + 5, LATE_ACKS_MAX + 5)
    found = 0
    while bodies := several.came():
        found += len(bodies)
    assert found == LATE_ACKS_MAX + 5
    several.channel.cancel(several.readers[0])
    several.channel.drop_unsettled(several.readers[0])
    several.peer.feed(ack(1, tag))
    assert several.peer.session.faults == []


def test_an_unknown_tag_is_no_late_ack():
    several = Several(2, 2)
    several.came()
    several.channel.cancel(several.readers[0])
    several.channel.drop_unsettled(several.readers[0])
    several.peer.feed(ack(1, 3))
    assert len(several.peer.session.faults) == 1
