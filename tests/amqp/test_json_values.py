"""Tables of AMQP as JSON has them, and back."""

from __future__ import annotations

import functools
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.amqp.json_values import finite, no_constant, shown, table_of
from leporid.amqp.tables import ByteArray, Timestamp, Value

KEYS = st.text(max_size=20)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_json_has_comes_back(table: dict[str, Value]):
    assert shown(table_of(table)) == table


def test_what_json_has_not_is_approximated():
    assert shown({"a": ByteArray(b"\xff"), "b": Timestamp(5), "c": Decimal("1.5")}) == {
        "a": "\ufffd",
        "b": 5,
        "c": "1.5",
    }


@pytest.mark.parametrize("given_", [None, [], {}])
def test_none_is_an_empty_table(given_: Any):
    assert table_of(given_) == {}


@pytest.mark.parametrize("wrong", [7, [1], {"x": 2**70}, {"x" * 300: 1}])
def test_what_is_no_table_is_refused(wrong: Any):
    with pytest.raises(ValueError, match=r"\w"):
        table_of(wrong)


def test_numbers_are_read_that_can_be_written():
    read = functools.partial(json.loads, parse_float=finite, parse_constant=no_constant)
    assert read("[1.5, -1e3, 1e-400, 7]") == [1.5, -1000.0, 0.0, 7]
    for text in ("1e400", "-1e400", "NaN", "-Infinity"):
        with pytest.raises(ValueError, match=r"is too large|is not JSON"):
            read(text)
