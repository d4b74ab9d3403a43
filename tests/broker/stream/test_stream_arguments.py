"""Streams as clients of RabbitMQ 3.10.8 know them; the texts are its own."""

from __future__ import annotations

import pytest
from tests.broker.engine_fake import FakeReader, FakeStream, as_engine
from tests.broker.peer import World
from tests.broker.recording import drops, puts

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicQos,
    ChannelClose,
    ConnectionClose,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
)
from leporid.amqp.tables import ByteArray, Int8, Int32, Timestamp, Value
from leporid.broker.stored import StoredQueue
from leporid.broker.stream import stream_arguments
from leporid.broker.stream.stream_arguments import NUMBER_MAX

TYPE: dict[str, Value] = {"x-queue-type": "stream"}
TITLE = "queue 's' in vhost '/'"


def declaration(arguments: dict[str, Value] | None = None, **flags: bool) -> QueueDeclare:
    return QueueDeclare(
        queue="s", **({"durable": True} | flags), arguments=TYPE | (arguments or {})
    )


@pytest.fixture
def world() -> World:
    """A world with a stream of five messages, one each second."""
    world = World()
    world.peer().call(declaration())
    stream = world.stream("s")
    for number in range(5):
        world.engine.clock.wall_ms = number * 1000
        stream.push(f"m{number}")
    return world


def reading(world: World, value: Value = None) -> FakeReader:
    """Consume from an x-stream-offset; return the engine's half."""
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=10))
    # Of what is unknown, nothing is said.
    arguments: dict[str, Value] = {"x-stream-filter": "a", "x-unknown": 1}
    if value is not None:
        arguments["x-stream-offset"] = value
    peer.call(BasicConsume(queue="s", arguments=arguments))
    reader = world.stream("s").consumers[-1]
    assert isinstance(reader, FakeReader)
    return reader


def read(world: World, value: Value) -> list[str]:
    return [body for _, body in reading(world, value).channel.connection.delivered]


# ---------------------------------------------------------------------- declaring


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (declaration(durable=False), f"invalid property 'non-durable' for {TITLE}"),
        (declaration(exclusive=True), f"invalid property 'exclusive-owner' for {TITLE}"),
        (declaration(auto_delete=True), f"invalid property 'auto-delete' for {TITLE}"),
        (
            declaration(auto_delete=True, durable=False),
            f"invalid property 'auto-delete' for {TITLE}",
        ),
        (
            QueueDeclare(queue="", durable=True, arguments=TYPE),
            "Cannot declare a server-named queue for type rabbit_stream_queue",
        ),
        (declaration({"x-max-age": "7d"}), f"invalid arg 'x-max-age' for {TITLE}: invalid_max_age"),
        # Wrong values come before wrong flags, those before segments that are too large.
        (
            declaration({"x-max-age": "7"}, durable=False),
            f"invalid arg 'x-max-age' for {TITLE}: invalid_max_age",
        ),
        (
            declaration({"x-stream-max-segment-size-bytes": 1 << 40}, durable=False),
            f"invalid property 'non-durable' for {TITLE}",
        ),
        (
            declaration({"x-stream-max-segment-size-bytes": 1 << 40, "x-message-ttl": 1}),
            f"invalid arg 'x-message-ttl' for {TITLE} of queue type rabbit_stream_queue",
        ),
        (
            declaration({"x-stream-max-segment-size-bytes": 3_000_000_001}),
            "Exceeded max value for x-stream-max-segment-size-bytes",
        ),
    ],
)
def test_declarations_that_are_refused(declare: QueueDeclare, text: str):
    peer = World().peer()
    assert peer.refused(declare) == f"PRECONDITION_FAILED - {text}"
    assert isinstance(peer.connection.sent[-1][1], ChannelClose)


