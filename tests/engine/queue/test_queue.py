"""A queue: what is in it, how long, how much, and what becomes of the rest."""

from __future__ import annotations

import pytest
from tests.engine.frames import Confirm, nack, properties, publish, reject
from tests.engine.session_fake import Peer
from tests.engine.slices import ended


def send(peer: Peer, *texts: str, expiration: str | None = None, priority: int = 0) -> None:
    raw = properties(expiration=expiration, priority=priority)
    for text in texts:
        peer.feed(publish(1, "q", text.encode(), raw=raw))


# ------------------------------------------------------------------ what is in it


def test_what_it_says_of_itself(engine):
    queue = engine.queue(7, "näme", True)
    assert (queue.id, queue.name, queue.durable, queue.retired) == (7, "näme", True, False)
    assert (queue.ready_count, queue.unacked_count, queue.consumer_count) == (0, 0, 0)
    assert "näme" in repr(queue)


def test_queues_that_do_not_last_have_numbers_of_their_own(engine):
    one, two = engine.queue(0, "a", False), engine.queue(0, "b", False)
    assert one.id != two.id
    assert min(one.id, two.id) >= 2**31


def test_counts(queue, peer):
    send(peer, "a", "bb", "ccc")
    assert (queue.ready_count, queue.ready_bytes) == (3, 6)
    peer.get(queue, no_ack=False)
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (2, 5, 1)
    peer.feed(nack(1, 1))
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (3, 6, 0)
    assert (queue.published, queue.next_seq) == (3, 3)


def test_purge_leaves_what_is_out(queue, peer):
    send(peer, "a", "b", "c", "d")
    peer.get(queue, no_ack=False)
    peer.get(queue, no_ack=False)
    peer.feed(nack(1, 2))
    assert ended(queue.purging()) == 3
    assert ended(queue.purging()) == 0
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (0, 0, 1)
    send(peer, "e")
    peer.feed(nack(1, 1))
    assert peer.drain(queue) == [b"a", b"e"]


def test_a_purge_makes_no_dead_letters(queue, peer, dead_letters):
    send(peer, "a")
    ended(queue.purging())
    assert dead_letters.found == []


def test_retire_says_how_many_were_ready_and_frees_everything(engine, queue, peer):
    send(peer, *map(str, range(1000)))
    for _ in range(10):
        peer.get(queue, no_ack=False)
    assert queue.retire() == 990
    assert queue.retired
    assert (queue.ready_count, queue.unacked_count) == (0, 0)
    assert sum(segment.live for segment in engine.logs.transient.segments if segment) == 0


def test_a_requeued_message_is_where_it_was(queue, peer):
    send(peer, *"abcdef")
    for _ in range(5):
        peer.get(queue, no_ack=False)
    for tag in (4, 1, 3):
        peer.feed(nack(1, tag))
    assert peer.drain(queue) == [b"a", b"c", b"d", b"f"]


# ------------------------------------------------------------------ time to live


def test_a_message_expires_wherever_it_stands(engine, queue, peer, dead_letters):
    now = engine.clock.now_ms
    send(peer, "stays")
    send(peer, "goes", expiration="10")
    send(peer, "later", expiration="20")
    assert engine.next_due_ms == now + 10
    engine.clock.now_ms = now + 9
    engine.run()
    assert queue.ready_count == 3
    engine.clock.now_ms = now + 10
    engine.run()
    assert (queue.ready_count, engine.queues.expired) == (2, 1)
    assert engine.next_due_ms == now + 20
    engine.clock.now_ms = now + 1000
    assert peer.drain(queue) == [b"stays"]
    assert dead_letters.found == [
        ("expired", "", "q", properties(expiration=text, priority=0), body)
        for text, body in (("10", b"goes"), ("20", b"later"))
    ]
    assert engine.next_due_ms == 0


def test_what_is_out_does_not_expire_but_is_not_delivered_again(engine, queue, peer):
    send(peer, "a", expiration="10")
    peer.get(queue, no_ack=False)
    engine.clock.now_ms += 50
    engine.run()
    assert queue.unacked_count == 1
    peer.channels[2].consume(queue, "c", True, 0, 0)
    peer.feed(nack(1, 1))
    assert peer.deliveries() == []
    assert (queue.ready_count, engine.queues.expired) == (0, 1)


def test_what_comes_back_in_time_still_expires(engine, queue, peer):
    send(peer, "a", expiration="10")
    for tag in range(1, 4):
        peer.get(queue, no_ack=False)
        peer.feed(nack(1, tag))
        engine.run()
    engine.clock.now_ms += 10
    engine.run()
    assert (queue.ready_count, engine.queues.expired) == (0, 1)


