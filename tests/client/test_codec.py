"""Frames in, and which acks leave: against a model of the broker's side."""

import contextlib
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.test_delivery import Loop
from tests.client.test_encoder import channel_of, frames_of

from leporid.amqp.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from leporid.amqp.errors import Fault
from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    ChannelCloseOk,
    QueueDeclareOk,
    decode,
)
from leporid.client.codec import ConnectionCodec
from leporid.client.delivery import Inbox
from leporid.client.encoder import encode_properties
from leporid.client.errors import LocalProtocolError, RemoteProtocolError


class Owner:
    def __init__(self):
        self.methods = []
        self.unwanted = []

    def on_method(self, payload):
        self.methods.append(decode(payload))

    def on_unwanted(self, tag, consumer_tag):
        self.unwanted.append((tag, consumer_tag))

    def on_late_settle(self):
        pass


def inbox_of(tag="c1", no_ack=False):
    return Inbox(tag, no_ack, 0, Loop())  # type: ignore[arg-type]


def owned(owner=None):
    channel = channel_of()
    return type(channel)(channel.connection, 3, owner or Owner())


def feed(channel, data):
    buffer = channel.connection.get_buffer()
    buffer[: len(data)] = data
    channel.connection.buffer_updated(len(data))


def delivered(tag, consumer="c1", body=b""):
    head = b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + b"\0\0"
    data = method_frame(3, BasicDeliver(consumer, tag, False, "", "k")) + frame(2, 3, head)
    while body:
        data += frame(3, 3, body[:4088])
        body = body[4088:]
    return data


class Broker:
    """What a broker holds unsettled, by what the client sends."""

    def __init__(self):
        self.unsettled: dict[int, None] = {}
        self.settled: dict[str, set[int]] = {"acked": set(), "requeued": set(), "dropped": set()}

    def heed(self, data):
        for _, _, payload in frames_of(data):
            method: Any = decode(payload)
            tag = method.delivery_tag
            assert tag in self.unsettled, f"{method} settles what is not unsettled"
            multiple = getattr(method, "multiple", False)
            tags = [each for each in self.unsettled if each == tag or (multiple and each <= tag)]
            if isinstance(method, BasicAck):
                into = "acked"
            else:
                into = "requeued" if method.requeue else "dropped"
            for each in tags:
                del self.unsettled[each]
                self.settled[into].add(each)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 40)),
        st.tuples(st.just("deliver without ack"), st.integers(1, 40)),
        st.tuples(
            st.sampled_from(["ack", "nack", "drop", "reject", "ack multiple", "nack multiple"]),
            st.integers(0, 10_000),
        ),
        st.tuples(st.just("turn"), st.just(0)),
    ),
    max_size=80,
)


class Program:
    """A program that settles what it was delivered, and what it believes to have settled."""

    def __init__(self, channel, inbox):
        self.channel = channel
        self.inbox = inbox
        self.held: dict[int, Any] = {}
        self.settled: dict[str, set[int]] = {"acked": set(), "requeued": set(), "dropped": set()}

    def deliver(self, tag):
        feed(self.channel, delivered(tag))
        self.held[tag] = self.inbox.pop()

    def settle(self, how, number):
        tag = sorted(self.held)[number % len(self.held)]
        delivery = self.held[tag]
        settle, into = HOW[how]
        settle(delivery)
        for each in [
            each for each in self.held if each == tag or ("multiple" in how and each < tag)
        ]:
            self.settled[into].add(each)
            del self.held[each]
        with pytest.raises(LocalProtocolError):
            delivery.ack()


HOW: dict[str, tuple[Callable[[Any], object], str]] = {
    "ack": (lambda each: each.ack(), "acked"),
    "nack": (lambda each: each.nack(), "requeued"),
    "drop": (lambda each: each.nack(requeue=False), "dropped"),
    "reject": (lambda each: each.reject(), "dropped"),
    "ack multiple": (lambda each: each.ack(multiple=True), "acked"),
    "nack multiple": (lambda each: each.nack(multiple=True), "requeued"),
}


@given(steps)
@settings(max_examples=200)
def test_the_broker_settles_exactly_what_was_settled(script):
    channel = owned()
    inbox, plain = inbox_of(), inbox_of("c2", no_ack=True)
    channel.attach(inbox)
    channel.attach(plain)
    broker, program = Broker(), Program(channel, inbox)
    tag = 0
    for what, number in script:
        if what == "deliver":
            for tag in range(tag + 1, tag + 1 + number):  # noqa: B020  (it goes on where it was)
                broker.unsettled[tag] = None
                program.deliver(tag)
        elif what == "deliver without ack":
            for tag in range(tag + 1, tag + 1 + number):  # noqa: B020
                feed(channel, delivered(tag, "c2"))
        elif what == "turn":
            broker.heed(channel.connection.output_bytes())
        elif program.held:
            program.settle(what, number)
    broker.heed(channel.connection.output_bytes())
    assert set(broker.unsettled) == set(program.held)
    assert broker.settled == program.settled
    assert channel.unsettled == len(program.held)


