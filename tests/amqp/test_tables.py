"""Field tables: every type letter, every cut, every limit."""

import enum
import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amqp import drawn

from leporid.amqp import tables
from leporid.amqp.errors import SyntaxFault
from leporid.amqp.tables import (
    MAX_TABLE_BYTES,
    MAX_TABLE_DEPTH,
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
    check_count,
    decode_table,
    encode_table,
    lazy_table,
)

# Whole tables take long to draw; this many keep each test within a quarter of a second.
FEWER = settings(max_examples=40)

LETTERS: list[tuple[bytes, Value]] = [
    (b"t\x00", False),
    (b"t\x01", True),
    (b"b\x80", Int8(-128)),
    (b"B\xff", UInt8(255)),
    (b"s\x80\x00", Int16(-32768)),
    (b"u\xff\xff", UInt16(65535)),
    (b"I\xff\xff\xff\xff", Int32(-1)),
    (b"i\xff\xff\xff\xff", UInt32(4294967295)),
    (b"l\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
    (b"L\xff\xff\xff\xff\xff\xff\xff\xfe", Int64L(-2)),
    (b"f\x3f\xc0\x00\x00", Float32(1.5)),
    (b"d\xbf\xf8\x00\x00\x00\x00\x00\x00", -1.5),
    (b"D\x02\x00\x00\x01\x3a", Decimal("3.14")),
    (b"D\x01\xff\xff\xff\xf6", Decimal("-1.0")),
    (b"D\xff\x00\x00\x00\x00", Decimal("0E-255")),
    (b"S\x00\x00\x00\x02\xc3\xa9", "é"),
    (b"S\x00\x00\x00\x01\xff", LongString(b"\xff")),
    (b"A\x00\x00\x00\x00", []),
    (b"A\x00\x00\x00\x03Vt\x01", [None, True]),
    (b"T\xff\xff\xff\xff\xff\xff\xff\xff", Timestamp((1 << 64) - 1)),
    (b"F\x00\x00\x00\x00", {}),
    (b"F\x00\x00\x00\x03\x01kV", {"k": None}),
    (b"V", None),
    (b"x\x00\x00\x00\x02\x00\xff", ByteArray(b"\x00\xff")),
]


def sized(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(left) is not type(right) or left != right:
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return all(map(same, left, right))
    return str(left) == str(right)  # Tells 1.0 from 1.00, and 0.0 from -0.0.


@pytest.mark.parametrize(("octets", "value"), LETTERS)
def test_letters_mean_what_they_do_to_rabbitmq(octets: bytes, value: Value):
    table = sized(b"\x03key" + octets)
    decoded, end = decode_table(table)
    assert same(decoded, {"key": value})
    assert end == len(table)
    assert encode_table(decoded) == table


@pytest.mark.parametrize(("octets", "value"), LETTERS)
def test_letters_in_an_array(octets: bytes, value: Value):
    table = sized(b"\x01kA" + sized(octets + octets))
    decoded, _ = decode_table(table)
    assert same(decoded, {"k": [value, value]})
    assert encode_table(decoded) == table


@FEWER
@given(drawn.tables)
def test_round_trip(table: dict[str, Value]):
    octets = encode_table(table)
    decoded, end = decode_table(octets)
    assert same(decoded, table)
    assert end == len(octets)
    assert encode_table(decoded) == octets


@FEWER
@given(drawn.tables, st.binary(max_size=9), st.binary(max_size=9))
def test_table_within_other_octets(table: dict[str, Value], before: bytes, after: bytes):
    octets = encode_table(table)
    decoded, end = decode_table(before + octets + after, len(before))
    assert same(decoded, table)
    assert end == len(before) + len(octets)


EVERYTHING = b"".join(
    bytes((3,)) + b"k%02d" % at + octets for at, (octets, _) in enumerate(LETTERS)
)


def test_cut_at_every_byte():
    table = sized(EVERYTHING)
    for end in range(len(table)):
        with pytest.raises(SyntaxFault, match="reaches past the end"):
            decode_table(table[:end])


def test_cut_at_every_byte_with_a_size_that_agrees():
    """What is within the size must be whole values, whatever stands after it."""
    ends = {0}
    for octets, _ in LETTERS:
        ends.add(max(ends) + 4 + len(octets))
    for end in range(len(EVERYTHING) + 1):
        table = struct.pack(">I", end) + EVERYTHING
        if end in ends:
            assert decode_table(table)[1] == 4 + end
        else:
            with pytest.raises(SyntaxFault, match="reaches past the end"):
                decode_table(table)


@given(st.binary(max_size=200))
def test_any_octets_give_a_table_or_a_fault(octets: bytes):
    try:
        decode_table(sized(octets))
    except SyntaxFault:
        pass


@FEWER
@given(drawn.tables, st.data())
def test_any_damage_gives_a_table_or_a_fault(table: dict[str, Value], data: st.DataObject):
    octets = bytearray(encode_table(table))
    at = data.draw(st.integers(0, len(octets) - 1))
    octets[at] = data.draw(st.integers(0, 255))
    try:
        decode_table(bytes(octets))
    except SyntaxFault:
        pass


def read(container: LazyContainer) -> Value:
    """What a table or array has in it, read value by value."""
    found = [
        (key, read(value) if isinstance(value, LazyContainer) else value)
        for key, value in container
    ]
    return dict(found) if container.keyed else [value for _, value in found]


@FEWER
@given(drawn.tables)
def test_a_table_that_is_read_value_by_value_has_the_same(table: dict[str, Value]):
    assert same(read(lazy_table(encode_table(table))), table)


@given(st.binary(max_size=200))
def test_any_octets_are_read_value_by_value_as_they_are_decoded(octets: bytes):
    try:
        wanted: Value | str = decode_table(sized(octets))[0]
    except SyntaxFault as fault:
        wanted = str(fault)
    try:
        found: Value | str = read(lazy_table(sized(octets)))
    except SyntaxFault as fault:
        found = str(fault)
    assert isinstance(wanted, str) == isinstance(found, str)
    assert isinstance(wanted, str) or same(found, wanted)


def test_of_a_key_that_stands_twice_the_first_is_read():
    twice = lazy_table(sized(b"\1at\1\1aV\1bV"))
    assert list(twice) == [("a", True), ("b", None)]
    assert repr(twice) == "<LazyContainer table of 10 bytes>"


@pytest.mark.parametrize("at", [0, 1, 4, 9])
def test_position_at_or_past_the_end(at: int):
    with pytest.raises(SyntaxFault):
        decode_table(b"\0\0\0"[:at], at)


def test_unknown_letters():
    def says(letter: int) -> str:
        try:
            return str(decode_table(sized(b"\x01k" + bytes((letter,)) + bytes(8))))
        except SyntaxFault as fault:
            return str(fault)

    letters = sorted(set(range(256)) - set(b"tbBsuIilLfdDSATFVx"))
    said = {letter: says(letter) for letter in letters}
    reason = "SYNTAX_ERROR - unknown table field type"
    assert said == {letter: f"{reason} {letter}" for letter in letters}


@pytest.mark.parametrize("letter", [b"S", b"x", b"A", b"F"])
def test_announced_size_is_not_believed(letter: bytes):
    for table in (
        b"\xff\xff\xff\xff",
        sized(b"\x01k" + letter + b"\xff\xff\xff\xff"),
        sized(b"\x01k" + letter + b"\x00\x00\x00\x01") + b"x",
    ):
        with pytest.raises(SyntaxFault):
            decode_table(table)


@pytest.mark.parametrize(
    "octets",
    [b"f" + struct.pack(">f", number) for number in (math.nan, math.inf, -math.inf)]
    + [b"d" + struct.pack(">d", number) for number in (math.nan, math.inf, -math.inf)],
)
def test_numbers_are_finite(octets: bytes):
    with pytest.raises(SyntaxFault, match="finite"):
        decode_table(sized(b"\x01k" + octets))


def test_first_of_two_equal_keys_counts():
    assert decode_table(sized(b"\x01kt\x01\x01kV"))[0] == {"k": True}


def test_any_octet_but_zero_is_true():
    assert decode_table(sized(b"\x01kt\x02"))[0] == {"k": True}


def test_key_that_is_not_utf8_survives():
    table = sized(b"\x02\xff\xc3V")
    decoded, _ = decode_table(table)
    assert decoded == {"\udcff\udcc3": None}
    assert encode_table(decoded) == table


def nested(levels: int, letter: bytes) -> bytes:
    octets = b""
    for _ in range(levels):
        octets = (b"\x00" if letter == b"F" else b"") + letter + sized(octets)
    return sized((b"" if letter == b"F" else b"\x00") + octets)


@pytest.mark.parametrize("letter", [b"F", b"A"])
def test_depth_is_limited(letter: bytes):
    decoded, _ = decode_table(nested(MAX_TABLE_DEPTH - 1, letter))
    assert encode_table(decoded) == nested(MAX_TABLE_DEPTH - 1, letter)
    for levels in (MAX_TABLE_DEPTH, 5000):
        with pytest.raises(SyntaxFault, match="nested deeper than 32 levels"):
            decode_table(nested(levels, letter))


def test_size_is_limited():
    octets = MAX_TABLE_BYTES - len(b"\x01kx" + bytes(4))
    largest = encode_table({"k": bytes(octets)})
    assert decode_table(largest)[1] == len(largest)
    with pytest.raises(SyntaxFault, match="exceeds the limit of 262144"):
        decode_table(encode_table({"k": bytes(octets + 1)}))


def counted(value: Value) -> int:
    """How many values there are within one."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(1 + counted(each) for each in inside)


@FEWER
@given(drawn.tables, st.binary(max_size=9))
def test_values_are_counted_without_being_decoded(table: dict[str, Value], after: bytes):
    octets, count = encode_table(table) + after, counted(table)
    check_count(octets, 0, count)
    if count:
        with pytest.raises(SyntaxFault, match=f"more values than the limit of {count - 1}"):
            check_count(octets, 0, count - 1)


@given(st.binary(max_size=200))
def test_any_octets_are_counted_or_refused(octets: bytes):
    for table in (octets, sized(octets)):
        try:
            check_count(table, 0, 5)
        except SyntaxFault:
            pass


def test_counting_stops_at_the_limit():
    looks = 0

    class Counted(bytes):
        def __getitem__(self, at: Any) -> Any:
            nonlocal looks
            looks += 1
            return super().__getitem__(at)

    for table in (b"\x00V" * 4000, b"\x00F\x00\x00\x00\x00" * 4000):
        looks = 0
        with pytest.raises(SyntaxFault, match="limit of 100"):
            check_count(Counted(sized(table)), 0, 100)
        assert looks < 500


def test_what_encodes_like_something_else():
    class Code(enum.IntEnum):
        SEVEN = 7

    assert encode_table({"k": Code.SEVEN}) == encode_table({"k": 7})
    assert encode_table({"k": b"octets"}) == encode_table({"k": ByteArray(b"octets")})
    assert encode_table({"k": Decimal("1E+2")}) == encode_table({"k": Decimal(100)})


def circle() -> list[Value]:
    values: list[Value] = []
    values.append(values)
    return values


@pytest.mark.parametrize(
    "value",
    [
        1 << 63,
        Int8(128),
        UInt8(-1),
        Int16(1 << 15),
        UInt16(1 << 16),
        Int32(1 << 31),
        UInt32(1 << 32),
        Int64L(1 << 63),
        Timestamp(-1),
        math.nan,
        math.inf,
        Float32(math.nan),
        Float32(1e39),
        "\ud800",
        Decimal("NaN"),
        Decimal(1 << 31),
        Decimal("1E-256"),
        Decimal("1E+1000000"),
        Decimal("1." + "0" * 40),
        object(),
        circle(),
    ],
)
def test_what_cannot_be_encoded_is_our_mistake(value: Any):
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are for the log only
        encode_table({"k": value})


def test_key_too_long():
    with pytest.raises(ValueError, match="longer than 255 bytes"):
        encode_table({"é" * 128: None})


def test_values_are_their_python_types():
    """So that the rules can compute with them without asking how they came."""
    assert Int8(5) == 5
    assert Timestamp(5) + 1 == 6
    assert Float32(0.5) == 0.5
    assert LongString(b"\xff") == b"\xff"
    for wrapper in vars(tables).values():
        ours = isinstance(wrapper, type) and wrapper.__module__ == tables.__name__
        if ours and wrapper is not LazyContainer:
            assert not hasattr(wrapper(), "__dict__")