def test_at_once_or_never(engine, queue, peer):
    send(peer, "never", expiration="0")
    engine.run()
    assert (queue.ready_count, engine.queues.expired) == (0, 1)
    peer.channel.consume(queue, "c", False, 0, 1)
    send(peer, "at once", "never", expiration="0")
    assert peer.bodies() == [b"at once"]
    assert (queue.ready_count, engine.queues.expired) == (0, 2)


def test_the_queues_own_time_to_live(engine, queue, peer):
    queue.set_message_ttl(100)
    send(peer, "queue's")
    send(peer, "own", expiration="50")
    send(peer, "too long", expiration="5000")
    engine.clock.now_ms += 50
    engine.run()
    assert queue.ready_count == 2
    engine.clock.now_ms += 50
    engine.run()
    assert queue.ready_count == 0
    queue.set_message_ttl(None)
    send(peer, "for ever")
    assert engine.next_due_ms == 0


@pytest.mark.parametrize("text", ["5", "+5", "0005", "0" * 40 + "5"])
def test_expirations_that_are_numbers(engine, queue, peer, text):
    """RabbitMQ reads them as Erlang reads an integer."""
    send(peer, "x", expiration=text)
    assert peer.faults == []
    assert engine.next_due_ms == engine.clock.now_ms + 5


def test_minus_nothing_is_nothing(engine, queue, peer):
    send(peer, "x", expiration="-0")
    engine.run()
    assert peer.faults == []
    assert queue.ready_count == 0


def test_messages_of_a_deleted_queue_do_not_expire(engine, queue, peer):
    send(peer, "a", expiration="10")
    queue.retire()
    engine.clock.now_ms += 100
    engine.run()
    assert engine.queues.expired == 0


# ------------------------------------------------------------------ limits


@pytest.mark.parametrize("limit", [{"max_length": 3}, {"max_bytes": 5}])
def test_over_the_limit_the_oldest_go(engine, queue, peer, dead_letters, limit):
    queue.set_limits(**limit)
    send(peer, *"abcdefg")
    engine.run()
    left = [b"e", b"f", b"g"] if "max_length" in limit else [b"c", b"d", b"e", b"f", b"g"]
    assert queue.ready_count == len(left)
    assert peer.drain(queue) == left
    assert {each[0] for each in dead_letters.found} == {"maxlen"}
    assert dead_letters.bodies == [b"a", b"b", b"c", b"d"][: 7 - len(left)]


def test_what_is_out_does_not_count(engine, queue, peer):
    queue.set_limits(max_length=2)
    peer.channel.consume(queue, "c", False, 0, 3)
    send(peer, *"abcdef")
    assert peer.bodies() == [b"a", b"b", b"c"]
    assert queue.ready_count == 2
    peer.feed(nack(1, 3))
    assert queue.ready_count == 2
    peer.connection.close_channel(1)
    other = Peer(engine)
    assert other.drain(queue) == [b"e", b"f"]


def test_no_room_at_all(engine, queue, peer, dead_letters):
    queue.set_limits(max_length=0)
    send(peer, "a")
    engine.run()
    assert dead_letters.bodies == [b"a"]
    peer.channel.consume(queue, "c", True, 0, 0)
    send(peer, "b")
    assert peer.bodies() in ([b"b"], [])


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_refuses(engine, queue, peer, dead_letters, overflow):
    queue.set_limits(max_length=2, overflow=overflow)
    peer.channel.select_confirm()
    send(peer, *"abcd")
    assert peer.events() == [
        Confirm(1, 2, True),
        Confirm(1, 3, False, refused=True),
        Confirm(1, 4, False, refused=True),
    ]
    assert dead_letters.bodies == ([b"c", b"d"] if overflow.endswith("dlx") else [])
    assert peer.drain(queue) == [b"a", b"b"]
    send(peer, "e")
    assert Confirm(1, 5, False) in peer.events()
    assert peer.drain(queue) == [b"e"]


def test_a_limit_of_bytes_refuses_what_does_not_fit(queue, peer):
    queue.set_limits(max_bytes=5, overflow="reject-publish")
    send(peer, "abc", "defg", "hi", "j")
    assert peer.drain(queue) == [b"abc", b"hi"]


def test_a_message_for_two_queues_reaches_the_one_with_room(engine, queue, peer):
    full = engine.queue(0, "full", False)
    full.set_limits(max_length=0, overflow="reject-publish")
    peer.session.caches["x"] = engine.route_cache("x", lambda key, raw: [queue, full], True)
    peer.channel.select_confirm()
    peer.feed(publish(1, "k", b"x", exchange="x"))
    assert peer.events() == [Confirm(1, 1, False, refused=True)]
    assert (queue.ready_count, full.ready_count) == (1, 0)