@given(st.data())
def test_frames_come_in_any_pieces(data):
    bodies = data.draw(st.lists(st.binary(max_size=9000), min_size=1, max_size=4))
    stream = b"".join(delivered(n + 1, body=body) for n, body in enumerate(bodies))
    stream += method_frame(3, QueueDeclareOk("q", 1, 2)) + frame(8, 0, b"")
    channel = owned(owner := Owner())
    inbox = inbox_of()
    channel.attach(inbox)
    while stream:
        size = data.draw(st.integers(1, 7000))
        feed(channel, stream[:size])
        stream = stream[size:]
    assert [inbox.pop().body for _ in range(len(bodies))] == bodies
    assert owner.methods == [QueueDeclareOk("q", 1, 2)]


@given(st.binary(max_size=200))
def test_any_bytes_are_taken_or_refused(data):
    channel = owned()
    channel.attach(inbox_of())
    with contextlib.suppress(RemoteProtocolError, Fault):
        feed(channel, data)


@given(st.integers(0, 400), st.integers(0, 255))
def test_damaged_frames_are_taken_or_refused(at, octet):
    data = bytearray(delivered(1, body=b"body") + delivered(2, body=bytes(200)))
    data[at % len(data)] = octet
    channel = owned()
    channel.attach(inbox_of())
    with contextlib.suppress(RemoteProtocolError, Fault):
        feed(channel, bytes(data))


def test_what_comes_for_a_cancelled_consumer_is_told():
    channel = owned(owner := Owner())
    inbox = inbox_of()
    channel.attach(inbox)
    feed(channel, delivered(1) + delivered(2))
    inbox.pop()
    channel.detach(inbox, True)
    feed(channel, delivered(3))
    assert owner.unwanted == [(3, "c1")]
    channel.requeue(3)
    settled = [decode(payload) for _, _, payload in frames_of(channel.connection.output_bytes())]
    assert settled == [BasicNack(2, False, True), BasicNack(3, False, True)]


def test_deliveries_without_ack_may_have_any_tag_of_the_past():
    """Direct replies of LavinMQ all have the tag 1, whatever else was delivered meanwhile."""
    channel = owned()
    replies, requests = inbox_of("c1", no_ack=True), inbox_of("c2")
    channel.attach(replies)
    channel.attach(requests)
    for tag, consumer in ((1, "c1"), (1, "c1"), (1, "c2"), (1, "c1"), (2, "c2"), (1, "c1")):
        feed(channel, delivered(tag, consumer))
    assert (len(replies), len(requests), channel.unsettled) == (4, 2, 2)
    requests.pop().ack()
    requests.pop().ack()
    (ack,) = frames_of(channel.connection.output_bytes())
    assert decode(ack[2]) == BasicAck(2, True)
    with pytest.raises(RemoteProtocolError, match="delivery tag 2 where 3 was due"):
        feed(channel, delivered(2, "c2"))


def test_after_the_end_settling_says_nothing():
    channel = owned()
    inbox = inbox_of()
    channel.attach(inbox)
    feed(channel, delivered(1) + delivered(2))
    first, second = inbox.pop(), inbox.pop()
    first.ack()
    channel.end(RemoteProtocolError("gone"))
    channel.end(LocalProtocolError("a second end changes nothing"))
    second.ack()
    assert channel.connection.output_bytes() == b""
    assert (channel.unsettled, second.is_current) == (0, False)
    assert repr(channel) == "<ChannelCodec 3 with 0 unsettled deliveries>"
    channel.free()


def test_a_large_body_grows_with_what_arrives():
    channel = owned()
    inbox = inbox_of()
    channel.attach(inbox)
    # The limit of the connection is 1 MiB; this is a little less, and arrives in parts.
    body = bytes(1 << 20)
    data = delivered(1, body=body)
    for start in range(0, len(data), 100_000):
        feed(channel, data[start : start + 100_000])
    assert inbox.pop().body == body
    with pytest.raises(RemoteProtocolError, match="limit of 1048576"):
        feed(channel, delivered(2, body=bytes((1 << 20) + 1))[:100])


@pytest.mark.parametrize("before", [1, 2])
def test_content_that_crosses_the_end_of_its_channel_is_dropped(before):
    owner = Owner()
    channel = owned(owner)
    channel.attach(inbox_of())
    frames = [
        frame(FRAME_METHOD, 3, BasicDeliver("c1", 1, False, "", "q").encode()),
        frame(FRAME_HEADER, 3, struct.pack(">HHQH", 60, 0, 20, 0)),
        frame(FRAME_BODY, 3, bytes(10)),
    ]
    feed(channel, b"".join(frames[:before]))
    channel.end(LocalProtocolError("closed"))
    feed(channel, b"".join(frames[before:]))
    feed(channel, b"".join(frames))
    assert owner.methods == []
    feed(channel, frame(FRAME_METHOD, 3, ChannelCloseOk().encode()))
    assert owner.methods == [ChannelCloseOk()]


def test_output_is_handed_on_before_a_turn_has_written_much():
    handed = []
    channel = channel_of(131072)
    codec = ConnectionCodec(Owner(), channel.connection.loop, lambda: handed.append(
        codec.output_bytes()), 131072, 1 << 20)  # fmt: skip
    many = type(channel)(codec, 1, Owner())
    for _ in range(100):
        many.publish("", "q", encode_properties(), bytes(10_000), True, None)
    assert len(handed) > 10
    assert max(map(len, handed)) < 2 * 65536
