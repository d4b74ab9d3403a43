"""The headers of distributed tracing (W3C trace context) pass through the broker as they came."""

from __future__ import annotations

import time
from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from tests.conformance.pika_steps import Inbox

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE;k@v=ünïcode," + "x" * 300
HEADERS = {"traceparent": PARENT, "tracestate": STATE}


def direct(channel: BlockingChannel, name: Callable[..., str]) -> str:
    queue = name("direct")
    channel.queue_declare(queue, durable=True)
    publish(channel, "", queue)
    return queue


def dead_lettered(channel: BlockingChannel, name: Callable[..., str]) -> str:
    queue, dies = name("letters"), name("dies")
    channel.queue_declare(queue)
    target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue_declare(dies, arguments={**target, "x-message-ttl": 1})
    publish(channel, "", dies)
    return queue


def delayed(channel: BlockingChannel, name: Callable[..., str]) -> str:
    queue = name("later")
    channel.queue_declare(queue)
    due_ms = int(time.time() * 1000) + 50
    publish(channel, "", queue, **{"x-deliver-at": due_ms})
    return queue


def streamed(channel: BlockingChannel, name: Callable[..., str]) -> str:
    queue = name("stream")
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
    publish(channel, "", queue)
    return queue


def filtered(channel: BlockingChannel, name: Callable[..., str]) -> str:
    queue, exchange = name("filtered"), name("exchange")
    channel.queue_declare(queue)
    channel.exchange_declare(exchange, "topic")
    arguments = {"x-filter-sql": "traceparent LIKE '00-%'"}
    channel.queue_bind(queue, exchange, "#", arguments)
    publish(channel, exchange, "k")
    return queue


def retried(channel: BlockingChannel, name: Callable[..., str]) -> str:
    queue = direct(channel, name)
    method, _, _ = channel.basic_get(queue)
    channel.basic_nack(method.delivery_tag)
    return queue


def publish(channel: BlockingChannel, exchange: str, key: str, **more: int) -> None:
    properties = pika.BasicProperties(delivery_mode=2, headers={**HEADERS, **more})
    channel.basic_publish(exchange, key, b"x", properties)


@pytest.mark.parametrize("way", [direct, dead_lettered, delayed, streamed, filtered, retried])
def test_trace_context_is_left_alone(
    channel: BlockingChannel,
    name: Callable[..., str],
    way: Callable[[BlockingChannel, Callable[..., str]], str],
):
    queue = way(channel, name)
    channel.basic_qos(prefetch_count=1)
    arguments = {"x-stream-offset": "first"} if way is streamed else {}
    inbox = Inbox(channel, queue, arguments=arguments)
    inbox.wait_for(1)
    headers = inbox.properties[0].headers
    assert {key: headers[key] for key in HEADERS} == HEADERS
