"""Consumers of a queue that ask a filter class: what it is asked, and who gets what."""

from __future__ import annotations

import pytest
from tests.engine import frames
from tests.engine.allocations import allocated_bytes
from tests.engine.judge import Judge, settle_down
from tests.engine.selecting.test_filtered_consumers import consume, selector, send, taken
from tests.engine.session_fake import Peer
from tests.engine.slices import ended

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue
from leporid.engine.selectors.filter import ClassFilter
from leporid.engine.selectors.tags import Tags
from leporid.filterserver.message import Message

DOUBTS = 1000  # that are found before anybody asks
BATCH = 500


def is_odd(message: Message) -> bool:
    return message.headers["g"] in (1, 3)


def never(message: Message) -> bool:
    return False


def always(message: Message) -> bool:
    return True


@pytest.fixture
def judge(engine: Engine) -> Judge:
    return Judge(engine, odd=is_odd, never=never, always=always)


def odd(first: Tags | None = None) -> ClassFilter:
    return ClassFilter("odd", first)


def fill(engine: Engine, queue: Queue, count: int, group: int = 1) -> None:
    raw = frames.properties(headers=frames.table(g=b"l" + group.to_bytes(8, "big")))
    for number in range(count):
        engine.publish([queue], "", "q", raw, b"%d" % number)


# ------------------------------------------------------------------ who gets what


def test_what_passes_comes_in_order_and_the_rest_stays(queue, peer, judge):
    send(peer, "a1", "b0", "c3", "d2")
    consume(peer, queue, "c", odd())
    assert taken(peer) == []
    assert judge.ask()
    assert taken(peer) == []  # the batch is out
    judge.answer()
    assert taken(peer) == [("c", "a1"), ("c", "c3")]
    send(peer, "e2", "f1")
    judge.work()
    assert taken(peer) == [("c", "f1")]
    assert judge.asked == [b"a1", b"b0", b"c3", b"d2", b"e2", b"f1"]
    assert peer.drain(queue) == [b"b0", b"d2", b"e2"]


def test_only_what_passes_the_filter_beside_it_is_asked_about(queue, peer, judge):
    send(peer, "a1", "b0", "c3", "d2")
    consume(peer, queue, "c", odd(Tags([b"t2", b"t3"])))
    judge.work()
    assert taken(peer) == [("c", "c3")]
    assert judge.asked == [b"c3", b"d2"]


def test_consumers_that_ask_the_same_class_about_the_same_are_one(queue, peer, judge):
    send(peer, *["x1"] * 4, "y0")
    for tag in "ab":
        consume(peer, queue, tag, odd(), prefetch=2)
    consume(peer, queue, "c", odd(Tags([b"t0"])))
    judge.work()
    assert taken(peer) == [("a", "x1"), ("b", "x1"), ("a", "x1"), ("b", "x1")]
    assert judge.asked == [b"x1"] * 4 + [b"y0"] * 2


def test_a_plain_consumer_does_not_wait(queue, peer, judge):
    consume(peer, queue, "c", odd())
    consume(peer, queue, "u", None, prefetch=2)
    send(peer, "a1", "b0", "c1", "d3")
    assert taken(peer) == [("u", "a1"), ("u", "b0")]
    judge.work()
    assert taken(peer) == [("c", "c1"), ("c", "d3")]


def test_others_get_nothing_that_is_gone_while_a_batch_is_out(queue, peer, judge):
    send(peer, "a1", "b1", "c1")
    consume(peer, queue, "c", odd())
    taken(peer)
    assert judge.ask()
    assert peer.get(queue, channel=2).body == b"a1"
    judge.answer()
    assert taken(peer) == [("c", "b1"), ("c", "c1")]


def test_what_comes_back_is_judged_again_before_what_is_later(queue, peer, judge):
    send(peer, "a1", "b1", "c1")
    consume(peer, queue, "c", odd(), prefetch=1)
    judge.work()
    assert taken(peer) == [("c", "a1")]
    peer.feed(frames.nack(1, 1))
    assert taken(peer) == []  # it comes before b, which has passed
    assert judge.ask()
    assert taken(peer) == []
    judge.answer()
    assert taken(peer) == [("c", "a1")]
    assert judge.asked == [b"a1", b"b1", b"c1", b"a1"]


def test_what_passed_waits_no_more_when_others_took_what_came_back(queue, peer, judge):
    """Nothing else happens to the queue that would wake its consumers."""
    consume(peer, queue, "c", odd(), prefetch=1, priority=1)
    send(peer, "a1", "b1", "d1")
    consume(peer, queue, "u", selector("g >= 0"), prefetch=1)
    judge.work()
    assert sorted(taken(peer)) == [("c", "b1"), ("u", "a1")]
    peer.feed(frames.nack(1, 2))  # in doubt again, and d has passed
    peer.feed(frames.ack(1, 1))
    settle_down(peer.engine)
    assert taken(peer) == [("u", "b1"), ("c", "d1")]


