"""Deliveries and inboxes, without a broker."""

import asyncio
import copy
import pickle

import pytest
from tests.client.test_encoder import channel_of

from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import BasicDeliver
from leporid.amqp.properties import Properties, encode_properties
from leporid.client.delivery import Deliveries, Inbox, settled


class Loop:
    def create_future(self):
        return asyncio.get_running_loop().create_future()


def inbox_of(no_ack=False, remembered=10):
    return Inbox("c1", no_ack, remembered, Loop())  # type: ignore[arg-type]


def deliver(channel, tag, body=b"body", *, redelivered=False, **properties):
    raw = encode_properties(Properties(**properties))
    head = b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + raw
    data = method_frame(3, BasicDeliver("c1", tag, redelivered, "x", "key")) + frame(2, 3, head)
    data += frame(3, 3, body) if body else b""
    buffer = channel.connection.get_buffer()
    buffer[: len(data)] = data
    channel.connection.buffer_updated(len(data))


class Owner:
    def __init__(self):
        self.repeated = []

    def on_repeated(self, delivery):
        self.repeated.append(delivery.message_id)


def consuming(inbox):
    channel = channel_of()
    channel.attach(inbox)
    return channel


async def test_what_settling_returns_is_done_at_once():
    await settled()
    await settled()


async def test_an_inbox_gives_what_came_in_order():
    inbox = inbox_of()
    channel = consuming(inbox)
    for tag in range(1, 201):
        deliver(channel, tag, b"%d" % tag)
    assert len(inbox) == 200
    assert repr(inbox) == "<Inbox 'c1' with 200 deliveries>"
    bodies = [inbox.pop().body for _ in range(200)]
    assert bodies == [b"%d" % tag for tag in range(1, 201)]
    assert inbox.pop() is None


@pytest.mark.parametrize("make", [pickle.dumps, copy.copy])
async def test_a_delivery_belongs_to_its_process(make):
    inbox = inbox_of()
    deliver(consuming(inbox), 1)
    with pytest.raises(TypeError, match="cannot pickle"):
        make(inbox.pop())


async def test_one_waiter_is_woken_for_each_delivery():
    inbox = inbox_of()
    channel = consuming(inbox)
    waiters = [inbox.wait() for _ in range(3)]
    waiters[0].cancel()
    deliver(channel, 1)
    assert [each.done() for each in waiters] == [True, True, False]
    # The one that was woken goes without taking it.
    inbox.woken()
    assert waiters[2].done()
    last = inbox.wait()
    inbox.end(None)
    assert last.done()
    assert inbox.ended
    inbox.begin()
    assert not inbox.ended


async def test_properties_are_decoded_when_they_are_asked_for():
    inbox = inbox_of()
    deliver(
        consuming(inbox),
        1,
        headers={"x-stream-offset": 7, "x-delivery-count": 2, "x-tag": "late"},
        delivery_mode=2,
        message_id="m",
        timestamp=0,
    )
    delivery = inbox.pop()
    assert (delivery.offset, delivery.delivery_count, delivery.tag) == (7, 2, "late")
    assert (delivery.persistent, delivery.message_id, delivery.type) == (True, "m", None)
    assert delivery.timestamp.year == 1970
    assert delivery.properties is delivery.properties
    assert delivery.raw_properties
    assert repr(delivery) == "<Delivery 1 with key 'key', 4 bytes, unsettled>"
    await delivery.ack()
    assert repr(delivery) == "<Delivery 1 with key 'key', 4 bytes, acked>"


