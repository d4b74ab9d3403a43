"""A channel: delivery tags, prefetch, settling, returned messages, closing."""

from __future__ import annotations

import struct

import pytest
from tests.engine import frames
from tests.engine.frames import (
    PERSISTENT,
    Confirm,
    Delivery,
    Returned,
    ack,
    array,
    longstr,
    nack,
    properties,
    publish,
    table,
)
from tests.engine.session_fake import Peer
from tests.engine.slices import ended

from leporid.amqp.errors import AccessRefused

OUTPUT_HIGH_BYTES = 192 * 1024


def fill(peer: Peer, count: int, size: int = 0) -> None:
    for number in range(count):
        peer.feed(publish(2, "q", b"%d" % number + bytes(size)))


# ------------------------------------------------------------------ deliveries


def test_a_delivery_says_where_it_came_from(engine, queue, peer):
    peer.session.caches["some exchange"] = engine.route_cache("x", lambda key, raw: [queue], True)
    raw = properties(message_id="m", delivery_mode=2)
    peer.channel.consume(queue, "tag ü", False, 0, 0)
    peer.feed(publish(2, "some.key", b"body", raw=raw, exchange="some exchange"))
    assert peer.events() == [
        Delivery(1, "some exchange", "some.key", raw, b"body", 1, "tag ü", 1, False)
    ]


def test_tags_are_counted_by_channel_whoever_takes(queue, peer):
    fill(peer, 6)
    first = peer.get(queue, no_ack=True)
    assert first is not None
    assert (first.tag, first.left) == (1, 5)
    peer.channel.consume(queue, "c", True, 0, 0)
    peer.channels[2].consume(queue, "d", False, 0, 2)
    tags = [(event.channel, event.tag) for event in peer.deliveries()]
    assert sorted(tags) == [(1, 2), (1, 3), (1, 4), (2, 1), (2, 2)]
    assert (queue.ready_count, queue.unacked_count) == (0, 2)


def test_an_empty_queue_gives_nothing(queue, peer):
    assert not peer.channel.get(queue, False)
    assert peer.take() == b""
    assert peer.channel.unacked_count == 0


def test_a_channel_has_no_more_than_its_global_prefetch(engine, queue, peer):
    fill(peer, 10)
    peer.channel.prefetch_global = 3
    one = peer.channel.consume(queue, "one", False, 0, 0)
    two = peer.channel.consume(queue, "two", False, 0, 1)
    assert len(peer.deliveries()) == 3
    assert (one.unacked_count, two.unacked_count) == (2, 1)
    peer.channel.prefetch_global = 5
    assert [event.consumer for event in peer.deliveries()] == ["one", "one"]
    peer.channel.prefetch_global = 1
    peer.feed(ack(1, 4, multiple=True))
    assert peer.deliveries() == []
    peer.feed(ack(1, 5))
    assert len(peer.deliveries()) == 1
    peer.channel.prefetch_global = 0
    assert len(peer.deliveries()) == 4


def test_credit_that_one_queue_gives_back_serves_another(engine, queue, peer):
    """Both consumers wait for the channel's credit, and the settling one has nothing to take."""
    other = engine.queue(0, "other", False)
    peer.queues["other"] = other
    peer.channel.prefetch_global = 1
    peer.channel.consume(queue, "c", False, 0, 0)
    peer.channel.consume(other, "d", False, 0, 0)
    peer.feed(publish(1, "q", b"a"))
    assert peer.bodies() == [b"a"]
    peer.feed(publish(1, "other", b"b"))
    assert peer.bodies() == []
    peer.feed(ack(1, 1))
    assert peer.bodies() == [b"b"]


def test_what_was_got_does_not_count_for_credit(queue, peer):
    fill(peer, 5)
    peer.channel.prefetch_global = 1
    for _ in range(3):
        peer.get(queue, no_ack=False)
    peer.channel.consume(queue, "c", False, 0, 1)
    assert len(peer.deliveries()) == 1


