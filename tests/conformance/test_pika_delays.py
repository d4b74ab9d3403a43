"""Delayed messages as pika sees them; a RabbitMQ without the plugin is not asked."""

import json
import time
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest
from pika import BasicProperties
from pika.exceptions import ConnectionClosedByBroker
from tests.conformance.marks import differs, foreign
from tests.conformance.pika_steps import channel_closed, depth, pump

NO_MOMENT = (
    "'x-deliver-at': longstr <<\"soon\">> is neither a timestamp nor a number of milliseconds "
    "since 1970"
)
LATE_SECONDS = 2.0  # a machine that does much else


@pytest.fixture
def delayed(channel, connect, name):
    """Declare an x-delayed-message exchange with a queue; return both names."""

    def make(kind="direct", key="k", **options):
        if foreign:
            try:
                arguments = {"x-delayed-type": "direct"}
                connect().channel().exchange_declare(
                    name(), "x-delayed-message", arguments=arguments
                )
            except ConnectionClosedByBroker as closed:
                pytest.skip(f"this broker has no delays: {closed.reply_text}")
        exchange, queue = name("exchange"), name("queue")
        channel.exchange_declare(
            exchange, "x-delayed-message", durable=True, arguments={"x-delayed-type": kind}
        )
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, exchange, key)
        return exchange, queue

    return make


class Arrivals:
    """What a consumer gets, and when."""

    def __init__(self, channel, queue):
        self.found = []
        channel.basic_consume(queue, self.take, auto_ack=True)

    def take(self, _channel, method, properties, body):
        self.found.append((body.decode(), time.time(), method, properties))

    @property
    def bodies(self):
        return [body for body, *_ in self.found]


def headers(**given):
    return BasicProperties(
        delivery_mode=2, headers={name.replace("_", "-"): value for name, value in given.items()}
    )


@pytest.mark.parametrize(("kind", "key"), [("direct", "k"), ("topic", "#"), ("fanout", "")])
def test_messages_come_when_they_are_due(channel, connection, delayed, kind, key):
    exchange, queue = delayed(kind, key)
    arrivals = Arrivals(channel, queue)
    sent = {}
    for delay in (300, 100, 200, 0, -1):
        sent[str(delay)] = time.time() + max(0, delay) / 1000
        channel.basic_publish(exchange, "k", str(delay).encode(), headers(x_delay=delay))
    pump(connection, lambda: len(arrivals.found) == 5)
    assert arrivals.bodies == ["0", "-1", "100", "200", "300"]
    for body, at, method, properties in arrivals.found:
        assert 0 <= at - sent[body] < LATE_SECONDS
        assert (method.exchange, method.routing_key, method.redelivered) == (exchange, "k", False)
        assert properties.headers["x-delay"] == -abs(int(body))


@pytest.mark.parametrize("value", ["100", 100.9])
def test_a_delay_may_be_text_or_a_float(channel, connection, delayed, value):
    exchange, queue = delayed()
    arrivals = Arrivals(channel, queue)
    due = time.time() + 0.1
    channel.basic_publish(exchange, "k", b"x", headers(x_delay=str(value)[:3]))
    pump(connection, lambda: arrivals.found != [])
    ((_, at, _, properties),) = arrivals.found
    assert at >= due
    assert properties.headers == {"x-delay": -100}


def test_a_delay_through_an_exchange_above(channel, connection, delayed, name):
    exchange, queue = delayed("fanout")
    above = name("above")
    channel.exchange_declare(above, "topic")
    channel.exchange_bind(exchange, above, "#")
    arrivals = Arrivals(channel, queue)
    due = time.time() + 0.2
    channel.basic_publish(above, "k", b"x", headers(x_delay=200))
    pump(connection, lambda: arrivals.found != [])
    ((_, at, method, _),) = arrivals.found
    assert at >= due
    assert method.exchange == above


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "'x-delayed-type' must be an existing exchange type"),
        (
            {"x-delayed-type": "x-delayed-message"},
            "'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
    ],
)
def test_the_type_behind_it_is_checked(channel, delayed, name, arguments, text):
    delayed()
    with channel_closed(406, f"PRECONDITION_FAILED - Invalid argument, {text}"):
        channel.exchange_declare(name(), "x-delayed-message", arguments=arguments)