def test_a_new_limit_holds_for_what_is_there(engine, queue, peer):
    send(peer, *"abc")
    queue.set_limits(max_length=1)
    engine.run()
    assert peer.drain(queue) == [b"c"]
    queue.set_limits()
    send(peer, *"abc")
    engine.run()
    assert queue.ready_count == 3


# ------------------------------------------------------------------ dead letters


# ------------------------------------------------------------------ priorities of messages


def test_the_highest_priority_leaves_first(queue, peer):
    queue.set_priorities(3)
    for number, priority in enumerate((0, 2, 1, 9, 3, 0, 2)):
        send(peer, f"{number}", priority=priority)
    assert peer.drain(queue) == [b"3", b"4", b"1", b"6", b"2", b"0", b"5"]


def test_a_requeued_message_is_among_its_like(queue, peer):
    queue.set_priorities(5)
    for number, priority in enumerate((1, 5, 1, 5)):
        send(peer, f"{number}", priority=priority)
    for _ in range(4):
        peer.get(queue, no_ack=False)
    peer.feed(nack(1, 0, multiple=True))
    assert peer.drain(queue) == [b"1", b"3", b"0", b"2"]


def test_priorities_come_before_messages(queue, peer):
    send(peer, "a")
    with pytest.raises(ValueError, match="before the first message"):
        queue.set_priorities(3)


def test_purge_and_time_to_live_with_priorities(engine, queue, peer):
    queue.set_priorities(2)
    send(peer, *"abc", priority=1)
    assert ended(queue.purging()) == 3
    send(peer, "d", priority=1, expiration="5")
    send(peer, "e", priority=2)
    engine.clock.now_ms += 5
    engine.run()
    assert peer.drain(queue) == [b"e"]


# ------------------------------------------------------------------ many queues


# ------------------------------------------------------------------ how often it may come back


def give_back(peer: Peer, queue, how=nack) -> bool | None:
    """Fetch a message and return it; whether it was marked redelivered."""
    got = peer.get(queue, no_ack=False)
    if got is None:
        return None
    peer.feed(how(1, got.tag))
    return got.redelivered


@pytest.mark.parametrize("limit", [0, 1, 5])
@pytest.mark.parametrize("how", [nack, reject])
def test_a_message_is_redelivered_so_often(queue, peer, dead_letters, limit, how):
    """RabbitMQ's count: a limit of one is two deliveries."""
    queue.set_delivery_limit(limit, False)
    send(peer, "x")
    for number in range(limit + 1):
        assert give_back(peer, queue, how) is (number > 0)
    assert give_back(peer, queue) is None
    assert [(each[0], each[-1]) for each in dead_letters.found] == [("delivery_limit", b"x")]
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


def test_without_dead_letters_it_is_gone(queue, peer):
    queue.set_delivery_limit(0, False)
    send(peer, "x", "y")
    give_back(peer, queue)
    assert peer.drain(queue) == [b"y"]


def test_every_way_back_counts(engine, queue, peer, dead_letters):
    queue.set_delivery_limit(3, False)
    send(peer, "x")
    give_back(peer, queue)
    peer.get(queue, no_ack=False)
    ended(peer.channel.recovering())
    other = Peer(engine, {"q": queue})
    other.get(queue, no_ack=False)
    other.connection.lost()
    assert (queue.ready_count, dead_letters.found) == (1, [])
    peer.get(queue, no_ack=False)
    peer.connection.close_channel(1)
    assert (queue.ready_count, dead_letters.bodies) == (0, [b"x"])


def test_in_a_transaction_it_counts_at_commit(queue, peer, dead_letters):
    queue.set_delivery_limit(0, False)
    peer.channel.select_tx()
    send(peer, "x")
    peer.channel.commit()
    give_back(peer, queue)
    assert dead_letters.found == []
    peer.channel.rollback()
    peer.feed(nack(1, 1))
    peer.channel.commit()
    assert dead_letters.bodies == [b"x"]


def test_a_limit_may_change(queue, peer, dead_letters):
    send(peer, "x")
    for _ in range(5):
        give_back(peer, queue)
    queue.set_delivery_limit(2, False)
    assert queue.ready_count == 1
    give_back(peer, queue)
    assert dead_letters.bodies == [b"x"]
    send(peer, "y")
    queue.set_delivery_limit(None, False)
    for _ in range(5):
        give_back(peer, queue)
    assert peer.drain(queue) == [b"y"]


def test_no_message_comes_back_too_often_to_be_counted(queue, peer, dead_letters):
    """The count has 15 bits."""
    send(peer, "x")
    for _ in range(2**15 + 5):
        assert peer.channel.get(queue, False)
        ended(peer.channel.recovering())
        peer.take()
    assert (queue.ready_count, dead_letters.found) == (1, [])
    queue.set_delivery_limit(2**15 - 2, True)
    give_back(peer, queue)
    assert dead_letters.bodies == [b"x"]
