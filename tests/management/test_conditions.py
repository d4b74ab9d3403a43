"""Conditions on fields: reading them, and comparing values of each type of JSON."""

from __future__ import annotations

from typing import Any

import pytest

from leporid.management.conditions import CONDITIONS_MAX, ConditionError, conditions_in


@pytest.mark.parametrize(
    ("text", "met", "not_met"),
    [
        ("state=paused", ["paused"], ["running", "", None, 0, True]),
        ("state!=paused", ["running", None, 7], ["paused"]),
        ("consumers=0", [0, None, 0.0], [1, "none", True]),
        ("consumers!=0", [1, "none"], [0, None]),
        ("messages>10", [11, 10.5], [10, None, -1]),
        ("messages<-1.5", [-2], [0, None]),
        ("durable=true", [True], [False, None, 1, "True"]),
        ("policy=", ["", None], ["p", 0]),
        ("name=a=b", ["a=b"], ["a"]),
        ("name=x\ny", ["x\ny"], ["x"]),
        ("name=5", ["5", 5], ["6", 6]),
        ('tags=["a",1]', [["a", 1]], [["a"], []]),
        ("owner=null", ["null"], [None]),
        ("messages>many", [], [5, 0]),
        ("messages!=many", [5], ["many"]),
        ("messages>9999999999999999", [], [10**17]),
    ],
)
def test_a_value_is_compared(text: str, met: list[Any], not_met: list[Any]) -> None:
    (condition,) = conditions_in([text])
    assert [value for value in met if not condition.is_met(value)] == []
    assert [value for value in not_met if condition.is_met(value)] == []


def test_a_path_leads_into_a_field() -> None:
    (condition,) = conditions_in(["message_stats.publish_details.rate>0"])
    assert condition.path == ("message_stats", "publish_details", "rate")


@pytest.mark.parametrize("text", ["", "state", "=5", "<", "!=x"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ConditionError, match="is no condition"):
        conditions_in([text])


def test_there_may_be_a_few() -> None:
    assert len(conditions_in(["a=1"] * CONDITIONS_MAX)) == CONDITIONS_MAX
    with pytest.raises(ConditionError) as caught:
        conditions_in(["a=1"] * (CONDITIONS_MAX + 1))
    assert caught.value.limit == CONDITIONS_MAX
