"""kombu, and py-amqp below it, against a real broker: messaging as Celery uses it, and faults."""

import socket
import threading
import urllib.parse
from collections.abc import Iterator

import kombu
import pytest
from amqp.exceptions import (
    AccessRefused,
    AMQPNotImplementedError,
    ConsumerCancelled,
    InvalidCommand,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from kombu.pidbox import Mailbox

import amqp

SECONDS = 15


@pytest.fixture
def connection(broker_url: str, name) -> Iterator[kombu.Connection]:
    """One kombu connection; with publisher confirms, as Celery has them when asked to."""
    with kombu.Connection(broker_url, transport_options={"confirm_publish": True}) as connection:
        yield connection


@pytest.fixture
def low_level(broker_url: str, connection: kombu.Connection) -> Iterator[amqp.Connection]:
    """One py-amqp connection, for what kombu hides."""
    url = urllib.parse.urlsplit(broker_url)
    connection = amqp.Connection(f"{url.hostname}:{url.port}", url.username, url.password)
    connection.connect()
    yield connection
    connection.close()
    connection.collect()


def test_simple_queue(connection, name):
    queue = connection.SimpleQueue(name())
    for number in range(5):
        queue.put({"number": number}, compression="zlib" if number % 2 else None)
    got = []
    for _ in range(5):
        message = queue.get(timeout=SECONDS)
        got.append(message.payload)
        message.ack()
    assert got == [{"number": number} for number in range(5)]
    with pytest.raises(queue.Empty):
        queue.get_nowait()
    queue.close()


def test_queues_of_one_worker_take_turns(connection, name):
    """Celery's prefetch limit is one for all queues of its worker."""
    channel = connection.channel()
    channel.basic_qos(0, 4, False)
    taken = []
    consumers = []
    for label in "abc":
        queue = kombu.Queue(name(label), auto_delete=True)(channel)
        queue.declare()
        for _ in range(60):
            kombu.Producer(connection).publish(label, routing_key=queue.name, exchange="")

        def take(message):
            taken.append(message.payload)
            message.ack()

        consumers.append(kombu.Consumer(channel, queues=[queue], on_message=take))
    for consumer in consumers:
        consumer.consume()
    while len(taken) < 60:
        connection.drain_events(timeout=SECONDS)
    for consumer in consumers:
        consumer.cancel()
    assert min(taken[:60].count(label) for label in "abc") >= 10


def test_topic_exchange_and_consumer(connection, name):
    exchange = kombu.Exchange(name(), type="topic", durable=True)
    queue = kombu.Queue(name(), exchange, routing_key="task.#", durable=True)
    got = []

    def take(body, message):
        got.append((body, message.delivery_info["routing_key"], message.headers["id"]))
        message.ack()

    with connection.Consumer(queue, callbacks=[take], prefetch_count=3):
        producer = connection.Producer(exchange=exchange)
        for number in range(10):
            producer.publish(
                {"n": number}, routing_key=f"task.{number}", headers={"id": number}, retry=True
            )
        while len(got) < 10:
            connection.drain_events(timeout=SECONDS)
    assert got == [({"n": number}, f"task.{number}", number) for number in range(10)]
    with pytest.raises(socket.timeout):
        connection.drain_events(timeout=0.05)


def test_unroutable_message_is_returned(connection, name):
    returned = []
    producer = connection.Producer(
        on_return=lambda error, exchange, key, message: returned.append((error.reply_code, key))
    )
    queue = name()
    producer.publish("x", routing_key=queue, mandatory=True)
    if not returned:
        connection.drain_events(timeout=SECONDS)
    assert returned == [(312, queue)]


def test_priorities(connection, name):
    queue = kombu.Queue(name(), max_priority=9)(connection.default_channel)
    queue.declare()
    producer = connection.Producer()
    for priority in (1, 9, 5, 0, 9):
        producer.publish(priority, routing_key=queue.name, priority=priority)
    got = [queue.get(no_ack=True).payload for _ in range(5)]
    assert got == [9, 9, 5, 1, 0]


def test_queue_options_of_kombu_are_accepted(connection, name):
    queue = kombu.Queue(
        name(),
        expires=60.0,
        message_ttl=60.0,
        max_length=10,
        max_length_bytes=10_000,
        max_priority=3,
        queue_arguments={"x-queue-mode": "lazy"},
        consumer_arguments={"x-priority": 3},
    )(connection.default_channel)
    queue.declare()
    queue.declare()
    connection.Producer().publish("x", routing_key=queue.name, expiration=30)
    message = queue.get()
    assert message.properties["expiration"] == "30000"
    message.reject(requeue=True)
    assert queue.get(no_ack=True).delivery_info["redelivered"]


def test_heartbeats(broker_url, name):
    with kombu.Connection(broker_url, heartbeat=1) as connection:
        connection.ensure_connection(max_retries=1)
        assert connection.connection.heartbeat == 1
        received = connection.connection.bytes_recv
        for _ in range(4):
            connection.heartbeat_check()
            with pytest.raises(socket.timeout):
                connection.drain_events(timeout=0.3)
        assert connection.connection.bytes_recv > received


def test_consumer_hears_of_the_end_of_its_queue(connection, name):
    queue = kombu.Queue(name(), durable=False)
    with connection.Consumer(queue, callbacks=[print]):
        with connection.clone() as other:
            other.default_channel.queue_delete(queue.name)
        with pytest.raises(ConsumerCancelled):
            connection.drain_events(timeout=SECONDS)


@pytest.mark.parametrize("durable", [False, True])
def test_deleting_a_queue_under_ones_own_consumer_raises_nothing(connection, name, durable):
    queue = kombu.Queue(name(), durable=durable)
    with connection.Consumer(queue, callbacks=[print]) as consumer:
        assert consumer.channel.queue_delete(queue.name) == 0
        with pytest.raises(ConsumerCancelled):
            connection.drain_events(timeout=SECONDS)


def test_mailbox(connection, name):
    """The pidbox of kombu is Celery's remote control: a fanout exchange and expiring queues."""
    namespace = name("mailbox")
    asked = []

    def handler(state, question):
        asked.append(question)
        return {"answer": question * 2}

    mailbox = Mailbox(namespace, type="fanout", connection=connection)
    channel = connection.channel()
    node = mailbox.Node("worker@here", state=None, channel=channel, handlers={"double": handler})
    consumer = node.listen(channel=channel)
    # The worker answers one question in a thread of its own while this one waits for the reply.
    worker = threading.Thread(target=lambda: connection.drain_events(timeout=SECONDS))
    worker.start()
    with connection.clone() as asking:
        asker = Mailbox(namespace, type="fanout", connection=asking)
        answer = asker.call(["worker@here"], "double", {"question": 4}, timeout=SECONDS)
        worker.join()
        assert answer == [{"worker@here": {"answer": 8}}]
        asker.cast(["worker@here"], "double", {"question": 3})
        connection.drain_events(timeout=SECONDS)
    assert asked == [4, 3]
    consumer.cancel()
    for exchange in (namespace + ".pidbox", "reply." + namespace + ".pidbox"):
        connection.default_channel.exchange_delete(exchange)


@pytest.mark.slow
def test_producer_retries_over_a_restart(own_broker):
    """`retry=True` reconnects, declares again, and publishes."""
    options = {"confirm_publish": True}
    policy = {"max_retries": 100, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.5}
    queue = kombu.Queue("kept", kombu.Exchange("work", type="direct"), routing_key="k")
    with kombu.Connection(own_broker.url, transport_options=options) as connection:
        producer = connection.Producer()
        for number in range(30):
            if number == 15:
                own_broker.kill()
                own_broker.start()
            producer.publish(
                number,
                exchange="work",
                routing_key="k",
                declare=[queue],
                retry=True,
                retry_policy=policy,
            )
        bound = queue(connection.default_channel)
        assert [bound.get(no_ack=True).payload for _ in range(30)] == list(range(30))
        assert bound.get() is None
    assert own_broker.stop() == 0, own_broker.log_tail()


# ------------------------------------------------------------------ faults, by py-amqp


def declare_wrongly(channel, queue):
    channel.queue_declare(queue, auto_delete=False)
    channel.queue_declare(queue, auto_delete=True)


def ack_unknown(channel, queue):
    channel.basic_ack(99)
    channel.queue_declare(queue)


def publish_nowhere(channel, queue):
    channel.basic_publish(amqp.Message("x"), exchange=queue)
    channel.queue_declare(queue)


def consume_twice(channel, queue):
    channel.queue_declare(queue, auto_delete=False)
    channel.basic_consume(queue, consumer_tag="same")
    channel.basic_consume(queue, consumer_tag="same")


CHANNEL_FAULTS = [
    (NotFound, 404, "queue.declare", lambda c, q: c.queue_declare(q, passive=True)),
    (NotFound, 404, "basic.consume", lambda c, q: c.basic_consume(q)),
    (NotFound, 404, "basic.get", lambda c, q: c.basic_get(q)),
    (NotFound, 404, "queue.bind", lambda c, q: c.queue_bind(q, "amq.direct")),
    (NotFound, 404, "queue.purge", lambda c, q: c.queue_purge(q)),
    (NotFound, 404, "exchange.declare", lambda c, q: c.exchange_declare(q, "", passive=True)),
    (NotFound, 404, "exchange.bind", lambda c, q: c.exchange_bind(q, "amq.direct")),
    (NotFound, 404, "basic.publish", publish_nowhere),
    (PreconditionFailed, 406, "queue.declare", declare_wrongly),
    (PreconditionFailed, 406, "basic.ack", ack_unknown),
    (PreconditionFailed, 406, "tx.commit", lambda c, q: c.tx_commit()),
    (AccessRefused, 403, "queue.declare", lambda c, q: c.queue_declare("amq." + q)),
    (AccessRefused, 403, "exchange.delete", lambda c, q: c.exchange_delete("amq.topic")),
    (AccessRefused, 403, "queue.bind", lambda c, q: c.queue_bind(q, "")),
]

CONNECTION_FAULTS = [
    (NotAllowed, 530, "basic.consume", consume_twice),
    (InvalidCommand, 503, "exchange.declare", lambda c, q: c.exchange_declare(q, "x-nonsense")),
    (AMQPNotImplementedError, 540, "basic.qos", lambda c, q: c.basic_qos(10, 0, False)),
]


@pytest.mark.parametrize(
    ("kind", "code", "method", "act"),
    CHANNEL_FAULTS,
    ids=[f"{f[1]} {f[2]}" for f in CHANNEL_FAULTS],
)
def test_faults_of_channels(low_level, name, kind, code, method, act):
    doomed, other = low_level.channel(), low_level.channel()
    queue = name()
    with pytest.raises(kind) as caught:
        act(doomed, queue)
    assert (caught.value.reply_code, caught.value.method_name) == (code, method_name(method))
    other.queue_delete(queue)
    low_level.channel().queue_delete(queue)


@pytest.mark.parametrize(
    ("kind", "code", "method", "act"),
    CONNECTION_FAULTS,
    ids=[f"{f[1]} {f[2]}" for f in CONNECTION_FAULTS],
)
def test_faults_of_connections(low_level, name, kind, code, method, act):
    channel = low_level.channel()
    with pytest.raises(kind) as caught:
        act(channel, name())
    assert (caught.value.reply_code, caught.value.method_name) == (code, method_name(method))
    assert not low_level.connected


def test_locked_queue(low_level, connection, name):
    queue = name()
    connection.default_channel.queue_declare(queue, exclusive=True)
    with pytest.raises(ResourceLocked):
        low_level.channel().queue_declare(queue, passive=True)


def method_name(dotted: str) -> str:
    """Translate `queue.declare` to py-amqp's `Queue.declare`."""
    return dotted.capitalize()


def test_amqplain(broker_url, name):
    """RabbitMQ's own mechanism; a wrong password is told by the close of the connection."""
    queue = name()
    with kombu.Connection(broker_url, login_method="AMQPLAIN") as connection:
        channel = connection.default_channel
        assert [each.mechanism for each in channel.connection.authentication] == [b"AMQPLAIN"]
        kombu.Queue(queue, channel=channel, auto_delete=True).declare()
    url = urllib.parse.urlsplit(broker_url)
    wrong = kombu.Connection(
        hostname=url.hostname, port=url.port, password="wrong", login_method="AMQPLAIN"
    )
    with pytest.raises(AccessRefused, match="AMQPLAIN"):
        wrong.connect()
    wrong.release()
