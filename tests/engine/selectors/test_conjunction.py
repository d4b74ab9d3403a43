"""Two filters as one."""

from __future__ import annotations

import pytest

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.engine.selectors.conjunction import Conjunction
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.tags import Tags
from leporid.filters.compiler import program


def encoded(**headers: Value) -> bytes:
    return encode_properties(Properties(headers=headers))


def selector(text: str) -> Selector:
    return Selector(program(text).code)


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"x-tag": "late", "n": 5}, True),
        ({"x-tag": "late", "n": 4}, False),
        ({"x-tag": "early", "n": 5}, False),
        ({}, False),
    ],
)
def test_both_must_let_a_message_pass(headers, passes):
    both = Conjunction(Tags([b"late"]), selector("n > 4"))
    assert both.matches_message("", "", encoded(**headers)) is passes


def test_one_of_them_may_be_two_again():
    three = Conjunction(Conjunction(selector("a = 1"), selector("b = 2")), selector("c = 3"))
    assert three.matches_message("", "", encoded(a=1, b=2, c=3))
    for missing in "abc":
        headers: dict[str, Value] = {"a": 1, "b": 2, "c": 3}
        del headers[missing]
        assert not three.matches_message("", "", encoded(**headers))


def test_type_errors_are_counted_by_both():
    first, second = Tags([b"x"]), selector("n > 5")
    both = Conjunction(first, second)
    assert both.outcome("", "", encoded(**{"x-tag": "x", "n": "text"})) == -1
    # The second is not asked about what the first does not let pass.
    assert both.outcome("", "", encoded(**{"x-tag": "y", "n": "text"})) == 0
    assert (both.type_errors, first.type_errors, second.type_errors) == (1, 0, 1)


def test_it_takes_filters_only():
    with pytest.raises(TypeError):
        Conjunction(None, Filter())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Conjunction(Filter(), None)  # type: ignore[arg-type]
