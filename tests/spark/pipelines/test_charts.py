import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest

from leporid.spark.pipelines import charts

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("most", [0.003, 0.9, 1, 7, 10, 99, 100, 101, 12_345, 8e9])
def test_ticks_are_few_round_and_reach_the_most(most):
    found = charts.ticks(most)
    assert found[0] == 0
    assert found[-1] >= most > found[-2]
    assert 3 <= len(found) <= 7


def test_a_chart_of_nothing_has_an_axis():
    assert charts.ticks(0) == [0, 1]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (7.25, "7.25"), (999.7, "1000"), (1500, "1.5 k"), (2e7, "20 M"), (123456, "123 k")],
)
def test_numbers_are_short(number, text):
    assert charts.short(number) == text


def test_a_missing_value_is_a_gap_in_the_line():
    times = [NOON + timedelta(minutes=at) for at in range(6)]
    drawn = ET.fromstring(charts.lines(times, [("a", [1, 2, None, 3, None, 4])], "ms"))
    paths = [each.get("d") for each in drawn.iter("path") if each.get("class") == "line s0"]
    assert len(paths) == 1
    assert len(list(drawn.iter("circle"))) == 2


def test_one_moment_alone_can_be_drawn():
    ET.fromstring(charts.lines([NOON], [("a", [1])], "ms"))


def test_names_are_escaped():
    drawn = ET.fromstring(charts.bars([("<b>&", 3.0)], "messages"))
    assert [each.text for each in drawn.iter("text")][-1] == "<b>&"


@pytest.mark.parametrize("seconds", [1, 59, 61, 600, 5_400, 86_400, 10 * 86_400, 4_000 * 86_400])
def test_times_on_the_axis_are_few_and_within(seconds):
    begin = NOON.timestamp() + 17
    found = charts.moments(begin, begin + seconds)
    assert 1 <= len(found) <= 8
    assert all(begin <= each <= begin + seconds for each in found)
    assert found == [begin] or all(each % 1 == 0 for each in found)
