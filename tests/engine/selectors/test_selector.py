"""Compiled expressions come to what the naive interpreter says, on whatever message."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.filters.trees import PATTERNS, expressions, messages, octets

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import LongString
from leporid.engine.selectors.selector import Selector
from leporid.filters.compiler import compile_tree, program
from leporid.filters.dialects import Dialect
from leporid.filters.interpreter import evaluate
from leporid.filters.like import matches, symbols_of
from leporid.filters.limits import PATTERN_BYTES_MAX
from leporid.filters.messages import FilteredMessage
from leporid.filters.program import Opcode

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ
NAMES = b"\x00\x00"


def selector(text: str, dialect: Dialect = JMS) -> Selector:
    return Selector(program(text, dialect).code)


def encoded(**fields: object) -> bytes:
    return encode_properties(Properties(headers=fields))  # type: ignore[arg-type]


def outcome(filter_: Selector, message: FilteredMessage) -> int:
    properties = encode_properties(message.properties)
    return filter_.outcome(message.exchange, message.routing_key, properties)


def check(expression, some) -> None:
    dialect, tree = expression
    filter_ = Selector(compile_tree(tree, dialect).code)
    for message in some:
        assert outcome(filter_, message) == evaluate(tree, dialect, message).value


@settings(max_examples=20)
@given(expressions, st.lists(messages, min_size=1, max_size=4))
def test_a_program_comes_to_what_the_interpreter_says(expression, some):
    check(expression, some)


@pytest.mark.slow
@settings(max_examples=800)
@given(expressions, st.lists(messages, min_size=1, max_size=8))
def test_many_programs_come_to_what_the_interpreter_says(expression, some):
    check(expression, some)


# ------------------------------------------------------------------ messages


def test_the_first_of_a_name_counts():
    one, two = b"\x01ab\x01", b"\x01ab\x02"  # int8
    for fields, first in ((one + two, 1), (two + one, 2), (b"\x01aV" + one, None)):
        raw = b"\x20\x00" + struct.pack(">I", len(fields)) + fields
        assert selector("a = 1").outcome("", "", raw) == (first == 1)
        assert selector("a IS NULL").outcome("", "", raw) == (first is None)
        # The walk goes on, for a name that does not come.
        assert selector("b = 5 OR a = 1").outcome("", "", raw) == (first == 1)


def test_many_headers_and_many_names():
    headers = {f"header{number}": number for number in range(500)}
    text = " AND ".join(f"header{number} = {number}" for number in range(0, 500, 11))
    assert selector(text).matches_message("", "", encoded(**headers))
    assert not selector(text).matches_message("", "", encoded(**headers | {"header440": 0}))


def test_names_of_one_length_and_one_ending_are_told_apart():
    headers = {f"{letter}name-of-a-header": letter for letter in "abcdefgh"}
    for letter in "abcdefgh":
        assert selector(f"\"{letter}name-of-a-header\" = '{letter}'").matches_message(
            "", "", encoded(**headers)
        )


def test_a_name_of_255_bytes():
    name = "é" * 127 + "x"
    assert selector(f'"{name}" = 1').matches_message("", "", encoded(**{name: 1}))
    assert not selector(f'"{name}" = 1').matches_message("", "", encoded(**{name[1:]: 1}))


@settings(max_examples=60)
@given(st.binary(max_size=80), st.sampled_from(Dialect))
@example(b"\xff\xff", JMS)
@example(b"\x20\x00\xff\xff\xff\xff", JMS)
@example(b"\x20\x00\x00\x00\x00\x07\x01aS\xff\xff\xff\xff", JMS)
@example(b"\x20\x00\x00\x00\x00\x07\x01aF\x00\x00\x00\x09", ROCKETMQ)
@example(b"\x20\x00\x00\x00\x00\x02\xffa", JMS)
@example(b"\x01\x00", JMS)
@example(b"", JMS)
def test_random_properties_do_no_harm(raw, dialect):
    text = "a = 1 OR b > c OR p.type = 'x' OR p.timestamp > 1 OR routing_key = 'k'"
    for flags in (b"", b"\x20\x00", b"\xff\xfc", b"\x20\x00\x00\x00\x00\x10"):
        assert selector(text, dialect).outcome("", "", flags + raw) in (1, 0, -1)


@settings(max_examples=50)
@given(messages, st.data())
def test_properties_cut_short_or_changed_do_no_harm(message, data):
    raw = bytearray(encode_properties(message.properties))
    at = data.draw(st.integers(0, len(raw) - 1))
    filter_ = selector("a = 1 OR b > c OR p.app_id = 'x' OR \"x-tag\" LIKE '%a_'")
    assert filter_.outcome("", "", bytes(raw[:at])) in (1, 0, -1)
    raw[at] = data.draw(st.integers(0, 255))
    assert filter_.outcome("", "", bytes(raw)) in (1, 0, -1)


@settings(max_examples=60)
@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 255))
def test_decimals_are_the_nearest_double(unscaled, scale):
    value = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    assert selector(f"a = {float(value)!r}").matches_message("", "", encoded(a=value))


@pytest.mark.parametrize("field", ["d7ff8000000000000", "dfff0000000000000", "f7fc00000"])
def test_what_is_no_finite_number_is_like_a_table(field):
    value = field[0].encode() + bytes.fromhex(field[1:])
    raw = b"\x20\x00" + struct.pack(">I", 2 + len(value)) + b"\x01a" + value
    for text in ("a = 1", "a <> 1", "a > 1", "NOT (a > 1)", "a + 1 > 0"):
        assert selector(text).outcome("", "", raw) == -1
    assert selector("a IS NOT NULL").outcome("", "", raw) == 1


def test_a_second_word_of_flags_is_malformed():
    for flags in (b"\x20\x01", b"\x20\x02"):
        assert selector("a IS NULL").outcome("", "", flags + bytes(4)) == -1


def test_malformed_properties_are_no_match_and_counted():
    filter_ = selector("a IS NULL")
    assert filter_.outcome("", "", b"\x20\x00\x00\x00\x00\x09") == -1
    assert filter_.type_errors == 1
    # What is not looked at is not found to be malformed.
    assert selector("routing_key = 'k'").outcome("", "k", b"?") == 1


def test_type_errors_are_counted():
    filter_ = selector("a > 1")
    for value in ("x", 5, 0, None, "y"):
        filter_.matches_message("", "", encoded(a=value))
    assert filter_.type_errors == 2


# ------------------------------------------------------------------ patterns


@settings(max_examples=60)
@given(
    st.sampled_from(PATTERNS) | st.text("ab_%é", max_size=12),
    octets | st.text("abé", max_size=12).map(str.encode),
)
def test_patterns_match_what_they_should(pattern, text):
    filter_ = Selector(program(f"a LIKE '{pattern}' ESCAPE '!'").code)
    properties = encoded(a=LongString(text))
    expected = matches(symbols_of(pattern, "!"), text)
    assert filter_.matches_message("", "", properties) is expected


@pytest.mark.parametrize("places", [1, 62, 63, 64, 65, 127, 128, 129, 191, 192, 254, 255])
def test_patterns_of_every_length_in_words(places):
    ones = selector(f"a LIKE '{'_' * places}'")
    found = selector(f"a LIKE '%{'ab' * places}'"[: 9 + places] + "%'")
    for size in (places - 1, places, places + 1):
        text = ("ab" * places)[:size]
        assert ones.matches_message("", "", encoded(a=text)) is (size == places)
        assert found.matches_message("", "", encoded(a="b" + text)) is (size >= places)
        assert ones.matches_message("", "", encoded(a="€" * size)) is (size == places)


HOSTILE = [
    "%a" * 120 + "%b",
    "a%" * 120 + "b",
    "%_" * 120 + "%b",
    "%" + "a" * 250 + "b%",
    "%" + "a_" * 120 + "b%",
    "%a%" * 80 + "b",
]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_takes_more_than_four_steps_a_byte(pattern):
    text = "a" * 100_000
    steps = selector(f"s LIKE '{pattern}'").work(NAMES, encoded(s=text))
    assert steps <= 4 * len(text) + 10
    # … and the steps are counted: each byte of such a text has to be looked at.
    assert steps >= len(text)


def test_a_text_is_left_as_soon_as_the_answer_is_clear():
    text = encoded(s="xy" + "a" * 100_000)
    for pattern in ("%x%", "x_a%", "q%_b", "_q%"):
        assert selector(f"s LIKE '{pattern}'").work(NAMES, text) < 20


def test_steps_of_the_largest_expression():
    """What is not a pattern takes a step for each instruction and each field."""
    text = "a IN (" + ",".join(str(number) for number in range(97)) + ")"
    assert selector(text).work(NAMES, encoded(**{f"h{n}": n for n in range(1000)})) <= 1003
    assert selector("z = 1").work(NAMES, encoded(z=1, **{f"h{n}": n for n in range(1000)})) == 5


def test_longest_pattern():
    pattern = "%" + "a" * PATTERN_BYTES_MAX
    filter_ = selector(f"s LIKE '{pattern}_'"[: 8 + len(pattern)] + "%'")
    assert filter_.matches_message("", "", encoded(s="b" + "a" * PATTERN_BYTES_MAX))
    assert not filter_.matches_message("", "", encoded(s="b" + "a" * (PATTERN_BYTES_MAX - 1)))


# ------------------------------------------------------------------ programs

GOOD = program("a = 1 AND (b LIKE '%x_' OR c IN (1, 'x')) AND p.type STARTSWITH 'y'").code


def test_a_program_is_loaded_whole_or_not_at_all():
    Selector(GOOD)
    for size in range(len(GOOD)):
        with pytest.raises(ValueError, match="not a program"):
            Selector(GOOD[:size])
    with pytest.raises(ValueError, match="not a program"):
        Selector(GOOD + b"\x00")


@pytest.mark.parametrize(("places", "allowed"), [(255, True), (256, False), (1000, False)])
def test_a_pattern_with_more_places_than_states_is_refused(places, allowed):
    pattern = b"\xff" + b"\xfe" * places
    head = struct.pack(">BBBBHBH", 1, 0, 0, 1, 3, 5, len(pattern))
    instructions = [(Opcode.ROUTING_KEY, 0, 0), (Opcode.LIKE, 0, 0), (Opcode.END, 0, 0)]
    code = b"".join(struct.pack(">BBH", *one) for one in instructions)
    assert loaded(head + pattern + code) is allowed


def loaded(code: bytes) -> bool:
    """Whether it is a program; if it is, running it does no harm."""
    try:
        filter_ = Selector(code)
    except ValueError:
        return False
    for value in (None, 5, "ax", {"x": 1}):
        assert filter_.outcome("e", "k", encoded(a=value, b=value, c=value)) in (1, 0, -1)
    return True


@settings(max_examples=100)
@given(st.data())
def test_changed_programs_do_no_harm(data):
    code = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        code[data.draw(st.integers(0, len(code) - 1))] = data.draw(st.integers(0, 255))
    loaded(bytes(code))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(Opcode), st.integers(0, 3), st.integers(0, 12)), max_size=12)
)
def test_random_instructions_do_no_harm(instructions):
    head = struct.pack(">BBBBH", 1, 0, 2, 4, len(instructions) + 1)
    constants = b"\x02" + bytes(8) + b"\x04\x00\x01x" + b"\x05\x00\x02\xffx" + b"\x01\x01"
    code = b"".join(struct.pack(">BBH", *one) for one in (*instructions, (Opcode.END, 0, 0)))
    loaded(head + b"\x01a\x01b" + constants + code)


@pytest.mark.parametrize(
    "instructions",
    [
        [(Opcode.END, 0, 0)],
        [(Opcode.NOT, 0, 0), (Opcode.END, 0, 0)],
        [(Opcode.ROUTING_KEY, 0, 0)] * 2 + [(Opcode.END, 0, 0)],
        [(Opcode.ROUTING_KEY, 0, 0)],
        [(Opcode.ROUTING_KEY, 0, 0), (Opcode.END, 0, 0), (Opcode.END, 0, 0)],
        [(Opcode.HEADER, 0, 0), (Opcode.END, 0, 0)],
        [(Opcode.CONSTANT, 0, 0), (Opcode.END, 0, 0)],
        [(Opcode.PROPERTY, 0, 13), (Opcode.END, 0, 0)],
        [(Opcode.PROPERTY, 0, 16), (Opcode.END, 0, 0)],
        [(Opcode.ROUTING_KEY, 0, 0), (Opcode.UNLESS_TRUE, 0, 0), (Opcode.END, 0, 0)],
        [(Opcode.ROUTING_KEY, 0, 0), (Opcode.UNLESS_TRUE, 0, 3), (Opcode.END, 0, 0)],
        [(Opcode.ROUTING_KEY, 0, 0), (Opcode.LIKE, 0, 0), (Opcode.END, 0, 0)],
        [(Opcode.ROUTING_KEY, 0, 0)] * 129 + [(Opcode.AND, 0, 0)] * 128 + [(Opcode.END, 0, 0)],
        [(32, 0, 0), (Opcode.END, 0, 0)],
    ],
)
def test_programs_that_would_do_harm_are_refused(instructions):
    code = b"".join(struct.pack(">BBH", *one) for one in instructions)
    assert not loaded(struct.pack(">BBBBH", 1, 0, 0, 0, len(instructions)) + code)