@differs
def test_a_moment_counts_on_every_exchange(channel, connection, name):
    queue = name()
    channel.queue_declare(queue)
    arrivals = Arrivals(channel, queue)
    due = time.time() + 0.3
    channel.basic_publish("", queue, b"number", headers(x_deliver_at=int(due * 1000)))
    soon = datetime.now(UTC) + timedelta(seconds=2)
    channel.basic_publish("", queue, b"timestamp", headers(x_deliver_at=soon))
    pump(connection, lambda: len(arrivals.found) == 2)
    (_, first, *_), (_, second, *_) = arrivals.found
    assert arrivals.bodies == ["number", "timestamp"]
    assert first >= int(due * 1000) / 1000
    assert second >= int(soon.timestamp())


@differs
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"x_delay": 315_360_000_001},
            "'x-delay': long 315360000001 is more than ten years from now",
        ),
        (
            {"x_deliver_at": "soon"},
            NO_MOMENT,
        ),
        (
            {"x_deliver_at": 2**60},
            "'x-deliver-at': long 1152921504606846976 is more than ten years from now",
        ),
        (
            {"x_deliver_at": 1_795_265_325},
            "'x-deliver-at': signedint 1795265325 is seconds since 1970: milliseconds are needed",
        ),
    ],
)
def test_what_is_no_moment_is_refused(channel, delayed, given, text):
    exchange, _ = delayed()
    with channel_closed(406, f"PRECONDITION_FAILED - invalid header {text}"):
        channel.basic_publish(exchange, "k", b"x", headers(**given))


@differs
def test_a_transaction_delays_from_its_commit(connect, delayed):
    exchange, queue = delayed()
    connection = connect()
    channel = connection.channel()
    channel.tx_select()
    channel.basic_publish(exchange, "k", b"x", headers(x_delay=200))
    due = time.time() + 0.2
    channel.tx_commit()
    arrivals = Arrivals(channel, queue)
    pump(connection, lambda: arrivals.found != [])
    assert arrivals.found[0][1] >= due


@differs
@pytest.mark.parametrize("way", ["binding", "alternate exchange", "transaction", "straight"])
def test_copies_to_a_delaying_exchange_behind_another(channel, delayed, name, way):
    """BCC counts when the message is due, and no consumer is shown it."""
    exchange, queue = delayed(key="k")
    front, copied, hidden, now = name("exchange"), name("queue"), name("queue"), name("queue")
    for each, key in ((copied, "cc"), (hidden, "bcc")):
        channel.queue_declare(each)
        channel.queue_bind(each, exchange, key)
    alternate = way == "alternate exchange"
    channel.exchange_declare(front, arguments={"alternate-exchange": exchange} if alternate else {})
    channel.queue_declare(now)
    if not alternate:
        channel.exchange_bind(exchange, front, "k")
        channel.queue_bind(now, front, "k")
    writer = channel.connection.channel()
    if way == "transaction":
        writer.tx_select()
    properties = headers(x_delay=100, CC=["cc"], BCC=["bcc"])
    writer.basic_publish(exchange if way == "straight" else front, "k", b"x", properties)
    if way == "transaction":
        writer.tx_commit()
    arrivals = [Arrivals(channel, each) for each in (queue, copied, hidden)]
    at_once = Arrivals(channel, now)
    pump(channel.connection, lambda: all(each.found for each in arrivals))
    for each in (*arrivals, at_once):
        for _, _, _, found in each.found:
            assert found.headers["CC"] == ["cc"]
            assert "BCC" not in found.headers
    assert len(at_once.found) == (way in {"binding", "transaction"})
    assert [len(each.found) for each in arrivals] == [1, 1, 1]