def test_a_slow_reader_does_not_keep_others_waiting(engine, queue, peer):
    slow, quick = Peer(engine), Peer(engine)
    for reader in (slow, quick):
        reader.channel.consume(queue, "c", True, 0, 0)
    fill(peer, 1000, 1000)
    got = 0
    for _ in range(100):
        got += len(quick.deliveries())
    assert queue.ready_count == 0
    assert got > 600
    slow.connection.lost()
    assert queue.consumer_count == 1


# ------------------------------------------------------------------ publishing


def test_mandatory_messages_without_a_queue_come_back_before_their_confirm(engine, peer):
    peer.channel.select_confirm()
    raw = properties(headers=table(a=b"V"), delivery_mode=2)
    peer.feed(publish(1, "gone", b"body" * 5000, raw=raw, mandatory=True))
    peer.feed(publish(1, "gone", b"forgotten"))
    assert peer.events() == [
        Returned(1, "", "gone", raw, b"body" * 5000, 1, 312, "NO_ROUTE"),
        Confirm(1, 2, True),
    ]
    assert (engine.queues.unroutable, engine.queues.returned, engine.queues.published) == (2, 1, 0)


def test_the_users_name_may_be_said_if_it_is_right(queue, peer):
    peer.connection.user_id = b"me"
    peer.feed(publish(1, "q", b"x", raw=properties(user_id="me")))
    peer.connection.user_id = b""
    peer.feed(publish(1, "q", b"x", raw=properties(user_id="anybody")))
    assert peer.faults == []
    assert queue.ready_count == 2


@pytest.mark.parametrize("claimed", ["", "m", "mee", "Me", b"\xff"])
def test_another_name_is_refused(peer, claimed):
    peer.connection.user_id = b"me"
    peer.feed(publish(1, "q", b"x", raw=properties(user_id=claimed)))
    assert peer.faults == [(1, 406)]


def test_a_request_for_direct_reply_gets_an_address(queue, peer):
    peer.session.reply_name = "amq.rabbitmq.reply-to.secret"
    ask = properties(reply_to="amq.rabbitmq.reply-to", message_id="m", headers=table(a=b"V"))
    peer.feed(publish(1, "q", b"ask", raw=ask))
    peer.feed(publish(1, "q", b"ask", raw=properties(reply_to="amq.rabbitmq.reply-to.own")))
    first, second = peer.get(queue), peer.get(queue)
    assert first is not None
    assert second is not None
    assert first.raw == ask.replace(
        b"\x15amq.rabbitmq.reply-to", b"\x1camq.rabbitmq.reply-to.secret"
    )
    assert second.raw == properties(reply_to="amq.rabbitmq.reply-to.own")


def test_copies_go_where_the_headers_say_and_bcc_is_taken_out(engine, queue, peer):
    for name in "abc":
        peer.queues[name] = engine.queue(0, name, False)
    headers = table(CC=array(longstr("a"), b"t\x01"), BCC=array(longstr("b")), x=b"V")
    peer.feed(publish(1, "q", b"body", raw=properties(headers=headers)))
    ((exchange, keys, raw),) = peer.session.copied
    assert (exchange, keys) == ("", ["q", "a", "b"])
    assert raw == properties(headers=table(CC=array(longstr("a"), b"t\x01"), x=b"V"))
    counts = {name: each.ready_count for name, each in peer.queues.items()}
    assert counts == {"q": 1, "a": 1, "b": 1, "c": 0}
    assert engine.queues.published == 1
    peer.feed(publish(1, "q", b"body", raw=properties(headers=table(CC=array()))))
    assert len(peer.session.copied) == 1


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_copies_to_what_is_no_list_are_refused(queue, peer, name):
    peer.feed(publish(1, "q", raw=properties(headers=table(**{name: longstr("a")}))))
    ((_, fault),) = peer.session.faults
    assert fault.text == (
        f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{name}",longstr}}'
    )
    assert queue.ready_count == 0


