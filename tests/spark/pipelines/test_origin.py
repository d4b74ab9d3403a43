import time

import pytest

from leporid.spark.errors import OptionError
from leporid.spark.offsets import Key, Position
from leporid.spark.pipelines.origin import Origin, offsets_text, rows_between


@pytest.fixture
def origin(broker):
    broker.make("orders", 2)
    broker.append("orders", 10, 0)
    broker.append("orders", 5, 1)
    broker.cut("orders", 2, 0)
    return Origin("orders", {"url": broker.url})


def at(offsets):
    return [position.offset for _, position in sorted(offsets.items())]


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        ("earliest", [2, 0]),
        ("latest", [10, 5]),
        # The record with offset n came n milliseconds later.
        ("2026-01-01T00:00:00.004", [4, 4]),
        ("1767225600004", [4, 4]),
        ("2030-01-01", [10, 5]),
    ],
)
def test_a_start_is_an_end_or_a_time(origin, start, offsets):
    assert at(origin.begin(start)) == offsets


def test_another_start_is_refused(origin):
    with pytest.raises(OptionError, match="start = 'soon'"):
        origin.begin("soon")


def test_a_stream_that_is_not_there_is_named_with_the_nearest(origin):
    with pytest.raises(OptionError, match='did you mean "orders"'):
        Origin("order", origin.options).parts()


def test_the_first_bodies_are_read_without_spark(origin):
    found = origin.bodies(origin.begin(), origin.begin("latest"), 2)
    assert list(found) == [b"2", b"3", b"0", b"1"]


def test_a_position_is_stored_under_a_name(origin, broker):
    origin.store("lake", origin.begin())
    assert broker.readers == {("orders", 0, "lake"): 2, ("orders", 1, "lake"): 0}


def test_waiting_ends_when_there_is_something(origin):
    began = time.monotonic()
    origin.wait(origin.begin(), 20)
    assert time.monotonic() - began < 10


def test_rows_are_counted_between_positions():
    one, two = Key("s", 0), Key("s", 1)
    start = {one: Position(5, "i", 0)}
    end = {one: Position(8, "i", 0), two: Position(4, "i", 1)}
    assert rows_between(start, end) == 6
    assert offsets_text(end) == '{"s": {"0": 8, "1": 4}}'
