import marshal
from collections.abc import Hashable
from decimal import Decimal

import pytest
from hypothesis import given
from tests.amqp import drawn

from leporid.amqp.tables import (
    ByteArray,
    Float32,
    Int8,
    Int16,
    Int32,
    Int64L,
    LazyContainer,
    LongString,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    Value,
    encode_table,
    lazy_table,
)
from leporid.amqp.values import (
    TERMS_A_STEP,
    comparable,
    comparable_table,
    comparing,
    erlang_text,
    type_name,
    typed,
)
from leporid.broker.registry import finished

FIVES: list[Value] = [
    Int8(5),
    UInt8(5),
    Int16(5),
    UInt16(5),
    Int32(5),
    UInt32(5),
    5,
    Int64L(5),
    Timestamp(5),
    Float32(5),
    5.0,
]


# Everything below was seen on a RabbitMQ 3.10.8: the first value in a binding of a headers
# exchange, the second in a message.
@pytest.mark.parametrize("one", FIVES)
def test_numbers_are_compared_by_value_at_the_top(one: Value):
    others = [comparable(five) for five in FIVES]
    assert [other for other in others if other != comparable(one)] == []
    assert [other for other in others if hash(other) != hash(comparable(one))] == []


@pytest.mark.parametrize("number", range(len(FIVES)))
def test_numbers_are_compared_by_type_too_further_in(number: int):
    one: Value = [FIVES[number]]
    equal = [type_name(five) for five in FIVES if comparable([five]) == comparable(one)]
    assert set(equal) == {type_name(FIVES[number])}


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        pytest.param(9007199254740993, 9007199254740992.0, False, id="compared exactly"),
        pytest.param(9007199254740992, 9007199254740992.0, True, id="also beyond 2**53"),
        pytest.param(0.0, -0.0, True, id="zero has no sign"),
        pytest.param(0.0, Int32(0), True, id="zero"),
        pytest.param([0.0], [-0.0], True, id="zero in an array"),
        pytest.param([0.0], [Float32(0)], False, id="zeros of two types"),
        pytest.param(Float32(0.1), 0.1, True, id="the caller rounds"),
        pytest.param(LongString(b"\xff"), ByteArray(b"\xff"), True, id="text and octets"),
        pytest.param("xy", b"xy", True, id="text and plain bytes"),
        pytest.param(["a"], [b"a"], False, id="text and octets in an array"),
        pytest.param(1, True, False, id="1 and true"),
        pytest.param(0, False, False, id="0 and false"),
        pytest.param("true", True, False, id="'true' and true"),
        pytest.param("undefined", None, False, id="'undefined' and nothing"),
        pytest.param("1", 1, False, id="text and number"),
        pytest.param(Decimal(1), 1, False, id="decimal and integer"),
        pytest.param(Decimal("1.5"), Decimal("1.50"), False, id="decimals of two scales"),
        pytest.param(Decimal("-1.5"), Decimal("-1.5"), True, id="decimals"),
        pytest.param([1, "x"], [1, "x"], True, id="arrays"),
        pytest.param([1, "x"], ["x", 1], False, id="arrays in two orders"),
        pytest.param([1, "x"], [True, "x"], False, id="arrays of 1 and true"),
        pytest.param({"k": 1, "j": 2}, {"k": 1, "j": 2}, True, id="tables"),
        pytest.param({"k": 1, "j": 2}, {"j": 2, "k": 1}, False, id="tables in two orders"),
        pytest.param({"k": 1}, {}, False, id="table and empty table"),
        pytest.param([], {}, True, id="both are Erlang's empty list"),
    ],
)
def test_compares_as_rabbitmq_does(one: Value, other: Value, equal: bool):
    assert (comparable(one) == comparable(other)) is equal
    assert not equal or hash(comparable(one)) == hash(comparable(other))


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (Int8(-1), "byte", "-1"),
        (UInt8(1), "unsignedbyte", "1"),
        (Int16(1), "short", "1"),
        (UInt16(1), "unsignedshort", "1"),
        (Int32(5), "signedint", "5"),
        (UInt32(1), "unsignedint", "1"),
        (2**40, "long", "1099511627776"),
        (Int64L(1), "long", "1"),
        (Timestamp(5), "timestamp", "5"),
        (Float32(0.10000000149011612), "float", "0.10000000149011612"),
        (1.5, "double", "1.5"),
        (100.0, "double", "100.0"),
        (123456789.0, "double", "123456789.0"),
        (1e16, "double", "1.0e16"),
        (1e22, "double", "1.0e22"),
        (1e-7, "double", "1.0e-7"),
        (True, "bool", "true"),
        (False, "bool", "false"),
        (None, "void", "undefined"),
        (Decimal("1.5"), "decimal", "{1,15}"),
        (Decimal("-0.25"), "decimal", "{2,-25}"),
        ("foo", "longstr", '<<"foo">>'),
        ("", "longstr", "<<>>"),
        ("é", "longstr", '<<"é">>'),
        ("€", "longstr", "<<226,130,172>>"),
        ("\n", "longstr", r'<<"\n">>'),
        ("\0a", "longstr", "<<0,97>>"),
        ("a\\b", "longstr", r'<<"a\\b">>'),
        ('he"y', "longstr", r'<<"he\"y">>'),
        (LongString(b"\x80"), "longstr", "<<128>>"),
        (ByteArray(b"x"), "binary", '<<"x">>'),
        (b"x", "binary", '<<"x">>'),
        ([], "array", "[]"),
        ([Int32(1)], "array", "[{signedint,1}]"),
        ([b"q", 1.0], "array", '[{binary,<<"q">>},{double,1.0}]'),
        ({}, "table", "[]"),
        ({"k": "v"}, "table", '[{<<"k">>,longstr,<<"v">>}]'),
        ({"\udcff": None}, "table", '[{<<"\N{REPLACEMENT CHARACTER}">>,void,undefined}]'),
    ],
)
def test_names_and_prints_as_rabbitmq_does(value: Value, name: str, text: str):
    assert type_name(value) == name
    assert erlang_text(value) == text
    assert typed(value) == (name, comparable(value))