def test_an_exchange_is_asked_for_once_until_something_changes(engine, queue, peer):
    routes = []

    def resolve(key: str, raw: bytes | None) -> list:
        routes.append(key)
        return [queue]

    peer.session.caches["x"] = cache = engine.route_cache("x", resolve, True)
    message = publish(1, "k", b"", exchange="x")
    peer.feed(message * 3)
    assert (peer.session.asked, routes) == (["x"], ["k"])
    cache.forget()
    peer.feed(message * 3)
    assert (peer.session.asked, routes) == (["x"], ["k", "k"])
    cache.retire()
    peer.session.caches["x"] = engine.route_cache("x", lambda key, raw: [], True)
    peer.feed(message * 2)
    assert peer.session.asked == ["x", "x"]
    assert queue.ready_count == 6


def test_a_fault_while_a_route_is_looked_for_closes_the_channel(engine, peer):
    def refuse(key: str, raw: bytes | None) -> list:
        raise AccessRefused("not to you")

    peer.session.caches["x"] = engine.route_cache("x", refuse, True)
    peer.feed(publish(1, "k", b"", exchange="x"))
    ((channel, fault),) = peer.session.faults
    assert (channel, fault.code, fault.class_id, fault.method_id) == (1, 403, 60, 40)


# ------------------------------------------------------------------ in the same turn


def test_what_must_be_taken_at_once_cannot_be_got(queue, peer):
    peer.feed(publish(1, "q", b"now or never", raw=properties(expiration="0")))
    assert peer.get(queue) is None


def test_what_is_over_the_limit_cannot_be_got(queue, peer):
    queue.set_limits(max_length=1)
    fill(peer, 3)
    got = peer.get(queue)
    assert got is not None
    assert (got.body, got.left) == (b"2", 0)


def test_get_does_not_overtake_consumers(queue, peer):
    peer.channels[2].consume(queue, "c", True, 0, 0)
    fill(peer, 1)
    assert not peer.channel.get(queue, True)
    assert len(peer.deliveries()) == 1


# ------------------------------------------------------------------ closing


def test_closing_requeues_in_order_and_ends_consumers(engine, queue, peer):
    fill(peer, 5)
    peer.get(queue, no_ack=False)
    peer.channel.consume(queue, "c", False, 0, 0)
    assert len(peer.deliveries()) == 4
    peer.feed(ack(1, 2))
    peer.connection.close_channel(1)
    peer.connection.close_channel(1)
    assert (queue.ready_count, queue.unacked_count, queue.consumer_count) == (4, 0, 0)
    assert peer.channel.closed
    other = Peer(engine)
    assert other.drain(queue) == [b"0", b"2", b"3", b"4"]


def test_a_number_may_be_used_again(engine, queue, peer):
    fill(peer, 3)
    peer.get(queue, no_ack=False)
    peer.connection.close_channel(1)
    peer.channels[1] = peer.connection.open_channel(1)
    got = peer.get(queue, no_ack=False)
    assert got is not None
    assert (got.tag, got.body, got.redelivered) == (1, b"0", True)


def test_publishing_by_name_that_is_not_utf_8_is_a_fault_and_no_defect(engine, queue, peer):
    peer.feed(publish(1, b"\xff\xfe", b"x"))
    peer.feed(publish(2, "q", b"x", exchange=b"\xff"))
    assert [channel for channel, _ in peer.faults] == [1, 2]
    assert peer.session.defects == []


def test_durable_messages_are_counted_like_others(engine, peer):
    peer.queues["d"] = engine.queue(1, "d", True)
    peer.feed(publish(1, "d", b"1234", raw=PERSISTENT) + publish(1, "d", b"56"))
    assert (peer.queues["d"].ready_count, peer.queues["d"].ready_bytes) == (2, 6)
    assert engine.queues.published == 2
    assert struct.unpack(">H", PERSISTENT[:2]) == (0x1000,)
    assert frames.properties(delivery_mode=2) == PERSISTENT


