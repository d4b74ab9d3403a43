"""Confirms and returns, matched with what was published."""

import asyncio
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.test_encoder import channel_of, frames_of

from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import BasicAck, BasicNack, BasicReturn
from leporid.amqp.properties import Properties, decode_properties
from leporid.amqp.properties import encode_properties as encode_all
from leporid.client import publishes
from leporid.client.codec import ChannelCodec
from leporid.client.encoder import encode_properties as encode
from leporid.client.errors import ConnectionLost, Nacked, RemoteProtocolError, Returned
from leporid.client.publishes import Batch, Unconfirmed


class Waiter:
    """What the codec needs of a future."""

    def __init__(self):
        self.result = "waits"

    def done(self):
        return self.result != "waits"

    def set_result(self, value):
        self.result = value

    def set_exception(self, error):
        self.result = error


def unconfirmed_of(channel: ChannelCodec) -> Unconfirmed:
    assert channel.unconfirmed is not None
    return channel.unconfirmed


def feed(channel, data):
    buffer = channel.connection.get_buffer()
    buffer[: len(data)] = data
    channel.connection.buffer_updated(len(data))


def publish(channel, count, **properties):
    waiters = [Waiter() for _ in range(count)]
    for number, waiter in enumerate(waiters):
        channel.publish("x", "k", encode(**properties), b"%d" % number, True, waiter)
    return waiters


def confirm(channel, tag, *, multiple=False, nack=False):
    method = BasicNack(tag, multiple, False) if nack else BasicAck(tag, multiple)
    feed(channel, method_frame(3, method))


@given(
    st.lists(st.tuples(st.integers(0, 300), st.booleans(), st.booleans()), max_size=60),
    st.integers(1, 300),
)
def test_each_publish_is_told_once_what_became_of_it(confirms, count):
    channel = channel_of()
    waiters = publish(channel, count)
    model: dict[int, Any] = dict.fromkeys(range(1, count + 1), "waits")
    for tag, multiple, nack in confirms:
        if tag > count or (tag == 0 and not multiple):
            with pytest.raises(RemoteProtocolError):
                confirm(channel, tag, multiple=multiple, nack=nack)
            continue
        confirm(channel, tag, multiple=multiple, nack=nack)
        for each, state in model.items():
            if state == "waits" and (each == tag or (multiple and (tag == 0 or each <= tag))):
                model[each] = Nacked if nack else None
    for waiter, state in zip(waiters, model.values(), strict=True):
        assert state == (Nacked if isinstance(waiter.result, Nacked) else waiter.result)
    assert len(unconfirmed_of(channel)) == list(model.values()).count("waits")


def test_a_return_fails_the_publish_that_it_belongs_to():
    channel = channel_of()
    waiters = publish(channel, 3)
    raw = encode_all(Properties(message_id="id-2"))
    head = struct.pack(">HHQ", 60, 0, 1)
    feed(
        channel,
        method_frame(3, BasicReturn(312, "NO_ROUTE", "x", "k"))
        + frame(2, 3, head + raw)
        + frame(3, 3, b"1"),
    )
    confirm(channel, 3, multiple=True)
    assert [waiter.result for waiter in waiters[::2]] == [None, None]
    error = waiters[1].result
    assert isinstance(error, Returned)
    assert (error.message.body, error.message.key, error.exchange) == (b"1", "k", "x")


def test_unconfirmed_publishes_are_written_again_with_their_ids():
    channel = channel_of()
    waiters = publish(channel, 100)
    first = frames_of(channel.connection.output_bytes())
    confirm(channel, 50, multiple=True)
    confirm(channel, 70)
    waiters[79].set_result("gave up")
    again = channel_of(number=5)
    again.unconfirmed = channel.unconfirmed
    assert unconfirmed_of(again).rewind() == 48
    assert unconfirmed_of(again).to_resend
    assert again.republish() == 48
    assert not unconfirmed_of(again).to_resend
    second = frames_of(again.connection.output_bytes())
    ids = [decode_properties(each[12:]).message_id for kind, _, each in second if kind == 2]
    assert ids == [f"id-{number}" for number in range(51, 101) if number not in (70, 80)]
    assert {number for _, number, _ in second} == {5}
    assert [each for _, _, each in second[:3]] == [each for _, _, each in first[150:153]]
    # The tags begin at 1 again, and new publishes follow.
    feed_5 = method_frame(5, BasicAck(48, True))
    buffer = again.connection.get_buffer()
    buffer[: len(feed_5)] = feed_5
    again.connection.buffer_updated(len(feed_5))
    assert all(waiter.result in (None, "gave up") for waiter in waiters)
    assert len(unconfirmed_of(again)) == 0
    assert "0 publishes" in repr(unconfirmed_of(again))


def test_failing_tells_everybody():
    channel = channel_of()
    waiters = publish(channel, 3)
    batch = Batch(5, 1 << 30)
    channel.publish_one(batch, b"x", "x", "k", encode(), True)
    lost = ConnectionLost("gone")
    unconfirmed_of(channel).fail(lost)
    assert [str(waiter.result) for waiter in waiters] == ["gone"] * 3
    # Each has one of its own, which takes its traceback.
    assert len({id(waiter.result) for waiter in waiters}) == 3
    assert batch.error is lost
    assert unconfirmed_of(channel).rewind() == 0


