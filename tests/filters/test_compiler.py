"""Trees as programs: which instructions they become."""

from __future__ import annotations

import pytest

from leporid.amqp import constants
from leporid.filters.compiler import PROPERTY_BITS, compile_tree, program
from leporid.filters.dialects import Dialect
from leporid.filters.errors import FilterError
from leporid.filters.names import PROPERTIES
from leporid.filters.parser import parse
from leporid.filters.program import Opcode

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ


def instructions(text: str, dialect: Dialect = JMS) -> str:
    """The instructions of a program, by name."""
    code = program(text, dialect).code
    count = int.from_bytes(code[4:6], "big")
    return " ".join(Opcode(code[at]).name for at in range(len(code) - 4 * count, len(code), 4))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "HEADER CONDITION"),
        ("NOT a", "HEADER CONDITION NOT"),
        ("a = 1", "HEADER CONSTANT EQUAL"),
        ("a <> 1", "HEADER CONSTANT EQUAL NOT"),
        ("a AND b", "HEADER CONDITION UNLESS_FALSE HEADER CONDITION AND"),
        ("a OR b", "HEADER CONDITION UNLESS_TRUE HEADER CONDITION OR"),
        ("a + 1 < -b", "HEADER CONSTANT ADD HEADER NEGATIVE LESS"),
        ("a BETWEEN 1 AND 2", "HEADER CONSTANT CONSTANT BETWEEN"),
        ("a NOT IN (1, 2)", "HEADER IN NOT"),
        ("a IS NULL", "HEADER IS_NULL"),
        ("p.type = routing_key", "PROPERTY ROUTING_KEY EQUAL"),
        ("exchange = JMSDeliveryMode", "EXCHANGE DELIVERY_MODE EQUAL"),
        ("JMSTimestamp > 0", "MILLISECONDS CONSTANT GREATER"),
        ("a LIKE 'x'", "HEADER CONSTANT EQUAL"),
        ("a LIKE ''", "HEADER CONSTANT EQUAL"),
        ("a LIKE 'x%'", "HEADER STARTSWITH"),
        ("a LIKE '%x'", "HEADER ENDSWITH"),
        ("a LIKE '%x%'", "HEADER LIKE"),
        ("a LIKE 'x_%'", "HEADER LIKE"),
        ("a LIKE '%'", "HEADER LIKE"),
        ("a CONTAINS 'x'", "HEADER LIKE"),
        ("a NOT STARTSWITH 'x'", "HEADER STARTSWITH"),
        ("a ENDSWITH 'x'", "HEADER ENDSWITH"),
    ],
)
def test_instructions(text, expected):
    assert instructions(text) == expected + " END"


def test_an_empty_search_of_rocketmq_is_never_true_nor_skipped():
    assert instructions("a CONTAINS ''", ROCKETMQ) == "HEADER IS_NULL CONSTANT AND END"
    assert instructions("TAGS = 'x'", ROCKETMQ) == "TAG CONSTANT EQUAL END"


def test_bits_are_those_of_the_protocol():
    for name, bit in PROPERTY_BITS.items():
        assert getattr(constants, f"FLAG_{name.upper()}") == 1 << bit
    assert set(PROPERTIES) <= set(PROPERTY_BITS)


def test_a_bad_expression_is_refused_each_time():
    for _ in range(2):
        with pytest.raises(FilterError):
            program("a =")


def test_a_program_says_what_it_was_made_of():
    made = program("a = 1", ROCKETMQ)
    assert (made.text, made.dialect) == ("a = 1", ROCKETMQ)
    assert compile_tree(parse("a = 1", ROCKETMQ), ROCKETMQ).code == made.code