class TestPrivateQueues:
    """Queues of the broker's own: they get messages, and no publisher is told that they exist."""

    @pytest.fixture
    def private(self, engine):
        queue = engine.queue(0, "private", False)
        queue.private = True
        return queue

    def test_a_message_to_nothing_else_is_unroutable_and_there(self, engine, private):
        peer = Peer(engine, {"k": private})
        peer.feed(publish(1, "k", b"x") + publish(1, "k", b"y", mandatory=True))
        assert (engine.queues.unroutable, engine.queues.returned, engine.queues.published) == (
            2,
            1,
            0,
        )
        assert private.ready_count == 2

    def test_with_another_queue_it_is_routed(self, engine, queue, private):
        peer = Peer(engine, {})
        peer.session.caches["x"] = engine.route_cache("x", lambda key, raw: [private, queue], True)
        peer.feed(publish(1, "k", b"x", exchange="x", mandatory=True))
        assert (engine.queues.unroutable, engine.queues.returned, engine.queues.published) == (
            0,
            0,
            1,
        )
        assert (private.ready_count, queue.ready_count) == (1, 1)

    def test_it_is_confirmed_as_unroutable_messages_are(self, engine, private):
        peer = Peer(engine, {"k": private})
        peer.channel.select_confirm()
        peer.feed(publish(1, "k", b"x", raw=PERSISTENT))
        engine.run()
        assert peer.events() == [Confirm(1, 1, False)]

    def test_a_queue_that_refuses_does_not_keep_a_message_from_it(self, engine, queue, private):
        queue.set_limits(max_length=0, max_bytes=None, overflow="reject-publish")
        peer = Peer(engine, {})
        peer.session.caches["x"] = engine.route_cache("x", lambda key, raw: [queue, private], True)
        peer.feed(publish(1, "k", b"x", exchange="x"))
        assert (private.ready_count, queue.ready_count) == (1, 0)

    def test_in_a_transaction_it_gets_it_at_commit(self, engine, private):
        peer = Peer(engine, {"k": private})
        peer.channel.select_tx()
        peer.feed(publish(1, "k", b"x", mandatory=True))
        assert (private.ready_count, engine.queues.returned) == (0, 0)
        peer.channel.commit()
        assert (private.ready_count, engine.queues.returned) == (1, 1)


# ------------------------------------------------------------------ settling


def test_one_ack_settles_what_came_from_many_queues(engine, peer):
    queues = [engine.queue(0, name, False) for name in "abc"]
    peer.queues.update({queue.name: queue for queue in queues})
    for name in "aabbcc":
        peer.feed(publish(2, name))
    consumers = [peer.channel.consume(queue, queue.name, False, 0, 0) for queue in queues]
    assert len(peer.deliveries()) == 6
    assert [consumer.unacked_count for consumer in consumers] == [2, 2, 2]
    peer.feed(ack(1, 4, multiple=True))
    assert peer.channel.unacked_count == 2
    assert [queue.unacked_count for queue in queues] == [0, 0, 2]
    peer.feed(nack(1, 0, multiple=True, requeue=False))
    assert peer.channel.unacked_count == 0
    assert engine.queues.acked == 4  # and two were rejected


def test_acking_everything_when_there_is_nothing_is_no_fault(peer):
    peer.feed(ack(1, 0, multiple=True))
    assert peer.faults == []


@pytest.mark.parametrize("tag", [0, 1, 2, 2**64 - 1])
@pytest.mark.parametrize("multiple", [False, True])
def test_a_tag_that_was_settled_or_never_given_is_unknown(queue, peer, tag, multiple):
    fill(peer, 1)
    peer.get(queue, no_ack=False)
    peer.feed(ack(1, 1))
    peer.feed(ack(1, tag, multiple))
    assert peer.faults == ([] if multiple and tag == 0 else [(1, 406)])


