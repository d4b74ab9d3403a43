"""docs/queue-arguments.md says what the code does, about everything that the code knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.broker.argument_tables import PAGE, Row, names, rows, section

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.broker.exchange.types import EXCHANGE_TYPES
from leporid.broker.queue.queue_types import (
    QUEUE_TYPES,
    check_consumer_arguments,
    check_queue_arguments,
)
from leporid.broker.settings import values
from leporid.broker.settings.effects import EFFECTS
from leporid.broker.settings.table import SETTINGS, Place
from leporid.broker.settings.unknown_arguments import unknown_in

BROKER = Path(values.__file__).parents[1]

QUEUE_ROWS = rows("Of queues")
CONSUMER_ROWS = rows("Of consumers")

# What the arguments of a queue must have beside them.
COMPANIONS: dict[str, dict[str, Value]] = {
    "x-dead-letter-routing-key": {"x-dead-letter-exchange": "e"},
}


def declare(kind: str, arguments: dict[str, Value]) -> None:
    check_queue_arguments("queue 'q'", {"x-queue-type": kind} | arguments)


def consume(kind: str, arguments: dict[str, Value]) -> None:
    check_consumer_arguments("queue 'q'", QUEUE_TYPES[kind], arguments)


def refusal(row: Row, text: str) -> str:
    return f"PRECONDITION_FAILED - invalid arg '{row.argument}' for queue 'q': {text}"


def test_every_argument_of_queues_is_there_with_the_types_that_know_it():
    assert {row.argument: set(row.types) for row in QUEUE_ROWS} == {
        argument: {name for name, kind in QUEUE_TYPES.items() if argument in kind.queue_arguments}
        for each in QUEUE_TYPES.values()
        for argument in each.queue_arguments
    }


def test_every_argument_of_consumers_is_there_with_the_types_that_know_it():
    assert {row.argument: set(row.types) for row in CONSUMER_ROWS} == {
        argument: {
            name for name, kind in QUEUE_TYPES.items() if argument in kind.consumer_arguments
        }
        for each in QUEUE_TYPES.values()
        for argument in each.consumer_arguments
    }


@pytest.mark.parametrize("row", QUEUE_ROWS, ids=lambda row: row.argument)
def test_wrong_values_of_queues_are_refused_as_it_says(row: Row):
    for kind in row.types:
        for value, text in row.refused:
            if text.startswith("invalid type"):
                continue  # noticed before; the conformance tests ask for it
            with pytest.raises(PreconditionFailed) as refused:
                declare(kind, {row.argument: value})
            assert refused.value.text == refusal(row, text)


@pytest.mark.parametrize("row", CONSUMER_ROWS, ids=lambda row: row.argument)
def test_wrong_values_of_consumers_are_refused_as_it_says(row: Row):
    for kind in row.types:
        for value, text in row.refused:
            with pytest.raises(PreconditionFailed) as refused:
                consume(kind, {row.argument: value})
            assert refused.value.text == refusal(row, text)


@pytest.mark.parametrize(
    ("check", "row"),
    [(declare, row) for row in QUEUE_ROWS if row.bounds]
    + [(consume, row) for row in CONSUMER_ROWS if row.bounds],
    ids=lambda part: part.argument if isinstance(part, Row) else "",
)
def test_the_bounds_are_those_it_says(check, row: Row):
    assert row.bounds is not None
    least, greatest = row.bounds
    for kind in row.types:
        for value in (least, greatest):
            check(kind, {row.argument: value})
        with pytest.raises(PreconditionFailed):
            check(kind, {row.argument: greatest + 1})


def test_whatever_is_checked_says_what_it_refuses():
    """An argument without an example takes any value."""
    for check, table in ((declare, QUEUE_ROWS), (consume, CONSUMER_ROWS)):
        for row in table:
            if not row.refused:
                check(row.types[0], {row.argument: {}})


@pytest.mark.parametrize("row", QUEUE_ROWS, ids=lambda row: row.argument)
def test_words_are_taken(row: Row):
    """Words in code marks in the third column are values."""
    value = next(cells[2] for cells in section("Of queues") if f"`{row.argument}`" in cells[0])
    for word in names(value):
        if not word.startswith("x-"):
            arguments: dict[str, Value] = {row.argument: word}
            declare(row.types[0], arguments | COMPANIONS.get(row.argument, {}))


def names_in(source: Path) -> set[str]:
    """The names in a module that arguments and headers may have."""
    pattern = re.compile(r"(x|hash)-[a-z-]+|alternate-exchange|CC|BCC")
    return {
        node.value
        for node in ast.walk(ast.parse(source.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if pattern.fullmatch(node.value)
    }


def test_no_name_that_the_rules_know_is_missing():
    known = set().union(*(names_in(source) for source in BROKER.rglob("*.py")))
    told = set(re.findall(r"`([^`]+)`", PAGE.read_text("utf-8")))
    assert known - EXCHANGE_TYPES.keys() - told == set()


def test_every_argument_stands_where_the_table_says():
    parts: dict[str, str] = {}
    for page in (PAGE, PAGE.with_name("policies.md")):
        for part in page.read_text("utf-8").split("\n## "):
            title = part.partition("\n")[0].lower().replace(" ", "-")
            parts[f"{page.name}#{title}"] = part
    for each in SETTINGS:
        assert f"`{each.name}`" in parts[each.doc] or f'"{each.name}"' in parts[each.doc], each


@pytest.mark.parametrize(
    ("title", "place"),
    [
        ("Of queues", "queue"),
        ("Of consumers", "consumer"),
        ("Of exchanges", "exchange"),
        ("Of bindings", "binding"),
    ],
)
def test_every_argument_of_the_page_stands_in_the_table(title: str, place: Place):
    told = {name for cells in section(title) for name in names(cells[0])}
    assert not list(unknown_in(place, told))
    assert told <= {each.name for each in SETTINGS if each.place == place}


def test_every_effect_is_that_of_a_setting():
    assert {effect for each in SETTINGS for effect in each.effects} == set(EFFECTS)


def test_every_key_of_policies_has_values():
    for each in SETTINGS:
        if each.policy is not None:
            assert each.policy.fits is not None or each.values is not None, each.name
