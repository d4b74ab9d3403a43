"""What each Python client of AMQP does to publish and to consume, in the idiom that suits it best.

A driver is a class with four methods, each of which connects anew and returns what it measured:
seconds for a number of messages, seconds of each confirmed publish, or the deliveries it holds.
Invariants: all of them publish transient messages with `mandatory`, so that the broker does the
same for each; whoever can keep a window of unconfirmed publishes keeps one of WINDOW; all ack each
delivery by itself. A client is imported by its own driver only, so that no process pays for others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

WINDOW = 1000
PREFETCH = 1000


class Driver(Protocol):
    """One client, in one idiom."""

    def publish(self, url: str, queue: str, body: bytes, count: int) -> float:
        """Publish so many messages; returns seconds until all are confirmed."""

    def consume(self, url: str, queue: str, count: int) -> float:
        """Receive so many messages and ack each; returns seconds from the first to the last."""

    def latencies(self, url: str, queue: str, body: bytes, count: int) -> list[float]:
        """Publish one message after the other; returns seconds until each was confirmed."""

    def hold(self, url: str, queue: str, count: int, full: Callable[[], None]) -> None:
        """Receive so many messages without settling them; call `full` while all are there."""


class Window:
    """Counts what is not confirmed, for clients that say so by callbacks."""

    def __init__(self, count: int, publish: Callable[[], None]) -> None:
        self.left, self.open, self.confirmed, self.count = count, 0, 0, count
        self._publish = publish

    def fill(self) -> None:
        """Publish until the window is full."""
        while self.left and self.open < WINDOW:
            self.left -= 1
            self.open += 1
            self._publish()

    def confirm(self, many: int) -> bool:
        """So many were confirmed; returns whether all are."""
        self.open -= many
        self.confirmed += many
        self.fill()
        return self.confirmed == self.count


class Leporid:
    """leporid.client: `publish_many`, and an asynchronous iterator."""

    def publish(self, url: str, queue: str, body: bytes, count: int) -> float:
        """Publish with a window."""
        from leporid.client import Message, connect

        async def run() -> float:
            async with connect(url) as connection, connection.channel() as channel:
                message = Message(body, persistent=False)
                began = time.perf_counter()
                await channel.default_exchange.publish_many(
                    (message for _ in range(count)), queue, window=WINDOW
                )
                return time.perf_counter() - began

        return asyncio.run(run())

    def consume(self, url: str, queue: str, count: int) -> float:
        """Iterate, and ack each."""
        from leporid.client import connect

        async def run() -> float:
            async with connect(url) as connection, connection.channel() as channel:
                source = await channel.queue(queue, passive=True)
                async with source.consume(prefetch=PREFETCH) as consumer:
                    left, began = count, 0.0
                    async for delivery in consumer:
                        began = began or time.perf_counter()
                        await delivery.ack()
                        left -= 1
                        if not left:
                            break
                    return time.perf_counter() - began

        return asyncio.run(run())

    def latencies(self, url: str, queue: str, body: bytes, count: int) -> list[float]:
        """Await each publish."""
        from leporid.client import connect

        async def run() -> list[float]:
            async with connect(url) as connection, connection.channel() as channel:
                exchange = channel.default_exchange
                return await timed(lambda: exchange.publish(body, queue, persistent=False), count)

        return asyncio.run(run())

    def hold(self, url: str, queue: str, count: int, full: Callable[[], None]) -> None:
        """Keep every delivery in a list."""
        from leporid.client import connect

        async def run() -> None:
            async with connect(url) as connection, connection.channel() as channel:
                source = await channel.queue(queue, passive=True)
                async with source.consume(prefetch=0) as consumer:
                    held = []
                    async for delivery in consumer:
                        held.append(delivery)
                        if len(held) == count:
                            break
                    full()

        asyncio.run(run())


class LeporidGather(Leporid):
    """leporid.client as aio-pika is used: a task for each publish of a window."""

    def publish(self, url: str, queue: str, body: bytes, count: int) -> float:
        """Gather a window of publishes, then the next."""
        from leporid.client import connect

        async def run() -> float:
            async with connect(url) as connection, connection.channel() as channel:
                exchange = channel.default_exchange
                return await gathered(
                    lambda: exchange.publish(body, queue, persistent=False), count
                )

        return asyncio.run(run())


class LeporidBlocking:
    """leporid.client.blocking."""

    def publish(self, url: str, queue: str, body: bytes, count: int) -> float:
        """Publish with a window."""
        from leporid.client import Message
        from leporid.client.blocking import connect

        with connect(url) as connection, connection.channel() as channel:
            message = Message(body, persistent=False)
            began = time.perf_counter()
            channel.default_exchange.publish_many(
                (message for _ in range(count)), queue, window=WINDOW
            )
            return time.perf_counter() - began

    def consume(self, url: str, queue: str, count: int) -> float:
        """Iterate, and ack each."""
        from leporid.client.blocking import connect

        with (
            connect(url) as connection,
            connection.channel() as channel,
            channel.queue(queue, passive=True).consume(prefetch=PREFETCH) as consumer,
        ):
            left, began = count, 0.0
            for delivery in consumer:
                began = began or time.perf_counter()
                delivery.ack()
                left -= 1
                if not left:
                    break
            return time.perf_counter() - began

    def latencies(self, url: str, queue: str, body: bytes, count: int) -> list[float]:
        """Publish one by one."""
        from leporid.client.blocking import connect

        with connect(url) as connection, connection.channel() as channel:
            exchange = channel.default_exchange
            return timed_calls(lambda: exchange.publish(body, queue, persistent=False), count)

    def hold(self, url: str, queue: str, count: int, full: Callable[[], None]) -> None:
        """Keep every delivery in a list."""
        from leporid.client.blocking import connect

        with (
            connect(url) as connection,
            connection.channel() as channel,
            channel.queue(queue, passive=True).consume(prefetch=0) as consumer,
        ):
            held = []
            for delivery in consumer:
                held.append(delivery)
                if len(held) == count:
                    break
            full()


class PikaBlocking:
    """pika.BlockingConnection, which confirms one publish at a time."""

    def _channel(self, url: str) -> tuple[Any, Any]:
        import pika

        connection = pika.BlockingConnection(pika.URLParameters(url))
        return connection, connection.channel()

    def publish(self, url: str, queue: str, body: bytes, count: int) -> float:
        """Publish one by one: there is no window."""
        connection, channel = self._channel(url)
        channel.confirm_delivery()
        began = time.perf_counter()
        for _ in range(count):
            channel.basic_publish("", queue, body, mandatory=True)
        seconds = time.perf_counter() - began
        connection.close()
        return seconds

    def consume(self, url: str, queue: str, count: int) -> float:
        """Have a callback called, and ack each."""
        connection, channel = self._channel(url)
        channel.basic_qos(prefetch_count=PREFETCH)
        left, began = count, 0.0

        def on_message(channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
            nonlocal left, began
            began = began or time.perf_counter()
            channel.basic_ack(method.delivery_tag)
            left -= 1
            if not left:
                channel.stop_consuming()

        channel.basic_consume(queue, on_message)
        channel.start_consuming()
        seconds = time.perf_counter() - began
        connection.close()
        return seconds

    def latencies(self, url: str, queue: str, body: bytes, count: int) -> list[float]:
        """Publish one by one."""
        connection, channel = self._channel(url)
        channel.confirm_delivery()
        found = timed_calls(lambda: channel.basic_publish("", queue, body, mandatory=True), count)
        connection.close()
        return found

    def hold(self, url: str, queue: str, count: int, full: Callable[[], None]) -> None:
        """Keep what each callback is given."""
        connection, channel = self._channel(url)
        held: list[object] = []

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            held.append((method, properties, body))
            if len(held) == count:
                channel.stop_consuming()

        channel.basic_consume(queue, on_message)
        channel.start_consuming()
        full()
        connection.close()


class PikaSelect:
    """pika.SelectConnection: callbacks on its own loop, with a window of publishes."""

    def _run(self, url: str, opened: Callable[[Any, Callable[[], None]], None]) -> None:
        import pika

        def stop() -> None:
            connection.close()

        connection = pika.SelectConnection(
            pika.URLParameters(url),
            on_open_callback=lambda it: it.channel(
                on_open_callback=lambda channel: opened(channel, stop)
            ),
            on_close_callback=lambda it, _: it.ioloop.stop(),
        )
        connection.ioloop.start()

    def publish(self, url: str, queue: str, body: bytes, count: int) -> float:
        """Keep a window of publishes, confirmed by callbacks."""
        seconds = 0.0

        def opened(channel: Any, stop: Callable[[], None]) -> None:
            confirmed = 0
            began = time.perf_counter()

            def publish() -> None:
                channel.basic_publish("", queue, body, mandatory=True)

            window = Window(count, publish)

            def on_confirm(frame: Any) -> None:
                nonlocal confirmed, seconds
                tag, multiple = frame.method.delivery_tag, frame.method.multiple
                many = tag - confirmed if multiple else 1
                confirmed = tag if multiple else confirmed + 1
                if window.confirm(many):
                    seconds = time.perf_counter() - began
                    stop()

            channel.confirm_delivery(on_confirm, callback=lambda _: window.fill())

        self._run(url, opened)
        return seconds

    def consume(self, url: str, queue: str, count: int) -> float:
        """Have a callback called, and ack each."""
        left, began, seconds = count, 0.0, 0.0

        def opened(channel: Any, stop: Callable[[], None]) -> None:
            def on_message(channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
                nonlocal left, began, seconds
                began = began or time.perf_counter()
                channel.basic_ack(method.delivery_tag)
                left -= 1
                if not left:
                    seconds = time.perf_counter() - began
                    stop()

            channel.basic_qos(
                prefetch_count=PREFETCH, callback=lambda _: channel.basic_consume(queue, on_message)
            )

        self._run(url, opened)
        return seconds

    def latencies(self, url: str, queue: str, body: bytes, count: int) -> list[float]:
        """Publish the next one when one is confirmed."""
        found: list[float] = []

        def opened(channel: Any, stop: Callable[[], None]) -> None:
            began = 0.0

            def publish() -> None:
                nonlocal began
                began = time.perf_counter()
                channel.basic_publish("", queue, body, mandatory=True)

            def on_confirm(_: Any) -> None:
                found.append(time.perf_counter() - began)
                if len(found) == count:
                    stop()
                else:
                    publish()

            channel.confirm_delivery(on_confirm, callback=lambda _: publish())

        self._run(url, opened)
        return found

    def hold(self, url: str, queue: str, count: int, full: Callable[[], None]) -> None:
        """Keep what each callback is given."""
        held: list[object] = []

        def opened(channel: Any, stop: Callable[[], None]) -> None:
            def on_message(_channel: Any, method: Any, properties: Any, body: bytes) -> None:
                held.append((method, properties, body))
                if len(held) == count:
                    full()
                    stop()

            channel.basic_consume(queue, on_message)

        self._run(url, opened)


class AioPika:
    """aio-pika: a task for each publish of a window, and callbacks."""

    def publish(self, url: str, queue: str, body: bytes, count: int) -> float:
        """Gather a window of publishes, then the next."""
        import aio_pika

        async def run() -> float:
            async with await aio_pika.connect(url) as connection:
                channel = await connection.channel()
                exchange = channel.default_exchange
                return await gathered(
                    lambda: exchange.publish(aio_pika.Message(body), queue, mandatory=True), count
                )

        return asyncio.run(run())

    def consume(self, url: str, queue: str, count: int) -> float:
        """Have a coroutine called, and ack each."""
        import aio_pika

        async def run() -> float:
            async with await aio_pika.connect(url) as connection:
                channel = await connection.channel()
                await channel.set_qos(prefetch_count=PREFETCH)
                source = await channel.get_queue(queue)
                left, began = count, 0.0
                done = asyncio.get_running_loop().create_future()

                async def on_message(message: Any) -> None:
                    nonlocal left, began
                    began = began or time.perf_counter()
                    await message.ack()
                    left -= 1
                    if not left:
                        done.set_result(None)

                tag = await source.consume(on_message)
                await done
                seconds = time.perf_counter() - began
                await source.cancel(tag)
                return seconds

        return asyncio.run(run())

    def latencies(self, url: str, queue: str, body: bytes, count: int) -> list[float]:
        """Await each publish."""
        import aio_pika

        async def run() -> list[float]:
            async with await aio_pika.connect(url) as connection:
                exchange = (await connection.channel()).default_exchange
                return await timed(
                    lambda: exchange.publish(aio_pika.Message(body), queue, mandatory=True), count
                )

        return asyncio.run(run())

    def hold(self, url: str, queue: str, count: int, full: Callable[[], None]) -> None:
        """Keep every message in a list."""
        import aio_pika

        async def run() -> None:
            async with await aio_pika.connect(url) as connection:
                source = await (await connection.channel()).get_queue(queue)
                held: list[object] = []
                done = asyncio.get_running_loop().create_future()

                async def on_message(message: Any) -> None:
                    held.append(message)
                    if len(held) == count:
                        done.set_result(None)

                tag = await source.consume(on_message)
                await done
                full()
                await source.cancel(tag)

        asyncio.run(run())


class Amqpstorm:
    """AMQPStorm: a thread of its own for the socket, one confirm at a time."""

    def _connect(self, url: str) -> Any:
        import amqpstorm

        return amqpstorm.UriConnection(url)  # type: ignore[attr-defined]

    def publish(self, url: str, queue: str, body: bytes, count: int) -> float:
        """Publish one by one: there is no window."""
        with self._connect(url) as connection, connection.channel() as channel:
            channel.confirm_deliveries()
            began = time.perf_counter()
            for _ in range(count):
                channel.basic.publish(body, queue, mandatory=True)
            return time.perf_counter() - began

    def consume(self, url: str, queue: str, count: int) -> float:
        """Have a callback called, and ack each."""
        with self._connect(url) as connection, connection.channel() as channel:
            channel.basic.qos(PREFETCH)
            left, began = count, 0.0

            def on_message(message: Any) -> None:
                nonlocal left, began
                began = began or time.perf_counter()
                message.ack()
                left -= 1
                if not left:
                    channel.stop_consuming()

            channel.basic.consume(on_message, queue)
            channel.start_consuming()
            return time.perf_counter() - began

    def latencies(self, url: str, queue: str, body: bytes, count: int) -> list[float]:
        """Publish one by one."""
        with self._connect(url) as connection, connection.channel() as channel:
            channel.confirm_deliveries()
            return timed_calls(lambda: channel.basic.publish(body, queue, mandatory=True), count)

    def hold(self, url: str, queue: str, count: int, full: Callable[[], None]) -> None:
        """Keep every message in a list."""
        with self._connect(url) as connection, connection.channel() as channel:
            held: list[object] = []

            def on_message(message: Any) -> None:
                held.append(message)
                if len(held) == count:
                    channel.stop_consuming()

            channel.basic.consume(on_message, queue)
            channel.start_consuming()
            full()


class Kombu:
    """kombu over py-amqp, with confirms: one at a time."""

    def _connect(self, url: str) -> Any:
        import kombu

        return kombu.Connection(url, transport_options={"confirm_publish": True})

    def _publisher(self, connection: Any, queue: str, body: bytes) -> Callable[[], object]:
        producer = connection.Producer()

        def publish() -> object:
            return producer.publish(
                body, routing_key=queue, delivery_mode=1, mandatory=True,
                content_type="application/octet-stream", content_encoding="binary",
            )  # fmt: skip

        return publish

    def publish(self, url: str, queue: str, body: bytes, count: int) -> float:
        """Publish one by one: there is no window."""
        with self._connect(url) as connection:
            publish = self._publisher(connection, queue, body)
            publish()
            began = time.perf_counter()
            for _ in range(count):
                publish()
            return time.perf_counter() - began

    def _receive(self, url: str, queue: str, prefetch: int, on_message: Callable[[Any], bool],
                 full: Callable[[], None]) -> None:  # fmt: skip
        import kombu

        with self._connect(url) as connection:
            source = kombu.Queue(queue, no_declare=True)
            going = True

            def receive(message: Any) -> None:
                nonlocal going
                going = on_message(message)

            with connection.Consumer(
                [source], on_message=receive, prefetch_count=prefetch, auto_declare=False
            ):
                while going:
                    connection.drain_events()
                full()

    def consume(self, url: str, queue: str, count: int) -> float:
        """Have a callback called, and ack each."""
        left, began, seconds = count, 0.0, 0.0

        def on_message(message: Any) -> bool:
            nonlocal left, began, seconds
            began = began or time.perf_counter()
            message.ack()
            left -= 1
            seconds = time.perf_counter() - began
            return left > 0

        self._receive(url, queue, PREFETCH, on_message, lambda: None)
        return seconds

    def latencies(self, url: str, queue: str, body: bytes, count: int) -> list[float]:
        """Publish one by one."""
        with self._connect(url) as connection:
            publish = self._publisher(connection, queue, body)
            publish()
            return timed_calls(publish, count)

    def hold(self, url: str, queue: str, count: int, full: Callable[[], None]) -> None:
        """Keep every message in a list."""
        held: list[object] = []

        def on_message(message: Any) -> bool:
            held.append(message)
            return len(held) < count

        self._receive(url, queue, 0, on_message, full)


async def gathered(publish: Callable[[], Awaitable[object]], count: int) -> float:
    """Publish a window at a time, each with a task of its own."""
    began = time.perf_counter()
    for start in range(0, count, WINDOW):
        await asyncio.gather(*(publish() for _ in range(min(WINDOW, count - start))))
    return time.perf_counter() - began


async def timed(publish: Callable[[], Awaitable[object]], count: int) -> list[float]:
    """How long each of many publishes takes, one after the other."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        await publish()
        found.append(time.perf_counter() - began)
    return found


def timed_calls(publish: Callable[[], object], count: int) -> list[float]:
    """The same for a client that blocks."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        publish()
        found.append(time.perf_counter() - began)
    return found


DRIVERS: dict[str, type[Driver]] = {
    "leporid": Leporid,
    "leporid-gather": LeporidGather,
    "leporid-blocking": LeporidBlocking,
    "pika": PikaBlocking,
    "pika-select": PikaSelect,
    "aio-pika": AioPika,
    "amqpstorm": Amqpstorm,
    "kombu": Kombu,
}


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which such a share of them lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
