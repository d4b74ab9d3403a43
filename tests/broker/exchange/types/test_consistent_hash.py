from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.exchange.types.bindings import binding, message, queues

from leporid.amqp import tables
from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Int32, Timestamp, Value
from leporid.broker.exchange.types import Binding, RoutedMessage, Router, make_router
from leporid.broker.exchange.types.consistent_hash import QUICK_MAX, ConsistentHashRouter

KEYS = [f"order-{number}" for number in range(400)]


def router_of(weights: dict[str, int], **arguments: Value) -> Router:
    named = {name.replace("_", "-", 1): value for name, value in arguments.items()}
    router = make_router("x-consistent-hash", named, int)
    for name, weight in weights.items():
        router.add(binding(str(weight), queue=name))
    return router


def placed(router: Router) -> list[list[str]]:
    return [queues(router, key) for key in KEYS]


def test_a_key_goes_to_one_queue_and_always_to_that_one():
    router = router_of({"a": 1, "b": 1, "c": 1})
    once = placed(router)
    assert once == placed(router)
    assert {tuple(each) for each in once} == {("a",), ("b",), ("c",)}


def test_without_bindings_a_message_goes_nowhere():
    router = router_of({})
    assert queues(router, "k") == []


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1}, {"a": 1, "b": 3}, {"a": 10_000, "b": 2_500}])
def test_the_key_of_a_binding_is_its_share(weights: dict[str, int]):
    router = router_of(weights)
    counted = Counter(queues(router, f"{number}")[0] for number in range(4_000))
    share = weights["a"] / (weights["a"] + weights["b"])
    assert abs(counted["a"] / 4_000 - share) < 0.04


@settings(max_examples=25)
@given(weights=st.dictionaries(st.text(max_size=4), st.integers(1, 30), min_size=2, max_size=6))
def test_a_binding_that_goes_moves_only_its_own_keys(weights: dict[str, int]):
    gone = next(iter(weights))
    router = router_of(weights)
    before = placed(router)
    router.remove(binding(str(weights[gone]), queue=gone))
    for was, now in zip(before, placed(router), strict=True):
        assert now == was or was == [gone]
        assert now != [gone]


def test_after_a_restart_in_another_order_all_keys_are_where_they_were():
    names = {"a": 1, "b": 2, "c": 3, "d": 1}
    assert placed(router_of(names)) == placed(router_of(dict(reversed(names.items()))))


def test_of_two_bindings_to_one_queue_the_older_counts():
    router = router_of({"a": 1, "b": 1})
    before = placed(router)
    more = binding("50", queue="a")
    router.add(more)
    assert placed(router) == before
    router.remove(binding("1", queue="a"))
    assert Counter(each[0] for each in placed(router))["a"] > 370
    router.remove(more)
    assert set(map(tuple, placed(router))) == {("b",)}


def test_of_two_bindings_to_one_queue_the_newer_may_go():
    router = router_of({"a": 1, "b": 1})
    before = placed(router)
    router.add(binding("50", queue="a"))
    router.remove(binding("50", queue="a"))
    assert placed(router) == before


def test_an_exchange_and_a_queue_of_one_name_are_two():
    router = router_of({"same": 1})
    router.add(Binding("x", "same", "exchange", "1", {}))
    kinds = Counter(next(iter(router.match(message(key)))).destination_kind for key in KEYS)
    assert min(kinds["queue"], kinds["exchange"]) > 150


def test_of_several_keys_the_first_is_hashed():
    router = router_of({"a": 1, "b": 1, "c": 1})
    for key in KEYS[:20]:
        assert [each.destination for each in router.match(message(key, "cc"))] == queues(
            router, key
        )


def seen(router: Router, properties: list[Properties]) -> list[str]:
    return [
        next(
            iter(router.match(RoutedMessage([f"key {number}"], encode_properties(each))))
        ).destination
        for number, each in enumerate(properties)
    ]


