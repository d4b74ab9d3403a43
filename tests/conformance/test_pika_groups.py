"""Groups of readers, as pika sees them: each message once, in order, whoever comes or dies."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx
import pika
import pytest
from pika.exceptions import AMQPError
from tests.conformance.marks import differs
from tests.conformance.pika_steps import Inbox, channel_closed, pump

from leporid.testing import BrokerProcess

# RabbitMQ shares out partitions in its stream protocol only.
pytestmark = differs

PARTITIONS = 6
STREAM = {"x-queue-type": "stream"}
# What everybody is to have their share within, after somebody came, went or died.
REBALANCE_SECONDS = 1.0


@dataclass(frozen=True)
class Handled:
    """One message at one member: from when to when, by one clock."""

    member: str
    partition: int
    number: int
    began: float
    ended: float


class Member(threading.Thread):
    """A client that handles one message after another, and settles each when it is handled."""

    def __init__(
        self, url: str, queue: str, label: str, handling_seconds: float = 0.002, **arguments: Any
    ) -> None:
        super().__init__(daemon=True)
        self.label = label
        self.handled: list[Handled] = []
        self._arguments = {"x-group": "g", "x-stream-offset": "first", **arguments}
        self._queue = queue
        self._handling_seconds = handling_seconds
        self._leave = threading.Event()
        self._dead = threading.Event()
        self.joined = threading.Event()
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.start()
        assert self.joined.wait(15)

    def run(self) -> None:
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=20)
        channel.basic_consume(self._queue, self._handle, arguments=self._arguments)
        self.joined.set()
        with suppress(AMQPError, OSError):
            while not self._leave.is_set():
                self.connection.process_data_events(time_limit=0.02)
            if not self._dead.is_set():
                self.connection.close()

    def _handle(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        if self._leave.is_set():
            return
        began = time.monotonic()
        # Work that takes its time; nothing is waited for.
        time.sleep(self._handling_seconds)
        if self._dead.is_set():
            return  # it died over it
        partition, number = map(int, body.split(b":"))
        self.handled.append(Handled(self.label, partition, number, began, time.monotonic()))
        channel.basic_ack(method.delivery_tag)

    def leave(self) -> None:
        """Close the connection in order."""
        self._leave.set()
        self.join(15)
        assert not self.is_alive()

    def kill(self) -> None:
        """Cut the connection off, as the end of a process does."""
        self._dead.set()
        self._leave.set()
        raw = self.connection._impl._transport._sock
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.shutdown(socket.SHUT_RDWR)
        self.join(15)
        with suppress(AMQPError, OSError):
            self.connection.close()

    def partitions_since(self, moment: float) -> set[int]:
        return {each.partition for each in tuple(self.handled) if each.began >= moment}


class Publisher(threading.Thread):
    """Publishes to all partitions in turn, numbering the messages of each."""

    def __init__(self, url: str, stream: str) -> None:
        super().__init__(daemon=True)
        self.sent = [0] * PARTITIONS
        self._stream = stream
        self._stop_now = threading.Event()
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self.start()

    def run(self) -> None:
        channel = self._connection.channel()
        channel.confirm_delivery()
        durable = pika.BasicProperties(delivery_mode=2)
        while not self._stop_now.is_set():
            for partition in range(PARTITIONS):
                body = b"%d:%d" % (partition, self.sent[partition])
                channel.basic_publish(self._stream, f"k{partition}", body, durable)
                self.sent[partition] += 1
        self._connection.close()

    def stop(self) -> None:
        self._stop_now.set()
        self.join(15)
        assert not self.is_alive()


@pytest.fixture
def parts(api_url: str, name: Callable[..., str]) -> Iterator[str]:
    """A partitioned stream; its partitions have the keys k0, k1, …"""
    stream = name("parts")
    keys = [f"k{number}" for number in range(PARTITIONS)]
    url = f"{api_url}/streams/%2F/{stream}"
    auth = ("guest", "guest")
    httpx.put(url, json={"routing": "key", "keys": keys}, auth=auth).raise_for_status()
    yield stream
    httpx.delete(url, auth=auth).raise_for_status()


def wait_for(what: Callable[[], bool], seconds: float = 15.0) -> float:
    """Wait until something is true; returns for how long."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, "what the test waits for did not happen"
        time.sleep(0.005)
    return time.monotonic() - began


