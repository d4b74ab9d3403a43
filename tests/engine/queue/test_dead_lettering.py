"""Dead letters: when they are made, how many in a turn, and what a crash leaves of them."""

from __future__ import annotations

from random import Random

import pytest
from tests.engine.disk_fake import recover
from tests.engine.frames import PERSISTENT, ack, nack, properties, publish, table
from tests.engine.session_fake import Peer
from tests.engine.slices import cut_often, ended, steps_of, turns

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue


def send(peer: Peer, *texts: str) -> None:
    for text in texts:
        peer.feed(publish(1, "q", text.encode()))


def test_a_rejected_message_becomes_a_dead_letter(queue, peer, dead_letters):
    raw = properties(message_id="m", headers=table(a=b"V"))
    peer.feed(publish(1, "q", b"x", raw=raw) * 3)
    for _ in range(3):
        peer.get(queue, no_ack=False)
    peer.feed(nack(1, 2, requeue=True) + nack(1, 1, requeue=False) + ack(1, 3))
    assert dead_letters.found == [("rejected", "", "q", raw, b"x")]
    assert queue.ready_count == 1


def test_a_dead_letter_may_go_where_it_came_from(engine, queue, peer):
    def again(reason: str, exchange: str, key: str, raw: bytes, body: bytes) -> None:
        engine.publish([queue], "again", "q", raw, body + b"!")

    queue.dead_letters = again
    for number in range(600):
        send(peer, f"{number}")
    for _ in range(600):
        peer.get(queue, no_ack=False)
    peer.feed(nack(1, 0, multiple=True, requeue=False))
    while engine.busy:
        engine.run()
    assert (queue.ready_count, queue.unacked_count) == (600, 0)
    got = peer.get(queue)
    assert got is not None
    assert (got.exchange, got.body, got.redelivered) == ("again", b"0!", False)


def test_dead_letters_over_a_limit_of_their_own(engine, queue, peer):
    dlq = engine.queue(0, "dlq", False)
    dlq.set_limits(max_length=2)
    queue.set_limits(max_length=1)
    queue.dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [dlq], exchange, key, raw, body
    )
    send(peer, *"abcdef")
    engine.run()
    assert peer.drain(queue) == [b"f"]
    engine.run()
    assert peer.drain(dlq) == [b"d", b"e"]


def test_a_dead_letter_is_on_disk_with_its_end(engine, disk, peer):
    durable, dlq = engine.queue(1, "q", True), engine.queue(2, "dlq", True)
    durable.dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [dlq], exchange, key, raw, body
    )
    peer.queues["q"] = durable
    peer.feed(publish(1, "q", b"x", raw=PERSISTENT))
    disk.sync(engine)
    peer.get(durable, no_ack=False)
    peer.feed(nack(1, 1, requeue=False))
    assert engine.logs.dirty
    disk.sync(engine)
    assert (durable.unacked_count, dlq.ready_count) == (0, 1)
    assert not engine.logs.dirty


def test_a_turn_that_delivers_what_a_dead_letter_made(engine, queue, peer):
    source = engine.queue(0, "source", False)
    peer.queues["source"] = source
    source.dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [queue], exchange, key, raw, body
    )
    peer.channel.consume(queue, "c", True, 0, 0)
    peer.feed(publish(1, "source", b"x", raw=properties(expiration="5")))
    engine.run()
    engine.clock.now_ms += 5
    got = peer.deliveries()
    while engine.busy:
        got += peer.deliveries()
    assert [each.body for each in got] == [b"x"]


def test_a_dead_letter_that_may_not_wait_is_given_to_who_waits_for_it(engine, queue, peer):
    """A time to live of 0 is over when a message cannot be delivered at once, and not before."""
    dlq = engine.queue(0, "dlq", False)
    dlq.set_message_ttl(0)
    queue.set_limits(max_length=1)
    queue.dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [dlq], exchange, key, raw, body
    )
    peer.channel.consume(dlq, "c", True, 0, 0)
    send(peer, "1", "2")
    assert [each.body for each in peer.deliveries()] == [b"1"]
    assert engine.queues.expired == 0


