"""The exchange types that RabbitMQ has in plugins or since 4.0, as pika sees them.

A RabbitMQ without the plugin of a type is not asked about it.
"""

import pytest
from pika import BasicProperties, BlockingConnection, URLParameters
from pika.exceptions import AMQPConnectionError, ConnectionClosedByBroker, UnroutableError
from tests.conformance.marks import differs, foreign
from tests.conformance.pika_steps import channel_closed, depth, drain, publish_all, pump

CONSISTENT = "x-consistent-hash"
MODULUS = "x-modulus-hash"
RANDOM = "x-random"
RECENT = "x-recent-history"
EACH_TO_ONE = [CONSISTENT, MODULUS, RANDOM]


@pytest.fixture
def declare(channel, connect, name):
    """Declare an exchange and queues bound to it, by their binding keys; return the names."""

    def make(kind, keys=(), **arguments):
        if foreign:
            try:
                connect().channel().exchange_declare(name(), kind)
            except ConnectionClosedByBroker as closed:
                pytest.skip(f"this broker has no {kind}: {closed.reply_text}")
        exchange = name("exchange")
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        channel.exchange_declare(exchange, kind, durable=True, arguments=named)
        queues = []
        for key in keys:
            queues.append(name("queue"))
            channel.queue_declare(queues[-1])
            channel.queue_bind(queues[-1], exchange, key)
        return exchange, queues

    return make


def arrived(channel, queues):
    """Take everything; return where each body was."""
    return {body: queue for queue in queues for body in drain(channel, queue)}


def publish_numbers(channel, exchange, count, properties=None):
    for number in range(count):
        channel.basic_publish(exchange, f"key-{number}", b"%d" % number, properties)


@pytest.mark.parametrize("kind", EACH_TO_ONE)
def test_each_message_goes_to_one_queue(channel, declare, kind):
    exchange, queues = declare(kind, ["1", "1", "1"])
    publish_numbers(channel, exchange, 300)
    counts = [depth(channel, queue) for queue in queues]
    assert sum(counts) == 300
    assert min(counts) > 50


@pytest.mark.parametrize("kind", [CONSISTENT, MODULUS])
def test_a_key_always_goes_to_the_same_queue(channel, declare, kind):
    exchange, queues = declare(kind, ["1", "1", "1"])
    publish_numbers(channel, exchange, 100)
    first = arrived(channel, queues)
    publish_numbers(channel, exchange, 100)
    assert arrived(channel, queues) == first


@pytest.mark.parametrize("kind", EACH_TO_ONE)
def test_without_bindings_a_message_is_unroutable(channel, declare, kind):
    exchange, _ = declare(kind)
    with pytest.raises(UnroutableError):
        channel.basic_publish(exchange, "k", b"", mandatory=True)


@pytest.mark.parametrize("kind", EACH_TO_ONE)
def test_what_meets_no_binding_goes_to_the_alternate_exchange(channel, declare, name, kind):
    lost, (queue,) = declare("fanout", [""])
    exchange, _ = declare(kind, alternate_exchange=lost)
    channel.basic_publish(exchange, "k", b"lost", mandatory=True)
    assert drain(channel, queue) == [b"lost"]


@pytest.mark.parametrize("kind", EACH_TO_ONE)
def test_they_stand_before_and_behind_other_exchanges(channel, declare, kind):
    below, (direct, _) = declare("direct", ["k", "other"])
    exchange, _ = declare(kind)
    channel.exchange_bind(below, exchange, "1")
    above, _ = declare("fanout")
    channel.exchange_bind(exchange, above)
    channel.basic_publish(above, "k", b"through")
    assert drain(channel, direct) == [b"through"]


@pytest.mark.parametrize("kind", EACH_TO_ONE)
def test_a_message_with_cc_goes_to_one_queue_too(channel, declare, kind):
    exchange, queues = declare(kind, ["1", "1", "1", "1"])
    properties = BasicProperties(headers={"CC": ["one", "two", "three"], "BCC": ["four", "five"]})
    for number in range(10):
        channel.basic_publish(exchange, f"k{number}", b"", properties)
    assert sum(depth(channel, queue) for queue in queues) == 10


def test_random_gives_the_same_key_to_all(channel, declare):
    exchange, queues = declare(RANDOM, ["a", "b", "c"])
    for _ in range(300):
        channel.basic_publish(exchange, "same", b"")
    assert min(depth(channel, queue) for queue in queues) > 50