def rebalanced(*members: Member) -> float:
    """Wait until each has its share of the partitions; returns for how long."""
    began = time.monotonic()

    def all_have() -> bool:
        shares = [member.partitions_since(began) for member in members]
        together = set[int]().union(*shares)
        fair = min(map(len, shares)) >= PARTITIONS // len(members)
        return fair and together == set(range(PARTITIONS))

    return wait_for(all_have)


@pytest.mark.slow
def test_each_message_is_handled_by_one_member_at_a_time_and_in_order(broker_url: str, parts: str):
    publisher = Publisher(broker_url, parts)
    members = [Member(broker_url, parts, label) for label in "abc"]
    took = {"start": rebalanced(*members)}
    members.append(Member(broker_url, parts, "d"))
    took["join"] = rebalanced(*members)
    leaving = threading.Thread(target=members[0].leave)
    leaving.start()
    took["leave"] = rebalanced(*members[1:])
    leaving.join()
    members[1].kill()
    took["crash"] = rebalanced(*members[2:])
    publisher.stop()
    handled: list[Handled] = []

    def everything() -> bool:
        handled[:] = [each for member in members for each in tuple(member.handled)]
        return len({(each.partition, each.number) for each in handled}) == sum(publisher.sent)

    wait_for(everything, 30.0)
    for member in members[2:]:
        member.leave()
    check_order(handled)
    for event in ("join", "leave", "crash"):
        assert took[event] < REBALANCE_SECONDS, took
    # Only what the killed one had handled, and settled in vain, may have come twice.
    assert len(handled) - sum(publisher.sent) <= 20


def check_order(handled: list[Handled]) -> None:
    """No two handle messages of one partition at a time; numbers never leave one out."""
    for partition in range(PARTITIONS):
        ours = sorted((each for each in handled if each.partition == partition), key=began_of)
        for before, after in pairwise(ours):
            assert before.ended <= after.began, (before, after)
        highest = -1
        for each in ours:
            assert each.number <= highest + 1, (each, highest)
            highest = max(highest, each.number)


def began_of(each: Handled) -> float:
    return each.began


# ---------------------------------------------------------------------- one at a time


@pytest.fixture
def lines(broker_url: str, name: Callable[..., str]) -> str:
    """A stream of ten messages with tags, without partitions."""
    queue = name("lines")
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True, arguments=STREAM)
    for number in range(10):
        headers = {"x-tag": "even" if number % 2 == 0 else "odd", "n": number}
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(headers=headers))
    connection.close()
    return queue


def reading(connect: Any, queue: str, **arguments: Any) -> Inbox:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=50)
    given = {"x-group": "g", "x-stream-offset": "first", **arguments}
    return Inbox(channel, queue, arguments={key.replace("_", "-"): given[key] for key in given})


def test_a_group_has_a_filter_and_newer_versions_of_it(connect: Any, lines: str):
    old = reading(connect, lines, x_filter_tags="even")
    assert old.wait_for(5) == [b"0", b"2", b"4", b"6", b"8"]
    old.channel.basic_ack(old.deliveries[1].delivery_tag, multiple=True)
    cancelled: list[Any] = []
    old.channel.add_on_cancel_callback(cancelled.append)
    new = reading(connect, lines, x_group_version=2, x_filter_sql="n > 5")
    pump(old.channel.connection, lambda: bool(cancelled))
    assert new.wait_for(4) == [b"6", b"7", b"8", b"9"]
    where = f"group 'g' of stream '{lines}' in vhost '/'"
    text = f"PRECONDITION_FAILED - {where} has version 2 with x-filter-sql 'n > 5'"
    with channel_closed(406, f"{text}, which has replaced version 0"):
        reading(connect, lines, x_filter_tags="even")
    with channel_closed(406, f"{text}; other arguments need a higher x-group-version"):
        reading(connect, lines, x_group_version=2)
    with channel_closed(
        406, "PRECONDITION_FAILED - invalid arg 'x-filter-sql': "
        "character 3: unexpected 5; expected a comparison, the end, AND or OR"
    ):  # fmt: skip
        reading(connect, lines, x_group_version=3, x_filter_sql="n 5")
    reading(connect, lines, x_group_version=2, x_filter_sql="n > 5")


