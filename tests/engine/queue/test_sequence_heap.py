"""What goes back stands where it stood, whatever the order in which it goes back."""

from random import Random

import pytest
from tests.engine.allocations import allocated_bytes
from tests.engine.frames import nack, publish


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("priorities", [0, 3])
def test_any_order_of_return_is_the_order_of_arrival(queue, peer, seed, priorities):
    if priorities:
        queue.set_priorities(priorities)
    random = Random(seed)
    peer.feed(b"".join(publish(1, "q", b"%d" % number) for number in range(200)))
    out = [peer.channel.get(queue, False) for _ in range(150)]
    assert all(out)
    tags = list(range(1, 151))
    random.shuffle(tags)
    for tag in tags:
        peer.feed(nack(1, tag))
    assert peer.drain(queue) == [b"%d" % number for number in range(200)]


def test_what_expires_among_the_returned_is_passed_over(engine, queue, peer):
    raw = b"\x01\x00\x0210"  # expiration
    for number in range(6):
        peer.feed(publish(1, "q", b"%d" % number, raw=raw if number % 2 else b"\x00\x00"))
    for _ in range(6):
        assert peer.channel.get(queue, False)
    peer.feed(nack(1, 0, multiple=True))
    engine.clock.now_ms += 10
    engine.run()
    assert peer.drain(queue) == [b"0", b"2", b"4"]


def test_what_expired_leaves_nothing_in_the_order_of_priorities(engine, queue, peer):
    """Nobody ever takes from this queue, and it is never empty."""
    queue.set_priorities(3)
    queue.set_message_ttl(10)
    before = allocated_bytes()
    for _ in range(100):
        for _ in range(1000):
            engine.publish([queue], "", "q", b"\0\0", b"")
        engine.clock.now_ms += 6
        engine.run()
    assert 0 < queue.ready_count <= 2000
    assert allocated_bytes() - before < 400_000
    assert len(peer.drain(queue)) == 1000
