"""Arguments of declarations, from what Python has."""

import pytest

from leporid.client import arguments
from leporid.client.errors import LocalProtocolError
from leporid.client.opening import Server

LEPORID = Server("Leporid", "1", {})
OTHER = Server("RabbitMQ", "4", {})


def test_arguments_are_given_once():
    assert arguments.merged({"a": 1}, {"b": 2, "c": None}) == {"a": 1, "b": 2}
    with pytest.raises(LocalProtocolError, match="b is given"):
        arguments.merged({"b": 1}, {"b": 1})


def test_filters():
    made = arguments.filtered(LEPORID, {"a": 1}, ["x", "y"], "n > 1", "late")
    assert made == {
        "a": 1,
        "x-filter-tags": "x || y",
        "x-filter-sql": "n > 1",
        "x-filter-class": "late",
    }
    assert arguments.filtered(OTHER, None, None, None, None) == {}
    with pytest.raises(LocalProtocolError, match="RabbitMQ 4 has no filters"):
        arguments.filtered(OTHER, None, "x", None, None)


@pytest.mark.parametrize("wrong", [-1, 11, 1.0, True, "5", None])
def test_numbers_within_bounds(wrong):
    assert arguments.whole_number(10, "n", 0, 10) == 10
    with pytest.raises(LocalProtocolError, match="n must be a whole number from 0 to 10"):
        arguments.whole_number(wrong, "n", 0, 10)


def test_durations_and_counts():
    assert arguments.milliseconds(None, "x") is None
    assert arguments.milliseconds(1, "x") == 1000
    assert arguments.count(None, "x") is None
    assert arguments.count(5, "x") == 5