def test_a_slow_member_keeps_nobody_waiting_and_may_settle_late(connect: Any, lines: str):
    slow = reading(connect, lines)
    slow.wait_for(10)
    slow.channel.basic_ack(slow.deliveries[2].delivery_tag, multiple=True)
    began = time.monotonic()
    slow.channel.basic_cancel(slow.tag)
    quick = reading(connect, lines)
    assert quick.wait_for(7) == [b"%d" % number for number in range(3, 10)]
    assert time.monotonic() - began < REBALANCE_SECONDS
    slow.channel.basic_ack(0, multiple=True)
    slow.channel.basic_ack(slow.deliveries[5].delivery_tag)
    assert slow.channel.is_open
    quick.channel.basic_ack(quick.deliveries[-1].delivery_tag, multiple=True)
    quick.channel.connection.close()


@pytest.mark.parametrize("ending", ["cancel", "channel", "connection"])
def test_what_pika_rejects_when_a_member_leaves_is_the_next_ones(
    connect: Any, lines: str, ending: str
):
    """What had come and was not handed to the callback, pika gives back by basic.reject."""
    connection = connect()
    channel = connection.channel()
    channel.basic_qos(prefetch_count=6)
    arguments = {"x-group": "g", "x-stream-offset": "first"}
    tag = channel.basic_consume(lines, lambda *_: None, arguments=arguments)
    channel.queue_declare(lines, passive=True)  # what was delivered has come with the answer
    if ending == "cancel":
        channel.basic_cancel(tag)
        assert channel.is_open
    elif ending == "channel":
        channel.close()
        assert connection.is_open
    connection.close()
    assert reading(connect, lines).wait_for(10) == [b"%d" % number for number in range(10)]


def test_what_is_refused_for_good_is_handled_and_what_is_not_comes_to_the_next(
    connect: Any, lines: str
):
    first = reading(connect, lines)
    first.wait_for(10)
    tags = [each.delivery_tag for each in first.deliveries]
    first.channel.basic_ack(tags[0])
    first.channel.basic_reject(tags[1], requeue=False)
    first.channel.basic_nack(tags[2], requeue=True)
    first.channel.basic_ack(tags[9], multiple=True)
    first.channel.connection.close()
    assert reading(connect, lines).wait_for(8) == [b"%d" % number for number in range(2, 10)]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_groups_survive_restarts(own_broker: BrokerProcess, end: str):
    opened: list[pika.BlockingConnection] = []

    def open_channel() -> Any:
        opened.append(pika.BlockingConnection(pika.URLParameters(own_broker.url)))
        channel = opened[-1].channel()
        channel.basic_qos(prefetch_count=50)
        return channel

    try:
        check_restart(own_broker, end, open_channel)
    finally:
        for connection in opened:
            with suppress(AMQPError):
                connection.close()