def test_nothing_overtakes_what_is_judged_again(queue, peer, judge):
    send(peer, "a1", "b1", "c1")
    for tag in ("c", "d"):
        consume(peer, queue, tag, odd(), prefetch=1)
    judge.work()
    assert taken(peer) == [("c", "a1"), ("d", "b1")]
    peer.feed(frames.nack(1, 2))
    assert taken(peer) == []
    assert judge.ask()
    peer.feed(frames.ack(1, 1))  # a consumer comes back for whom the third message has passed
    assert taken(peer) == []
    judge.answer()
    assert sorted(body for _, body in taken(peer)) == ["b1", "c1"]


def test_what_is_not_judged_yet_keeps_a_lower_priority_not_waiting(queue, peer, judge):
    queue.set_priorities(5)
    consume(peer, queue, "c", odd(), prefetch=1)
    send(peer, "a1", "b1")
    judge.work()
    assert taken(peer) == [("c", "a1")]
    send(peer, "c1", "d0", priority=3)
    peer.feed(frames.ack(1, 1))
    assert taken(peer) == [("c", "b1")]
    send(peer, "e1", "f1")
    peer.feed(frames.ack(1, 2))
    judge.work()
    assert taken(peer) == [("c", "c1")]
    assert judge.asked == [b"a1", b"b1", b"c1", b"d0", b"e1", b"f1"]


def test_a_low_priority_is_judged_while_high_ones_come_and_are_refused(queue, peer, judge):
    queue.set_priorities(5)
    consume(peer, queue, "c", odd(), prefetch=1)
    found = []
    for number in range(5):
        send(peer, "h0", priority=5)
        send(peer, "l1", priority=1)
        taken(peer)
        assert judge.ask()
        judge.answer()
        found += taken(peer)
        peer.feed(frames.ack(1, number + 1))
    assert found == [("c", "l1")] * 5


def test_only_the_single_active_consumer_asks(queue, peer, judge):
    queue.set_single_active_consumer(True)
    first = consume(peer, queue, "a", None, prefetch=1)
    consume(peer, queue, "b", odd())
    send(peer, "m0", "n1", "o0", "p1")
    assert taken(peer) == [("a", "m0")]
    assert not judge.ask()
    peer.channel.cancel(first)
    taken(peer)
    judge.work()
    assert taken(peer) == [("b", "n1"), ("b", "p1")]


# ------------------------------------------------------------------ no verdicts


def test_a_class_that_fails_loses_nothing_and_others_go_on(queue, peer, judge):
    send(peer, "a1", "b0", "c1")
    consume(peer, queue, "c", odd())
    taken(peer)
    for _ in range(3):
        assert judge.ask()
        judge.fail()
        assert taken(peer) == []
    consume(peer, queue, "s", selector("g = 0"))
    assert taken(peer) == [("s", "b0")]
    judge.work()
    assert taken(peer) == [("c", "a1"), ("c", "c1")]


def test_verdicts_are_as_many_as_messages(queue, peer, judge):
    send(peer, "a1")
    consume(peer, queue, "c", odd())
    taken(peer)
    assert judge.ask()
    [asker] = judge.out
    with pytest.raises(ValueError, match="out already"):
        asker.batch(10, 1000)
    with pytest.raises(ValueError, match="2 verdicts for 1 messages"):
        asker.judged(b"\1\1")
    judge.answer()
    assert taken(peer) == [("c", "a1")]


@pytest.mark.parametrize("verdict", [True, False])
def test_who_left_cares_for_no_verdict(engine, queue, peer, judge, verdict):
    send(peer, "a1", "b1")
    consumer = consume(peer, queue, "c", odd())
    taken(peer)
    assert judge.ask()
    peer.channel.cancel(consumer)
    consume(peer, queue, "d", odd())
    judge.answer() if verdict else judge.fail()
    assert taken(peer) == []
    judge.work()
    assert taken(peer) == [("d", "a1"), ("d", "b1")]
    assert judge.asked == [b"a1", b"b1"] * 2


def test_a_purge_and_a_deletion_while_a_batch_is_out(engine, queue, peer, judge):
    consumer = consume(peer, queue, "c", odd())
    send(peer, "a1", "b1")
    taken(peer)
    assert judge.ask()
    assert ended(queue.purging()) == 2
    send(peer, "c1")
    judge.answer()
    assert taken(peer) == []
    judge.work()
    assert taken(peer) == [("c", "c1")]
    send(peer, "d1")
    taken(peer)
    assert judge.ask()
    peer.channel.cancel(consumer)
    assert queue.retire() == 1
    judge.answer()
    settle_down(engine)
    assert not judge.ask()


# ------------------------------------------------------------------ another version


def test_another_version_looks_at_everything_anew(queue, peer, judge):
    send(peer, "a1", "b0", "c1", "d0")
    consume(peer, queue, "c", odd(), prefetch=1)
    judge.work()
    assert taken(peer) == [("c", "a1")]
    judge.renew("odd", lambda message: not is_odd(message))
    peer.feed(frames.ack(1, 1))
    assert taken(peer) == []  # that c has passed does not count
    judge.work()
    assert taken(peer) == [("c", "b0")]