async def test_acks_that_may_be_lost_are_as_many_as_the_prefetch():
    inbox = inbox_of(remembered=3)
    channel = consuming(inbox)
    for tag in range(1, 6):
        deliver(channel, tag, message_id=f"id-{tag}")
        await inbox.pop().ack()
    deliver(channel, 6, message_id="never taken")
    assert inbox.lose() == 1
    assert set(inbox.repeatable) == {"id-3", "id-4", "id-5"}
    assert len(inbox) == 0
    # Of the same consumer on the next connection.
    again = channel_of()
    owner = Owner()
    again = type(again)(again.connection, 3, owner)
    again.attach(inbox)
    deliver(again, 1, message_id="id-4", redelivered=True)
    deliver(again, 2, message_id="id-5", redelivered=False)
    deliver(again, 3, message_id="id-5", redelivered=True)
    deliver(again, 4, message_id="id-4", redelivered=True)
    deliver(again, 5)
    # Each is repeated once; what was never delivered is another message.
    assert owner.repeated == ["id-4", "id-5"]
    assert [inbox.pop().delivery_tag for _ in range(3)] == [2, 4, 5]


CONTENT = {"message_id": "same", "headers": {"x-delivery-count": 1, "try": 1}, "priority": 3}


@pytest.mark.parametrize(
    ("change", "handed_out"),
    [
        ({}, False),
        ({"headers": {"x-delivery-count": 2, "x-acquired-count": 2, "try": 1}}, False),
        ({"headers": {"x-delivery-count": 1, "try": 2}}, True),
        ({"body": b"retry"}, True),
        ({"priority": 4}, True),
        ({"message_id": "another"}, True),
        ({"message_id": None}, True),
    ],
)
async def test_only_the_message_that_was_acked_is_not_handed_out(change, handed_out):
    inbox = inbox_of()
    deliver(consuming(inbox), 1, b"first", **CONTENT)
    await inbox.pop().ack()
    inbox.lose()
    owner = Owner()
    channel = channel_of()
    again = type(channel)(channel.connection, 3, owner)
    again.attach(inbox)
    content = {"body": b"first", **CONTENT, **change}
    deliver(again, 1, content.pop("body"), redelivered=True, **content)
    assert (len(inbox), owner.repeated) == ((1, []) if handed_out else (0, ["same"]))


async def test_without_acks_nothing_is_remembered():
    inbox = inbox_of(no_ack=True)
    channel = consuming(inbox)
    for tag in range(1, 200_000, 1000):
        deliver(channel, tag)
    assert channel.unsettled == 0
    assert inbox.lose() == 200
    assert inbox.repeatable == {}


async def test_the_iterator_waits_only_when_there_is_nothing():
    inbox = inbox_of()
    channel = consuming(inbox)
    waits = []

    class Consumer:
        async def next_delivery(self):
            waits.append(len(inbox))
            inbox.rest()
            deliver(channel, channel.unsettled + 1)
            return inbox.pop()

    iterator = Deliveries(inbox, Consumer())
    assert aiter(iterator) is iterator
    for tag in range(1, 101):
        deliver(channel, tag)
    seen = []
    async for delivery in iterator:
        seen.append(delivery.delivery_tag)
        if len(seen) == 101:
            break
    assert len(set(seen)) == 101
    # Once for the turn of others, and once when it was empty.
    assert waits[0] == 36


async def test_an_awaitable_that_is_dropped_loses_nothing():
    inbox = inbox_of()
    channel = consuming(inbox)
    deliver(channel, 1)

    class Consumer:
        async def next_delivery(self):
            raise AssertionError

    iterator = Deliveries(inbox, Consumer())
    _ = iterator.__anext__()
    assert (await iterator.__anext__()).delivery_tag == 1


@pytest.mark.parametrize("count", [1, 2, 70])
async def test_acks_of_neighbours_leave_as_one(count):
    inbox = inbox_of()
    channel = consuming(inbox)
    for tag in range(1, count + 1):
        deliver(channel, tag)
    channel.connection.output_bytes()
    found = [inbox.pop() for _ in range(count)]
    for delivery in reversed(found):
        await delivery.ack()
    data = channel.connection.output_bytes()
    assert len(data) == 21
    assert data[19] == (count > 1)