def check_restart(own_broker: BrokerProcess, end: str, open_channel: Callable[[], Any]) -> None:
    arguments = {"x-group": "g", "x-group-version": 3, "x-filter-tags": "even"}
    channel = open_channel()
    channel.confirm_delivery()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    inbox = Inbox(channel, "s", arguments=arguments)
    for number in range(10):
        headers = {"x-tag": "even" if number % 2 == 0 else "odd"}
        properties = pika.BasicProperties(delivery_mode=2, headers=headers)
        channel.basic_publish("", "s", b"%d" % number, properties)
    inbox.wait_for(5)
    channel.basic_ack(inbox.deliveries[1].delivery_tag, multiple=True)
    channel.basic_cancel(inbox.tag)
    if end == "stop":
        channel.connection.close()
        assert own_broker.stop() == 0
    else:
        own_broker.kill()
        with suppress(AMQPError):
            channel.connection.process_data_events(time_limit=1)
    own_broker.start()
    channel = open_channel()
    with channel_closed(
        406, "PRECONDITION_FAILED - group 'g' of stream 's' in vhost '/' has version 3 with "
        "x-filter-tags 'even', which has replaced version 0"
    ):  # fmt: skip
        channel.basic_consume("s", print, arguments={"x-group": "g"})
    found = Inbox(open_channel(), "s", arguments={**arguments, "x-stream-offset": "first"})
    if end == "stop":
        assert found.wait_for(3) == [b"4", b"6", b"8"]
    else:
        # What was settled in the last second may come again; what came while it was away does not
        # get lost, although nobody had settled anything when the group was made.
        pump(found.channel.connection, lambda: b"8" in found.bodies)
        assert found.bodies[-3:] == [b"4", b"6", b"8"]


# ---------------------------------------------------------------------- retries

RETRYING = {
    "x_delivery_limit": 2,
    "x_delayed_retry_min": 100,
    "x_dead_letter_exchange": "",
}


def test_a_poisonous_message_holds_nobody_and_ends_as_a_dead_letter(
    connect: Any, lines: str, name: Callable[..., str], api_url: str
):
    dead = name("dead")
    connect().channel().queue_declare(dead, durable=True)
    options = {**RETRYING, "x_dead_letter_routing_key": dead}
    inbox = reading(connect, lines, **options)
    inbox.wait_for(10)
    tags = [each.delivery_tag for each in inbox.deliveries]
    inbox.channel.basic_nack(tags[3], requeue=True)
    inbox.channel.basic_reject(tags[5], requeue=False)
    for at in (0, 1, 2, 4, 6, 7, 8, 9):
        inbox.channel.basic_ack(tags[at])
    url = f"{api_url}/groups/%2F/{lines}/g"
    for count in (1, 2):
        inbox.wait_for(10 + count)
        headers = {"x-delivery-count": count, "x-stream-name": lines, "x-stream-offset": 3}
        assert inbox.bodies[-1] == b"3"
        assert inbox.properties[-1].headers == {"x-tag": "odd", "n": 3, **headers}
        assert inbox.deliveries[-1].redelivered
        group = httpx.get(url, auth=("guest", "guest")).json()
        assert (group["lag"], group["retries"]["unacknowledged"]) == (0, 1)
        inbox.channel.basic_nack(inbox.deliveries[-1].delivery_tag, requeue=True)
    letters = Inbox(connect().channel(), dead)
    letters.wait_for(2)
    found = {
        body: (each.headers["x-stream-offset"], each.headers["x-death"][0])
        for body, each in zip(letters.bodies, letters.properties, strict=True)
    }
    assert [(body, offset) for body, (offset, _) in sorted(found.items())] == [(b"3", 3), (b"5", 5)]
    for body, reason in ((b"3", "delivery_limit"), (b"5", "rejected")):
        death = found[body][1]
        assert (death["reason"], death["queue"], death["count"]) == (reason, lines, 1)


def test_a_retry_goes_to_whoever_has_credit(connect: Any, lines: str):
    first = reading(connect, lines, x_delayed_retry_min=200)
    first.wait_for(10)
    first.channel.basic_nack(first.deliveries[9].delivery_tag, requeue=True)
    first.channel.basic_ack(first.deliveries[8].delivery_tag, multiple=True)
    second = reading(connect, lines, x_delayed_retry_min=200)
    first.channel.connection.close()
    assert second.wait_for(1) == [b"9"]
    second.channel.basic_ack(second.deliveries[0].delivery_tag)