def test_what_the_engine_is_to_keep():
    world = World()
    arguments: dict[str, Value] = {
        "x-max-age": "2h",
        "x-max-length-bytes": Int8(9),
        "x-stream-max-segment-size-bytes": 3_000_000_000,
        "x-initial-cluster-size": 3,
        "x-queue-leader-locator": "random",
        "x-unknown": None,
    }
    peer = world.peer()
    assert peer.call(declaration(arguments)) == QueueDeclareOk("s", 0, 0)
    assert world.stream("s").retention == {
        "max_bytes": 9,
        "max_age_ms": 7_200_000,
        "segment_bytes": 3_000_000_000,
    }
    assert puts([world.changes[0]], StoredQueue)
    assert peer.call(declaration(arguments)) == QueueDeclareOk("s", 0, 0)
    # Longer than there is a clock for.
    stream = FakeStream(1, "t", True)
    stream_arguments.retain(
        as_engine(stream), stream_arguments.retention({"max-age": "99999999999999D"}.get)
    )
    assert set(stream.retention.values()) == {None}


def test_redeclared_otherwise(world: World):
    cases = {
        "x-max-age": "received the value '1h' of type 'longstr' but current is none",
        "x-initial-cluster-size": "received the value '1' of type 'signedint' but current is none",
    }
    values: dict[str, Value] = {"x-max-age": "1h", "x-initial-cluster-size": Int32(1)}
    for key, text in cases.items():
        refused = world.peer().refused(declaration({key: values[key]}))
        assert refused == f"PRECONDITION_FAILED - inequivalent arg '{key}' for {TITLE}: {text}"
    classic = world.peer().refused(QueueDeclare(queue="s", durable=True))
    assert classic.endswith(
        "'x-queue-type' for queue 's' in vhost '/': received none but current is the value "
        "'stream' of type 'longstr'"
    )
    # Arguments that no stream knows are not compared.
    assert world.peer().call(declaration({"x-expires": 4})) == QueueDeclareOk("s", 5, 0)


def test_declaring_counts_what_is_there(world: World):
    peer = world.peer()
    reading(world, "first")
    assert peer.call(QueueDeclare(queue="s", passive=True)) == QueueDeclareOk("s", 5, 1)


# ---------------------------------------------------------------------- what a stream cannot do


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (BasicGet(queue="s"), f"basic.get not supported by stream queues {TITLE}"),
        (BasicGet(queue="s", no_ack=True), f"basic.get not supported by stream queues {TITLE}"),
        (QueuePurge(queue="s"), f"queue.purge not supported by stream queues {TITLE}"),
        (
            BasicConsume(queue="s", no_ack=True),
            f"automatic acknowledgement not supported by stream queues {TITLE}",
        ),
    ],
)
def test_not_implemented(world: World, method: Method, text: str):
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=1))
    assert peer.refused(method) == f"NOT_IMPLEMENTED - {text}"
    assert isinstance(peer.connection.sent[-1][1], ConnectionClose)
    assert world.stream("s").ready_count == 5


def test_a_consumer_needs_a_prefetch_count_of_its_own(world: World):
    text = f"PRECONDITION_FAILED - consumer prefetch count is not set for '{TITLE}'"
    for methods in ([], [BasicQos()], [BasicQos(prefetch_count=5, global_=True)]):
        peer = world.peer()
        for method in methods:
            peer.call(method)
        assert peer.refused(BasicConsume(queue="s", no_ack=True)) == text
        assert isinstance(peer.connection.sent[-1][1], ChannelClose)


def test_a_limit_for_the_channel_is_not_supported(world: World):
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=5))
    peer.call(BasicQos(prefetch_count=2, global_=True))
    text = f"NOT_IMPLEMENTED - {TITLE} does not support global qos"
    assert peer.refused(BasicConsume(queue="s")) == text
    # A limit for each consumer replaces it; one that comes later does no harm.
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=2, global_=True))
    peer.call(BasicQos(prefetch_count=5))
    peer.call(BasicConsume(queue="s"))
    peer.call(BasicQos(prefetch_count=2, global_=True))


def test_py_amqp_reads_with_the_only_limit_it_knows(world: World):
    peer = world.peer()
    peer.session.client_properties = {"product": "py-amqp"}
    peer.call(BasicQos(prefetch_count=3))
    peer.call(BasicConsume(queue="s", arguments={"x-stream-offset": "first"}))
    assert [body for _, body in peer.connection.delivered] == ["m0", "m1", "m2"]


def test_nobody_is_alone_at_a_stream(world: World):
    for _ in range(2):
        peer = world.peer()
        peer.call(BasicQos(prefetch_count=1))
        assert isinstance(peer.call(BasicConsume(queue="s", exclusive=True)), BasicConsumeOk)
    assert len(world.stream("s").consumers) == 2


