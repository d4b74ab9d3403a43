"""The client that blocks: publishing, consuming and settling, in batches between two threads."""

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from leporid import testing
from leporid.client import ConsumerCancelled, LocalProtocolError, Message, Returned
from leporid.client.blocking import Channel, connect
from leporid.client.blocking_messages import BATCH_MAX, MESSAGES_A_HOP
from leporid.client.loop_thread import LoopThread
from leporid.testing import BlockingMemoryBroker, BrokerProcess

SECONDS = 20


@pytest.fixture
def memory() -> Iterator[BlockingMemoryBroker]:
    with testing.broker() as memory:
        yield memory


@pytest.fixture
def channel(memory: BlockingMemoryBroker) -> Iterator[Channel]:
    with memory.connect() as connection, connection.channel() as channel:
        channel.queue("tasks")
        yield channel


def settled(memory: BlockingMemoryBroker, channel: Channel) -> tuple[int, int]:
    """Ready and unacked messages, once the broker has all that was said."""
    channel.queue("tasks").count()
    return memory.count("tasks")


def fill(channel: Channel, count: int) -> None:
    channel.default_exchange.publish_many([b"%d" % number for number in range(count)], "tasks")


def test_messages_of_any_iterable_are_published(memory: BlockingMemoryBroker, channel: Channel):
    exchange, count = channel.default_exchange, 2 * MESSAGES_A_HOP + 7
    assert exchange.publish_many([b"x"] * count, "tasks") == count
    assert exchange.publish_many((b"x" for _ in range(count)), "tasks") == count
    assert exchange.publish_many(iter([Message(b"x", key="tasks")] * 3)) == 3
    assert exchange.publish_many(iter([])) == 0
    assert memory.count("tasks").ready == 2 * count + 3


def test_what_an_iterable_raises_ends_the_publishing(
    memory: BlockingMemoryBroker, channel: Channel
):
    def messages() -> Iterator[bytes]:
        yield from [b"x"] * MESSAGES_A_HOP
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        channel.default_exchange.publish_many(messages(), "tasks")
    channel.default_exchange.publish(b"goes on", "tasks")
    assert memory.count("tasks").ready <= MESSAGES_A_HOP + 1


def test_an_endless_iterable_ends_when_messages_are_refused(channel: Channel):
    def messages() -> Iterator[bytes]:
        while True:
            yield b"for nobody"

    with pytest.raises(ExceptionGroup) as refused:
        channel.default_exchange.publish_many(messages(), "no-such-queue")
    assert all(isinstance(each, Returned) for each in refused.value.exceptions)


def test_a_message_that_cannot_be_sent_ends_the_publishing(channel: Channel):
    messages: list[Any] = [b"x", "text"]
    with pytest.raises(LocalProtocolError):
        channel.default_exchange.publish_many(iter(messages), "tasks")


def test_deliveries_come_in_their_order(memory: BlockingMemoryBroker, channel: Channel):
    count = 3 * BATCH_MAX
    fill(channel, count)
    with channel.queue("tasks").consume(prefetch=0) as consumer:
        for number, delivery in enumerate(consumer):
            assert delivery.body == b"%d" % number
            delivery.ack()
            if number == count - 1:
                break
    assert settled(memory, channel) == (0, 0)


def test_what_was_taken_in_advance_goes_back(memory: BlockingMemoryBroker, channel: Channel):
    fill(channel, 100)
    with channel.queue("tasks").consume() as consumer:
        next(consumer).ack()
        kept = next(consumer)
    assert settled(memory, channel) == (98, 1)
    kept.nack()
    assert settled(memory, channel) == (99, 0)
    with channel.queue("tasks").consume() as consumer:
        assert [next(consumer).body for _ in range(99)] == [b"%d" % each for each in range(1, 100)]


