"""Both dialects, case by case: what the interpreter and the engine make of a message."""

from __future__ import annotations

import pytest
from tests.filters import cases_jms, cases_jms_texts, cases_rocketmq

from leporid.amqp.properties import encode_properties
from leporid.engine.selectors.selector import Selector
from leporid.filters.compiler import program
from leporid.filters.dialects import DEFAULT, Dialect
from leporid.filters.errors import FilterError
from leporid.filters.interpreter import Outcome, evaluate
from leporid.filters.messages import FilteredMessage
from leporid.filters.parser import parse

TABLES = {
    Dialect.JMS: cases_jms.GROUPS + cases_jms_texts.GROUPS,
    Dialect.ROCKETMQ: cases_rocketmq.GROUPS,
}

CASES = [
    pytest.param(dialect, message, text, expected, id=f"{dialect}: {group}: {text}")
    for dialect, groups in TABLES.items()
    for group, message, cases in groups
    for text, expected in cases
]

# Of an expression, and of its negation.
EXPECTED = {
    "T": (Outcome.MATCH, Outcome.NO_MATCH),
    "F": (Outcome.NO_MATCH, Outcome.MATCH),
    "U": (Outcome.NO_MATCH, Outcome.NO_MATCH),
    "E": (Outcome.TYPE_ERROR, Outcome.TYPE_ERROR),
    "T*": (Outcome.MATCH, Outcome.TYPE_ERROR),
    "F*": (Outcome.TYPE_ERROR, Outcome.MATCH),
}


def both(text: str, dialect: Dialect, message: FilteredMessage) -> Outcome:
    """What interpreter and engine say; they agree."""
    slowly = evaluate(parse(text, dialect), dialect, message)
    fast = Selector(program(text, dialect).code).outcome(
        message.exchange, message.routing_key, encode_properties(message.properties)
    )
    assert fast == slowly.value
    return slowly


@pytest.mark.parametrize(("dialect", "message", "text", "expected"), CASES)
def test_outcome(dialect, message, text, expected):
    if expected == "!":
        with pytest.raises(FilterError):
            parse(text, dialect)
        return
    outcomes = both(text, dialect, message), both(f"NOT ({text}\n)", dialect, message)
    assert outcomes == EXPECTED[expected]


def test_there_are_enough_cases_and_no_case_stands_twice():
    assert len(CASES) >= 400
    assert len({case.id for case in CASES}) == len(CASES)


def test_the_dialects_have_names():
    assert Dialect("jms") is DEFAULT
    assert Dialect("rocketmq") is Dialect.ROCKETMQ
    with pytest.raises(ValueError, match="sql92"):
        Dialect("sql92")
