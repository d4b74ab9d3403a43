from collections.abc import Hashable, Mapping
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.exchange.types.bindings import binding, message, queues

from leporid.amqp import tables as encoded_tables
from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import (
    ByteArray,
    Float32,
    Int8,
    Int16,
    Int32,
    Int64L,
    LongString,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    Value,
)
from leporid.amqp.values import TERMS_A_STEP
from leporid.broker.exchange.types import Binding, RoutedMessage, headers
from leporid.broker.exchange.types.headers import HeadersRouter
from leporid.engine.selectors.selector_set import SelectorSet

MESSAGES: dict[str, dict[str, Value]] = {
    "nothing": {},
    "a=1": {"a": 1},
    "a=1 x-b=2": {"a": 1, "x-b": 2},
    "a=true": {"a": True},
    "a='1'": {"a": "1"},
    "a=1D": {"a": Decimal(1)},
    "a": {"a": None},
    "x-b=2": {"x-b": 2},
    "a=big": {"a": 2**40},
    "x-match": {"x-match": "all"},
}
EVERY = list(MESSAGES)
WITH_A = [name for name in MESSAGES if name.startswith("a")]

# Arguments, and which of MESSAGES a RabbitMQ 3.10.8 routed for x-match all, any, all-with-x and
# any-with-x.
SEEN: list[tuple[dict[str, Value], tuple[list[str], list[str], list[str], list[str]]]] = [
    ({}, (EVERY, [], EVERY, [])),
    (
        {"a": 1},
        (["a=1", "a=1 x-b=2"], ["a=1", "a=1 x-b=2"], ["a=1", "a=1 x-b=2"], ["a=1", "a=1 x-b=2"]),
    ),
    (
        {"a": 1, "x-b": 2},
        (
            ["a=1", "a=1 x-b=2"],
            ["a=1", "a=1 x-b=2"],
            ["a=1 x-b=2"],
            ["a=1", "a=1 x-b=2", "x-b=2"],
        ),
    ),
    ({"x-b": 2}, (EVERY, [], ["a=1 x-b=2", "x-b=2"], ["a=1 x-b=2", "x-b=2"])),
    ({"a": None}, (WITH_A, WITH_A, WITH_A, WITH_A)),
    ({"a": True}, (["a=true"], ["a=true"], ["a=true"], ["a=true"])),
    ({"a": Decimal(1)}, (["a=1D"], ["a=1D"], ["a=1D"], ["a=1D"])),
]
MODES = ["all", "any", "all-with-x", "any-with-x"]


@pytest.mark.parametrize(("arguments", "seen"), SEEN)
@pytest.mark.parametrize("mode", MODES)
def test_matches_what_rabbitmq_matches(
    mode: str, arguments: dict[str, Value], seen: tuple[list[str], ...]
):
    router = HeadersRouter()
    router.add(binding("", arguments | {"x-match": mode}))
    met = [name for name, message in MESSAGES.items() if queues(router, "", message)]
    assert met == seen[MODES.index(mode)]


@pytest.mark.parametrize(("arguments", "seen"), SEEN)
def test_matches_all_unless_told_otherwise(
    arguments: dict[str, Value], seen: tuple[list[str], ...]
):
    router = HeadersRouter()
    router.add(binding("", arguments))
    met = [name for name, message in MESSAGES.items() if queues(router, "", message)]
    assert met == seen[0]


@pytest.mark.parametrize("mode", MODES)
def test_takes_the_four_modes(mode: str):
    HeadersRouter().validate("", {"x-match": mode})


def test_takes_arguments_without_a_mode():
    HeadersRouter().validate("", {"a": 1})


# Texts as RabbitMQ 3.10.8 sent them.
@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("foo", 'value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        ("ALL", 'value <<"ALL">>; expected all, any, all-with-x, or any-with-x'),
        ("", "value <<>>; expected all, any, all-with-x, or any-with-x"),
        (Int32(5), "type signedint (value 5); expected longstr"),
        (True, "type bool (value true); expected longstr"),
        (None, "type void (value undefined); expected longstr"),
        (b"x", 'type binary (value <<"x">>); expected longstr'),
        ([Int32(1)], "type array (value [{signedint,1}]); expected longstr"),
        ({"k": "v"}, 'type table (value [{<<"k">>,longstr,<<"v">>}]); expected longstr'),
        (LongString(b"\x80"), "value <<128>>; expected all, any, all-with-x, or any-with-x"),
    ],
)
def test_refuses_another_mode_in_the_words_of_rabbitmq(mode: Value, reason: str):
    with pytest.raises(PreconditionFailed) as refused:
        HeadersRouter().validate("", {"x-match": mode})
    assert refused.value.text == f"PRECONDITION_FAILED - Invalid x-match field {reason}"


def test_the_binding_key_does_not_matter():
    router = HeadersRouter()
    router.add(binding("k", {"a": 1}))
    assert queues(router, "other", {"a": 1}) == ["q"]


def test_strict_keys_are_checked_as_well():
    with pytest.raises(PreconditionFailed, match="x-strict-keys"):
        HeadersRouter(strict_keys=True).validate("a b", {})


def test_a_binding_is_met_once_however_many_terms_are():
    router = HeadersRouter()
    router.add(binding("", {"x-match": "any", "a": 1, "b": 2, "c": None}))
    assert queues(router, "", {"a": 1, "b": 2, "c": 3}) == ["q"]