def test_deliveries_of_a_lost_connection_come_once(memory: BlockingMemoryBroker, channel: Channel):
    fill(channel, 20)
    found = []
    with channel.queue("tasks").consume(prefetch=10) as consumer:
        found.append(next(consumer).body)
        memory.disconnect()
        channel.queue("tasks").count()  # answered over the next connection
        while len(found) < 21:
            delivery = next(consumer)
            delivery.ack()
            found.append(delivery.body)
    # The first was handled and not acked, so it came twice; what lay in the batch, once.
    assert sorted(found, key=int) == [b"0"] + [b"%d" % each for each in range(20)]


def test_without_acks(memory: BlockingMemoryBroker, channel: Channel):
    fill(channel, 5)
    with channel.queue("tasks").consume(no_ack=True) as consumer:
        delivery = next(consumer)
        assert delivery.settled
        with pytest.raises(LocalProtocolError, match="needs no ack"):
            delivery.ack()
    assert settled(memory, channel) == (0, 0)


def test_a_consumer_ends_here(channel: Channel):
    consumer = channel.queue("tasks").consume()
    threading.Timer(0.05, consumer.cancel).start()
    assert list(consumer) == []


def test_a_consumer_that_the_broker_ends(channel: Channel):
    queue = channel.queue("tasks")
    with queue.consume() as consumer:
        queue.delete()
        with pytest.raises(ConsumerCancelled):
            next(consumer)


def test_several_threads_share_a_consumer(memory: BlockingMemoryBroker, channel: Channel):
    fill(channel, 1000)
    found: list[bytes] = []
    with channel.queue("tasks").consume(prefetch=7) as consumer:

        def work() -> None:
            for delivery in consumer:
                found.append(delivery.body)
                delivery.ack()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        while memory.count("tasks") != (0, 0):
            memory.settle()
        consumer.cancel()
        for thread in threads:
            thread.join(SECONDS)
    assert sorted(found, key=int) == [b"%d" % each for each in range(1000)]


@pytest.mark.usefixtures("interruptible")
def test_what_is_rolled_back_can_be_settled_again(memory: BlockingMemoryBroker):
    with memory.connect() as connection, connection.channel(confirms=False) as channel:
        queue = channel.queue("tasks")
        with channel.transaction():
            channel.default_exchange.publish(b"1", "tasks")
        delivery = queue.get()
        assert delivery is not None
        with contextlib.suppress(KeyError), channel.transaction():
            delivery.ack()
            assert delivery.settled
            raise KeyError
        assert not delivery.settled
        with channel.transaction():
            delivery.ack()
        with pytest.raises(LocalProtocolError, match="settled"):
            delivery.ack()
    assert memory.count("tasks") == (0, 0)


def test_a_loop_that_is_left_ends_its_consumer(memory: BlockingMemoryBroker, channel: Channel):
    """Without a block as well, and without the collector's help."""
    fill(channel, 3)
    queue = channel.queue("tasks")
    gc.disable()
    try:
        for delivery in queue.consume():
            delivery.ack()
            break
        queue.count()
        queue.count()
    finally:
        gc.enable()
    assert queue.consumer_count == 0
    assert settled(memory, channel) == (2, 0)


