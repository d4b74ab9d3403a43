import pytest
from tests.broker.engine_fake import FakeCache, as_engine
from tests.broker.exchange.types.bindings import binding, queues

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Int8, Int32, UInt16, Value
from leporid.broker.exchange.types import DeduplicationRouter, RoutedMessage, make_router
from leporid.broker.exchange.types.deduplication import SIZE_MAX, TTL_MS_MAX

SIZE = "Missing or invalid argument, 'x-cache-size' must be an integer greater than 0"
TTL = "Invalid argument, 'x-cache-ttl' must be an integer greater than 0"
PERSISTENCE = "Invalid argument, 'x-cache-persistence' must be either 'disk' or 'memory'"


def made(**arguments: Value) -> DeduplicationRouter:
    table = {name.replace("_", "-"): value for name, value in arguments.items()}
    router = make_router("x-message-deduplication", table, int)
    assert isinstance(router, DeduplicationRouter)
    return router


def test_every_binding_is_met_unless_the_message_came_before():
    router = made(x_cache_size=10)
    for key, name in (("a", "one"), ("b", "two")):
        router.add(binding(key, queue=name))
    assert queues(router, "c") == ["one", "two"]
    cache = FakeCache(0, "c", False)
    router.cache = as_engine(cache)
    assert [each.destination for each in router.match(RoutedMessage(["c"], b"new"))] == [
        "one",
        "two",
    ]
    cache.known.add(b"known")
    assert list(router.match(RoutedMessage(["c"], b"known"))) == []


def test_it_says_how_much_is_remembered():
    router = made(x_cache_size=Int8(5))
    assert (router.cache_size, router.ttl_ms, router.lasting) == (5, None, True)
    router = made(x_cache_size="10", x_cache_ttl="1000", x_cache_persistence="memory")
    assert (router.cache_size, router.ttl_ms, router.lasting) == (10, 1000, False)
    router = made(x_cache_size=UInt16(7), x_cache_ttl=Int32(1), x_cache_persistence="disk")
    assert (router.cache_size, router.ttl_ms, router.lasting) == (7, 1, True)
    assert made(x_cache_size=SIZE_MAX, x_cache_ttl=TTL_MS_MAX).cache_size == SIZE_MAX


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, SIZE),
        ({"x_cache_size": 0}, SIZE),
        ({"x_cache_size": -1}, SIZE),
        ({"x_cache_size": "foo"}, SIZE),
        ({"x_cache_size": ""}, SIZE),
        ({"x_cache_size": True}, SIZE),
        ({"x_cache_size": None}, SIZE),
        ({"x_cache_size": 1.5}, SIZE),
        (
            {"x_cache_size": SIZE_MAX + 1},
            "Missing or invalid argument, 'x-cache-size' must not exceed 1000000",
        ),
        ({"x_cache_size": 1, "x_cache_ttl": 0}, TTL),
        ({"x_cache_size": 1, "x_cache_ttl": "soon"}, TTL),
        (
            {"x_cache_size": 1, "x_cache_ttl": TTL_MS_MAX + 1},
            "Invalid argument, 'x-cache-ttl' must not exceed 315360000000",
        ),
        ({"x_cache_size": 1, "x_cache_persistence": "tape"}, PERSISTENCE),
        ({"x_cache_size": 1, "x_cache_persistence": True}, PERSISTENCE),
    ],
)
def test_arguments_are_refused_in_the_plugins_words(arguments: dict[str, Value], text: str):
    with pytest.raises(PreconditionFailed) as refused:
        made(**arguments)
    assert refused.value.text == f"PRECONDITION_FAILED - {text}"


def test_only_messages_with_the_header_are_remembered():
    router = made(x_cache_size=1)
    for name, kept in (("x-deduplication-header", True), ("other", False)):
        raw = encode_properties(Properties(headers={name: "a"}))
        assert router.keeps(RoutedMessage([""], raw)) is kept
