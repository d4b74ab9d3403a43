"""The two clients of the demo, on pika's asynchronous connection: nothing of ours.

`Publisher` keeps a window of unconfirmed messages on the way and tells which of them the broker
confirmed before the connection was lost, if it was. `Consumer` empties queues.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pika
from dataset import Flight
from pika import BasicProperties
from pika.adapters.select_connection import IOLoop
from pika.channel import Channel

# Unconfirmed messages on the way. Fewer leave the broker idle; more cost memory and, after a
# crash, have to be published again.
WINDOW = 1000
# Publish again when so many confirms have come: larger blocks, fewer system calls.
REFILL = 200

PREFETCH = 2000
ACK_EVERY = 500


class TrafficError(Exception):
    """The broker refused what it must accept, or went away when nobody killed it."""


class Publisher:
    """Publishes flights by their numbers, persistent and confirmed.

    Attributes:
        unconfirmed: numbers of flights that were published, and not confirmed when it ended.
        confirmed: how many were confirmed.
    """

    def __init__(self, flights: Sequence[Flight], exchange: str, numbers: Iterable[int]) -> None:
        self.unconfirmed: list[int] = []
        self.confirmed = 0
        self._flights = flights
        self._exchange = exchange
        self._numbers = iter(numbers)
        self._all_published = False
        self._failure: str | None = None
        # Delivery tag to number, oldest first.
        self._outstanding: dict[int, int] = {}
        self._next_tag = 1
        self._channel: Channel

    def run(self, url: str) -> None:
        """Publish until everything is confirmed, or the connection is lost."""
        self._loop = IOLoop()
        self._connection = pika.SelectConnection(
            pika.URLParameters(url),
            on_open_callback=lambda opened: opened.channel(on_open_callback=self._start),
            on_open_error_callback=lambda _, error: self._fail(f"cannot connect: {error!r}"),
            on_close_callback=lambda *_: self._loop.stop(),
            custom_ioloop=self._loop,
        )
        self._loop.start()
        self._loop.close()
        self.unconfirmed = list(self._outstanding.values())
        if self._failure is not None:
            raise TrafficError(self._failure)

    @property
    def finished(self) -> bool:
        """Whether everything was published and confirmed."""
        return self._all_published and not self.unconfirmed

    def _start(self, channel: Channel) -> None:
        self._channel = channel
        channel.add_on_return_callback(lambda *_: self._fail("a message was unroutable"))
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._fill())

    def _fill(self) -> None:
        while len(self._outstanding) < WINDOW:
            number = next(self._numbers, None)
            if number is None:
                self._all_published = True
                break
            flight = self._flights[number]
            self._outstanding[self._next_tag] = number
            self._next_tag += 1
            self._channel.basic_publish(
                self._exchange,
                flight.routing_key,
                flight.line,
                BasicProperties(
                    content_type="text/csv",
                    delivery_mode=2,
                    message_id=str(number),
                    headers=headers_of(flight),
                ),
                mandatory=True,
            )
        if self._all_published and not self._outstanding:
            self._connection.close()

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        if not isinstance(method, pika.spec.Basic.Ack):
            self._fail("the broker refused a message")
            return
        before = len(self._outstanding)
        if method.multiple:
            while self._outstanding and next(iter(self._outstanding)) <= method.delivery_tag:
                del self._outstanding[next(iter(self._outstanding))]
        else:
            del self._outstanding[method.delivery_tag]
        self.confirmed += before - len(self._outstanding)
        if len(self._outstanding) <= WINDOW - REFILL or self._all_published:
            self._fill()

    def _fail(self, why: str) -> None:
        self._failure = why
        self._loop.stop()


def headers_of(flight: Flight) -> dict[str, str | int]:
    """What filters look at."""
    headers: dict[str, str | int] = {"x-tag": flight.state, "origin": flight.origin}
    if flight.dep_delay is not None:
        headers["dep_delay"] = flight.dep_delay
    return headers


def numbers_until(numbers: Sequence[int], at: int, act: Callable[[], None]) -> Iterable[int]:
    """Give numbers one by one, and act once when `at` of them have been given."""
    for count, number in enumerate(numbers):
        if count == at:
            act()
            return
        yield number


def declare(
    url: str, exchange: str, bindings: Mapping[str, Sequence[tuple[str, Mapping[str, str]]]]
) -> None:
    """Declare the durable topic exchange, the durable queues, and each one's bindings.

    A binding is a pattern, and arguments: its filter.
    """
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.exchange_declare(exchange, "topic", durable=True)
        for queue, bound in bindings.items():
            channel.queue_declare(queue, durable=True)
            for pattern, arguments in bound:
                channel.queue_bind(queue, exchange, pattern, arguments)


def ready_counts(url: str, queues: Iterable[str]) -> dict[str, int]:
    """Ask the broker how many messages are ready in each queue."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        return {
            queue: channel.queue_declare(queue, passive=True).method.message_count
            for queue in queues
        }


class Consumer:
    """Empties queues; each must hold what the broker said that it holds.

    Attributes:
        received: the numbers of the flights that came, for each queue.
    """

    def __init__(self, flights: Sequence[Flight], queues: Iterable[str]) -> None:
        self.received: dict[str, list[int]] = {queue: [] for queue in queues}
        self._flights = flights
        self._failure: str | None = None

    def run(self, url: str) -> None:
        """Consume until the queues are empty."""
        counts = ready_counts(url, self.received)
        self._open_queues = {queue: count for queue, count in counts.items() if count}
        self._loop = IOLoop()
        self._connection = pika.SelectConnection(
            pika.URLParameters(url),
            on_open_callback=self._start,
            on_open_error_callback=lambda _, error: self._fail(f"cannot connect: {error!r}"),
            on_close_callback=self._closed,
            custom_ioloop=self._loop,
        )
        self._loop.start()
        self._loop.close()
        if self._failure is not None:
            raise TrafficError(self._failure)

    def _start(self, connection: pika.SelectConnection) -> None:
        for queue in self._open_queues:
            connection.channel(
                on_open_callback=lambda channel, queue=queue: self._consume(channel, queue)
            )
        self._close_if_done()

    def _consume(self, channel: Channel, queue: str) -> None:
        channel.basic_qos(prefetch_count=PREFETCH)
        channel.basic_consume(queue, self._take, consumer_tag=queue)

    def _take(
        self, channel: Channel, method: Any, properties: BasicProperties, body: bytes
    ) -> None:
        queue = method.consumer_tag
        number = int(properties.message_id)
        if body != self._flights[number].line:
            self._fail(f"flight {number} came back altered")
        numbers = self.received[queue]
        numbers.append(number)
        if len(numbers) == self._open_queues[queue]:
            channel.basic_ack(method.delivery_tag, multiple=True)
            del self._open_queues[queue]
            self._close_if_done()
        elif len(numbers) % ACK_EVERY == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)

    def _close_if_done(self) -> None:
        if not self._open_queues:
            self._connection.close()

    def _closed(self, _: Any, reason: Exception) -> None:
        if self._open_queues:
            self._fail(f"the connection was lost: {reason!r}")
        self._loop.stop()

    def _fail(self, why: str) -> None:
        self._failure = why
        self._loop.stop()