@differs
def test_what_waits_survives_a_kill_and_is_cancelled_over_http(own_broker):
    import pika

    with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        for number in range(3):
            at = int((time.time() + 3600 + number) * 1000)
            channel.basic_publish("", "q", b"%d" % number, headers(x_deliver_at=at))
    own_broker.kill()
    own_broker.start()
    found = json.loads(asked(own_broker, "GET"))["messages"]
    assert [each["due_ms"] for each in found] == sorted(each["due_ms"] for each in found)
    assert len(found) == 3
    asked(own_broker, "DELETE", "/" + found[1]["id"])
    own_broker.kill()
    own_broker.start()
    again = json.loads(asked(own_broker, "GET"))
    assert again["messages"] == [found[0], found[2]]
    with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        assert depth(connection.channel(), "q") == 0


def asked(broker, method, path=""):
    """Ask as guest; the port is another one after a restart."""
    url = f"http://127.0.0.1:{broker.http_port}/api/delays/%2F/amq.default{path}"
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    passwords.add_password(None, url, "guest", "guest")
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
    with opener.open(urllib.request.Request(url, method=method), timeout=20) as answer:
        return answer.read()


@pytest.fixture
def refusing(channel, name):
    """Declare a queue that holds one message, has it, and refuses more."""
    queue = name("full")
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.basic_publish("", queue, b"first")
    return queue


def taken(channel, queue, count):
    """Get and acknowledge so many messages, one by one."""
    found = []

    def one_more():
        _, _, body = channel.basic_get(queue, auto_ack=True)
        if body is not None:
            found.append(body.decode())
        return len(found) == count

    pump(channel.connection, one_more)
    return found


def test_what_is_due_while_the_queue_is_full_is_not_lost(channel, connection, delayed, refusing):
    """Confirmed, mandatory, persistent: it comes when there is room."""
    exchange, _ = delayed()
    channel.queue_bind(refusing, exchange, "full")
    marker = delayed()
    for body in ("a", "b"):
        channel.basic_publish(exchange, "full", body.encode(), headers(x_delay=1), mandatory=True)
    arrivals = Arrivals(channel, marker[1])
    channel.basic_publish(marker[0], "k", b"later", headers(x_delay=50))
    pump(connection, lambda: arrivals.found != [])
    assert depth(channel, refusing) == 1
    assert taken(channel, refusing, 3) == ["first", "a", "b"]


def test_it_goes_to_the_alternate_exchange_if_there_is_one(
    channel, connection, delayed, refusing, name
):
    _, queue = delayed()
    exchange, other = name("delayed"), name("alternate")
    channel.exchange_declare(other, "fanout")
    channel.queue_bind(queue, other)
    arguments = {"x-delayed-type": "direct", "alternate-exchange": other}
    channel.exchange_declare(exchange, "x-delayed-message", arguments=arguments)
    channel.queue_bind(refusing, exchange, "k")
    arrivals = Arrivals(channel, queue)
    channel.basic_publish(exchange, "k", b"x", headers(x_delay=1), mandatory=True)
    pump(connection, lambda: arrivals.bodies == ["x"])
    assert taken(channel, refusing, 1) == ["first"]


@differs
def test_dead_letters_wait_for_room(channel, name, refusing):
    queue = name()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": refusing}
    channel.queue_declare(queue, durable=True, arguments={**arguments, "x-message-ttl": 1})
    for body in (b"a", b"b"):
        channel.basic_publish("", queue, body)
    pump(channel.connection, lambda: depth(channel, queue) == 0)
    assert taken(channel, refusing, 3) == ["first", "a", "b"]


@differs
def test_a_retry_with_the_headers_it_came_with_waits(channel, connection, delayed):
    """A consumer adds a delay to what it got, whose x-deliver-at is over."""
    exchange, queue = delayed()
    arrivals = Arrivals(channel, queue)
    channel.basic_publish("", queue, b"x", headers(x_deliver_at=int(time.time() * 1000) + 100))
    pump(connection, lambda: len(arrivals.found) == 1)
    first = arrivals.found[0][3]
    assert first.headers["x-deliver-at"] < 0
    first.headers["x-delay"] = 300
    due = time.time() + 0.3
    channel.basic_publish(exchange, "k", b"x", first)
    pump(connection, lambda: len(arrivals.found) == 2)
    assert arrivals.found[1][1] >= due
    assert arrivals.found[1][3].headers["x-delay"] == -300