def test_arguments_of_other_consumers_are_refused(world: World):
    others: dict[str, Value] = {"x-priority": Int32(5), "x-cancel-on-ha-failover": True}
    for key, value in others.items():
        text = world.peer().refused(BasicConsume(queue="s", arguments={key: value}))
        assert text == (
            f"PRECONDITION_FAILED - invalid arg '{key}' for {TITLE} of queue type "
            "rabbit_stream_queue"
        )


# ---------------------------------------------------------------------- where to begin


@pytest.mark.parametrize(
    ("value", "first"),
    [
        ("first", 0),
        ("last", 4),
        ("next", 5),
        (0, 0),
        (Int32(3), 3),
        (Int8(-1), 0),
        (-(1 << 40), 0),
        (100, 100),
        (Timestamp(0), 0),
        (Timestamp(3), 3),
        (Timestamp(1 << 60), 5),
        ("1s", 3),
        ("2s", 2),
        ("1h", 0),
        ("99999999999999D", 0),
    ],
)
def test_offsets(world: World, value: Value, first: int):
    bodies = [f"m{number}" for number in range(first, 5)]
    assert read(world, value) == bodies
    assert world.stream("s").consumers[-1].tag.startswith("amq.ctag-")


def test_without_an_offset_a_consumer_begins_with_what_comes(world: World):
    reader = reading(world)
    assert reader.offset == 5
    world.stream("s").push("new")
    assert reader.channel.connection.delivered == [(reader.tag, "new")]


@pytest.mark.parametrize(
    ("value", "term"),
    [
        ("5", '{longstr,<<"5">>}'),
        ("1x", '{longstr,<<"1x">>}'),
        # RabbitMQ's handler of these ends in a crash, which closes the connection with 541.
        ("First", '{longstr,<<"First">>}'),
        ("", "{longstr,<<>>}"),
        (True, "{bool,true}"),
        (1.5, "{double,1.5}"),
        ([Int32(1)], "{array,[{signedint,1}]}"),
        (ByteArray(b"first"), '{binary,<<"first">>}'),
    ],
)
def test_offsets_that_make_no_sense(world: World, value: Value, term: str):
    # Before the prefetch count is looked at, and automatic acks.
    for no_ack in (False, True):
        arguments = {"x-stream-offset": value, "x-priority": 1}
        text = world.peer().refused(BasicConsume(queue="s", no_ack=no_ack, arguments=arguments))
        assert text == (
            f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for {TITLE}: "
            f"{{invalid_stream_offset_arg,{term}}}"
        )


def test_numbers_fit_the_engine(world: World):
    stream = as_engine(world.stream("s"))
    assert stream_arguments.start_offset(stream, (1 << 63) - 1, 0) == NUMBER_MAX
    assert stream_arguments.start_offset(stream, Timestamp(1 << 63), 0) == 5
    with pytest.raises(PreconditionFailed):
        stream_arguments.check_segment_size({"x-stream-max-segment-size-bytes": 3_000_000_001})
    stream_arguments.check_segment_size({})


# ---------------------------------------------------------------------- its life


def test_a_stream_gets_what_queues_beside_it_get(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="classic"))
    for queue in ("s", "classic"):
        peer.call(QueueBind(queue=queue, exchange="amq.topic", routing_key="a.#"))
    assert peer.connection.publish(1, "amq.topic", "a.b", "both") == 2
    assert world.queue("classic").ready == ["both"]
    assert read(world, "last") == ["both"]
    # What one reader was sent is there for the next.
    assert read(world, "last") == ["both"]


def test_deleting(world: World):
    peer = world.peer()
    reader = reading(world, "first")
    text = f"PRECONDITION_FAILED - {TITLE} "
    assert peer.refused(QueueDelete(queue="s", if_empty=True)) == text + "not empty"
    assert world.peer().refused(QueueDelete(queue="s", if_unused=True)) == text + "in use"
    stream = world.stream("s")
    assert world.peer().call(QueueDelete(queue="s")) == QueueDeleteOk(5)
    assert stream.retired
    assert reader.channel.connection.sent[-1][1] == BasicCancel(reader.tag, no_wait=True)
    assert drops([world.changes[-1]], StoredQueue)
