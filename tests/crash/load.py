"""Load for a broker that is going to die: a publisher and a consumer that keep exact books.

Every message has a number of its own, and a body that follows from the number. A number is
published once: what was not confirmed when the broker died may be there or not, what was confirmed
must be.
"""

import hashlib
import threading
from typing import Any

import pika
from pika import BasicProperties
from pika.adapters.select_connection import IOLoop
from pika.exceptions import AMQPError

WINDOW = 300
PERSISTENT = BasicProperties(delivery_mode=2)


def body_of(number: int) -> bytes:
    """Make the body of a message: 40 to about 6,000 octets."""
    seed = hashlib.sha256(b"%d" % number).digest()
    return b"%08d" % number + seed * (1 + seed[0] % 190 if seed[1] % 10 == 0 else 1)


def number_of(body: bytes) -> int:
    """Return the number of a message whose body is as it was published."""
    number = int(body[:8])
    assert body == body_of(number), f"message {number} came back altered"
    return number


class Publisher(threading.Thread):
    """Publishes until the broker dies, with a window of unconfirmed messages.

    Attributes:
        confirmed: the numbers that the broker has confirmed.
        next_number: the first number that was not published.
    """

    def __init__(self, url: str, exchange: str, first_number: int, target: int) -> None:
        super().__init__(name="publisher")
        self.confirmed: set[int] = set()
        self.next_number = first_number
        self.on_target = threading.Event()
        self.refused: str | None = None
        self._url = url
        self._exchange = exchange
        self._first_number = first_number
        self._target = target
        self._oldest_tag = 1
        self._out_of_order: set[int] = set()

    def run(self) -> None:
        loop = IOLoop()
        pika.SelectConnection(
            pika.URLParameters(self._url),
            on_open_callback=lambda opened: opened.channel(on_open_callback=self._start),
            on_open_error_callback=lambda *_: loop.stop(),
            on_close_callback=lambda *_: loop.stop(),
            custom_ioloop=loop,
        )
        loop.start()
        loop.close()

    def _start(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._fill())

    def _fill(self) -> None:
        published = self.next_number - self._first_number
        while published - self._oldest_tag + 1 < WINDOW and self._channel.is_open:
            self._channel.basic_publish(
                self._exchange, "", body_of(self.next_number), PERSISTENT, mandatory=True
            )
            self.next_number += 1
            published += 1

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        if not isinstance(method, pika.spec.Basic.Ack):
            self.refused = repr(method)
        if method.multiple:
            tags = range(self._oldest_tag, method.delivery_tag + 1)
        else:
            tags = range(method.delivery_tag, method.delivery_tag + 1)
        self.confirmed.update(self._first_number + tag - 1 for tag in tags)
        self._out_of_order.update(tags)
        while self._oldest_tag in self._out_of_order:
            self._out_of_order.remove(self._oldest_tag)
            self._oldest_tag += 1
        if len(self.confirmed) >= self._target:
            self.on_target.set()
        self._fill()


class Consumer(threading.Thread):
    """Consumes and acks until the broker dies."""

    def __init__(self, url: str, queue: str) -> None:
        super().__init__(name="consumer")
        self.numbers: list[int] = []
        self._url = url
        self._queue = queue

    def run(self) -> None:
        try:
            with pika.BlockingConnection(pika.URLParameters(self._url)) as connection:
                channel = connection.channel()
                channel.basic_qos(prefetch_count=50)
                for method, _, body in channel.consume(self._queue):
                    self.numbers.append(number_of(body))
                    channel.basic_ack(method.delivery_tag)
        except (AMQPError, OSError):
            return


def drain(url: str, queue: str) -> list[bytes]:
    """Take every ready message out of a queue."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        count = channel.queue_declare(queue, passive=True).method.message_count
        bodies: list[bytes] = []
        if count:
            for _, _, body in channel.consume(queue, auto_ack=True):
                bodies.append(body)
                if len(bodies) == count:
                    break
            assert channel.cancel() == 0
        return bodies