@pytest.mark.parametrize(
    ("arguments", "with_value"),
    [
        ({"hash_header": "tenant"}, lambda text: Properties(headers={"tenant": text})),
        ({"hash_property": "message_id"}, lambda text: Properties(message_id=text)),
        ({"hash_property": "correlation_id"}, lambda text: Properties(correlation_id=text)),
        ({"hash_property": "timestamp"}, lambda text: Properties(timestamp=int(text))),
    ],
)
def test_something_else_may_be_hashed(arguments, with_value):
    router = router_of({"a": 1, "b": 1, "c": 1}, **arguments)
    assert router.per_message
    assert len(set(seen(router, [with_value("17")] * 20))) == 1
    assert set(seen(router, [with_value(str(number)) for number in range(50)])) == {"a", "b", "c"}
    # Without it, all go one way.
    assert len(set(seen(router, [Properties()] * 20))) == 1


@pytest.mark.parametrize(
    "value",
    ["text", b"\xff", Int32(5), 5, 1.5, True, None, Decimal("1.5"), Timestamp(3), [1, "a"], {}],
)
def test_any_value_of_a_header_can_be_hashed(value: Value):
    router = router_of({"a": 1, "b": 1, "c": 1}, hash_header="h")
    assert len(set(seen(router, [Properties(headers={"h": value})] * 5))) == 1


def test_octets_that_are_no_text_can_be_hashed():
    router = router_of({"a": 1, "b": 1}, hash_property="correlation_id")
    assert len(seen(router, [Properties(correlation_id="\udcff")])) == 1
    assert len(queues(router_of({"a": 1, "b": 1}), "ü\udcff")) == 1


# The texts are those of RabbitMQ 3.10.8, but for the limit, which is that of 4.3.5.
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        ("0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
        ("10001", "The binding key must not exceed 10000"),
        ("1" * 200, "The binding key must not exceed 10000"),
    ],
)
def test_a_weight_is_a_number_above_zero(key: str, text: str):
    with pytest.raises(PreconditionFailed) as refused:
        router_of({}).validate(key, {})
    assert refused.value.text == f"PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize("key", ["1", "+7", "007", "10000"])
def test_weights_that_are_taken(key: str):
    router = router_of({})
    router.validate(key, {})
    router.add(binding(key))
    assert queues(router, "k") == ["q"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": Int32(1)}, "invalid type 'signedint' for arg 'hash-header'"),
        ({"hash-property": True}, "invalid type 'bool' for arg 'hash-property'"),
    ],
)
def test_arguments_must_say_what_to_hash(arguments: dict[str, Value], text: str):
    with pytest.raises(PreconditionFailed) as refused:
        make_router("x-consistent-hash", arguments, int)
    assert refused.value.text == f"PRECONDITION_FAILED - {text}"


def test_routes_are_kept_when_the_key_alone_decides():
    assert not router_of({}).per_message
    assert router_of({}).only_key("1") is None


def test_of_many_destinations_none_is_found_in_a_moment():
    router = ConsistentHashRouter()
    bound = [binding("1", queue=f"q{number}") for number in range(QUICK_MAX + 1)]
    for each in bound[:-1]:
        router.add(each)
    assert router.met_by("k") == list(router.match(message("k")))
    router.add(bound[-1])
    assert router.met_by("k") is None
    router.remove(bound[-1])
    assert router.met_by("k") is not None


@pytest.mark.parametrize(
    "arguments",
    [{"hash_header": "h"}, {"hash_header": "none"}, {"hash_property": "message_id"}],
)
@pytest.mark.parametrize("value", [[Int32(1)] * 10, {"a": [Int32(1)]}], ids=["array", "table"])
def test_large_values_are_not_decoded(
    arguments: dict[str, Value], value: Value, monkeypatch: pytest.MonkeyPatch
):
    router = router_of(dict.fromkeys(KEYS[:50], 1), **arguments)
    sent = [
        encode_properties(Properties(headers={"h": each, "more": value}, message_id=name))
        for each, name in ((value, "m"), (value, "m"), ([value], "n"))
    ]
    monkeypatch.setattr(tables, "_read_table", None)
    one, again, other = (
        [each.destination for each in router.match(RoutedMessage(("k",), raw))] for raw in sent
    )
    assert one == again
    assert (one == other) is (arguments == {"hash_header": "none"})


def test_headers_are_looked_through_once_for_all_exchanges(monkeypatch: pytest.MonkeyPatch):
    asked: list[bytes] = []
    monkeypatch.setattr(
        "leporid.broker.exchange.types.message.header_of",
        lambda raw, name: asked.append(name),
    )
    sent = message("k", headers={"a": 1})
    for _ in range(3):
        router_of({"q": 1}, hash_header="h").match(sent)
    assert asked == [b"h"]
