"""pika's asynchronous connection: everything at once, nothing waited for in between.

A test is one function for each connection: it is called with the open channel's `Script`, sets
things going, and calls `done` somewhere. All run on one loop until every connection has closed.
"""

import time
from collections.abc import Callable
from typing import Any

import pika
from pika import BasicProperties
from pika.adapters.select_connection import IOLoop
from pika.channel import Channel

SECONDS = 30.0


class Script:
    """One connection with one channel, which a test's function uses."""

    def __init__(self, url: str, play: Callable[["Script"], None], loop: IOLoop) -> None:
        self.channel: Channel
        self.ended = False
        self.outcome = "still running"
        self._play = play
        self._loop = loop
        self._connection = pika.SelectConnection(
            pika.URLParameters(url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=lambda _, error: self._end(f"not opened: {error!r}"),
            on_close_callback=lambda _, reason: self._end(f"closed: {reason!r}"),
            custom_ioloop=loop,
        )

    def done(self) -> None:
        """Close the connection."""
        if self.outcome == "still running":
            self.outcome = "done"
            self._connection.close()

    def _opened(self, channel: Channel) -> None:
        self.channel = channel
        self._play(self)

    def _end(self, outcome: str) -> None:
        self.ended = True
        if self.outcome != "done":
            self.outcome = outcome
        self._loop.stop()


def run(url: str, *plays: Callable[[Script], None]) -> None:
    """Run scripts until each of them is done and its connection is closed."""
    loop = IOLoop()
    scripts = [Script(url, play, loop) for play in plays]
    deadline = time.monotonic() + SECONDS
    loop.call_later(SECONDS, loop.stop)
    while time.monotonic() < deadline and not all(script.ended for script in scripts):
        loop.start()
    assert [script.outcome for script in scripts] == ["done"] * len(scripts)
    loop.close()


def test_thousands_of_confirms_outstanding(broker_url, name):
    count = 5000
    queue = name()
    confirmed: list[int] = []
    acks: list[Any] = []

    def on_confirm(script, frame):
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        acks.append(frame.method)
        first = len(confirmed) + 1
        if frame.method.multiple:
            confirmed.extend(range(first, frame.method.delivery_tag + 1))
        else:
            confirmed.append(frame.method.delivery_tag)
        if len(confirmed) == count:
            script.channel.queue_declare(queue, passive=True, callback=lambda f: last(script, f))

    def last(script, frame):
        assert frame.method.message_count == count
        script.done()

    def publish(script):
        for number in range(count):
            script.channel.basic_publish(
                "", queue, b"%d" % number, BasicProperties(delivery_mode=2)
            )

    def play(script):
        script.channel.queue_declare(queue, durable=True)
        script.channel.confirm_delivery(
            lambda frame: on_confirm(script, frame), callback=lambda _: publish(script)
        )

    run(broker_url, play)
    assert sorted(confirmed) == list(range(1, count + 1))
    assert len(acks) <= count


def test_everything_is_pipelined(broker_url, name):
    """Methods are answered in order, without the client waiting for any of them."""
    exchange, queue = name("exchange"), name("queue")
    answers: list[str] = []

    def play(script):
        channel = script.channel

        def note(frame):
            answers.append(frame.method.NAME)

        channel.exchange_declare(exchange, "topic", callback=note)
        channel.queue_declare(queue, callback=note)
        channel.queue_bind(queue, exchange, "#", callback=note)
        channel.basic_qos(prefetch_count=1, callback=note)
        channel.basic_publish(exchange, "a.b", b"1")
        channel.basic_publish(exchange, "", b"2")
        channel.queue_purge(queue, callback=note)
        channel.queue_unbind(queue, exchange, "#", callback=note)
        channel.queue_delete(queue, callback=note)
        channel.exchange_delete(exchange, callback=lambda _: script.done())

    run(broker_url, play)
    assert answers == [
        "Exchange.DeclareOk",
        "Queue.DeclareOk",
        "Queue.BindOk",
        "Basic.QosOk",
        "Queue.PurgeOk",
        "Queue.UnbindOk",
        "Queue.DeleteOk",
    ]


def test_publisher_and_consumer_on_one_connection(broker_url, name):
    count = 4000
    queue = name()
    got: list[bytes] = []

    def play(script):
        def take(channel, method, _properties, body):
            got.append(body)
            if len(got) % 100 == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if len(got) == count:
                channel.close()
                script.done()

        script.channel.queue_declare(queue)
        script.channel.basic_qos(prefetch_count=250)
        script.channel.basic_consume(queue, take)
        for number in range(count):
            script.channel.basic_publish("", queue, b"%d" % number)

    run(broker_url, play)
    assert got == [b"%d" % number for number in range(count)]


def test_returns_precede_their_confirms(broker_url, name):
    events: list[tuple[str, int]] = []

    def play(script):
        channel = script.channel

        def on_confirm(frame):
            events.append(("confirm", frame.method.delivery_tag))
            if frame.method.delivery_tag == 3:
                script.done()

        channel.add_on_return_callback(lambda *each: events.append(("return", int(each[3]))))
        channel.confirm_delivery(on_confirm)
        for number in (1, 2, 3):
            channel.basic_publish("amq.direct", name(), b"%d" % number, mandatory=True)

    run(broker_url, play)
    for number in (1, 2, 3):
        confirm = next(i for i, e in enumerate(events) if e[0] == "confirm" and e[1] >= number)
        assert events.index(("return", number)) < confirm


def test_cancelled_consumer_gets_nothing_after_cancel_ok(broker_url, name):
    queue = name()
    events: list[str] = []

    def play(script):
        channel = script.channel

        def cancelled(_):
            events.append("cancelled")
            channel.queue_declare(queue, passive=True, callback=lambda _: script.done())

        def take(*_):
            if not events:
                channel.basic_cancel("me", callback=cancelled)
            events.append("delivery")

        channel.queue_declare(queue)
        channel.basic_consume(queue, take, auto_ack=True, consumer_tag="me")
        for _ in range(500):
            channel.basic_publish("", queue, b"x")

    run(broker_url, play)
    assert events.index("cancelled") == len(events) - 1


def test_consumer_is_told_of_the_end_of_its_queue(broker_url, name):
    queue = name()

    def play(script):
        channel = script.channel
        channel.add_on_cancel_callback(lambda frame: script.done())
        channel.queue_declare(queue)
        channel.basic_consume(queue, print)
        channel.queue_delete(queue)

    run(broker_url, play)


def test_many_connections_at_once(broker_url, name):
    """Twenty connections on one loop, all publishing to and consuming from one exchange."""
    queues = [name() for _ in range(20)]
    scripts: list[Script] = []
    got: list[str] = []

    def player(queue):
        def take(_channel, method, _properties, _body):
            got.append(method.consumer_tag)
            if len(got) == len(queues) ** 2:
                for script in scripts:
                    script.done()

        def ready(script):
            scripts.append(script)
            if len(scripts) == len(queues):
                for each in scripts:
                    each.channel.basic_publish("amq.topic", f"{queues[0]}.x", b"x")

        def play(script):
            script.channel.queue_declare(queue)
            script.channel.queue_bind(queue, "amq.topic", f"{queues[0]}.#")
            script.channel.basic_consume(
                queue, take, auto_ack=True, consumer_tag=queue, callback=lambda _: ready(script)
            )

        return play

    run(broker_url, *[player(queue) for queue in queues])
    assert sorted(got) == sorted(queues * len(queues))
