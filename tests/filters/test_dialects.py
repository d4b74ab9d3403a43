"""Both dialects, case by case: what the interpreter and the engine make of a message."""

from __future__ import annotations

from collections import Counter

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

GROUPS = [
    pytest.param(dialect, message, cases, id=f"{dialect}: {group}")
    for dialect, groups in TABLES.items()
    for group, message, cases in groups
]

# Of an expression, and of its negation.
EXPECTED: dict[str, tuple[Outcome, ...] | None] = {
    "T": (Outcome.MATCH, Outcome.NO_MATCH),
    "F": (Outcome.NO_MATCH, Outcome.MATCH),
    "U": (Outcome.NO_MATCH, Outcome.NO_MATCH),
    "E": (Outcome.TYPE_ERROR, Outcome.TYPE_ERROR),
    "T*": (Outcome.MATCH, Outcome.TYPE_ERROR),
    "F*": (Outcome.TYPE_ERROR, Outcome.MATCH),
    "!": None,
}


def both(text: str, dialect: Dialect, message: FilteredMessage) -> Outcome:
    """What interpreter and engine say; they agree."""
    slowly = evaluate(parse(text, dialect), dialect, message)
    fast = Selector(program(text, dialect).code).outcome(
        message.exchange, message.routing_key, encode_properties(message.properties)
    )
    assert fast == slowly.value, text
    return slowly


def outcomes(text: str, dialect: Dialect, message: FilteredMessage) -> tuple[Outcome, ...] | None:
    """Of an expression, and of its negation; None if it is refused."""
    try:
        parse(text, dialect)
    except FilterError:
        return None
    return both(text, dialect, message), both(f"NOT ({text}\n)", dialect, message)


@pytest.mark.parametrize(("dialect", "message", "cases"), GROUPS)
def test_outcomes(dialect, message, cases):
    found = {text: outcomes(text, dialect, message) for text, _ in cases}
    assert found == {text: EXPECTED[expected] for text, expected in cases}


def test_there_are_enough_cases_and_no_case_stands_twice():
    texts = [
        (dialect, group, text)
        for dialect, groups in TABLES.items()
        for group, _, cases in groups
        for text, _ in cases
    ]
    assert len(texts) >= 400
    assert [each for each, count in Counter(texts).items() if count > 1] == []


def test_the_dialects_have_names():
    assert Dialect("jms") is DEFAULT
    assert Dialect("rocketmq") is Dialect.ROCKETMQ
    with pytest.raises(ValueError, match="sql92"):
        Dialect("sql92")