def test_a_message_comes_before_its_own_dead_letter(engine, queue, peer):
    """Where one of its queues is full and sends it on to the other one."""
    full = engine.queue(0, "full", False)
    full.set_limits(max_length=0, overflow="reject-publish-dlx")
    full.dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [queue], exchange, key, raw, b"letter of " + body
    )
    peer.session.caches["both"] = engine.route_cache("both", lambda key, raw: [full, queue], True)
    peer.feed(publish(1, "q", b"x", exchange="both"))
    assert peer.drain(queue) == [b"x", b"letter of x"]


def small_dlq(engine, queue):
    """Where the queue's dead letters go: it holds one and refuses more."""
    dlq = engine.queue(0, "dlq", False)
    dlq.set_limits(max_length=1, overflow="reject-publish")
    queue.dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [dlq], exchange, key, raw, body
    )
    return dlq


def test_a_full_queue_refuses_no_letter_that_somebody_takes_at_once(engine, queue, peer):
    dlq = small_dlq(engine, queue)
    peer.channel.consume(dlq, "c", True, 0, 0)
    for number in range(5):
        peer.feed(publish(1, "q", b"%d" % number, raw=properties(expiration="5")))
    engine.clock.now_ms += 5
    assert peer.bodies() == [b"0", b"1", b"2", b"3", b"4"]


def test_a_full_queue_gets_no_letters_that_nobody_takes_yet(engine, queue, peer):
    dlq = small_dlq(engine, queue)
    peer.channel.consume(dlq, "c", False, 0, 2)
    for number in range(5):
        peer.feed(publish(1, "q", b"%d" % number, raw=properties(expiration="5")))
    engine.clock.now_ms += 5
    assert peer.bodies() == [b"0", b"1"]
    assert dlq.ready_count == 1


@pytest.mark.parametrize("how", ["nack", "recover", "close"])
def test_who_gives_back_takes_the_letters_meanwhile(engine, queue, peer, how):
    """One channel gives up deliveries, letter by letter is given as many, and none is forgotten.

    As others were settled before, there would be room where those were.
    """
    dlq = small_dlq(engine, queue)
    other = Peer(engine) if how == "close" else peer
    for number in range(120):
        send(peer, f"{number}")
        peer.get(queue, no_ack=False)
    peer.feed(ack(1, 70, multiple=True))
    other.channel.consume(dlq, "c", False, 0, 0)
    if how == "nack":
        peer.feed(nack(1, 0, multiple=True, requeue=False))
    else:
        queue.set_limits(max_length=0)
        if how == "recover":
            ended(peer.channel.recovering())
        else:
            peer.connection.close_channel(1)
    assert other.bodies() == [b"%d" % number for number in range(70, 120)]
    assert (dlq.ready_count, dlq.unacked_count, queue.unacked_count) == (0, 50, 0)
    assert other.channel.unacked_count == 50
    if how != "close":
        peer.feed(ack(1, 120))  # it is settled, and forgotten
        assert peer.faults == [(1, 406)]


def test_dead_letters_take_their_turns(engine, queue, peer):
    """What expired is nobody's at once, but a million dead letters are not one turn's."""
    dead_lettered = []
    queue.dead_letters = lambda reason, exchange, key, raw, body: dead_lettered.append(body)
    numbers = [b"%d" % number for number in range(1300)]
    for number in numbers:
        peer.feed(publish(1, "q", number, raw=properties(expiration="5")))
    engine.clock.now_ms += 5
    engine.run()
    assert 0 < len(dead_lettered) < 700
    assert queue.ready_count == 0
    assert peer.get(queue) is None
    for _ in range(3):
        assert engine.busy == (len(dead_lettered) < 1300)
        engine.run()
    assert dead_lettered == numbers
    assert queue.unacked_count == 0
    assert not engine.busy


def test_dead_letters_wait_while_they_are_held(engine, queue, peer):
    """Consumers and confirms do not."""
    dead_lettered = []
    queue.dead_letters = lambda reason, exchange, key, raw, body: dead_lettered.append(body)
    peer.feed(publish(1, "q", b"first", raw=properties(expiration="5")))
    engine.queues.dead_lettering.held = True
    engine.clock.now_ms += 5
    engine.run()
    peer.feed(publish(1, "q", b"second"))
    assert peer.drain(queue) == [b"second"]
    assert dead_lettered == []
    assert not engine.busy
    engine.queues.dead_lettering.held = False
    assert engine.busy
    engine.run()
    assert dead_lettered == [b"first"]


