"""Consumers of streams that ask filter classes, as pika sees them, with real processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError
from tests.conformance.classes import EVEN, GUEST_REGISTERS, Broker, evens, lent
from tests.conformance.marks import differs
from tests.conformance.pika_steps import Inbox, channel_closed, settle
from tests.conformance.test_pika_groups import (
    PARTITIONS,
    Member,
    Publisher,
    began_of,
    rebalanced,
    wait_for,
)
from tests.filterserver.asked import judging

from leporid.testing import BrokerProcess

pytestmark = differs

ALL = judging("return True")
NOT_FOUND = "NOT_FOUND - no filter class 'nobody' is registered"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("asking") / "data"
    with BrokerProcess(data, config=GUEST_REGISTERS) as process:
        yield process


@pytest.fixture
def broker(process: BrokerProcess) -> Iterator[Broker]:
    with lent(process, "s") as broker:
        broker.channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        yield broker


@pytest.fixture
def alone(own_broker: BrokerProcess) -> Iterator[Broker]:
    """For groups, which remain for a moment when their streams are gone."""
    broker = Broker(own_broker)
    broker.channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    yield broker
    if broker.connection.is_open:
        broker.connection.close()


class Settling(Inbox):
    """Everything that a consumer of the stream got, each settled at once."""

    def __init__(
        self,
        broker: Broker,
        prefetch: int = 100,
        channel: BlockingChannel | None = None,
        **more: Any,
    ) -> None:
        asked = {"x-stream-offset": "first", **{key.replace("_", "-"): more[key] for key in more}}
        channel = channel or broker.connection.channel()
        channel.basic_qos(prefetch_count=prefetch)
        super().__init__(channel, "s", arguments=asked)

    def _take(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        super()._take(channel, method, properties, body)
        channel.basic_ack(method.delivery_tag)

    @property
    def offsets(self) -> list[int]:
        return [each.headers["x-stream-offset"] for each in self.properties]


def send(broker: Broker, count: int, start: int = 0) -> None:
    broker.send(*range(start, start + count), exchange="", key="s")


def test_a_reader_gets_what_passes_in_order_under_its_offset(broker):
    broker.register("even", EVEN)
    send(broker, 300)
    inbox = Settling(broker, x_filter_class="even")
    assert inbox.wait_for(150) == evens(300)
    assert inbox.offsets == list(range(0, 300, 2))
    send(broker, 20, start=300)
    assert inbox.wait_for(160) == evens(320)
    broker.until("even", judged=320, passed=160, waiting=0)


def test_the_class_is_only_asked_about_what_matches(broker):
    broker.register("even", EVEN)
    send(broker, 300)
    inbox = Settling(broker, x_filter_class="even", x_filter_sql="n >= 280")
    assert inbox.wait_for(10) == evens(300)[-10:]
    broker.until("even", judged=20, passed=10)


def test_a_named_reader_goes_on_behind_what_was_refused(broker):
    broker.register("even", EVEN)
    broker.register("none", judging("return False"))
    send(broker, 100)
    first = Settling(broker, x_filter_class="none", x_reader="r")
    broker.until("none", judged=100, waiting=0)
    first.channel.basic_cancel(first.tag)
    send(broker, 10, start=100)
    again = broker.connection.channel()
    again.basic_qos(prefetch_count=10)
    inbox = Inbox(again, "s", arguments={"x-filter-class": "even", "x-reader": "r"})
    assert inbox.wait_for(5) == evens(110)[-5:]


# ------------------------------------------------------------------ failing


@pytest.mark.parametrize(
    "harm", ["import time; time.sleep(3600)", "import os; os.abort()", "raise ValueError('no')"]
)
def test_others_go_on_while_a_class_does_harm_and_it_has_lost_nothing(broker, harm):
    broker.register("bad", judging(harm))
    broker.register("even", EVEN)
    send(broker, 50)
    waits = Settling(broker, x_filter_class="bad")
    others = Settling(broker, x_filter_class="even"), Settling(broker)
    assert others[0].wait_for(25) == evens(50)
    assert others[1].wait_for(50) == [b"%d" % number for number in range(50)]
    broker.until("bad", waiting=50)
    assert waits.bodies == []
    broker.register("bad", EVEN)
    assert waits.wait_for(25) == evens(50)
    assert waits.offsets == list(range(0, 50, 2))


def test_kill_9_of_the_filter_in_mid_stream_loses_and_reorders_nothing(broker):
    broker.register("even", EVEN)
    inbox = Settling(broker, x_filter_class="even")
    for start in range(0, 600, 100):
        send(broker, 100, start=start)
        pid = broker.status("even")["pid"]
        if pid:
            with suppress(ProcessLookupError):  # it is gone from the last time, and nobody asked
                os.kill(pid, 9)
    assert inbox.wait_for(300) == evens(600)
    assert broker.status("even")["failures"] > 0
    settle(broker.channel)
    assert inbox.bodies == evens(600)


# ------------------------------------------------------------------ going away


def a_batch_is_out(broker: Broker) -> Settling:
    """A consumer whose class is thinking about its messages."""
    broker.register("slow", judging("import time; time.sleep(0.5); return True"))
    send(broker, 3)
    inbox = Settling(broker, x_filter_class="slow")
    broker.until("slow", state="running", waiting=3, judged=0)
    return inbox


def test_a_consumer_that_is_cancelled_while_a_batch_is_out_gets_nothing_of_it(broker):
    inbox = a_batch_is_out(broker)
    inbox.channel.basic_cancel(inbox.tag)
    # A consumer of that tag on that channel has nothing to do with it.
    broker.register("all", ALL)
    again = Inbox(
        inbox.channel,
        "s",
        consumer_tag=inbox.tag,
        arguments={"x-stream-offset": 1, "x-filter-class": "all"},
    )
    assert again.wait_for(2) == [b"1", b"2"]
    broker.until("slow", judged=3)
    settle(inbox.channel)
    assert (inbox.bodies, len(again.bodies)) == ([], 2)


@pytest.mark.parametrize("what", ["channel", "connection", "stream"])
def test_whatever_goes_while_a_batch_is_out_others_go_on(broker, what):
    inbox = a_batch_is_out(broker)
    if what == "channel":
        inbox.channel.close()
    elif what == "connection":
        broker.connection.close()
        broker.channel = broker.connect()
    else:
        broker.channel.queue_delete("s")
        broker.channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        send(broker, 3)
    broker.register("even", EVEN)
    assert Settling(broker, x_filter_class="even").wait_for(2) == evens(3)
    broker.until("slow", judged=3, waiting=0, used_by=[])
    assert "defect" not in broker.process.log_tail()


# ------------------------------------------------------------------ names


def test_an_unregistered_class_is_not_found_and_leaves_nothing(broker):
    with channel_closed(404, NOT_FOUND):
        Settling(broker, x_filter_class="nobody", x_reader="r")
    declared = broker.channel.queue_declare("s", passive=True, durable=True)
    assert declared.method.consumer_count == 0


def test_a_class_stays_as_long_as_a_consumer_asks_it(broker):
    broker.register("even", EVEN)
    inbox = Settling(broker, x_filter_class="even")
    [user] = broker.status("even")["used_by"]
    assert user == f"consumer '{inbox.tag}' of queue 's' in vhost '/'"
    refused = broker.http("DELETE", "even")
    assert (refused.status_code, user in refused.text) == (409, True)
    inbox.channel.basic_cancel(inbox.tag)
    assert broker.http("DELETE", "even").status_code == 204


# ------------------------------------------------------------------ groups


def test_a_group_whose_new_class_is_not_there_keeps_what_it_has(alone):
    alone.register("even", EVEN)
    send(alone, 10)
    group: dict[str, Any] = {"x-group": "g", "x-filter-class": "even"}
    inbox = Settling(alone, **group)
    assert inbox.wait_for(5) == evens(10)
    with channel_closed(404, NOT_FOUND):
        Settling(alone, x_group="g", x_group_version=1, x_filter_class="nobody")
    send(alone, 10, start=10)
    assert inbox.wait_for(10) == evens(20)
    inbox.channel.close()
    # It is kept, and so is its class.
    assert alone.status("even")["used_by"] == ["group 'g' of stream 's' in vhost '/'"]
    assert alone.http("DELETE", "even").status_code == 409


@pytest.mark.slow
def test_each_message_that_passes_is_handled_by_one_member_in_order(alone):
    """Members come, go and die, and so does the process of the class."""
    passes = "return int(message.body.split(b':')[1]) % 2 == 0"
    alone.register("even", judging(passes))
    api, auth = f"http://127.0.0.1:{alone.process.http_port}/api", ("guest", "guest")
    keys = [f"k{number}" for number in range(PARTITIONS)]
    made = {"routing": "key", "keys": keys}
    httpx.put(f"{api}/streams/%2F/parts", json=made, auth=auth).raise_for_status()
    url = alone.process.url
    asked: dict[str, Any] = {"x-filter-class": "even"}
    publisher = Publisher(url, "parts")
    members = [Member(url, "parts", label, **asked) for label in "ab"]
    rebalanced(*members)
    members.append(Member(url, "parts", "c", **asked))
    rebalanced(*members)
    with suppress(ProcessLookupError):
        os.kill(alone.status("even")["pid"], 9)
    rebalanced(*members)
    members[0].leave()
    rebalanced(*members[1:])
    members[1].kill()
    rebalanced(members[2])
    publisher.stop()
    wanted = {
        (partition, number)
        for partition, sent in enumerate(publisher.sent)
        for number in range(0, sent, 2)
    }

    def handled() -> list[tuple[int, int]]:
        each_of = sorted(
            (each for member in members for each in tuple(member.handled)), key=began_of
        )
        return [(each.partition, each.number) for each in each_of]

    wait_for(lambda: len(set(handled())) >= len(wanted), 30.0)
    members[2].leave()
    found = handled()
    assert set(found) == wanted
    first_times = list(dict.fromkeys(found))
    for partition in range(PARTITIONS):
        ours = [number for each, number in first_times if each == partition]
        assert ours == sorted(ours)
    # Only what the killed one had handled, and settled in vain, may have come twice.
    assert len(found) - len(wanted) <= 20


def test_a_group_and_its_class_survive_kill_9(alone):
    alone.register("even", EVEN)
    send(alone, 10)
    asked: dict[str, Any] = {"x-group": "g", "x-filter-class": "even"}
    inbox = Settling(alone, **asked)
    assert inbox.wait_for(5) == evens(10)
    inbox.channel.basic_cancel(inbox.tag)
    send(alone, 10, start=10)  # when they are confirmed, what it has settled is on disk, too
    alone.process.kill()
    with suppress(AMQPError):
        alone.connection.close()
    alone.process.start()
    alone.channel = alone.connect()
    again = Settling(alone, **asked)
    assert again.wait_for(5) == evens(20)[-5:]


def test_what_a_member_left_is_judged_again_for_the_next_one(alone):
    alone.register("even", EVEN)
    send(alone, 10)
    first = alone.connection.channel()
    first.basic_qos(prefetch_count=3)
    asked: dict[str, Any] = {"x-group": "g", "x-filter-class": "even", "x-stream-offset": "first"}
    inbox = Inbox(first, "s", arguments=asked)
    assert inbox.wait_for(3) == evens(6)
    first.basic_ack(1)
    assert inbox.wait_for(4) == evens(8)
    first.close()
    assert Settling(alone, **asked).wait_for(4) == evens(10)[1:]
