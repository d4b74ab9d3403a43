"""The flights' lake, over a few lines; the arithmetic that it is compared with."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights"
LINE = b"2013,1,1,517,515,2,830,819,%s,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"


@pytest.fixture
def lake(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import lake  # type: ignore[import-not-found]

    yield lake
    for name in ("lake", "traffic", "dataset"):
        sys.modules.pop(name, None)


def flight(lake, delay):
    return lake.Flight("EWR", "UA", "late", LINE % delay)


def test_flights_without_an_arrival_are_left_out(lake):
    found = lake.expected([flight(lake, each) for each in (b"11", b"20", b"NA", b"")])
    assert found == {("EWR", "UA"): (2, 15.5)}


def test_a_missing_key_a_count_or_a_mean_is_a_difference(lake):
    one = {("EWR", "UA"): (2, 15.5)}
    assert lake.agrees(one, dict(one))
    for other in ({}, {("EWR", "UA"): (3, 15.5)}, {("EWR", "UA"): (2, 15.6)}):
        assert not lake.agrees(one, other)