@pytest.mark.slow
def test_a_tighter_limit_on_a_long_queue_takes_turns(engine, queue, dead_letters):
    """Noting all of them as leaving took one turn, and memory for each."""
    for number in range(50_000):
        engine.publish([queue], "", "q", b"\0\0", b"%d" % number)
    engine.run()
    queue.set_limits(max_length=10)
    engine.run()
    assert queue.unacked_count <= 20_000
    assert queue.ready_count + queue.unacked_count + len(dead_letters.found) == 50_000
    while engine.busy:
        engine.run()
        assert queue.unacked_count <= 20_000
    assert dead_letters.bodies == [b"%d" % number for number in range(49_990)]
    assert (queue.ready_count, queue.unacked_count) == (10, 0)


def waits(peer: Peer) -> bool:
    return not peer.connection.reading


def fill(engine: Engine, peer: Peer, queue: Queue) -> int:
    """Publish eighteen times as much as dead letters are made until that waits; says how much."""
    sent = 0
    while waits(peer):
        engine.run()
    while not waits(peer) and sent < 200_000:
        peer.feed(publish(1, "q", b"x") * 9000)
        sent += 9000
        engine.run()
        assert queue.ready_count + queue.unacked_count < 40_000
    assert waits(peer)
    return sent


def test_who_fills_a_queue_waits_for_its_dead_letters(engine, queue, peer, dead_letters):
    """All publishers waited for an alarm, since what was over the limit took all memory."""
    queue.set_limits(max_length=10)
    sent = fill(engine, peer, queue)
    other = engine.queue(0, "other", False)
    bystander = Peer(engine, {"q": queue, "other": other})
    bystander.feed(publish(1, "other"))
    assert other.ready_count == 1
    short = engine.queue(0, "short", False)
    short.set_limits(max_length=10)
    short.dead_letters = queue.dead_letters
    also = Peer(engine, {"short": short})
    for _ in range(20):
        also.feed(publish(1, "short") * 10)
        engine.run()
    assert not waits(also), "its queue is hardly over its limit"
    sent += fill(engine, peer, queue)
    bystander.feed(publish(1, "q") * 6000)
    assert waits(bystander), "each waits once the queue is far over its limit"
    sent += 6000 + fill(engine, peer, queue)
    while engine.busy:
        engine.run()
    assert len(dead_letters.found) == sent + 200 - 20
    assert (queue.ready_count, queue.unacked_count) == (10, 0)


@pytest.mark.parametrize(
    "how", ["deleted", "purged", "got", "without letters", "without a limit", "held"]
)
def test_nobody_waits_for_dead_letters_that_are_not_made(engine, queue, peer, dead_letters, how):
    queue.set_limits(max_length=10)
    fill(engine, peer, queue)
    if how == "purged":
        ended(queue.purging())
    elif how == "got":
        assert Peer(engine, {"q": queue}).drain(queue)
    elif how == "deleted":
        queue.retire()
    elif how == "without letters":
        queue.dead_letters = None
    elif how == "without a limit":
        queue.set_limits()
    else:
        engine.queues.dead_lettering.held = True
    for _ in range(100):
        engine.run()
    assert not waits(peer)
    assert not peer.connection.closing


def test_what_waits_to_be_dead_lettered_may_go_with_its_queue(engine, queue, peer):
    dead_lettered = []
    queue.dead_letters = lambda reason, exchange, key, raw, body: dead_lettered.append(body)
    peer.feed(publish(1, "q", raw=properties(expiration="5")) * 1300)
    engine.clock.now_ms += 5
    engine.run()
    queue.retire()
    count = len(dead_lettered)
    while engine.busy:
        engine.run()
    assert len(dead_lettered) == count


