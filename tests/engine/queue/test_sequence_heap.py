"""What goes back stands where it stood, whatever the order in which it goes back."""

from random import Random

import pytest
from tests.engine.allocations import allocated_bytes
from tests.engine.frames import NO_PROPERTIES, nack, properties, publish

from leporid.engine.queue.lease import Lease
from leporid.engine.selectors.selector import Selector
from leporid.filters.compiler import program


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


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("priorities", [0, 1])
def test_what_is_gone_leaves_the_order_little_by_little(engine, queue, peer, seed, priorities):
    """Two thirds of a million were removed in one piece before: 20 to 30 ms for one message."""
    random = Random(seed)
    if priorities:
        queue.set_priorities(priorities)
    soon, late = properties(expiration="5"), properties(expiration="9000")
    numbers = range(6000)
    lasting = [number for number in numbers if number % 3 == 0]
    for number in numbers:
        raw = soon if number % 3 else late
        engine.publish([queue], "", "q", raw, b"%d" % number)
    tags = list(numbers)
    while peer.channel.get(queue, False):
        pass
    random.shuffle(tags)
    for tag in tags:
        peer.feed(nack(1, 1 + tag))
    order = queue.lanes[0] if priorities else queue.returned
    assert order.count >= 6000
    engine.clock.now_ms += 6
    engine.run()
    assert queue.ready_count == 2000
    before, least = order.count, 0
    for _ in range(2000):
        # One that is taken and comes back is in its place again, and pushes a number each time.
        assert peer.channel.get(queue, False)
        peer.feed(nack(1, 0, multiple=True))
        least = min(least, order.count - before)
        before = order.count
    assert -10 < least < 0
    assert order.count < 1024 + 3 * 2000
    assert peer.drain(queue) == [b"%d" % number for number in lasting]


def test_a_message_that_goes_round_and_round_leaves_one_number(engine, queue, peer):
    """A filter finds it beyond the head, so that nobody takes its number from the order."""
    engine.publish([queue], "", "q", NO_PROPERTIES, b"again")
    assert peer.channel.get(queue, False)
    peer.feed(nack(1, 0, multiple=True))
    peer.channel.consume(queue, "c", False, 0, 0, filter=Selector(program("n IS NULL").code))
    for _ in range(5000):
        assert peer.deliveries()
        peer.feed(nack(1, 0, multiple=True))
    assert queue.returned.count <= 1024 + 16


@pytest.mark.parametrize("count", [300, 4000])
@pytest.mark.parametrize("priorities", [0, 1])
def test_messages_that_go_round_and_round_in_any_order_leave_few_numbers(
    engine, queue, count, priorities
):
    """Each leaves a number when it comes back, as nobody takes the first."""
    if priorities:
        queue.set_priorities(priorities)
    for _ in range(count):
        engine.publish([queue], "", "q", NO_PROPERTIES, b"")
    first = Lease(queue, count)
    while first.release():
        pass
    order = queue.lanes[0] if priorities else queue.returned
    random, most = Random(1), 0
    for _ in range(30_000):
        lease = Lease(queue, 1, chosen=True)
        lease.take([random.randrange(count)])
        assert lease.count == 1
        lease.release()
        most = max(most, order.count)
    assert queue.ready_count == count
    assert most < (1024 + 2 * count) * 5 // 4


def test_an_order_that_is_empty_keeps_no_memory(engine, peer):
    """There may be many queues, and each may have been long once."""
    kept = []
    for number in range(4):
        queue = engine.queue(0, f"{number}", False)
        for _ in range(20_000):
            engine.publish([queue], "", "q", NO_PROPERTIES, b"")
        while peer.channel.get(queue, False):
            pass
        peer.feed(nack(1, 0, multiple=True))
        assert queue.returned.count == 20_000
        while peer.channel.get(queue, True):
            pass
        peer.take()
        kept.append(allocated_bytes())
    assert kept[-1] - kept[0] < 8 * 20_000
