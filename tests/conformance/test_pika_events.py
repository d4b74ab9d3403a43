"""The event exchange and the firehose, as pika sees them; the fields are those of RabbitMQ 3.10.8.

`rabbitmq_events.json` has what a real RabbitMQ 3.10.8 with its event exchange told of the same
sessions; what is different here stands below.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

import amqp
from leporid.testing import BrokerProcess, reserve_port

RECORDED = json.loads((Path(__file__).parent / "rabbitmq_events.json").read_text())
PATIENCE_S = 20

# Parameters that only RabbitMQ has, or has besides. Predeclared exchanges come with a virtual host.
NOT_TOLD = {"parameter.set", "parameter.cleared", "vhost.down", "vhost.limits.cleared"}
LEFT_OUT = {
    "connection.created": {
        "peer_cert_issuer",
        "peer_cert_subject",
        "peer_cert_validity",
        "ssl_cipher",
        "ssl_hash",
        "ssl_key_exchange",
        "ssl_protocol",
    },
    "vhost.created": {"metadata"},
}
ADDED = {"vhost.limits.set": {"vhost"}}
# Of one run, or written as Erlang's terms there: tables of arguments, addresses.
OTHER_VALUES = {
    "timestamp_in_ms",
    "pid",
    "owner_pid",
    "connection",
    "connection_name",
    "channel",
    "consumer_tag",
    "node",
    "connected_at",
    "peer_port",
    "port",
    "host",
    "peer_host",
    "client_properties",
    "cluster_state",
    "arguments",
}


class Listener:
    """A queue that is bound to a system exchange, and what came there."""

    def __init__(self, broker: BrokerProcess, exchange: str, *keys: str) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        self.channel = self.connection.channel()
        self.queue = self.channel.queue_declare("", exclusive=True).method.queue
        for key in keys:
            self.channel.queue_bind(self.queue, exchange, key)

    def next(self) -> tuple[str, dict[str, Any], bytes, pika.BasicProperties]:
        """The next message: key, headers, body, properties."""
        for method, properties, body in self.channel.consume(
            self.queue, auto_ack=True, inactivity_timeout=PATIENCE_S
        ):
            assert method is not None, "nothing came"
            return method.routing_key, properties.headers, body, properties
        raise AssertionError

    def until(self, key: str, **fields: Any) -> list[tuple[str, dict[str, Any]]]:
        """Everything up to the message with that key and these fields."""
        found = []
        while True:
            name, headers, body, _ = self.next()
            found.append((name, headers))
            assert name.startswith(("publish.", "deliver.")) or body == b""
            if name == key and fields.items() <= headers.items():
                return found


class Api:
    def __init__(self, broker: BrokerProcess) -> None:
        self.root = f"http://127.0.0.1:{broker.http_port}/api/"

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, method=method, data=data)
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            text = answer.read()
        return json.loads(text) if text.strip() else None


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("events") / "data"
    options = ["--http-port", str(reserve_port())]
    with BrokerProcess(directory, amqp_port=reserve_port(), options=options) as process:
        yield process
        assert process.stop() == 0, process.log_tail()


@pytest.fixture
def api(broker: BrokerProcess) -> Api:
    return Api(broker)


@pytest.fixture
def listener(broker: BrokerProcess) -> Iterator[Listener]:
    """Gets all events."""
    found = Listener(broker, "amq.rabbitmq.event", "#")
    yield found
    found.connection.close()


@pytest.fixture
def firehose(broker: BrokerProcess, api: Api) -> Iterator[Listener]:
    """Gets all copies of messages in the virtual host /, which is traced."""
    found = Listener(broker, "amq.rabbitmq.trace", "#")
    api("PUT", "vhosts/%2F", {"tracing": True})
    yield found
    api("PUT", "vhosts/%2F", {"tracing": False})
    found.connection.close()


def of_amqp(broker: BrokerProcess) -> None:
    """A session over AMQP; its last act is the end of the connection."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare("q1", durable=True, arguments={"x-max-length": 5})
    channel.queue_declare("q1", durable=True, arguments={"x-max-length": 5})
    channel.exchange_declare("x1", "topic", arguments={"alternate-exchange": "amq.fanout"})
    channel.queue_bind("q1", "x1", "a.b", {"n": 1})
    channel.exchange_bind("amq.topic", "x1", "k")
    channel.basic_qos(prefetch_count=7)
    tag = channel.basic_consume("q1", lambda *_: None, arguments={"x-priority": 3})
    channel.basic_cancel(tag)
    channel.queue_unbind("q1", "x1", "a.b", {"n": 1})
    channel.queue_purge("q1")
    channel.queue_declare("q2", auto_delete=True, exclusive=True)
    tag = channel.basic_consume("q2", lambda *_: None, auto_ack=True)
    channel.basic_cancel(tag)
    channel.exchange_delete("x1")
    channel.queue_bind("q1", "amq.topic", "z")
    channel.queue_delete("q1")
    channel.queue_declare("q3", exclusive=True)
    channel.basic_consume("q3", lambda *_: None, auto_ack=True, exclusive=True)
    connection.channel().close()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare("absent", passive=True)
    connection.close()


