"""Exchanges as pika sees them: every type, their bindings, and the ways to declare them wrongly."""

from typing import Any

import pytest
from pika import BasicProperties
from pika.exceptions import UnroutableError
from tests.conformance.pika_steps import channel_closed, connection_closed, drain

# (pattern, keys that match, keys that do not)
TOPIC_PATTERNS = [
    ("a.b.c", ["a.b.c"], ["a.b", "a.b.c.d", "a.b.C", ""]),
    ("*", ["a", "*"], ["", "a.b", "."]),
    ("*.*", ["a.b", "."], ["a", "a.b.c"]),
    ("#", ["", "a", "a.b", "a.b.c", "...", "*", "#"], []),
    ("a.#", ["a", "a.b", "a.b.c", "a."], ["", "b.a", "ab"]),
    ("#.a", ["a", "b.a", "c.b.a"], ["a.b", ""]),
    ("a.*.c", ["a.b.c", "a..c", "a.*.c"], ["a.c", "a.b.b.c"]),
    ("a.#.c", ["a.c", "a.b.c", "a.b.b.c"], ["a", "a.b", "c"]),
    ("#.*", ["a", "a.b"], []),
    ("*.#", ["a", "a.b"], []),
    ("#.#", ["", "a", "a.b.c"], []),
    ("*.#.*", ["a.b", "a.b.c"], ["a"]),
    ("#.b.#", ["b", "a.b", "b.c", "a.b.c"], ["a", "ab", ""]),
    ("#.a.#.b.#", ["a.b", "x.a.y.b.z", "a.a.b.b"], ["b.a", "a", "b"]),
    ("*a", ["*a"], ["a", "ba"]),
    ("a#", ["a#"], ["a", "ab"]),
    ("flüge.*", ["flüge.ü"], ["fluge.u"]),
]

