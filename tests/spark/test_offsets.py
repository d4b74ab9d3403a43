"""The arithmetic of offsets, against what must hold of it whatever the numbers are."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.spark.checks import EARLIEST, LATEST
from leporid.spark.errors import DataLossError, OptionError
from leporid.spark.offsets import (
    BatchLimits,
    Key,
    Part,
    Position,
    Range,
    advance,
    batch_ranges,
    from_json,
    initial,
    lag,
    latest,
    ranges,
    reconcile,
    resolve,
    share,
    split,
    to_json,
    worth_it,
)
from leporid.spark.options import Start

A, B = Key("a", 0), Key("b", 1)

numbers = st.integers(0, 2**40)
keys = st.builds(Key, st.sampled_from(["a", "b", "orders-ü"]), st.integers(0, 12))
positions = st.builds(Position, numbers, st.sampled_from(["i-1", "i-2"]), numbers)
positions_by_key = st.dictionaries(keys, positions, max_size=6)


@st.composite
def parts_by_key(draw):
    found = {}
    for key in draw(st.sets(keys, max_size=6)):
        first, more = draw(numbers), draw(st.integers(0, 10_000))
        found[key] = Part(key, first, first + more, "i-1", draw(st.integers(0, 10**7)))
    return found


def part(key: Key, first: int, end: int, incarnation: str = "i-1", size: int = 0) -> Part:
    return Part(key, first, end, incarnation, size)


# ---------------------------------------------------------------- the checkpoint's form


@given(positions_by_key)
def test_a_position_comes_back_from_json(offsets):
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@given(positions_by_key)
def test_json_does_not_depend_on_the_order_of_partitions(offsets):
    turned = dict(reversed(offsets.items()))
    assert json.dumps(to_json(offsets)) == json.dumps(to_json(turned))


def test_partitions_are_in_the_order_of_their_numbers():
    offsets = {Key("a", n): Position(n, "i", 0) for n in (10, 9, 2)}
    assert list(to_json(offsets)["offsets"]["a"]) == ["2", "9", "10"]


def test_offsets_of_a_newer_version_are_refused():
    with pytest.raises(OptionError, match=r"version 2.*newer leporid"):
        from_json({"version": 2, "anything": {}})


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"version": 1},
        {"version": 1, "offsets": {"a": {"0": 1}}, "incarnations": {}, "since": {}},
        {
            "version": 1,
            "offsets": {"a": {"0": "1"}},
            "incarnations": {"a": {"0": "i"}},
            "since": {"a": {"0": 0}},
        },
        {
            "version": 1,
            "offsets": {"a": {"x": 1}},
            "incarnations": {"a": {"x": "i"}},
            "since": {"a": {"x": 0}},
        },
        {
            "version": 1,
            "offsets": {"a": {"0": -1}},
            "incarnations": {"a": {"0": "i"}},
            "since": {"a": {"0": 0}},
        },
    ],
)
def test_damaged_offsets_are_refused(damaged):
    with pytest.raises(OptionError, match="checkpoint's offsets cannot be read"):
        from_json(damaged)


# ---------------------------------------------------------------- starts and ends


PARTS = {A: part(A, 10, 50), B: part(B, 0, 0)}


def test_a_start_at_an_end_of_the_stream():
    assert resolve(Start(at=EARLIEST), PARTS, {}, option="starting") == {A: 10, B: 0}
    assert resolve(Start(at=LATEST), PARTS, {}, option="starting") == {A: 50, B: 0}


def test_a_start_by_offset_takes_names_of_ends_too():
    place = Start(at={"a": {0: 20}, "b": {1: LATEST}})
    assert resolve(place, PARTS, {}, option="starting") == {A: 20, B: 0}


def test_a_partition_that_is_not_named_starts_at_the_default():
    parts = PARTS | {B: part(B, 5, 9)}
    by_offset, by_time = Start(at={"a": {0: 20}}), Start(moments_ms={"a": {0: 7}})
    for others, offset in ((EARLIEST, 5), (LATEST, 9)):
        found = resolve(by_offset, parts, {}, option="starting", others=others)
        assert found == {A: 20, B: offset}
        found = resolve(
            by_time, parts, {A: 30}, option="starting", beyond_end="error", others=others
        )
        assert found == {A: 30, B: offset}
    with pytest.raises(OptionError, match="partition 0 of stream 'a' has nothing at or after"):
        resolve(by_time, parts, {A: 50}, option="starting", beyond_end="error")


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ({"a": {0: 20, 1: 0}, "b": {1: 0}}, "partition 1 of stream 'a' is not among"),
        ({"a": {0: 51}, "b": {1: 0}}, "ends at 50, and 51 is beyond it"),
    ],
)
def test_a_start_that_does_not_fit_is_refused_by_name(at, says):
    with pytest.raises(OptionError, match=says):
        resolve(Start(at=at), PARTS, {}, option="starting")


def test_a_start_that_is_gone_is_a_loss_or_the_first_offset():
    place = Start(at={"a": {0: 3}, "b": {1: 0}})
    with pytest.raises(DataLossError, match=r"\[3, 10\) of partition 0 of stream 'a' are gone"):
        resolve(place, PARTS, {}, option="starting")
    found = resolve(place, PARTS, {}, option="starting", fail_on_loss=False)
    assert found[A] == 10


def test_a_time_beyond_the_end_is_refused_or_the_end():
    place, at_time = Start(moment_ms=5), {A: 50, B: 0}
    with pytest.raises(OptionError, match="nothing at or after the starting timestamp"):
        resolve(place, PARTS, at_time, option="starting", beyond_end="error")
    assert resolve(place, PARTS, at_time, option="starting") == {A: 50, B: 0}


def test_a_batch_reads_nothing_of_what_ends_before_it_starts():
    found = batch_ranges({A: 20, B: 0}, {A: 15, B: 0}, PARTS)
    assert found == []
    assert batch_ranges({A: 20, B: 0}, {A: 30, B: 0}, PARTS) == [Range(A, 20, 30, "i-1")]


# ---------------------------------------------------------------- how far a batch goes


@given(st.dictionaries(st.integers(0, 20), st.integers(0, 1000), max_size=10), st.integers(0, 5000))
def test_a_share_is_exact_and_never_more_than_wanted(wanted, total):
    got = share(wanted, total)
    assert got.keys() == wanted.keys()
    assert sum(got.values()) == min(total, sum(wanted.values()))
    assert all(0 <= got[name] <= wanted[name] for name in wanted)


@given(st.dictionaries(st.integers(0, 20), st.integers(1, 1000), min_size=1), st.integers(0, 5000))
def test_nobody_starves_as_long_as_there_is_enough(wanted, total):
    if total >= len(wanted):
        assert all(share(wanted, total).values())


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(2, 2000))
def test_a_share_is_proportional_but_for_a_row(one, other, total):
    got = share({"one": one, "other": other}, total)
    if total < one + other:
        assert abs(got["one"] - total * one / (one + other)) <= 2


@given(parts_by_key(), st.integers(1, 20_000), st.data())
def test_a_batch_never_exceeds_its_rows_and_never_moves_back(parts, rows_max, data):
    current = {
        key: Position(data.draw(st.integers(value.first, value.end)), "i-1", 0)
        for key, value in parts.items()
    }
    end = advance(current, parts, BatchLimits(rows_max=rows_max))
    gained = {key: end[key].offset - current[key].offset for key in current}
    assert all(rows >= 0 for rows in gained.values())
    assert sum(gained.values()) == min(rows_max, lag(current, parts))
    assert all(end[key].offset <= parts[key].end for key in end)


@given(parts_by_key(), st.integers(1, 10**6))
def test_a_limit_of_bytes_is_kept_but_for_one_row(parts, bytes_max):
    current = {key: Position(value.first, "i-1", value.first) for key, value in parts.items()}
    end = advance(current, parts, BatchLimits(bytes_max=bytes_max))
    rows = {key: end[key].offset - current[key].offset for key in current}
    size = sum(
        rows[key] * value.bytes / max(1, value.end - value.first) for key, value in parts.items()
    )
    largest = max(
        (value.bytes / max(1, value.end - value.first) for value in parts.values()), default=0
    )
    # A partition gets at least one row, and rounding gives one more to some.
    assert size <= bytes_max + largest * (2 * len(parts) + 1)
    assert sum(rows.values()) > 0 or not lag(current, parts)


def test_a_batch_without_limits_takes_everything():
    current = {A: Position(10, "i-1", 10)}
    assert advance(current, {A: part(A, 10, 50)}, BatchLimits())[A].offset == 50


def test_a_batch_waits_for_its_minimum_or_its_time():
    current, limits = {A: Position(45, "i-1", 10)}, BatchLimits(rows_min=6, delay_ms_max=1000)
    parts = {A: part(A, 10, 50)}
    assert not worth_it(current, parts, limits, waited_ms=999)
    assert worth_it(current, parts, limits, waited_ms=1000)
    assert worth_it(current, {A: part(A, 10, 51)}, limits, waited_ms=0)
    assert worth_it(current, parts, BatchLimits(), waited_ms=0)


# ---------------------------------------------------------------- what changed meanwhile


def test_a_new_partition_is_read_from_its_first_offset_on():
    start = {A: Position(20, "i-1", 10)}
    current, losses = reconcile(start, {A: part(A, 10, 50), B: part(B, 7, 9)}, fail_on_loss=True)
    assert not losses
    end = advance(current, {A: part(A, 10, 50), B: part(B, 7, 9)}, BatchLimits())
    assert ranges(start, end) == [Range(A, 20, 50, "i-1"), Range(B, 7, 9, "i-1")]


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({}, "does not exist any more; the query stands at 20"),
        ({A: part(A, 0, 5, "i-2")}, "deleted and made again: it is i-2 now.*20 of i-1"),
        ({A: part(A, 30, 50)}, r"offsets \[20, 30\) of partition 0 of stream 'a' are gone"),
        ({A: part(A, 0, 15)}, "ends at 15, and the query has read up to 20"),
    ],
)
def test_a_loss_fails_the_query_and_says_what_to_do(parts, says):
    with pytest.raises(DataLossError, match=says) as caught:
        reconcile({A: Position(20, "i-1", 0)}, parts, fail_on_loss=True)
    assert "failOnDataLoss = false" in str(caught.value)


def test_without_failing_the_query_goes_on_with_what_there_is():
    start = {A: Position(20, "i-1", 0)}

    def after(parts):
        current, losses = reconcile(start, parts, fail_on_loss=False)
        assert len(losses) == 1
        return ranges(start, advance(current, parts, BatchLimits()))

    assert after({}) == []
    assert after({A: part(A, 3, 5, "i-2")}) == [Range(A, 3, 5, "i-2")]
    # The range of the batch is from where the query stood; its task finds the rest gone.
    assert after({A: part(A, 30, 50)}) == [Range(A, 20, 50, "i-1")]
    assert after({A: part(A, 0, 15)}) == []


def test_a_replayed_batch_of_a_new_partition_has_the_same_range():
    parts = {A: part(A, 7, 9)}
    current, _ = reconcile({}, parts, fail_on_loss=True)
    end = from_json(to_json(advance(current, parts, BatchLimits())))
    assert ranges({}, end) == [Range(A, 7, 9, "i-1")]


def test_the_first_batch_is_replayed_from_where_it_began_not_from_todays_initial_offset():
    """With startingOffsets = latest, the initial offset asked for again is behind the batch."""
    end = {A: Position(150, "i-1", 100)}
    again = {A: Position(200, "i-1", 200)}
    assert ranges(again, end) == [Range(A, 100, 150, "i-1")]


@pytest.mark.slow
@given(parts_by_key(), st.data())
def test_batch_after_batch_reads_everything_once(parts, data):
    position = initial({key: value.first for key, value in parts.items()}, parts)
    seen = {key: value.first for key, value in parts.items()}
    for _ in range(200):
        limits = BatchLimits(rows_max=data.draw(st.integers(1000, 5000)))
        current, _ = reconcile(position, parts, fail_on_loss=True)
        end = advance(current, parts, limits)
        found = ranges(position, end)
        if not found:
            break
        for piece in split(found, data.draw(st.none() | st.integers(1, 30))):
            assert piece.start == seen[piece.key]
            seen[piece.key] = piece.end
        position = end
        if len(seen) == 0 or all(seen[key] == parts[key].end for key in parts):
            break
    assert seen == {key: value.end for key, value in parts.items()}


def test_the_latest_offset_keeps_where_the_query_began():
    known = {A: Position(20, "i-1", 15)}
    found = latest({A: part(A, 16, 50), B: part(B, 1, 5)}, known)
    assert found == {A: Position(50, "i-1", 15), B: Position(5, "i-1", 1)}


# ---------------------------------------------------------------- tasks


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**5)), max_size=8),
    st.none() | st.integers(1, 60),
)
def test_pieces_cover_their_ranges_exactly_and_none_is_empty(given_ranges, least):
    whole = [Range(Key("s", n), at, at + rows, "i") for n, (at, rows) in enumerate(given_ranges)]
    pieces = split(whole, least)
    assert all(len(piece) > 0 for piece in pieces)
    assert len(pieces) == max(len(whole), min(least or 0, sum(map(len, whole))))
    for part_ in whole:
        own = [piece for piece in pieces if piece.key == part_.key]
        assert own[0].start == part_.start
        assert own[-1].end == part_.end
        assert all(one.end == next_.start for one, next_ in itertools.pairwise(own))
        assert max(map(len, own)) - min(map(len, own)) <= 1