def test_every_term_of_all_counts():
    router = HeadersRouter()
    router.add(binding("", {"a": None, "b": 2, "c": "3"}))
    assert queues(router, "", {"a": 0, "b": 2, "c": "3", "d": 4}) == ["q"]
    assert queues(router, "", {"b": 2, "c": "3"}) == []
    assert queues(router, "", {"a": 0, "b": 3, "c": "3"}) == []
    assert queues(router, "", {"a": 0, "b": 2}) == []


def test_nothing_in_a_binding_is_not_the_value_nothing():
    router = HeadersRouter()
    router.add(binding("", {"a": "undefined"}))
    assert queues(router, "", {"a": None}) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("arguments", [each for each, _ in SEEN] + [{"a": 1, "b": None}])
def test_a_removed_binding_leaves_nothing_behind(mode: str, arguments: dict[str, Value]):
    router = HeadersRouter()
    empty = repr(vars(router))
    kept = binding("", {"a": 1})
    gone = binding("", arguments | {"x-match": mode}, queue="gone")
    router.add(kept)
    router.add(gone)
    router.remove(gone)
    assert queues(router, "", {"a": 1, "b": 1, "x-b": 2}) == ["q"]
    router.remove(kept)
    assert repr(vars(router)) == empty


def test_a_message_costs_only_the_bindings_that_its_headers_concern(
    monkeypatch: pytest.MonkeyPatch,
):
    router = HeadersRouter()
    for number in range(1000):
        router.add(binding("", {"a": number, "b": None}, queue=f"q{number}"))
    looked_at = []
    holds = headers._Rule.holds

    def counted(rule: headers._Rule, message: Mapping[str, Hashable]) -> bool:
        looked_at.append(rule)
        return holds(rule, message)

    monkeypatch.setattr(headers._Rule, "holds", counted)
    assert queues(router, "", {"a": 77, "b": 1, "c": 2}) == ["q77"]
    assert len(looked_at) == 1


# ------------------------------------------------------------------ the engine's half

# Many that RabbitMQ finds equal, whatever their types, and others that look alike.
VALUES: list[Value] = [
    None, True, False, "true", "undefined", "", "5", LongString(b"5"), ByteArray(b"5"), b"\xff",
    LongString(b"\xff"), 0, 5, -5, Int8(5), UInt8(5), Int16(5), UInt16(5), Int32(5), UInt32(5),
    Int64L(5), Timestamp(5), 5.0, 5.5, Float32(5.0), Float32(0.1), 0.1, -0.0, 0.0, 2**53 + 1,
    2.0**53, 2**63 - 1, 2.0**63, Timestamp(2**63), Timestamp(2**63 + 1), Timestamp(2**64 - 1),
    Decimal(5), Decimal("0.5"), Decimal("5.0"), [], [5], [Int8(5)], ["5", [True]], {}, {"k": 5},
    {"k": Int8(5)}, {"k": 5, "l": None}, {"l": None, "k": 5}, [Decimal(5)],
]  # fmt: skip
tables = st.dictionaries(
    st.sampled_from(["a", "b", "x-c", "long name", "ü"]), st.sampled_from(VALUES), max_size=4
)


def encoded(table: Mapping[str, Value]) -> bytes:
    return encode_properties(Properties(headers=dict(table)))


@given(st.lists(st.tuples(tables, st.sampled_from(MODES)), max_size=6), tables)
def test_the_engine_says_of_published_messages_what_python_says_of_others(
    bound: list[tuple[dict[str, Value], str]], sent: dict[str, Value]
):
    router, members = HeadersRouter(), SelectorSet()
    asked: dict[int, Binding] = {}
    for number, (arguments, mode) in enumerate(bound):
        one = binding("", arguments | {"x-match": mode}, f"q{number}")
        router.add(one)
        condition = router.condition(one)
        if condition is None:
            met = one in router.match(RoutedMessage([""], encoded(sent)))
            assert met or router.per_message
            continue
        asked[members.add(condition)] = one
        met = one in router.match(RoutedMessage([""], encoded(sent)))
        assert condition.outcome("x", "", encoded(sent)) == met
    met_together = {asked[number] for number in members.matching("x", "", encoded(sent))}
    assert met_together == {
        each for each in router.match(RoutedMessage([""], encoded(sent))) if each in asked.values()
    }
    assert {*asked.values()} <= {*router.match(RoutedMessage([""], None))}


def test_each_message_is_asked_about_while_an_array_or_a_table_is_waited_for():
    router = HeadersRouter()
    plain, deep = binding("", {"a": 1}), binding("", {"a": [1]}, "r")
    for one in (plain, deep):
        router.add(one)
        assert router.per_message is (one is deep)
    assert queues(router, "", {"a": [1]}) == ["r"]
    router.remove(deep)
    assert not router.per_message


def test_headers_are_decoded_between_steps(monkeypatch: pytest.MonkeyPatch):
    router = HeadersRouter()
    router.add(binding("", {"h7": 7}))
    sent = message("k", headers={f"h{number}": number for number in range(1000)})
    read: list[int] = []
    reader = encoded_tables._read_value

    def counted(data: bytes, at: int, end: int, depth: int) -> tuple[Value, int]:
        read.append(at)
        return reader(data, at, end, depth)

    monkeypatch.setattr(encoded_tables, "_read_value", counted)
    before = 0
    for _ in router.matching(sent):
        assert len(read) - before <= TERMS_A_STEP
        before = len(read)
    assert len(read) == 1000
