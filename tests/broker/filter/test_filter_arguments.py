"""Filters that argument tables ask for."""

from __future__ import annotations

import pytest

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import LongString, Value
from leporid.broker.filter.filter_arguments import check_names, class_of, filter_of


def passes(arguments: dict[str, Value], **headers: Value) -> bool:
    found = filter_of(arguments)
    assert found is not None
    return found.engine.matches_message("e", "k", encode_properties(Properties(headers=headers)))


@pytest.mark.parametrize(
    "arguments",
    [{}, {"x-match": "all"}, {"x-filter-tags": "*"}, {"x-filter-tags": ""}],
)
def test_nothing_is_asked_for(arguments):
    assert filter_of(arguments) is None


def test_tags():
    arguments: dict[str, Value] = {"x-filter-tags": "late || lost"}
    assert passes(arguments, **{"x-tag": "lost"})
    assert not passes(arguments, **{"x-tag": "early"})
    assert not passes(arguments)


def test_sql_in_both_dialects():
    nothing: dict[str, Value] = {}
    for more in (nothing, {"x-filter-dialect": "jms"}):
        assert passes({"x-filter-sql": "n > 5", **more}, n=6)
        assert not passes({"x-filter-sql": "n > 5", **more}, n="6")
    assert passes({"x-filter-sql": "n > 5", "x-filter-dialect": "rocketmq"}, n="6")


def test_all_that_is_given_must_hold():
    for tags, at_least, both in (("a", 5, True), ("b", 5, False), ("a", 6, False)):
        arguments: dict[str, Value] = {"x-filter-tags": tags, "x-filter-sql": f"n >= {at_least}"}
        headers: dict[str, Value] = {"x-tag": "a", "n": 5}
        assert passes(arguments, **headers) is both
    assert passes({"x-filter-tags": "*", "x-filter-sql": "n = 1"}, n=1)


def test_the_parts_can_be_had_by_themselves():
    found = filter_of({"x-filter-tags": "a"})
    assert found is not None
    assert found.engine is found.tags
    assert found.selector is None
    found = filter_of({"x-filter-sql": "n = 1"})
    assert found is not None
    assert found.engine is found.selector
    assert found.tags is None
    found = filter_of({"x-filter-sql": "n = 1", "x-filter-tags": "a"})
    assert found is not None
    assert found.tags is not None
    assert found.selector is not None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-filter-tags": 5}, "invalid arg 'x-filter-tags': it must be a string, not long"),
        ({"x-filter-sql": LongString(b"\xff")}, "invalid arg 'x-filter-sql': it is not UTF-8"),
        ({"x-filter-tags": "a || *"}, "invalid arg 'x-filter-tags': character 6: "),
        ({"x-filter-sql": "n >"}, "invalid arg 'x-filter-sql': character 4: "),
        ({"x-filter-sql": "n = 1\nAND"}, "invalid arg 'x-filter-sql': line 2, character 4: "),
        ({"x-filter-sql": ""}, "invalid arg 'x-filter-sql': character 1: "),
        ({"x-filter-sql": "n = 1", "x-filter-dialect": "sql92"}, "expected jms or rocketmq"),
        ({"x-filter-dialect": "jms"}, "there is no x-filter-sql beside it"),
        ({"x-filter-class": False}, "invalid arg 'x-filter-class': it must be a string, not bool"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(arguments, text):
    with pytest.raises(PreconditionFailed, match="PRECONDITION_FAILED") as raised:
        filter_of(arguments)
    assert text in raised.value.text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x-filter-tag", "'x-filter-tag': there is none of that name; did you mean x-filter-tags?"),
        ("x-filter-sq1", "did you mean x-filter-sql?"),
        (
            "x-filter",
            "there is none of that name; there are x-filter-tags, x-filter-sql, x-filter-",
        ),
        ("x-filters", "x-filter-dialect, x-filter-class"),
    ],
)
def test_a_name_that_is_none_is_refused(name, text):
    with pytest.raises(PreconditionFailed) as raised:
        check_names({"x-filter-sql": "a = 1", name: "late"})
    assert text in raised.value.text


def test_other_names_are_none_of_our_business():
    check_names({"x-filter-sql": "a =", "x-filter-tags": "a", "x-match": "all", "filter": 1})
    for match in ("all-with-x", "any-with-x"):
        check_names({"x-match": match, "x-filter-number": 5})  # headers that are compared
    with pytest.raises(PreconditionFailed):
        check_names({"x-match": "any", "x-filter-number": 5})


def test_the_place_is_said_whatever_the_expression_is():
    """A reply text has 255 bytes."""
    with pytest.raises(PreconditionFailed) as raised:
        filter_of({"x-filter-sql": "n = 1 AND " + "x" * 3000 + " = = 'a'"})
    assert "character 3014: " in raised.value.text


def test_classes_are_for_those_who_know_them():
    asked: list[str] = []
    assert filter_of({"x-filter-class": "Y"}, asked.append) is None
    assert asked == ["Y"]
    assert class_of({"x-filter-class": "Y"}) == "Y"
    assert class_of({}) is None