def test_a_message_that_is_got_for_nobody_goes_back(
    memory: BlockingMemoryBroker, channel: Channel, monkeypatch: pytest.MonkeyPatch
):
    """As when Ctrl-C comes with the answer."""
    fill(channel, 1)
    queue = channel.queue("tasks")
    wait = LoopThread.wait

    def interrupted(thread: LoopThread, work: Any) -> None:
        wait(thread, work)
        raise KeyboardInterrupt

    monkeypatch.setattr(LoopThread, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.get()
    monkeypatch.undo()
    assert settled(memory, channel) == (1, 0)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_loop_loses_nothing(memory: BlockingMemoryBroker, channel: Channel):
    """As by Ctrl-C while it waits: what comes in that moment stays with the consumer."""
    with channel.queue("tasks").consume() as consumer:
        consumer_waits = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        consumer_waits.start()
        with pytest.raises(KeyboardInterrupt):
            next(consumer)
        fill(channel, 3)
        assert [next(consumer).body for _ in range(3)] == [b"0", b"1", b"2"]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_another_thread_got_is_seen(channel: Channel):
    """The system chooses the thread, and Python wakes no other for it."""

    def interrupt() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    with channel.queue("tasks").consume() as consumer:
        consumer_waits = threading.Timer(0.05, interrupt)
        consumer_waits.start()
        with pytest.raises(KeyboardInterrupt):
            next(consumer)


def test_each_way_to_settle(memory: BlockingMemoryBroker, channel: Channel):
    fill(channel, 8)
    with channel.queue("tasks").consume() as consumer:
        first, second, third, fourth, fifth, sixth, seventh, eighth = (
            next(consumer) for _ in range(8)
        )
        second.ack(multiple=True)
        fourth.nack(requeue=False, multiple=True)
        fifth.reject()
        sixth.reject(requeue=True)
        seventh.ack()
        assert settled(memory, channel)[0] == 0
        assert seventh.settled
        assert not eighth.settled
        with pytest.raises(LocalProtocolError, match="settled"):
            seventh.nack()
        again = next(consumer)
        assert (again.body, again.redelivered) == (sixth.body, True)
    assert settled(memory, channel) == (0, 2)
    assert third.delivery_tag == first.delivery_tag + 2


def test_a_block_settles(memory: BlockingMemoryBroker, channel: Channel):
    fill(channel, 4)
    with channel.queue("tasks").consume() as consumer:
        with next(consumer).process() as delivery:
            assert delivery.body == b"0"
        with pytest.raises(KeyError), next(consumer).process():
            raise KeyError
        with pytest.raises(KeyboardInterrupt), next(consumer).process():
            raise KeyboardInterrupt
        with next(consumer).process(ignore_processed=True) as delivery:
            delivery.reject()
        assert next(consumer).body == b"2"
    assert settled(memory, channel) == (0, 1)


def test_what_a_delivery_says(channel: Channel):
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    channel.default_exchange.publish(
        b"body", "tasks", headers={"a": 1}, tag="t", priority=1, content_type="text/plain",
        content_encoding="utf-8", correlation_id="c", reply_to="r", message_id="m",
        timestamp=moment, type="kind", user_id="guest", app_id="test", expires=60,
    )  # fmt: skip
    delivery = channel.queue("tasks").get()
    assert delivery is not None
    assert (delivery.exchange, delivery.key, delivery.redelivered) == ("", "tasks", False)
    assert (delivery.headers, delivery.tag) == ({"a": 1, "x-tag": "t"}, "t")
    assert (delivery.priority, delivery.persistent, delivery.expiration) == (1, True, "60000")
    assert (delivery.content_type, delivery.content_encoding) == ("text/plain", "utf-8")
    assert (delivery.correlation_id, delivery.reply_to, delivery.message_id) == ("c", "r", "m")
    assert (delivery.timestamp, delivery.type, delivery.user_id) == (moment, "kind", "guest")
    assert (delivery.app_id, delivery.offset, delivery.deaths) == ("test", None, [])
    assert (delivery.delivery_count, delivery.consumer_tag) == (0, "")
    assert delivery.properties.app_id == "test"
    assert "unsettled" in repr(delivery)
    delivery.ack()


@pytest.mark.slow
def test_looking_over_http(broker: BrokerProcess):
    api = f"http://127.0.0.1:{broker.http_port}"
    with connect(broker.url, api=api) as connection, connection.channel() as channel:
        queue, stream = channel.queue("looked-at"), channel.stream("read")
        channel.default_exchange.publish_many([b"%d" % each for each in range(250)], "looked-at")
        assert [each.body for each in queue.browse()] == [b"%d" % each for each in range(250)]
        assert [each.body for each in queue.browse(2)] == [b"0", b"1"]
        assert queue.count() == 250
        channel.default_exchange.publish_many([b"a", b"b"], "read")
        assert stream.committed("me") is None
        with stream.read("first", reader="me") as reader:
            assert [next(reader).offset, next(reader).offset] == [0, 1]