def test_a_full_queue_hands_a_letter_on_to_its_own_dlq(engine, queue, peer):
    """As RabbitMQ does with whatever comes to a queue with x-overflow reject-publish-dlx."""
    last = engine.queue(0, "last", False)
    chain = [engine.queue(0, f"full {number}", False) for number in range(2000)]
    for full, following in zip(chain, [*chain[1:], last], strict=True):
        full.set_limits(max_length=0, overflow="reject-publish-dlx")
        full.dead_letters = lambda reason, exchange, key, raw, body, to=following: engine.publish(
            [to], exchange, key, raw, body
        )
    queue.dead_letters = chain[-500].dead_letters
    queue.set_limits(max_length=0)
    send(peer, "1")
    assert peer.drain(last) == [b"1"]
    # There is an end to it, though.
    queue.dead_letters = chain[0].dead_letters
    send(peer, "2")
    assert last.ready_count == 0


STEPS = 40


class SteppedLetters:
    """Where letters go is found in many steps, as with many bindings; notes each of them."""

    def __init__(self, engine, *queues):
        self.engine, self.queues = engine, queues
        self.steps = 0

    def __call__(self, reason, exchange, key, raw, body):
        for _ in range(STEPS):
            self.steps += 1
            yield
        self.engine.publish(self.queues, exchange, key, raw, body)


@pytest.fixture
def stepped(engine, queue):
    dlq = engine.queue(0, "dlq", False)
    queue.dead_letters = SteppedLetters(engine, dlq)
    return queue.dead_letters


def test_the_way_of_a_letter_is_found_in_several_turns(engine, queue, peer, stepped):
    (dlq,) = stepped.queues
    for _ in range(3):
        send(peer, *"abc")
    cut_often(engine, units=1)
    for _ in range(9):
        peer.get(queue, no_ack=False)
    before = stepped.steps
    peer.feed(nack(1, 0, multiple=True, requeue=False))
    for _ in turns(engine):
        # Meanwhile nobody else gets the message, and it is not gone.
        assert queue.ready_count == 0
        assert queue.unacked_count + dlq.ready_count == 9
        assert stepped.steps - before < STEPS
        before = stepped.steps
    assert peer.drain(dlq) == [b"a", b"b", b"c"] * 3
    assert stepped.steps == 9 * STEPS


def test_a_letter_that_was_begun_goes_with_its_queue(engine, queue, peer, stepped):
    send(peer, "x")
    peer.get(queue, no_ack=False)
    cut_often(engine, units=1)
    peer.feed(nack(1, 1, requeue=False))
    assert 0 < stepped.steps < STEPS
    queue.retire()
    begun = stepped.steps
    for _ in turns(engine):
        pass
    assert (stepped.steps, stepped.queues[0].ready_count) == (begun, 0)


def test_the_letter_of_a_full_queue_is_made_in_several_turns(engine, queue, peer, stepped):
    queue.set_limits(max_length=0, overflow="reject-publish-dlx")
    cut_often(engine, units=1)
    engine.publish([queue], "", "q", b"\0\0", b"x")
    assert 0 < stepped.steps < STEPS
    assert stepped.queues[0].ready_count == 0
    for _ in turns(engine):
        pass
    assert peer.drain(stepped.queues[0]) == [b"x"]


def test_a_letter_made_in_several_turns_is_on_disk_with_its_end(engine, disk, peer):
    durable, dlq = engine.queue(1, "q", True), engine.queue(2, "dlq", True)
    durable.dead_letters = SteppedLetters(engine, dlq)
    peer.queues["q"] = durable
    peer.feed(publish(1, "q", b"x", raw=PERSISTENT))
    disk.sync(engine)
    peer.get(durable, no_ack=False)
    cut_often(engine, units=1)
    peer.feed(nack(1, 1, requeue=False))
    disk.sync(engine)
    assert (durable.unacked_count, dlq.ready_count) == (1, 0)
    for _ in turns(engine):
        pass
    assert engine.logs.dirty
    disk.sync(engine)
    assert (durable.unacked_count, dlq.ready_count) == (0, 1)
    assert not engine.logs.dirty


VAST = 7 * 2**20 + 1


class StoredInSteps:
    """Publishes letters as the control plane does: what takes long is done in steps before."""

    def __init__(self, engine, *queues):
        self.engine, self.queues = engine, queues

    def __call__(self, reason, exchange, key, raw, body):
        left, body = yield from self.engine.storing(self.queues, exchange, key, raw, body)
        if left:
            self.engine.publish(left, exchange, key, raw, body)