async def test_a_batch_wakes_at_the_number_that_was_asked_for():
    loop = asyncio.get_running_loop()
    channel = channel_of()
    batch = Batch(10, 1 << 30)
    channel.publish_run(batch, iter([b"x"] * 10), "x", "k", encode(), True, 10)
    half = batch.until(5, 5, loop.create_future())
    confirm(channel, 4, multiple=True)
    assert not half.done()
    confirm(channel, 5, nack=True)
    assert half.done()
    assert [type(each) for each in batch.failures] == [Nacked]
    assert batch.until(5, 5, loop.create_future()).done()
    assert not batch.until(5, 4, loop.create_future()).done()
    rest = batch.until(0, 0, loop.create_future())
    batch.fail(ConnectionLost("gone"))
    assert rest.done()


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 40))
def test_what_is_written_again_in_pieces_is_matched_with_its_confirms(given_up, cuts):
    """Confirms, losses of the connection and callers that give up come between the pieces."""
    channel = channel_of()
    waiters = []
    for number in range(40):
        waiter: Any = Waiter()
        channel.publish("x", "k", encode(), b"%02d" % number * 5000, True, waiter)
        waiters.append(waiter)
    unconfirmed = unconfirmed_of(channel)
    confirmed = set()
    choose = iter([*given_up, *[10] * 1000])
    while len(unconfirmed):
        channel = channel_of()
        channel.unconfirmed = unconfirmed
        unconfirmed.rewind()
        tags = []
        while unconfirmed.to_resend:
            count = channel.republish()
            assert len(channel.connection.output) < 64 * 1024 + 11_000
            frames = frames_of(channel.connection.output_bytes())
            bodies = [each for kind, _, each in frames if kind == 3]
            firsts = [bodies[at][:2] for at in range(0, len(bodies), len(bodies) // max(1, count))]
            tags += firsts if count else []
            what = next(choose)
            if what == 9 and cuts:
                cuts -= 1
                break  # the connection is lost
            if what % 2 and tags:
                confirm(channel, len(tags), multiple=True)
                confirmed |= {first for first in tags if waiters[int(first)].result is None}
            elif what < 10:
                waiters[what * 4].result = waiters[what * 4].result or "gave up"
        else:
            with pytest.raises(RemoteProtocolError):
                confirm(channel, len(tags) + 1)
            if tags:
                confirm(channel, len(tags), multiple=True)
    assert {each.result for each in waiters} <= {None, "gave up"}
    assert unconfirmed.single_bytes == 0


def test_an_abandoned_batch_is_not_written_again():
    channel = channel_of()
    batch = Batch(10, 1 << 30)
    channel.publish_run(batch, iter([b"x"] * 10), "x", "k", encode(), True, 10)
    batch.abandoned = True
    assert unconfirmed_of(channel).rewind() == 0


def test_what_is_dropped_frees_its_references():
    unconfirmed = Unconfirmed(b"id", 1000, 1 << 30, print)
    channel = channel_of()
    channel.unconfirmed = unconfirmed
    publish(channel, 200)
    assert len(unconfirmed) == 200
    del channel, unconfirmed


def come_back(channel, key, message_id):
    raw = encode_all(Properties(message_id=message_id))
    feed(
        channel,
        method_frame(3, BasicReturn(312, "NO_ROUTE", "x", key))
        + frame(2, 3, struct.pack(">HHQ", 60, 0, 1) + raw)
        + frame(3, 3, b"1"),
    )


@pytest.mark.parametrize("own", [False, True], ids=["made", "given"])
def test_returns_cost_the_same_however_much_is_unconfirmed(own, monkeypatch):
    channel = channel_of()
    ids = [f"own-{n}" if own else f"id-{n}" for n in range(1, 3001)]
    waiters = []
    for each in ids:
        waiters += publish(channel, 1, **({"message_id": each} if own else {}))
    decoded = []

    def counted(raw):
        decoded.append(raw)
        return decode_properties(raw)

    monkeypatch.setattr(publishes, "decode_properties", counted)
    for each in ids[::2]:
        come_back(channel, "k", each)
    confirm(channel, 0, multiple=True)
    assert [isinstance(each.result, Returned) for each in waiters] == [True, False] * 1500
    # That of the return, and that of its publish.
    assert len(decoded) <= 2 * 1500


def test_an_id_of_the_program_that_looks_like_one_of_the_clients_is_found():
    channel = channel_of()
    waiters = publish(channel, 1) + publish(channel, 1, message_id="id-1")
    come_back(channel, "k", "id-1")
    come_back(channel, "k", "id-1")
    confirm(channel, 2, multiple=True)
    assert [type(each.result) for each in waiters] == [Returned, Returned]


def test_returns_out_of_order_are_found():
    channel = channel_of()
    waiters = [publish(channel, 1, message_id=each)[0] for each in "abc"]
    come_back(channel, "k", "c")
    come_back(channel, "k", "a")
    confirm(channel, 3, multiple=True)
    assert [type(each.result) for each in waiters] == [Returned, type(None), Returned]


def test_a_publish_that_cannot_be_written_is_not_counted():
    channel = channel_of()
    failed: Any = Waiter()
    written: Any = Waiter()
    with pytest.raises(UnicodeEncodeError):
        channel.publish("\ud800", "k", encode(), b"", True, failed)
    channel.publish("x", "k", encode(), b"", True, written)
    # The broker counts what it gets.
    confirm(channel, 1)
    assert (failed.result, written.result) == ("waits", None)


def test_room_is_told_when_there_was_none():
    told = []
    channel = channel_of()
    channel.unconfirmed = Unconfirmed(
        b"id", 3, 1 << 30, lambda: told.append(unconfirmed.single_room)
    )
    unconfirmed = unconfirmed_of(channel)
    publish(channel, 3)
    channel.publish_one(Batch(10, 1 << 30), b"x", "x", "k", encode(), True)
    assert (unconfirmed.single_room, unconfirmed.singles) == (0, 3)
    confirm(channel, 4)
    assert told == []
    confirm(channel, 1)
    confirm(channel, 2)
    assert told == [1]
    unconfirmed.fail(ConnectionLost("gone"))
    assert unconfirmed.single_room == 3
