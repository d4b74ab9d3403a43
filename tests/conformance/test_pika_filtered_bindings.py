"""Bindings with filters as pika sees them. RabbitMQ keeps the arguments and takes no notice."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker, UnroutableError
from tests.conformance.marks import differs
from tests.conformance.pika_steps import drain

from leporid.testing import BrokerProcess

pytestmark = differs

LATE_FROM_JFK = {"x-filter-sql": "dep_delay > 60 AND origin = 'JFK'"}


def send(channel: BlockingChannel, exchange: str, key: str, body: str, **headers: Any) -> None:
    named = {name.replace("_", "-") if name == "x_tag" else name: headers[name] for name in headers}
    properties = pika.BasicProperties(headers=named, delivery_mode=2)
    channel.basic_publish(exchange, key, body.encode(), properties, mandatory=True)


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "headers"])
def test_a_queue_gets_what_matches(channel, name, kind):
    exchange, late, tagged, everything = (name(each) for each in "xlte")
    channel.exchange_declare(exchange, kind)
    for queue, arguments in (
        (late, LATE_FROM_JFK),
        (tagged, {"x-filter-tags": "lost || diverted"}),
        (everything, {}),
    ):
        channel.queue_declare(queue)
        channel.queue_bind(queue, exchange, "k", arguments)
    channel.confirm_delivery()
    send(channel, exchange, "k", "1", dep_delay=61, origin="JFK")
    send(channel, exchange, "k", "2", dep_delay=60, origin="JFK", x_tag="lost")
    send(channel, exchange, "k", "3", dep_delay=61, origin="LGA", x_tag="landed")
    send(channel, exchange, "k", "4")
    assert drain(channel, late) == [b"1"]
    assert drain(channel, tagged) == [b"2"]
    assert drain(channel, everything) == [b"1", b"2", b"3", b"4"]


def test_what_passes_no_filter_is_returned_or_goes_to_the_alternate_exchange(channel, name):
    exchange, other, late, rest = (name(each) for each in "xolr")
    channel.exchange_declare(exchange, "topic")
    channel.queue_declare(late)
    channel.queue_bind(late, exchange, "#", LATE_FROM_JFK)
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        send(channel, exchange, "k", "1", dep_delay=1, origin="JFK")
    channel.exchange_declare(other, "fanout")
    channel.queue_declare(rest)
    channel.queue_bind(rest, other)
    above = name("above")
    channel.exchange_declare(above, "topic", arguments={"alternate-exchange": other})
    channel.exchange_bind(exchange, above, "#", {"x-filter-tags": "flight"})
    send(channel, above, "k", "2", dep_delay=61, origin="JFK", x_tag="flight")
    send(channel, above, "k", "3", dep_delay=61, origin="JFK", x_tag="train")
    assert (drain(channel, late), drain(channel, rest)) == ([b"2"], [b"3"])


def test_unbinding_takes_the_same_arguments(channel, name):
    exchange, queue = name("x"), name("q")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, "", LATE_FROM_JFK)
    channel.queue_unbind(queue, exchange, "")
    channel.confirm_delivery()
    send(channel, exchange, "", "1", dep_delay=61, origin="JFK")
    channel.queue_unbind(queue, exchange, "", LATE_FROM_JFK)
    with pytest.raises(UnroutableError):
        send(channel, exchange, "", "2", dep_delay=61, origin="JFK")
    assert drain(channel, queue) == [b"1"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-filter-sql": "dep_delay >"}, "invalid arg 'x-filter-sql': character 12: "),
        ({"x-filter-tags": "a||*"}, "invalid arg 'x-filter-tags': character 4: "),
        ({"x-filter-sql": 5}, "invalid arg 'x-filter-sql': it must be a string, not "),
        ({"x-filter-tag": "a"}, "invalid arg 'x-filter-tag': there is none of that name"),
    ],
)
def test_a_bad_filter_is_refused(connect, channel, name, arguments, text):
    exchange, queue = name("x"), name("q")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(queue)
    refused = connect().channel()
    with pytest.raises(ChannelClosedByBroker) as closed:
        refused.queue_bind(queue, exchange, "", arguments)
    assert closed.value.reply_code == 406
    assert text in closed.value.reply_text
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        send(channel, exchange, "", "1")


def test_durable_bindings_keep_their_filters(own_broker: BrokerProcess):
    connection = pika.BlockingConnection(pika.URLParameters(own_broker.url))
    channel = connection.channel()
    channel.exchange_declare("x", "topic", durable=True)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "x", "#", LATE_FROM_JFK | {"x-filter-tags": "flight"})
    own_broker.kill()
    with suppress(AMQPError):
        connection.close()
    own_broker.start()
    connection = pika.BlockingConnection(pika.URLParameters(own_broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    send(channel, "x", "k", "1", dep_delay=61, origin="JFK", x_tag="flight")
    with pytest.raises(UnroutableError):
        send(channel, "x", "k", "2", dep_delay=61, origin="JFK")
    assert drain(channel, "q") == [b"1"]
    connection.close()
