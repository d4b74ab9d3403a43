"""The index of a queue: any entry is found, however many came and went around it."""

from __future__ import annotations

from random import Random

import pytest
from tests.engine.frames import ack, nack, publish
from tests.engine.session_fake import Peer
from tests.engine.slices import ended

BLOCK = 256


def send(peer: Peer, first: int, count: int) -> None:
    peer.feed(b"".join(publish(2, "q", b"%d" % each) for each in range(first, first + count)))


@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 10 * BLOCK + 7])
def test_in_and_out_again(queue, peer, count):
    send(peer, 0, count)
    assert peer.drain(queue) == [b"%d" % number for number in range(count)]
    send(peer, count, 3)
    assert len(peer.drain(queue)) == 3
    assert queue.next_seq == count + 3


@pytest.mark.parametrize("seed", range(6))
def test_entries_of_all_ages_are_settled_in_any_order(queue, peer, seed):
    random = Random(seed)
    count = 12 * BLOCK
    send(peer, 0, count)
    kept: dict[int, int] = {}
    for number in range(count):
        got = peer.get(queue, no_ack=False)
        assert got is not None
        kept[got.tag] = number
    tags = list(kept)
    random.shuffle(tags)
    for tag in tags[: random.choice([100, 2000, count - 3])]:
        peer.feed(ack(1, tag))
        del kept[tag]
    send(peer, count, 300)
    peer.feed(nack(1, 0, multiple=True))
    expected = [*kept.values(), *range(count, count + 300)]
    assert peer.drain(queue) == [b"%d" % number for number in expected]


def test_one_old_entry_does_not_keep_the_place_of_all_that_came_after(engine, queue, peer):
    send(peer, 0, 1)
    assert peer.channel.get(queue, False)
    for turn in range(40):
        send(peer, turn, 1000)
        assert ended(queue.purging()) == 1000
    peer.feed(nack(1, 1))
    send(peer, 7, 1)
    assert peer.drain(queue) == [b"0", b"7"]


def test_many_old_entries_far_apart(queue, peer):
    expected = []
    tag = 0
    for turn in range(60):
        send(peer, turn * 1000, 1)
        expected.append(turn * 1000)
        assert peer.channel.get(queue, False)
        tag += 1
        send(peer, 0, 300)
        ended(queue.purging())
    order = list(range(1, tag + 1))
    Random(5).shuffle(order)
    for each in order:
        peer.feed(nack(1, each))
    assert peer.drain(queue) == [b"%d" % number for number in expected]