def test_verdicts_of_the_old_version_do_not_count(queue, peer, judge):
    send(peer, "a1", "b0")
    consume(peer, queue, "c", odd())
    taken(peer)
    assert judge.ask()
    judge.renew("odd", lambda message: not is_odd(message))
    judge.answer()
    assert taken(peer) == []
    judge.work()
    assert taken(peer) == [("c", "b0")]


# ------------------------------------------------------------------ bounds


def test_no_more_is_asked_about_than_somebody_may_take_soon(engine, queue, peer, judge):
    fill(engine, queue, 10_000)
    consume(peer, queue, "c", odd(), prefetch=10)
    judge.work()
    assert len(taken(peer)) == 10
    assert 10 <= len(judge.asked) <= DOUBTS + BATCH
    assert engine.searches.filters.asked <= DOUBTS + 2 * BATCH


def test_nobody_asks_for_somebody_who_can_take_nothing(engine, queue, peer, judge):
    consume(peer, queue, "c", odd(), prefetch=1)
    fill(engine, queue, 1)
    judge.work()
    assert len(taken(peer)) == 1
    fill(engine, queue, 100)
    judge.work()
    assert len(judge.asked) == 1
    peer.feed(frames.ack(1, 1))
    judge.work()
    assert len(taken(peer)) == 1
    assert len(judge.asked) == 101


def test_bytes_of_a_batch_are_bounded(engine, queue, peer, judge):
    consume(peer, queue, "c", odd())
    fill(engine, queue, 50)
    taken(peer)
    assert judge.ask(bytes_max=100)
    assert 1 < len(judge.asked) < 10
    judge.answer()
    judge.work()
    assert len(taken(peer)) == 50


def test_what_does_not_pass_is_not_remembered_and_asked_about_once(engine, queue, peer, judge):
    fill(engine, queue, 20_000)
    consume(peer, queue, "c", ClassFilter("never"))
    for _ in range(4):
        settle_down(engine)
        assert judge.ask(BATCH)
        judge.answer()
    before = allocated_bytes()
    settle_down(engine)
    while judge.ask(BATCH):
        judge.answer()
        settle_down(engine)
    judge.asked.clear()
    assert allocated_bytes() - before < 200_000
    settle_down(engine)
    assert not judge.ask()
    send(peer, "z1")
    judge.work()
    assert judge.asked == [b"z1"]


def test_who_finds_that_others_took_everything_looks_on(engine, queue, peer, judge):
    fill(engine, queue, DOUBTS + 100)
    consume(peer, queue, "c", ClassFilter("always"), prefetch=5)
    engine.run()
    for _ in range(DOUBTS):
        assert queue.ready_count
        peer.get(queue, channel=2)
    judge.work()
    assert [body for _, body in taken(peer)] == [str(DOUBTS + at) for at in range(5)]


def test_messages_that_are_looked_for_in_many_turns(engine, queue, peer, judge):
    engine.searches.work = 2000
    fill(engine, queue, 3000, group=2)
    fill(engine, queue, 10)
    consume(peer, queue, "c", odd(Tags([b"t1"])))
    consume(peer, queue, "d", odd())
    judge.work()
    assert [tag for tag, _ in taken(peer)] == ["d"] * 10


def test_a_class_and_a_thousand_consumers(engine, queue, peer, judge):
    """Equal filters are one, and consumers come and go."""
    other = Peer(engine)
    for number in range(1000):
        other.channel.consume(queue, f"c{number}", False, 0, 1, filter=odd())
    fill(engine, queue, 1000)
    judge.work()
    assert len({each.consumer for each in other.deliveries()}) == 1000
    assert len(judge.asked) == 1000
    other.connection.lost()
    settle_down(engine)
    assert engine.searches.waiting_for("odd") == 0


def test_what_waits_is_counted(engine, queue, peer, judge):
    consume(peer, queue, "c", odd())
    send(peer, "a1", "b1")
    taken(peer)
    assert engine.searches.waiting_for("odd") == 2
    assert judge.ask(1)
    assert engine.searches.waiting_for("odd") == 2
    judge.answer()
    assert engine.searches.waiting_for("odd") == 1
    judge.work()
    assert engine.searches.waiting_for("odd") == 0


def test_what_comes_back_to_who_has_enough_is_looked_at_again_in_order(engine, queue, peer, judge):
    """It forgot what was behind it, and the batch that was out with it."""
    consume(peer, queue, "slow", ClassFilter("always"), prefetch=3)
    consume(peer, queue, "none", selector("g = 9"))
    fill(engine, queue, 70_000)
    settle_down(engine)
    assert engine.searches.waiting_for("always") < 70_000  # it stopped where it had enough
    assert judge.ask(BATCH)
    other = Peer(engine)
    for _ in range(10):
        other.channel.get(queue, False)
    other.feed(frames.nack(1, 5), frames.nack(1, 7))  # 4 and 6
    settle_down(engine)
    judge.answer()
    judge.work()
    assert [body for _, body in taken(peer)] == ["4", "6", "10"]
    peer.feed(frames.ack(1, 0, multiple=True))
    judge.work()
    assert [body for _, body in taken(peer)] == ["11", "12", "13"]
