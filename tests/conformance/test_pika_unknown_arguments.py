"""Arguments that nothing reads: let pass as RabbitMQ does, told to who looks; or refused."""

import re

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from tests.conformance.marks import differs, foreign
from tests.conformance.pika_steps import channel_closed

from leporid.testing import BrokerProcess


def declare(channel, queue, arguments):
    channel.queue_declare(queue, arguments=arguments)


def declare_exchange(channel, exchange, arguments):
    channel.exchange_declare(exchange, "topic", arguments=arguments)


def bind(channel, queue, arguments):
    channel.queue_declare(queue)
    channel.queue_bind(queue, "amq.topic", queue, arguments)


def bind_headers(channel, queue, arguments):
    channel.queue_declare(queue)
    channel.queue_bind(queue, "amq.headers", queue, arguments)


def bind_exchange(channel, exchange, arguments):
    channel.exchange_declare(exchange, "fanout")
    channel.exchange_bind(exchange, "amq.topic", exchange, arguments)


def consume(channel, queue, arguments):
    channel.queue_declare(queue)
    channel.basic_consume(queue, print, arguments=arguments)


def consume_stream(channel, queue, arguments):
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, print, arguments=arguments)


TAGS = (
    "TAGS is a header in the dialect jms; did you mean x-filter-tags, or the dialect rocketmq? "
    'The header is "TAGS" in double quotes'
)

# What is done, with which argument, and what is said of it.
MISTAKES = [
    (declare, {"x-max-lenght": 5}, "did you mean x-max-length?"),
    (declare, {"max_length": 5}, "did you mean x-max-length?"),
    (declare, {"x-ttl": 5}, "did you mean x-message-ttl?"),
    (declare, {"x-made-up": 5}, "there is none of that name"),
    (declare, {"x-priority": 5}, "it is an argument of consumers"),
    (declare_exchange, {"x-strict-key": True}, "did you mean x-strict-keys?"),
    (declare_exchange, {"alternate_exchange": "x"}, "did you mean alternate-exchange?"),
    (bind, {"x-made-up": 1}, "there is none of that name"),
    (bind_headers, {"x-mach": "any", "colour": "red"}, "did you mean x-match?"),
    (bind_exchange, {"x-strict-keys": True}, "it is an argument of exchanges"),
    (bind, {"x-filter-sql": "size > 5 AND TAGS = 'A'"}, TAGS),
    (consume, {"x-prio": 5}, "did you mean x-priority?"),
    (consume, {"x-filter-tags": "A | B"}, "A | B is one tag; || stands between tags"),
    (consume_stream, {"x-groups": "g"}, "did you mean x-group?"),
    (consume_stream, {"x-group": "g", "x-reeder": "r"}, "did you mean x-reader?"),
]

# What is no mistake, or may be none.
NO_MISTAKES = [
    (declare, {"x-ha-policy": "all", "x-queue-mode": "lazy", "x-quorum-target-group-size": 3}),
    (declare, {"owner": "billing", "priority": 1, "n" * 200: 1}),
    (bind_headers, {"x-match": "any", "match": "1", "x-colour": "red", "max-length": 1}),
    (bind_headers, {"x-match": "any-with-x", "x-mach": "1"}),
    (bind, {"x-filter-sql": "\"TAGS\" = 'A' OR t = 'TAGS'", "x-filter-tags": "A || B"}),
    (bind, {"x-filter-sql": "TAGS = 'A'", "x-filter-dialect": "rocketmq"}),
    (consume, {"x-credit": 1, "x-priority": 5, "tag": "mine"}),
]


PLACES = {
    declare: "queue",
    declare_exchange: "exchange",
    bind: "binding",
    bind_headers: "binding",
    bind_exchange: "binding",
    consume: "consumer",
    consume_stream: "consumer",
}


def argument_of(arguments):
    """The one that is wrong, which stands last; of headers, the first."""
    return next(iter(arguments)) if "colour" in arguments else list(arguments)[-1]


def test_they_pass_and_are_told(request, connection, name):
    made = []
    for do, arguments, reason in MISTAKES:
        made.append((PLACES[do], name(), argument_of(arguments), reason))
        for _ in range(2):
            do(connection.channel(), made[-1][1], arguments)
    if foreign:
        return
    api = f"http://127.0.0.1:{request.getfixturevalue('our_broker').http_port}"
    answer = httpx.get(f"{api}/api/unknown-arguments/%2F", auth=("guest", "guest"))
    listed = {
        (one["place"], one["name"], one["argument"]): one
        for one in answer.json()["unknown_arguments"]
    }
    for place, label, argument, reason in made:
        [found] = [
            listed[place, each, argument]
            for each in (label, "amq.topic", "amq.headers")
            if (place, each, argument) in listed
        ]
        assert found["reason"] == reason
        assert found["count"] >= 2
        suggested = re.fullmatch(r"did you mean (\S+)\?", reason)
        assert found["suggestion"] == (suggested and suggested[1])
    metrics = httpx.get(f"{api}/metrics").text
    for place in PLACES.values():
        labels = f'{{place="{place}",vhost="/"}}'
        [count] = re.findall(
            re.escape(f"leporid_unknown_arguments_total{labels} ") + r"(\S+)", metrics
        )
        assert float(count) >= 4


@differs
def test_refused_where_the_configuration_says_so(tmp_path):
    config = tmp_path / "leporid.toml"
    config.write_text('unknown_arguments = "refuse"\n')
    with (
        BrokerProcess(tmp_path / "data", options=["--config", str(config)]) as broker,
        BlockingConnection(pika.URLParameters(broker.url)) as connection,
    ):
        for number, (do, arguments, reason) in enumerate(MISTAKES):
            argument = argument_of(arguments)
            adjective = "doubtful" if "x-filter" in argument else "unknown"
            begin = f"PRECONDITION_FAILED - {adjective} arg '{argument}' ({reason}) for "
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                do(connection.channel(), f"wrong{number}", arguments)
            assert closed.value.reply_code == 406
            assert closed.value.reply_text.startswith(begin)
        for number, (do, arguments) in enumerate(NO_MISTAKES):
            do(connection.channel(), f"right{number}", arguments)
        with channel_closed(404, "NOT_FOUND - no queue 'wrong0' in vhost '/'"):
            connection.channel().queue_declare("wrong0", passive=True)