def test_a_vast_body_becomes_a_letter_in_steps(engine, disk):
    """Of a record to a record: it is in one of the two queues, whenever the broker crashes."""
    durable, dlq = engine.queue(1, "q", True), engine.queue(2, "dlq", True)
    durable.dead_letters = StoredInSteps(engine, dlq)
    peer = Peer(engine, {"q": durable})
    body = Random(1).randbytes(VAST)
    peer.feed(publish(1, "q", body, raw=PERSISTENT, step=100_000))
    disk.sync(engine)
    peer.get(durable, no_ack=False)
    cut_often(engine)
    peer.feed(nack(1, 1, requeue=False))
    taken = 0
    for _ in turns(engine):
        taken += 1
        disk.sync(engine)
        if not taken % 4:
            assert sum(each.ready_count for each in recovered(disk)) == 1
    # Each slice has time for two of its megabytes.
    assert taken >= VAST // 2**21
    engine.clock.monotonic_ns = None
    assert [each.ready_count for each in recovered(disk)] == [0, 1]
    assert peer.drain(dlq) == [body]
    assert durable.unacked_count == 0


def recovered(disk):
    queues: list[Queue] = []
    recover(
        disk.copy(),
        lambda engine: queues.extend(engine.queue(at, f"q{at}", True) for at in (1, 2)),
        durable_segment_bytes=4096,
    )
    return queues


@pytest.mark.parametrize("how", ["purged", "deleted", "unset"])
def test_a_vast_letter_that_was_begun_may_not_be_wanted_any_more(engine, disk, how):
    durable, dlq = engine.queue(1, "q", True), engine.queue(2, "dlq", True)
    durable.dead_letters = StoredInSteps(engine, dlq)
    peer = Peer(engine, {"q": durable})
    peer.feed(publish(1, "q", bytes(VAST), raw=PERSISTENT, step=100_000))
    disk.sync(engine)
    peer.get(durable, no_ack=False)
    cut_often(engine)
    peer.feed(nack(1, 1, requeue=False))
    if how == "deleted":
        durable.retire()
    elif how == "unset":
        durable.dead_letters = None
    else:
        dlq.retire()
    for _ in turns(engine):
        disk.sync(engine)
    assert (durable.unacked_count, dlq.ready_count) == (0, 0)


def test_a_vast_body_that_a_full_queue_refuses_becomes_a_letter_in_steps(engine, disk):
    full, dlq = engine.queue(1, "full", True), engine.queue(2, "dlq", True)
    full.set_limits(max_length=0, overflow="reject-publish-dlx")
    full.dead_letters = StoredInSteps(engine, dlq)
    also = engine.queue(3, "also", True)
    peer = Peer(engine)
    peer.session.caches["fan"] = engine.route_cache("fan", lambda _key, _raw: [full, also], True)
    body = Random(1).randbytes(VAST)
    data = publish(1, "", body, exchange="fan", raw=PERSISTENT, step=100_000)
    peer.feed(data[:-100_008])
    cut_often(engine)
    peer.feed(data[-100_008:])
    assert sum(1 for _ in turns(engine)) >= VAST // 2**21
    engine.clock.monotonic_ns = None
    assert peer.drain(dlq) == [body]
    assert peer.drain(also) == [body]


def test_a_letter_is_appended_to_many_streams_in_steps(engine, disk):
    """The entry is settled on disk after the last stream is, not with the first."""
    durable = engine.queue(1, "q", True)
    streams = [engine.stream(number, f"s{number}") for number in range(2, 102)]
    durable.dead_letters = StoredInSteps(engine, *streams)
    peer = Peer(engine, {"q": durable})
    peer.feed(publish(1, "q", b"x", raw=PERSISTENT))
    disk.sync(engine)
    peer.get(durable, no_ack=False)
    cut_often(engine, units=8)
    peer.feed(nack(1, 1, requeue=False))
    assert 0 < sum(stream.next_offset for stream in streams) < 100
    steps = steps_of(engine, lambda: sum(stream.next_offset for stream in streams))
    assert max(steps) <= 3 * 8
    assert [stream.next_offset for stream in streams] == [1] * 100
    # Within one write a crash may keep what was written last: so the settle is in the next one.
    disk.sync(engine)
    assert recovered(disk)[0].ready_count == 1
    disk.sync(engine)
    assert recovered(disk)[0].ready_count == 0