def test_printing_stays_on_one_line_where_rabbitmq_wraps():
    assert erlang_text({"k": {"j": [Int32(1), Int32(2)]}}) == (
        '[{<<"k">>,table,[{<<"j">>,array,[{signedint,1},{signedint,2}]}]}]'
    )


# ------------------------------------------------------------------ hashes

# Numbers that differ by this have the same hash in Python.
PERIOD = 2**61 - 1


def colliding(count: int) -> list[list[Value]]:
    """Different arrays of numbers that Python hashes alike."""
    return [[1 + number // 3**at % 3 * PERIOD for at in range(7)] for number in range(count)]


def test_clients_cannot_choose_values_with_the_same_hash():
    chosen = colliding(2000)
    assert len({hash(tuple(map(hash, each))) for each in chosen}) == 1
    assert len({hash(comparable(each)) for each in chosen}) == 2000
    tables = [dict(zip("abcdefg", each, strict=True)) for each in chosen]
    assert len({hash(comparable(each)) for each in tables}) == 2000
    assert len({hash(comparable_table(each)) for each in tables}) == 2000


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 0.0}, {"a": -0.0}, True),
        ({"a": [0.0, b"-0.0"]}, {"a": [-0.0, b"-0.0"]}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": Int32(1)}, {"a": 1}, False),
        ({"a": Int64L(1)}, {"a": 1}, True),
        ({"a": "text"}, {"a": LongString(b"text")}, True),
        ({"a": "text"}, {"a": b"text"}, False),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, False),
        ({"a": Decimal("1.0")}, {"a": Decimal("1.00")}, False),
        ({"\udcff": "\u20ac"}, {"\udcff": "\u20ac"}, True),
        ({}, {}, True),
        ({}, {"a": None}, False),
    ],
)
def test_tables_are_compared_with_their_types(
    one: dict[str, Value], other: dict[str, Value], equal: bool
):
    assert (comparable_table(one) == comparable_table(other)) is equal
    assert (hash(comparable_table(one)) == hash(comparable_table(other))) is equal


def compared_in_steps(value: Value) -> tuple[Hashable, int]:
    """The term of an encoded array or table, and how many steps it took."""
    ((_, container),) = lazy_table(encode_table({"k": value}))
    assert isinstance(container, LazyContainer)
    steps, count = comparing(container), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


@given(drawn.tables)
def test_what_is_encoded_compares_as_what_is_decoded(table: dict[str, Value]):
    for value in (table, list(table.values())):
        found, _ = compared_in_steps(value)
        assert found == comparable(value)
        assert hash(found) == hash(comparable(value))


@pytest.mark.parametrize("large", [[1] * 1000, [[[]] * 1000], [{"a": None}] * 1000])
def test_a_large_value_is_compared_in_steps(large: Value):
    found, count = compared_in_steps(large)
    assert found == comparable(large)
    assert count >= 1000 // TERMS_A_STEP


@pytest.mark.parametrize("deep", [False, True])
def test_the_hash_of_very_many_values_is_found_in_steps(
    deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    many: Value = [None] * 100_000
    encoded = encode_table({"k": [many] if deep else many})
    [(_, container)] = lazy_table(encoded)
    assert isinstance(container, LazyContainer)
    sizes: list[int] = []
    dumps = marshal.dumps

    def noting(value: tuple[int, ...], version: int) -> bytes:
        octets = dumps(value, version)
        sizes.append(len(octets))
        return octets

    monkeypatch.setattr("leporid.amqp.values.marshal.dumps", noting)
    term = finished(comparing(container))
    asked = len(sizes)
    found = hash(term)
    assert len(sizes) == asked > 1000
    assert max(sizes) < 10_000
    assert found == hash(comparable([many] if deep else many))