def test_settling_what_a_deleted_queue_had_does_nothing(queue, peer):
    fill(peer, 2)
    for _ in range(2):
        peer.get(queue, no_ack=False)
    queue.retire()
    peer.feed(ack(1, 1) + nack(1, 2))
    assert peer.faults == []
    assert peer.channel.unacked_count == 0
    assert queue.ready_count == 0


def test_recover_goes_from_consumer_to_consumer(queue, peer):
    """What one had is taken again before the next one's goes back: both have room in the queue."""
    queue.set_limits(max_length=1)
    for tag in ("a", "b"):
        peer.channel.consume(queue, tag, False, 0, 0)
    for body in (b"1", b"2"):
        peer.feed(publish(1, "q", body))
        assert peer.bodies() == [body]
    ended(peer.channel.recovering())
    assert sorted(peer.bodies()) == [b"1", b"2"]
    assert queue.unacked_count == 2


def test_what_one_consumer_had_is_recovered_as_a_whole(queue, peer):
    queue.set_limits(max_length=1)
    peer.channel.consume(queue, "a", False, 0, 0)
    for body in (b"1", b"2"):
        peer.feed(publish(1, "q", body))
        assert peer.bodies() == [body]
    ended(peer.channel.recovering())
    assert peer.bodies() == [b"2"]
    assert queue.unacked_count == 1


def test_recover_gives_everything_back_to_whoever_is_next(queue, peer):
    fill(peer, 3)
    peer.channel.consume(queue, "c", False, 0, 0)
    assert [each.tag for each in peer.deliveries()] == [1, 2, 3]
    ended(peer.channel.recovering())
    again = peer.deliveries()
    assert [(each.tag, each.body, each.redelivered) for each in again] == [
        (4, b"0", True),
        (5, b"1", True),
        (6, b"2", True),
    ]
    peer.feed(ack(1, 2))
    assert peer.faults == [(1, 406)]


@pytest.mark.parametrize("failing", [b"0", b"1", b"2"])
def test_a_defect_of_one_requeue_leaves_no_message_unacked(queue, peer, failing):
    def refuse(reason: str, exchange: str, key: str, raw: bytes, body: bytes) -> None:
        if body == failing:
            raise RuntimeError("a dead letter failed")
        letters.append(body)

    letters: list[bytes] = []
    queue.set_delivery_limit(0, True)
    queue.dead_letters = refuse
    fill(peer, 3)
    real = [peer.channel.consume(queue, tag, False, 0, 1) for tag in "ab"]
    assert len(peer.deliveries()) == 2
    for each in real:
        peer.channel.cancel(each)
    assert peer.get(queue, no_ack=False) is not None
    with pytest.raises(RuntimeError):
        ended(peer.channel.recovering())
    assert [queue.unacked_count, queue.ready_count] == [0, 1]
    assert sorted([*letters, failing]) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(("got", "how"), [(0, "recover"), (0, "nack"), (1, "recover")])
def test_what_comes_back_together_comes_consumer_by_consumer(queue, peer, got, how):
    """In the order of their tags, and each is offered before the next one's: RabbitMQ 3.10.8."""
    fill(peer, 5 + got)
    for _ in range(got):
        peer.get(queue, no_ack=False)
    peer.deliveries()
    for tag in ("b", "c", "a"):
        peer.channel.consume(queue, tag, False, 0, 2)
    taken = [(each.consumer, int(each.body) - got) for each in peer.deliveries()]
    assert taken == [("b", 0), ("c", 1), ("a", 2), ("b", 3), ("c", 4)]
    if how == "recover":
        ended(peer.channel.recovering())
    else:
        peer.feed(nack(1, 0, multiple=True, requeue=True))
    again = [(each.consumer, int(each.body) - got) for each in peer.deliveries()]
    if got:
        # What was got comes back first; consumer a had room for one.
        assert again == [("a", -1), ("a", 2), ("b", 0), ("b", 3), ("c", 1), ("c", 4)]
    else:
        assert again == [("a", 2), ("b", 0), ("a", 3), ("b", 1), ("c", 4)]
