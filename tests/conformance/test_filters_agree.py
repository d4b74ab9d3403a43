"""One filter in every place where it may stand: it chooses the same messages everywhere."""

from __future__ import annotations

import base64
import io
import random
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import httpx
import pika
import pyarrow as pa
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from tests.conformance.marks import differs
from tests.conformance.pika_steps import Inbox, depth, pump

# Of these places RabbitMQ has none.
pytestmark = differs

COUNT = 300
FILTERS: tuple[dict[str, str], ...] = (
    {"x-filter-tags": "late || lost"},
    {"x-filter-sql": "delay > 60 AND origin = 'JFK'"},
    {"x-filter-sql": "\"x-tag\" = 'late' OR origin LIKE '%W%'"},
    {"x-filter-sql": "origin IS NULL OR NOT (delay BETWEEN 10 AND 90)"},
    {"x-filter-sql": "delay > 60 AND TAGS = 'late'", "x-filter-dialect": "rocketmq"},
    {"x-filter-tags": "late", "x-filter-sql": "p.priority >= 2"},
    {"x-filter-sql": "routing_key STARTSWITH 'a.' AND delay % 2 = 1"},
)


def messages() -> Iterator[tuple[str, bytes, pika.BasicProperties]]:
    """Key, body and properties; some have no header, and some a text where others have a number."""
    choose = random.Random(7)
    for number in range(COUNT):
        headers: dict[str, Any] = {}
        if choose.random() < 0.7:
            headers[choose.choice(("x-tag", "x-stream-filter-value"))] = choose.choice(
                ("late", "lost", "usual")
            )
        if choose.random() < 0.8:
            headers["origin"] = choose.choice(("JFK", "EWR", "LGA"))
        if choose.random() < 0.9:
            delay = choose.randrange(120)
            headers["delay"] = delay if choose.random() < 0.8 else str(delay)
        properties = pika.BasicProperties(
            headers=headers, delivery_mode=2, priority=choose.choice((None, 0, 2, 4))
        )
        yield choose.choice("ab") + ".k", b"%d" % number, properties


@pytest.fixture
def exchange(channel: BlockingChannel, name: Any) -> str:
    title: str = name("exchange")
    channel.exchange_declare(title, "topic", durable=True)
    channel.confirm_delivery()
    return title


def taken(channel: BlockingChannel, queue: str, **arguments: str) -> list[bytes]:
    """All that a consumer gets up to the last message, which everybody gets."""
    channel.basic_qos(prefetch_count=2 * COUNT)
    inbox = Inbox(channel, queue, arguments=arguments or None)
    pump(channel.connection, lambda: b"end" in inbox.bodies)
    channel.basic_cancel(inbox.tag)
    return inbox.bodies[:-1]


def of_table(api_url: str, stream: str, arguments: dict[str, str]) -> list[bytes]:
    """The bodies of a table over HTTP."""
    names = {"x-filter-tags": "tags", "x-filter-sql": "filter", "x-filter-dialect": "dialect"}
    query = {names[name]: value for name, value in arguments.items()}
    request = urllib.request.Request(
        f"{api_url}/streams/%2F/{stream}/records?{urllib.parse.urlencode(query)}",
        headers={"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()},
    )
    with urllib.request.urlopen(request, timeout=15) as answer:
        read = pa.ipc.open_stream(io.BytesIO(answer.read())).read_all()
    bodies: list[bytes] = read["body"].to_pylist()
    return bodies


CLASS = "agree-odd"
SOURCE = b"""
class Filter:
    def match(self, message):
        return chosen(message.headers, message.body, message.properties.priority)


def chosen(headers, body, priority):
    return headers.get("delay") == 91 or len(body) % 2 == 1 and priority != 2
"""
CHOSEN: dict[str, Any] = {}
exec(SOURCE, CHOSEN)
BESIDE: tuple[dict[str, str], ...] = (
    {},
    {"x-filter-tags": "late || lost"},
    {"x-filter-sql": "origin = 'JFK' AND delay > 30"},
)


# The last message, by which one knows that all have come.
END = pika.BasicProperties(
    headers={"x-tag": "late", "origin": "JFK", "delay": 91}, delivery_mode=2, priority=4
)


@pytest.mark.parametrize("arguments", FILTERS, ids=lambda one: " ".join(one.values()))
def test_the_same_messages_everywhere(
    channel: BlockingChannel,
    connect: Any,
    name: Any,
    exchange: str,
    api_url: str,
    arguments: dict[str, str],
):
    bound, stream = name("bound"), name("stream")
    channel.queue_declare(bound, durable=True)
    channel.queue_bind(bound, exchange, "#", arguments)
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind(stream, exchange, "#")
    for key, body, properties in messages():
        channel.basic_publish(exchange, key, body, properties)
    channel.basic_publish(exchange, "a.k", b"end", END)

    expected = taken(connect().channel(), bound)
    assert 5 < len(expected) < COUNT - 5
    assert (
        taken(connect().channel(), stream, **{"x-stream-offset": "first", **arguments}) == expected
    )
    assert of_table(api_url, stream, arguments) == [*expected, b"end"]


@pytest.fixture
def filter_class(api_url: str) -> str:
    url = f"{api_url}/filter-classes/{CLASS}"
    httpx.put(url, content=SOURCE, auth=("guest", "guest")).raise_for_status()
    return CLASS


@pytest.mark.parametrize("beside", BESIDE, ids=lambda one: " ".join(one.values()) or "alone")
def test_a_class_chooses_the_same_messages_everywhere(
    channel: BlockingChannel,
    connect: Any,
    name: Any,
    exchange: str,
    filter_class: str,
    beside: dict[str, str],
):
    arguments = {"x-filter-class": filter_class, **beside}
    classed, plain, stream = name("classed"), name("plain"), name("stream")
    everything = name("everything")
    channel.queue_declare(everything, durable=True)
    channel.queue_bind(everything, exchange, "#")
    channel.queue_declare(classed, durable=True)
    channel.queue_bind(classed, exchange, "#", arguments)
    channel.queue_declare(plain, durable=True)
    channel.queue_bind(plain, exchange, "#", beside)
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind(stream, exchange, "#")
    told: dict[bytes, pika.BasicProperties] = {}
    for key, body, properties in messages():
        told[body] = properties
        channel.basic_publish(exchange, key, body, properties)
    channel.basic_publish(exchange, "a.k", b"end", END)

    # What the class says of what the others let pass, one message after the other.
    expected = [
        body
        for body in taken(connect().channel(), plain)
        if CHOSEN["chosen"](told[body].headers, body, told[body].priority)
    ]
    assert 5 < len(expected) < COUNT - 5
    assert taken(connect().channel(), classed) == expected
    assert taken(connect().channel(), everything, **arguments) == expected
    assert depth(channel, everything) == COUNT - len(expected)  # the others stay
    reading = {"x-stream-offset": "first", **arguments}
    assert taken(connect().channel(), stream, **reading) == expected
    assert taken(connect().channel(), stream, **reading, **{"x-group": "g"}) == expected