# (arguments of the binding, headers that match, headers that do not)
HEADER_BINDINGS: list[tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = [
    (
        {"x-match": "all", "a": 1, "b": "two"},
        [{"a": 1, "b": "two"}, {"a": 1, "b": "two", "c": 3}],
        [{"a": 1}, {"a": 2, "b": "two"}, {}],
    ),
    (
        {"x-match": "any", "a": 1, "b": "two"},
        [{"a": 1}, {"b": "two"}, {"a": 2, "b": "two"}],
        [{}, {"a": 2}, {"c": 1}],
    ),
    ({"a": 1}, [{"a": 1}], [{"a": 2}, {}]),
    ({"x-match": "all"}, [{}, {"a": 1}], []),
    ({"x-match": "any"}, [], [{}, {"a": 1}]),
    ({"x-match": "all", "a": None}, [{"a": 1}, {"a": "text"}, {"a": None}], [{}, {"b": 1}]),
    ({"x-match": "all", "x-a": 1}, [{}, {"x-a": 2}], []),
    ({"x-match": "all-with-x", "x-a": 1}, [{"x-a": 1}], [{}, {"x-a": 2}]),
    ({"x-match": "any-with-x", "x-a": 1, "b": 2}, [{"x-a": 1}, {"b": 2}], [{}, {"x-a": 2}]),
]


def arrives(channel, exchange, key, headers=None) -> bool:
    """Whether a mandatory message is routed; the broker itself says so."""
    try:
        channel.basic_publish(exchange, key, b"?", BasicProperties(headers=headers), mandatory=True)
    except UnroutableError as error:
        returned = error.messages[0]
        assert returned.method.reply_code == 312
        assert returned.method.reply_text == "NO_ROUTE"
        assert (returned.method.exchange, returned.method.routing_key) == (exchange, key)
        assert returned.body == b"?"
        return False
    return True


@pytest.fixture
def declared(channel, name):
    """Declare a transient exchange of a type, and a queue that nothing is bound to."""

    def declare(kind, **options):
        exchange, queue = name(kind), name("queue")
        channel.exchange_declare(exchange, kind, **options)
        channel.queue_declare(queue)
        return exchange, queue

    return declare


def test_default_exchange_routes_to_the_queue_of_that_name(channel, name):
    queue = name()
    channel.queue_declare(queue)
    assert arrives(channel, "", queue)
    assert not arrives(channel, "", name("nobody"))
    assert drain(channel, queue) == [b"?"]


def test_direct_exchange_compares_whole_keys(channel, declared):
    exchange, queue = declared("direct")
    channel.queue_bind(queue, exchange, "red")
    channel.queue_bind(queue, exchange, "")
    assert [arrives(channel, exchange, key) for key in ("red", "Red", "", "red.blue")] == [
        True,
        False,
        True,
        False,
    ]


def test_fanout_exchange_ignores_the_key_and_copies(channel, declared, name):
    exchange, first = declared("fanout")
    second = name("second")
    channel.queue_declare(second)
    channel.queue_bind(first, exchange, "a")
    channel.queue_bind(first, exchange, "b")
    channel.queue_bind(second, exchange)
    assert arrives(channel, exchange, "whatever")
    assert (drain(channel, first), drain(channel, second)) == ([b"?"], [b"?"])


@pytest.mark.parametrize(
    ("pattern", "matching", "other"), TOPIC_PATTERNS, ids=[each[0] for each in TOPIC_PATTERNS]
)
def test_topic_patterns(channel, declared, pattern, matching, other):
    exchange, queue = declared("topic")
    channel.queue_bind(queue, exchange, pattern)
    assert [key for key in matching if not arrives(channel, exchange, key)] == []
    assert [key for key in other if arrives(channel, exchange, key)] == []


def test_topic_queue_that_matches_twice_gets_one_copy(channel, declared):
    exchange, queue = declared("topic")
    for pattern in ("a.*", "#", "a.b"):
        channel.queue_bind(queue, exchange, pattern)
    assert arrives(channel, exchange, "a.b")
    assert drain(channel, queue) == [b"?"]


@pytest.mark.parametrize(
    ("arguments", "matching", "other"),
    HEADER_BINDINGS,
    ids=[str(each[0]) for each in HEADER_BINDINGS],
)
def test_headers_bindings(channel, declared, arguments, matching, other):
    exchange, queue = declared("headers")
    channel.queue_bind(queue, exchange, "", arguments)
    assert [each for each in matching if not arrives(channel, exchange, "k", each)] == []
    assert [each for each in other if arrives(channel, exchange, "k", each)] == []


def test_headers_binding_without_headers_in_the_message(channel, declared):
    exchange, queue = declared("headers")
    channel.queue_bind(queue, exchange, "", {"x-match": "any", "a": 1})
    assert not arrives(channel, exchange, "")


def test_unknown_x_match_is_refused(channel, declared):
    exchange, queue = declared("headers")
    with channel_closed(
        406,
        'PRECONDITION_FAILED - Invalid x-match field value <<"some">>; '
        "expected all, any, all-with-x, or any-with-x",
    ):
        channel.queue_bind(queue, exchange, "", {"x-match": "some"})


def test_several_bindings_of_one_pair_are_separate(channel, declared):
    exchange, queue = declared("headers")
    channel.queue_bind(queue, exchange, "k", {"x-match": "all", "a": 1})
    channel.queue_bind(queue, exchange, "k", {"x-match": "all", "a": 2})
    channel.queue_bind(queue, exchange, "k", {"x-match": "all", "a": 2})
    channel.queue_unbind(queue, exchange, "k", {"x-match": "all", "a": 1})
    assert not arrives(channel, exchange, "", {"a": 1})
    assert arrives(channel, exchange, "", {"a": 2})
    channel.queue_unbind(queue, exchange, "k", {"x-match": "all", "a": 2})
    assert not arrives(channel, exchange, "", {"a": 2})


def test_unbinding_what_was_never_bound_is_fine(channel, declared):
    exchange, queue = declared("direct")
    channel.queue_unbind(queue, exchange, "never")
    channel.exchange_unbind(exchange, "amq.fanout", "never")


def test_predeclared_exchanges_work(channel, name):
    queue = name()
    channel.queue_declare(queue)
    for exchange, kind in [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ]:
        channel.exchange_declare(exchange, kind, durable=True)
        channel.queue_bind(queue, exchange, queue, {"x-match": "all", "for": queue})
        channel.basic_publish(
            exchange, queue, exchange.encode(), BasicProperties(headers={"for": queue})
        )
        assert drain(channel, queue) == [exchange.encode()]


def test_exchange_to_exchange_chain(channel, name):
    first, second, third, queue = name("first"), name("second"), name("third"), name("queue")
    channel.exchange_declare(first, "topic")
    channel.exchange_declare(second, "fanout")
    channel.exchange_declare(third, "direct")
    channel.queue_declare(queue)
    channel.exchange_bind(second, first, "a.#")
    channel.exchange_bind(third, second)
    channel.queue_bind(queue, third, "a.b")
    assert arrives(channel, first, "a.b")
    assert not arrives(channel, first, "b.b")
    assert not arrives(channel, first, "a.c")
    channel.exchange_unbind(third, second)
    assert not arrives(channel, first, "a.b")


def test_exchange_cycle_is_harmless(channel, name):
    first, second, queue = name("first"), name("second"), name("queue")
    for exchange in (first, second):
        channel.exchange_declare(exchange, "fanout")
    channel.exchange_bind(first, second)
    channel.exchange_bind(second, first)
    channel.exchange_bind(first, first)
    channel.queue_declare(queue)
    channel.queue_bind(queue, second)
    assert arrives(channel, first, "")
    assert arrives(channel, second, "")
    assert drain(channel, queue) == [b"?", b"?"]


def test_alternate_exchange_takes_what_has_no_route(channel, name):
    main, other, queue, rest = name("main"), name("other"), name("queue"), name("rest")
    channel.exchange_declare(other, "fanout")
    channel.exchange_declare(main, "direct", arguments={"alternate-exchange": other})
    channel.queue_declare(queue)
    channel.queue_declare(rest)
    channel.queue_bind(queue, main, "known")
    assert not arrives(channel, main, "unknown")
    channel.queue_bind(rest, other)
    assert arrives(channel, main, "unknown")
    assert arrives(channel, main, "known")
    assert (drain(channel, queue), drain(channel, rest)) == ([b"?"], [b"?"])


def test_alternate_exchange_may_be_missing(channel, name):
    main = name("main")
    channel.exchange_declare(main, "direct", arguments={"alternate-exchange": name("missing")})
    assert not arrives(channel, main, "any")


def test_alternate_exchange_of_an_exchange_on_the_way(channel, name):
    first, second, spare, queue = name("first"), name("second"), name("spare"), name("queue")
    channel.exchange_declare(spare, "fanout")
    channel.exchange_declare(first, "fanout")
    channel.exchange_declare(second, "direct", arguments={"alternate-exchange": spare})
    channel.exchange_bind(second, first)
    channel.queue_declare(queue)
    channel.queue_bind(queue, spare)
    assert arrives(channel, first, "no such key")
    assert drain(channel, queue) == [b"?"]


def test_cc_and_bcc(channel, name):
    main, carbon, blind = name("main"), name("carbon"), name("blind")
    for queue in (main, carbon, blind):
        channel.queue_declare(queue)
    headers = {"CC": [carbon, main], "BCC": [blind], "kept": True}
    channel.basic_publish("", main, b"letter", BasicProperties(headers=headers))
    for queue in (main, carbon, blind):
        method, properties, _ = channel.basic_get(queue, auto_ack=True)
        assert method.routing_key == main
        assert properties.headers == {"CC": [carbon, main], "kept": True}
        assert method.message_count == 0


def test_auto_delete_exchange_goes_with_its_last_binding(channel, name):
    exchange, queue = name("exchange"), name("queue")
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, "a")
    channel.queue_bind(queue, exchange, "b")
    channel.queue_unbind(queue, exchange, "a")
    channel.exchange_declare(exchange, passive=True)
    channel.queue_unbind(queue, exchange, "b")
    with channel_closed(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        channel.exchange_declare(exchange, passive=True)


def test_auto_delete_exchange_goes_with_the_queue(channel, name):
    exchange, upstream, queue = name("exchange"), name("upstream"), name("queue")
    channel.exchange_declare(upstream, "fanout", auto_delete=True)
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    channel.exchange_bind(exchange, upstream)
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange)
    channel.queue_delete(queue)
    with channel_closed(404, f"NOT_FOUND - no exchange '{upstream}' in vhost '/'"):
        channel.exchange_declare(upstream, passive=True)


