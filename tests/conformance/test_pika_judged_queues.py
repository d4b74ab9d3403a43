"""Consumers of queues that ask filter classes, as pika sees them, with real processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pika
import pytest
from tests.conformance.classes import EVEN, GUEST_REGISTERS, Broker, evens, lent
from tests.conformance.marks import differs
from tests.conformance.pika_steps import Inbox, channel_closed, depth, drain, settle
from tests.filterserver.asked import judging

from leporid.testing import BrokerProcess

pytestmark = differs

ODD = EVEN.replace(b"== 0", b"== 1")
NOT_FOUND = "NOT_FOUND - no filter class 'nobody' is registered"


KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])


@pytest.fixture
def kind() -> str:
    """Of the queue; most tests need one only."""
    return "classic"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("asking") / "data"
    with BrokerProcess(data, config=GUEST_REGISTERS) as process:
        yield process


@pytest.fixture
def broker(process: BrokerProcess, kind: str) -> Iterator[Broker]:
    with lent(process, "q", "p") as broker:
        broker.channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
        yield broker


def asking(
    broker: Broker, filter_class: str, prefetch: int = 0, auto_ack: bool = False, **more: Any
) -> Inbox:
    """A consumer on a channel of its own."""
    channel = broker.connection.channel()
    if prefetch:
        channel.basic_qos(prefetch_count=prefetch)
    beside = {key.replace("_", "-"): more[key] for key in more}
    arguments = {"x-filter-class": filter_class, **beside}
    return Inbox(channel, "q", auto_ack=auto_ack, arguments=arguments)


def send(broker: Broker, *numbers: int) -> None:
    broker.send(*numbers, exchange="", key="q")


def odds(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(1, count, 2)]


def left(broker: Broker) -> list[bytes]:
    """What is ready, after all that consumers have was settled."""
    return drain(broker.channel, "q")


@KINDS
def test_a_consumer_gets_what_passes_in_order_and_the_rest_stays(broker):
    broker.register("even", EVEN)
    send(broker, *range(300))
    inbox = asking(broker, "even", auto_ack=True)
    assert inbox.wait_for(150) == evens(300)
    send(broker, *range(300, 320))
    assert inbox.wait_for(160) == evens(320)
    broker.until("even", judged=320, passed=160, waiting=0)
    assert left(broker) == odds(320)


def test_what_others_want_is_theirs(broker):
    """Two classes, and a consumer without a filter, each with its own."""
    broker.register("even", EVEN)
    broker.register("odd", ODD)
    send(broker, *range(1000))
    even, odd = asking(broker, "even", auto_ack=True), asking(broker, "odd", auto_ack=True)
    assert even.wait_for(500) == evens(1000)
    assert odd.wait_for(500) == odds(1000)
    assert depth(broker.channel, "q") == 0


def test_consumers_that_ask_the_same_class_share_what_passes(broker):
    broker.register("even", EVEN)
    send(broker, *range(40))
    inboxes = [asking(broker, "even", prefetch=10) for _ in range(2)]
    for inbox in inboxes:
        inbox.wait_for(10)
    found = [int(body) for inbox in inboxes for body in inbox.bodies]
    assert sorted(found) == [*range(0, 40, 2)]
    broker.until("even", judged=40)


def test_a_class_is_only_asked_about_what_matches_the_filters_beside_it(broker):
    broker.register("even", EVEN)
    send(broker, *range(60))
    inbox = asking(broker, "even", auto_ack=True, x_filter_sql="n < 10")
    assert inbox.wait_for(5) == evens(10)
    broker.until("even", judged=10, passed=5, waiting=0)


@KINDS
def test_what_comes_back_is_judged_again_and_comes_first(broker):
    broker.register("even", EVEN)
    send(broker, *range(10))
    inbox = asking(broker, "even", prefetch=2)
    assert inbox.wait_for(2) == evens(4)
    inbox.channel.basic_nack(1, requeue=True)
    assert inbox.wait_for(3)[2:] == [b"0"]
    assert [each.redelivered for each in inbox.deliveries] == [False, False, True]
    inbox.channel.basic_ack(2)
    inbox.channel.basic_ack(3)
    assert inbox.wait_for(5)[3:] == [b"4", b"6"]


def test_an_unknown_class_is_not_found(broker):
    with channel_closed(404, NOT_FOUND):
        asking(broker, "nobody")
    assert broker.channel.queue_declare("q", passive=True).method.consumer_count == 0


def test_a_class_that_a_consumer_asks_is_not_deleted(broker):
    broker.register("even", EVEN)
    inbox = asking(broker, "even")
    [user] = broker.status("even")["used_by"]
    assert user == f"consumer '{inbox.tag}' of queue 'q' in vhost '/'"
    assert broker.http("DELETE", "even").status_code == 409
    inbox.channel.basic_cancel(inbox.tag)
    assert broker.http("DELETE", "even").status_code == 204


# ------------------------------------------------------------------ failing


@pytest.mark.parametrize(
    "harm", ["import time; time.sleep(3600)", "import os; os.abort()", "raise ValueError('no')"]
)
def test_others_go_on_while_a_class_does_harm_and_it_has_lost_nothing(broker, harm):
    broker.register("bad", judging(harm))
    broker.register("odd", ODD)
    waits = asking(broker, "bad", auto_ack=True)
    odd = asking(broker, "odd", auto_ack=True)
    send(broker, *range(50))
    assert odd.wait_for(25) == odds(50)
    broker.until("bad", state="waiting") if "sleep" not in harm else broker.until("bad", judged=0)
    assert waits.bodies == []
    plain = Inbox(broker.connection.channel(), "q", auto_ack=True)
    assert plain.wait_for(25) == evens(50)
    plain.channel.basic_cancel(plain.tag)
    send(broker, *range(50, 60))
    assert odd.wait_for(30)[25:] == [b"51", b"53", b"55", b"57", b"59"]
    broker.register("bad", EVEN)
    assert waits.wait_for(5) == [b"50", b"52", b"54", b"56", b"58"]


def test_kill_9_of_the_filter_loses_and_reorders_nothing(broker):
    broker.register("even", EVEN)
    inbox = asking(broker, "even", auto_ack=True)
    for start in range(0, 600, 100):
        send(broker, *range(start, start + 100))
        pid = broker.status("even")["pid"]
        if pid:
            with suppress(ProcessLookupError):  # it is gone from the last time, and nobody asked
                os.kill(pid, 9)
    assert inbox.wait_for(300) == evens(600)
    assert broker.status("even")["failures"] > 0
    settle(broker.channel)
    assert inbox.bodies == evens(600)
    assert left(broker) == odds(600)


def test_a_newer_version_looks_at_what_the_old_one_refused(broker):
    broker.register("even", EVEN)
    send(broker, *range(20))
    inbox = asking(broker, "even", auto_ack=True)
    assert inbox.wait_for(10) == evens(20)
    broker.register("even", ODD)
    assert inbox.wait_for(20)[10:] == odds(20)


# ------------------------------------------------------------------ going away


def a_batch_is_out(broker: Broker) -> Inbox:
    """A consumer whose class is thinking about its messages."""
    broker.register("slow", judging("import time; time.sleep(0.5); return True"))
    send(broker, *range(3))
    inbox = asking(broker, "slow")
    broker.until("slow", state="running", waiting=3, judged=0)
    return inbox


def test_who_is_cancelled_while_a_batch_is_out_gets_nothing_of_it(broker):
    inbox = a_batch_is_out(broker)
    inbox.channel.basic_cancel(inbox.tag)
    broker.register("even", EVEN)
    again = asking(broker, "even", auto_ack=True)
    assert again.wait_for(2) == evens(3)
    broker.until("slow", judged=3, waiting=0)
    settle(inbox.channel)
    assert inbox.bodies == []
    assert left(broker) == [b"1"]


@pytest.mark.parametrize("how", ["queue", "channel", "connection", "purge"])
def test_what_goes_while_a_batch_is_out(broker, how):
    inbox = a_batch_is_out(broker)
    if how == "queue":
        broker.channel.queue_delete("q")
    elif how == "channel":
        inbox.channel.close()
    elif how == "purge":
        broker.channel.queue_purge("q")
    else:
        broker.connection.close()
        broker.channel = broker.connect()
    broker.until("slow", judged=3, waiting=0)
    if how == "purge":
        settle(inbox.channel)
        assert (inbox.bodies, left(broker)) == ([], [])
        send(broker, 7)
        assert inbox.wait_for(1) == [b"7"]
    elif how != "queue":
        assert left(broker) == [b"0", b"1", b"2"]


# ------------------------------------------------------------------ with other consumers


@KINDS
def test_a_single_active_consumer_gets_what_passes_and_nobody_the_rest(broker, kind):
    arguments = {"x-queue-type": kind, "x-single-active-consumer": True}
    broker.channel.queue_delete("q")
    broker.channel.queue_declare("q", durable=True, arguments=arguments)
    broker.register("even", EVEN)
    first = asking(broker, "even", auto_ack=True)
    second = Inbox(broker.connection.channel(), "q", auto_ack=True)
    send(broker, *range(10))
    assert first.wait_for(5) == evens(10)
    assert second.bodies == []
    first.channel.basic_cancel(first.tag)
    assert second.wait_for(5) == odds(10)


def test_an_exclusive_consumer_may_ask_a_class(broker):
    broker.register("even", EVEN)
    send(broker, *range(10))
    channel = broker.connection.channel()
    arguments = {"x-filter-class": "even"}
    inbox = Inbox(channel, "q", exclusive=True, auto_ack=True, arguments=arguments)
    assert inbox.wait_for(5) == evens(10)
    text = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    with channel_closed(403, text):
        asking(broker, "even")


def test_of_two_who_ask_the_same_class_the_one_of_higher_priority_comes_first(broker):
    broker.register("even", EVEN)
    low = asking(broker, "even", x_priority=0)
    high = asking(broker, "even", prefetch=3, x_priority=5)
    send(broker, *range(10))
    assert low.wait_for(2) == [b"6", b"8"]
    assert high.bodies == evens(6)


def test_messages_of_a_higher_priority_are_judged_and_delivered_first(broker):
    broker.channel.queue_declare("p", durable=True, arguments={"x-max-priority": 5})
    broker.register("even", EVEN)
    for number in range(40):
        properties = pika.BasicProperties(headers={"n": number}, priority=number // 10)
        broker.channel.basic_publish("", "p", b"%d" % number, properties)
    channel = broker.connection.channel()
    inbox = Inbox(channel, "p", auto_ack=True, arguments={"x-filter-class": "even"})
    expected = [n for start in (30, 20, 10, 0) for n in range(start, start + 10, 2)]
    assert [int(body) for body in inbox.wait_for(20)] == expected