def of_administrators(api: Api) -> None:
    """A session over HTTP."""
    api("PUT", "users/ann", {"password": "p1", "tags": "management"})
    api("PUT", "users/ann", {"password": "p2", "tags": "monitoring,policymaker"})
    api("PUT", "vhosts/v1", {})
    rights = {"configure": ".*", "write": "w", "read": "r"}
    api("PUT", "permissions/v1/ann", rights)
    api("PUT", "topic-permissions/v1/ann", {"exchange": "amq.topic", "write": "w", "read": "r"})
    api("DELETE", "topic-permissions/v1/ann")
    api("DELETE", "permissions/v1/ann")
    api("PUT", "vhost-limits/v1/max-queues", {"value": 5})
    api("DELETE", "vhost-limits/v1/max-queues")
    api("PUT", "user-limits/ann/max-channels", {"value": 5})
    api("DELETE", "user-limits/ann/max-channels")
    policy = {"pattern": "^x", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
    api("PUT", "policies/%2F/p1", policy)
    api("DELETE", "policies/%2F/p1")
    api("PUT", "operator-policies/%2F/p2", policy)
    api("DELETE", "operator-policies/%2F/p2")
    api("PUT", "queues/%2F/hq", {"durable": True})
    api("DELETE", "queues/%2F/hq")
    api("DELETE", "users/ann")
    api("DELETE", "vhosts/v1")


def of_messages(broker: BrokerProcess) -> None:
    """Messages that are published, got, given back and consumed."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for name in ("t1", "t2"):
            channel.queue_declare(name, exclusive=True)
        channel.exchange_declare("tx", "fanout", auto_delete=True)
        channel.queue_bind("t1", "tx")
        channel.queue_bind("t2", "tx")
        properties = pika.BasicProperties(
            content_type="text/plain",
            headers={"a": 1, "n": {"b": True}},
            delivery_mode=2,
            timestamp=1_700_000_000,
            priority=3,
            message_id="m",
            expiration="60000",
        )
        channel.basic_publish("tx", "k", b"hello", properties)
        method, _, _ = channel.basic_get("t1")
        channel.basic_nack(method.delivery_tag)
        channel.basic_get("t1", auto_ack=True)
        for _ in channel.consume("t2", auto_ack=True):
            break
        channel.cancel()
        copies = pika.BasicProperties(headers={"CC": ["t2"], "BCC": ["nowhere"]})
        channel.basic_publish("", "t1", b"x", copies)
        channel.basic_publish("", "absent", b"y")
        channel.tx_select()
        channel.basic_publish("", "t1", b"tx")


def of_others(
    found: list[tuple[str, dict[str, Any]]], listener: Listener
) -> list[tuple[str, dict[str, Any]]]:
    """Events that are not of the listener itself."""
    return [
        (key, headers)
        for key, headers in found
        if listener.queue not in (headers.get("queue"), headers.get("destination_name"))
    ]


def compared(found: list[tuple[str, dict[str, Any]]], session: str) -> None:
    """Both tell the same events in the same order, with the same fields and plain values."""
    wanted = [
        (event["key"], event["headers"])
        for event in RECORDED[session]
        if event["key"] not in NOT_TOLD
    ]
    assert [key for key, _ in found] == [key for key, _ in wanted]
    for (key, headers), (_, recorded) in zip(found, wanted, strict=True):
        left_out = set(LEFT_OUT.get(key, set()))
        assert set(headers) - set(ADDED.get(key, set())) == set(recorded) - left_out, key
        for name, value in recorded.items():
            if (key, name) == ("binding.deleted", "user_who_performed_action"):
                continue  # of a queue that is deleted, RabbitMQ says itself
            of_run = name in OTHER_VALUES or (name == "name" and " -> " in str(value))
            if name not in left_out and not of_run:
                assert headers[name] == value, (key, name)


def test_what_clients_do_is_told_as_rabbitmq_tells_it(broker: BrokerProcess, listener: Listener):
    of_amqp(broker)
    found = listener.until("connection.closed")
    compared(of_others(found, listener), "of_amqp")
    created = next(headers for key, headers in found if key == "queue.created")
    assert created["arguments"] == {"x-max-length": 5}


def test_what_administrators_do_is_told_as_rabbitmq_tells_it(api: Api, listener: Listener):
    of_administrators(api)
    found = listener.until("vhost.deleted")
    compared(of_others(found, listener), "of_administrators")


def test_a_refused_login_is_told_without_the_password(broker: BrokerProcess, listener: Listener):
    # Not pika, which leaves the socket of a refused login open.
    connection = amqp.Connection(f"127.0.0.1:{broker.amqp_port}", "guest", "wrong-secret")
    with pytest.raises(amqp.exceptions.AccessRefused):
        connection.connect()
    connection.collect()
    *_, (_, headers) = listener.until("user.authentication.failure")
    assert headers["name"] == "guest"
    assert headers["error"] == "user 'guest' - invalid credentials"
    assert headers["auth_mechanism"] == "AMQPLAIN"
    assert "wrong-secret" not in str(headers)


def test_an_event_has_a_time_and_no_body(broker: BrokerProcess):
    listener = Listener(broker, "amq.rabbitmq.event", "queue.*")
    listener.channel.queue_declare("timed", exclusive=True)
    key, headers, body, properties = listener.next()
    assert (key, body, properties.delivery_mode) == ("queue.created", b"", 2)
    assert properties.timestamp == headers["timestamp_in_ms"] // 1000
    listener.connection.close()


def test_nobody_but_the_broker_publishes_there(broker: BrokerProcess):
    for exchange in ("amq.rabbitmq.event", "amq.rabbitmq.trace"):
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
                channel.basic_publish(exchange, "k", b"x")
            assert refused.value.reply_code == 403
            channel = connection.channel()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
                channel.exchange_delete(exchange)
            assert refused.value.reply_code == 403


# ------------------------------------------------------------- the firehose


def test_the_firehose_has_what_rabbitmqs_has(broker: BrokerProcess, firehose: Listener):
    """The same session was recorded with a RabbitMQ 3.10.8."""
    of_messages(broker)
    found = [firehose.next()[:3] for _ in range(7)]
    own = {"connection", "node", "published_at_ms", "traced_at_ms"}
    recorded = [
        (each["key"], {**each["headers"]}, each["body"].encode()) for each in RECORDED["traced"]
    ]
    shown = [
        (key, {name: each for name, each in headers.items() if name not in own}, body)
        for key, headers, body in found
    ]
    # RabbitMQ names queues that are not there, too, if their names were published to; in any order.
    for _, headers, _ in recorded:
        if "routed_queues" in headers:
            there = set(headers["routed_queues"]) & {"t1", "t2"}
            headers["routed_queues"] = sorted(there)
    assert shown == recorded
    assert all(headers["node"] and " -> " in headers["connection"] for _, headers, _ in found)
    assert all(
        0 <= headers["traced_at_ms"] - headers["published_at_ms"] < 60_000
        and abs(headers["traced_at_ms"] - time.time() * 1000) < 60_000
        for _, headers, _ in found
    )


def test_what_is_published_over_http_is_traced_and_its_own_copies_are_not(
    broker: BrokerProcess, api: Api, firehose: Listener
):
    firehose.channel.queue_declare("h", exclusive=True)
    publish = {"properties": {}, "routing_key": "h", "payload": "1", "payload_encoding": "string"}
    assert api("POST", "exchanges/%2F/amq.default/publish", publish) == {"routed": True}
    key, headers, body, _ = firehose.next()
    assert (key, headers["routed_queues"], body) == ("publish.", ["h"], b"1")
    # That delivery was to a consumer of the same virtual host; had it been traced, it came next.
    api("POST", "exchanges/%2F/amq.default/publish", {**publish, "payload": "2"})
    assert firehose.next()[2] == b"2"


def test_deliveries_of_streams_are_traced(broker: BrokerProcess, firehose: Listener):
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("ts", durable=True, arguments={"x-queue-type": "stream"})
        channel.basic_publish("", "ts", b"s")
        channel.basic_qos(prefetch_count=1)
        for _ in channel.consume("ts", arguments={"x-stream-offset": "first"}):
            break
        assert [firehose.next()[0] for _ in range(2)] == ["publish.", "deliver.ts"]
        channel.cancel()
        channel.queue_delete("ts")


def test_it_is_off_after_a_restart_and_events_go_where_the_configuration_says(tmp_path: Path):
    options = ["--http-port", str(reserve_port())]
    config = 'vhosts = ["told"]\nevent_exchange.vhost = "told"\n'
    port = reserve_port()
    with BrokerProcess(tmp_path / "data", amqp_port=port, options=options, config=config) as broker:
        api = Api(broker)
        assert api("GET", "vhosts/%2F")["tracing"] is False
        api("PUT", "vhosts/%2F", {"tracing": True})
        assert api("GET", "vhosts/%2F")["tracing"] is True
        with pytest.raises(urllib.error.HTTPError) as refused:
            api("PUT", "vhosts/%2F", {"tracing": "perhaps"})
        assert refused.value.code == 400
        refused.value.close()
        assert api("GET", "vhosts/%2F")["tracing"] is True
        there = [
            each["vhost"]
            for each in api("GET", "exchanges?columns=name,vhost")
            if each["name"] == "amq.rabbitmq.event"
        ]
        assert there == ["told"]
        rights = dict.fromkeys(("configure", "write", "read"), ".*")
        api("PUT", "permissions/told/guest", rights)
        api("PUT", "queues/told/kept", {"durable": True})
        api("POST", "bindings/told/e/amq.rabbitmq.event/q/kept", {"routing_key": "user.created"})
        broker.stop()
        broker.start()
        assert api("GET", "vhosts/%2F")["tracing"] is False
        api("PUT", "users/ann", {"password": "p", "tags": ""})
        getting = {"count": 9, "ackmode": "ack_requeue_false", "encoding": "auto"}
        (event,) = api("POST", "queues/told/kept/get", getting)
        assert event["routing_key"] == "user.created"
        assert event["properties"]["headers"]["name"] == "ann"