def test_the_binding_key_is_a_weight(channel, declare):
    exchange, queues = declare(CONSISTENT, ["1", "3"])
    publish_numbers(channel, exchange, 600)
    light, heavy = (depth(channel, queue) for queue in queues)
    assert light + heavy == 600
    assert 2 < heavy / light < 4.5


# RabbitMQ's ring moves half of the third queue's keys to the first one, too.
@differs
def test_a_queue_that_goes_moves_only_its_own_keys(channel, declare):
    exchange, queues = declare(CONSISTENT, ["1", "2", "1"])
    publish_numbers(channel, exchange, 200)
    before = arrived(channel, queues)
    channel.queue_delete(queues[1])
    left = [queues[0], queues[2]]
    publish_numbers(channel, exchange, 200)
    after = arrived(channel, left)
    assert {body for body in before if after[body] != before[body]} == {
        body for body, queue in before.items() if queue == queues[1]
    }


@pytest.mark.parametrize(
    ("arguments", "make"),
    [
        ({"hash_header": "tenant"}, lambda value: BasicProperties(headers={"tenant": value})),
        ({"hash_property": "message_id"}, lambda value: BasicProperties(message_id=value)),
        ({"hash_property": "correlation_id"}, lambda value: BasicProperties(correlation_id=value)),
        ({"hash_property": "timestamp"}, lambda value: BasicProperties(timestamp=int(value))),
    ],
    ids=["header", "message_id", "correlation_id", "timestamp"],
)
def test_a_header_or_property_may_be_hashed_instead(channel, declare, arguments, make):
    exchange, queues = declare(CONSISTENT, ["1", "1", "1"], **arguments)
    publish_numbers(channel, exchange, 20, make("1700000000"))
    assert sorted(depth(channel, queue) for queue in queues) == [0, 0, 20]
    drained = arrived(channel, queues)
    assert len(drained) == 20
    for number in range(100):
        channel.basic_publish(exchange, "same", b"", make(f"{1700000000 + number}"))
    assert min(depth(channel, queue) for queue in queues) > 10


def test_messages_without_the_header_go_to_one_queue(channel, declare):
    exchange, queues = declare(CONSISTENT, ["1", "1", "1"], hash_header="tenant")
    publish_numbers(channel, exchange, 20)
    publish_numbers(channel, exchange, 20, BasicProperties(headers={"other": "1"}))
    assert sorted(depth(channel, queue) for queue in queues) == [0, 0, 40]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("a.b", 'The binding key must be an integer: <<"a.b">>'),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
    ],
)
def test_a_weight_that_is_none(channel, declare, name, key, text):
    exchange, _ = declare(CONSISTENT)
    below, _ = declare("fanout")
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        channel.exchange_bind(below, exchange, key)


# RabbitMQ refuses it since 4.3.5, in these words.
@differs
def test_a_weight_has_a_limit(channel, declare):
    exchange, _ = declare(CONSISTENT)
    below, _ = declare("fanout")
    channel.exchange_bind(below, exchange, "10000")
    text = "PRECONDITION_FAILED - The binding key must not exceed 10000"
    with channel_closed(406, text):
        channel.exchange_bind(below, exchange, "10001")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
    ],
)
def test_arguments_that_do_not_say_what_to_hash(channel, declare, name, arguments, text):
    declare(CONSISTENT)
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        channel.exchange_declare(name(), CONSISTENT, arguments=arguments)


# Over there it is a crash: 541 INTERNAL_ERROR, and the connection is gone.
@differs
def test_what_is_hashed_is_named_by_text(channel, name):
    text = "PRECONDITION_FAILED - invalid type 'signedint' for arg 'hash-header'"
    with channel_closed(406, text):
        channel.exchange_declare(name(), CONSISTENT, arguments={"hash-header": 5})


def test_keys_go_where_rabbitmq_sends_them_by_modulus(channel, declare):
    exchange, queues = declare(MODULUS, ["", "", ""])
    for number in range(1, 11):
        channel.basic_publish(exchange, str(number), b"%d" % number)
    found = arrived(channel, queues)
    # Erlang's phash2([Key]) of the keys 1 to 10, modulo 3. In which order the bindings are counted
    # is told since RabbitMQ 4.3 only, so older ones may name the queues otherwise.
    hashes = [99340228, 21102361, 8856950, 19612710, 21097639]
    hashes += [127637441, 122241120, 124216864, 13422628, 121098920]
    places = [each % 3 for each in hashes]
    groups = {frozenset(n for n in range(10) if places[n] == place) for place in range(3)}
    seen = {frozenset(n for n in range(10) if found[b"%d" % (n + 1)] == queue) for queue in queues}
    assert seen == groups
    if not foreign:
        assert [found[b"%d" % (n + 1)] for n in range(10)] == [
            sorted(queues)[place] for place in places
        ]