def test_delete_if_unused(channel, declared):
    exchange, queue = declared("direct")
    channel.queue_bind(queue, exchange, "a")
    with channel_closed(406, f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"):
        channel.exchange_delete(exchange, if_unused=True)


def test_deleting_an_exchange_twice_is_fine(channel, declared):
    exchange, _ = declared("direct")
    channel.exchange_delete(exchange, if_unused=True)
    channel.exchange_delete(exchange)


def test_internal_exchange_takes_no_publish(channel, name):
    inner, outer, queue = name("inner"), name("outer"), name("queue")
    channel.exchange_declare(inner, "fanout", internal=True)
    channel.exchange_declare(outer, "fanout")
    channel.exchange_bind(inner, outer)
    channel.queue_declare(queue)
    channel.queue_bind(queue, inner)
    assert arrives(channel, outer, "")
    with channel_closed(
        403, f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}' in vhost '/'"
    ):
        channel.basic_publish(inner, "", b"")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"exchange_type": "fanout"}, "'type'{for_it}: received 'fanout' but current is 'direct'"),
        ({"durable": True}, "'durable'{for_it}: received 'true' but current is 'false'"),
        ({"auto_delete": True}, "'auto_delete'{for_it}: received 'true' but current is 'false'"),
        ({"internal": True}, "'internal'{for_it}: received 'true' but current is 'false'"),
        (
            {"arguments": {"alternate-exchange": "b"}},
            (
                "'alternate-exchange'{for_it}: received the value 'b' of type 'longstr' "
                "but current is none"
            ),
        ),
    ],
    ids=["type", "durable", "auto-delete", "internal", "arguments"],
)
def test_redeclaring_differently(channel, name, change, text):
    exchange = name()
    options = {"exchange_type": "direct"}
    channel.exchange_declare(exchange, **options)
    channel.exchange_declare(exchange, **options)
    for_it = f" for exchange '{exchange}' in vhost '/'"
    with channel_closed(
        406, "PRECONDITION_FAILED - inequivalent arg " + text.format(for_it=for_it)
    ):
        channel.exchange_declare(exchange, **(options | change))


def test_publishing_to_a_missing_exchange(channel, name):
    exchange = name()
    with channel_closed(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        channel.basic_publish(exchange, "", b"")


def test_binding_to_a_missing_exchange(channel, name):
    queue, exchange = name("queue"), name("exchange")
    channel.queue_declare(queue)
    with channel_closed(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        channel.queue_bind(queue, exchange)


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (
            lambda channel: channel.exchange_declare("amq.mine", "direct"),
            "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
        ),
        (
            lambda channel: channel.exchange_delete("amq.direct"),
            "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
        ),
        (
            lambda channel: channel.exchange_declare("", "direct"),
            "ACCESS_REFUSED - operation not permitted on the default exchange",
        ),
        (
            lambda channel: channel.exchange_bind("amq.direct", ""),
            "ACCESS_REFUSED - operation not permitted on the default exchange",
        ),
    ],
    ids=["declare amq.*", "delete amq.*", "declare the default", "bind to the default"],
)
def test_reserved_exchanges(channel, act, text):
    with channel_closed(403, text):
        act(channel)


def test_unknown_exchange_type(channel, name):
    with connection_closed(503, "COMMAND_INVALID - unknown exchange type 'x-nonsense'"):
        channel.exchange_declare(name(), "x-nonsense")