@differs
@pytest.mark.parametrize("kind", [CONSISTENT, MODULUS])
def test_after_a_restart_keys_go_where_they_went(own_broker, kind):
    queues = ["c", "a", "b"]
    connection = BlockingConnection(URLParameters(own_broker.url))
    channel = connection.channel()
    channel.exchange_declare("x", kind, durable=True)
    for queue in queues:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "x", "2")
    publish_numbers(channel, "x", 60)
    before = arrived(channel, queues)
    connection.close()
    assert own_broker.stop() == 0
    own_broker.start()
    connection = BlockingConnection(URLParameters(own_broker.url))
    channel = connection.channel()
    publish_numbers(channel, "x", 60)
    assert arrived(channel, queues) == before
    connection.close()
    assert set(before.values()) == set(queues)


# ------------------------------------------------------------------ x-recent-history


def publish_bodies(channel, exchange, *bodies, properties=None):
    for body in bodies:
        channel.basic_publish(exchange, "key", body, properties)


def bound(channel, name, exchange, key=""):
    queue = name("late")
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, key)
    return queue


def test_who_comes_late_gets_what_was_published_before(channel, declare, name):
    exchange, (early,) = declare(RECENT, [""])
    publish_bodies(channel, exchange, b"1", b"2")
    late = bound(channel, name, exchange)
    publish_bodies(channel, exchange, b"3")
    assert drain(channel, early) == drain(channel, late) == [b"1", b"2", b"3"]


def test_what_comes_late_is_as_it_was(channel, declare, name):
    exchange, _ = declare(RECENT)
    properties = BasicProperties(
        message_id="m", delivery_mode=2, headers={"a": 1, "x": "y"}, priority=3, timestamp=7
    )
    channel.basic_publish(exchange, "the key", b"body", properties)
    method, given, body = channel.basic_get(bound(channel, name, exchange), auto_ack=True)
    assert (method.exchange, method.routing_key, method.redelivered) == (exchange, "the key", False)
    assert (given, body) == (properties, b"body")


@pytest.mark.parametrize(("length", "kept"), [(None, 20), (3, 3), (1, 1), (30, 25)])
def test_so_many_are_kept(channel, declare, name, length, kept):
    arguments = {} if length is None else {"x-recent-history-length": length}
    exchange, _ = declare(RECENT, **arguments)
    bodies = [b"%d" % number for number in range(25)]
    publish_bodies(channel, exchange, *bodies)
    assert drain(channel, bound(channel, name, exchange)) == bodies[-kept:]


def test_a_message_may_ask_not_to_be_kept(channel, declare, name):
    exchange, (early,) = declare(RECENT, [""])
    no_store = BasicProperties(headers={"x-recent-history-no-store": True})
    store = BasicProperties(headers={"x-recent-history-no-store": False})
    publish_bodies(channel, exchange, b"1", properties=no_store)
    publish_bodies(channel, exchange, b"2", properties=store)
    assert drain(channel, early) == [b"1", b"2"]
    assert drain(channel, bound(channel, name, exchange)) == [b"2"]


def test_what_was_kept_passes_through_an_exchange_that_is_bound(channel, declare):
    exchange, _ = declare(RECENT)
    publish_bodies(channel, exchange, b"1", b"2")
    below, (queue,) = declare("direct", ["key"])
    channel.exchange_bind(below, exchange)
    # RabbitMQ has the newest first on this way, and on this way only.
    assert drain(channel, queue) == ([b"2", b"1"] if foreign else [b"1", b"2"])


def test_what_comes_through_other_exchanges_is_kept(channel, declare, name):
    exchange, _ = declare(RECENT)
    above, _ = declare("fanout")
    channel.exchange_bind(exchange, above)
    alternate, _ = declare("direct", alternate_exchange=exchange)
    publish_bodies(channel, above, b"1")
    publish_bodies(channel, alternate, b"2")
    assert drain(channel, bound(channel, name, exchange)) == [b"1", b"2"]


def test_being_kept_is_not_being_routed(channel, declare, name):
    exchange, _ = declare(RECENT)
    with pytest.raises(UnroutableError):
        channel.basic_publish(exchange, "key", b"1", mandatory=True)
    assert drain(channel, bound(channel, name, exchange)) == [b"1"]


def test_what_is_kept_nowhere_else_goes_to_the_alternate_exchange_too(channel, declare, name):
    lost, (queue,) = declare("fanout", [""])
    exchange, _ = declare(RECENT, alternate_exchange=lost)
    channel.basic_publish(exchange, "key", b"1", mandatory=True)
    assert drain(channel, queue) == [b"1"]
    assert drain(channel, bound(channel, name, exchange)) == [b"1"]


def test_a_second_binding_brings_it_once_more(channel, declare):
    exchange, (queue,) = declare(RECENT, ["one"])
    publish_bodies(channel, exchange, b"1")
    channel.queue_bind(queue, exchange, "two")
    channel.queue_bind(queue, exchange, "two")
    assert drain(channel, queue) == [b"1", b"1"]


def test_dead_letters_are_kept(channel, declare, name):
    exchange, _ = declare(RECENT)
    queue = name("dying")
    channel.queue_declare(queue, arguments={"x-dead-letter-exchange": exchange, "x-max-length": 1})
    publish_all(channel, queue, [b"1", b"2", b"3"])
    assert drain(channel, bound(channel, name, exchange)) == [b"1", b"2"]


def test_a_new_exchange_of_the_same_name_has_no_history(channel, declare, name):
    exchange, _ = declare(RECENT)
    publish_bodies(channel, exchange, b"1")
    channel.exchange_delete(exchange)
    channel.exchange_declare(exchange, RECENT)
    assert drain(channel, bound(channel, name, exchange)) == []


@pytest.mark.parametrize(
    ("length", "printed"), [(0, "0"), (-1, "-1"), ("5", '<<"5">>'), (True, "true")]
)
def test_a_length_that_is_none(channel, declare, name, length, printed):
    declare(RECENT)
    text = (
        f"PRECONDITION_FAILED - Invalid argument {printed}, 'x-recent-history-length' "
        "must be a positive integer"
    )
    with channel_closed(406, text):
        channel.exchange_declare(name(), RECENT, arguments={"x-recent-history-length": length})


@differs
def test_a_length_has_a_limit(channel, name):
    text = (
        "PRECONDITION_FAILED - Invalid argument 10001, 'x-recent-history-length' "
        "must not exceed 10000"
    )
    with channel_closed(406, text):
        channel.exchange_declare(name(), RECENT, arguments={"x-recent-history-length": 10001})


# Over there it is 541 INTERNAL_ERROR, and the binding is made all the same.
@differs
def test_an_exchange_that_leads_nowhere_can_be_bound(channel, declare):
    exchange, _ = declare(RECENT)
    publish_bodies(channel, exchange, b"1")
    below, _ = declare("direct")
    channel.exchange_bind(below, exchange)
    channel.exchange_declare(exchange, passive=True)


# Over there they stay, and live anew in the queue that gets them.
@differs
def test_what_has_expired_is_no_longer_recent(channel, declare, name):
    exchange, (early,) = declare(RECENT, [""])
    publish_bodies(channel, exchange, b"1", properties=BasicProperties(expiration="1"))
    publish_bodies(channel, exchange, b"2")
    pump(channel.connection, lambda: depth(channel, early) == 1)
    assert drain(channel, bound(channel, name, exchange)) == [b"2"]


@differs
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_after_a_restart_queues_have_their_messages_and_nothing_is_recent(own_broker, end):
    connection = BlockingConnection(URLParameters(own_broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("x", RECENT, durable=True)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "x")
    persistent = BasicProperties(delivery_mode=2)
    publish_bodies(channel, "x", b"1", b"2", b"3", properties=persistent)
    assert channel.basic_get("q", auto_ack=True)[2] == b"1"
    if end == "stop":
        connection.close()
        assert own_broker.stop() == 0
    else:
        own_broker.kill()
        with pytest.raises(AMQPConnectionError):
            depth(channel, "q")
    assert own_broker.check()[0] == 0
    own_broker.start()
    connection = BlockingConnection(URLParameters(own_broker.url))
    channel = connection.channel()
    channel.queue_declare("late")
    channel.queue_bind("late", "x")
    assert drain(channel, "late") == []
    assert drain(channel, "q")[-2:] == [b"2", b"3"]
    publish_bodies(channel, "x", b"4")
    assert drain(channel, "late") == drain(channel, "q") == [b"4"]
    connection.close()


def test_local_random_binds_without_a_key(channel, connect, declare):
    exchange, queues = declare("x-local-random", ["", "", ""])
    for number in range(300):
        channel.basic_publish(exchange, f"key-{number}", b"")
    assert min(depth(channel, queue) for queue in queues) > 50
    with channel_closed(406, "PRECONDITION_FAILED - Non empty binding 'k' key not permitted"):
        connect().channel().queue_bind(queues[0], exchange, "k")
