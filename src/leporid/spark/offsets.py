"""The arithmetic of a query's positions: where it starts, how far a batch goes, what a task reads.

Pure: what the broker says comes in as `Part`s, the time as a number, and out come offsets and
ranges. An offset is always the next one to read, so a range is [start, end).

What Spark keeps of a position, in its checkpoint, is

    {"version": 1,
     "offsets": {"orders": {"0": 120}},
     "incarnations": {"orders": {"0": "5f3a-7"}},
     "since": {"orders": {"0": 17}}}

with the partitions in order, as Spark compares the text. `since` is where the query began to read
that partition in that incarnation; it makes the range of a partition's first batch the same when
the batch is replayed, whatever the broker has by then. Spark does not keep the offset before the
very first batch: to replay that one it asks for the initial offset again, which may be another.

Invariant: an end depends on what the broker says when the batch is planned; a range depends on two
positions alone. A position is never moved back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from leporid.spark.checks import EARLIEST, LATEST
from leporid.spark.errors import DataLossError, OptionError
from leporid.spark.options import Start

T = TypeVar("T")

VERSION = 1


class Key(NamedTuple):
    """One partition of one stream. A stream that is not partitioned has only partition 0."""

    stream: str
    partition: int

    def __str__(self) -> str:
        return f"partition {self.partition} of stream {self.stream!r}"


@dataclass(frozen=True, slots=True)
class Part:
    """What the broker says of a partition: it holds [first, end), in so many bytes."""

    key: Key
    first: int
    end: int
    incarnation: str
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Position:
    """Where a query stands in a partition."""

    offset: int
    incarnation: str
    since: int


Parts = Mapping[Key, Part]
Offsets = dict[Key, Position]


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [start, end) of one incarnation of a partition: what one task reads."""

    key: Key
    start: int
    end: int
    incarnation: str

    def __len__(self) -> int:
        return self.end - self.start


# ---------------------------------------------------------------- in the checkpoint


def to_json(offsets: Offsets) -> dict[str, Any]:
    """Return a position as Spark keeps it, always in the same order."""
    tables: dict[str, dict[str, dict[str, Any]]] = {"offsets": {}, "incarnations": {}, "since": {}}
    for key in sorted(offsets):
        position = offsets[key]
        partition = str(key.partition)
        tables["offsets"].setdefault(key.stream, {})[partition] = position.offset
        tables["incarnations"].setdefault(key.stream, {})[partition] = position.incarnation
        tables["since"].setdefault(key.stream, {})[partition] = position.since
    return {"version": VERSION, **tables}


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Read a position back.

    Raises:
        OptionError: a newer version wrote it, or it is damaged.
    """
    version = value.get("version")
    if isinstance(version, int) and version > VERSION:
        raise OptionError(
            f"the checkpoint holds offsets of version {version}, and this leporid reads up to "
            f"{VERSION}: use the newer leporid that wrote it, or a new checkpointLocation"
        )
    try:
        if version != VERSION:
            raise ValueError(f"version {version!r}")
        return {
            Key(stream, int(partition)): Position(
                offset=_whole(offset),
                incarnation=str(value["incarnations"][stream][partition]),
                since=_whole(value["since"][stream][partition]),
            )
            for stream, partitions in value["offsets"].items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise OptionError(
            f"the checkpoint's offsets cannot be read ({type(error).__name__}: {error}): "
            f"restore the checkpoint, or use a new checkpointLocation"
        ) from None


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no offset")
    return value


# ---------------------------------------------------------------- where reading starts and ends


def resolve(
    place: Start,
    parts: Parts,
    at_time: Mapping[Key, int],
    *,
    option: str,
    beyond_end: str = "latest",
    fail_on_loss: bool = True,
    others: int = LATEST,
) -> dict[Key, int]:
    """Return the offset of each partition that a start or an end names.

    Args:
        place: what the options say.
        parts: what there is.
        at_time: for a place by time, the first offset that is not older, by partition; as the
            broker answers, the end if all are older.
        option: `starting` or `ending`, for messages.
        beyond_end: `error` or `latest`: what a time means after which there is nothing.
        fail_on_loss: whether an offset that is gone is an error, or means the first one kept.
        others: EARLIEST or LATEST: what is meant of partitions that are not named.

    Raises:
        OptionError: a partition is unknown, or an offset is beyond the end.
        DataLossError: an offset is gone.
    """
    if isinstance(place.at, int):
        return {key: _end_of(part, place.at) for key, part in parts.items()}
    if place.at is None:
        if place.moments_ms is not None:
            _known_partitions(place.moments_ms, parts, f"{option}OffsetsByTimestamp")
        at_time = {key: at_time.get(key, _end_of(part, others)) for key, part in parts.items()}
        for key, part in parts.items():
            timed = place.moments_ms is None or named(place.moments_ms, key) is not None
            if timed and at_time[key] >= part.end and beyond_end == "error":
                raise OptionError(
                    f"{key} has nothing at or after the {option} timestamp: "
                    f"give startingOffsetsByTimestampStrategy = latest to begin at its end"
                )
        return {key: min(max(at_time[key], part.first), part.end) for key, part in parts.items()}
    _known_partitions(place.at, parts, f"{option}Offsets")
    found = {}
    for key, part in parts.items():
        given = named(place.at, key)
        offset = others if given is None else given
        if offset in {EARLIEST, LATEST}:
            offset = _end_of(part, offset)
        if offset > part.end:
            raise OptionError(
                f"option {option}Offsets: {key} ends at {part.end}, and {offset} is beyond it"
            )
        if offset < part.first and fail_on_loss:
            raise DataLossError(lost(key, offset, part.first))
        found[key] = max(offset, part.first)
    return found


def named(by_partition: Mapping[str, Mapping[int, int]], key: Key) -> int | None:
    """Return what is said of a partition, None if nothing is."""
    return by_partition.get(key.stream, {}).get(key.partition)


def _end_of(part: Part, end: int) -> int:
    """Return the offset of an end of a partition: EARLIEST or LATEST."""
    return part.first if end == EARLIEST else part.end


def _known_partitions(by: Mapping[str, Mapping[int, int]], parts: Parts, option: str) -> None:
    keys = {Key(stream, number) for stream, numbers in by.items() for number in numbers}
    for key in sorted(keys - parts.keys()):
        raise OptionError(f"option {option}: {key} is not among what is read")


def initial(starts: Mapping[Key, int], parts: Parts) -> Offsets:
    """Return the position of a new query."""
    return {
        key: Position(starts[key], part.incarnation, starts[key]) for key, part in parts.items()
    }


def batch_ranges(starts: Mapping[Key, int], ends: Mapping[Key, int], parts: Parts) -> list[Range]:
    """Return what a batch query reads: nothing of a partition whose end is not after its start."""
    return [
        Range(key, starts[key], ends[key], parts[key].incarnation)
        for key in sorted(parts)
        if ends[key] > starts[key]
    ]


# ---------------------------------------------------------------- how far a batch goes


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What bounds a batch; None is no bound."""

    rows_max: int | None = None
    bytes_max: int | None = None
    rows_min: int | None = None
    delay_ms_max: int = 0


def check_streams(
    position: Offsets, reads: Callable[[str], bool], what: str, *, fail_on_loss: bool
) -> None:
    """Refuse a checkpoint of a query over other streams.

    Args:
        position: of the checkpoint.
        reads: whether the query reads a stream of that name.
        what: what the query reads, for messages: `stream 'orders'`.
        fail_on_loss: whether it is an error that the query reads some of the streams no more.

    Raises:
        OptionError: the query reads none of them, or not all of them and `fail_on_loss`.
    """
    known = sorted({key.stream for key in position})
    left_out = [stream for stream in known if not reads(stream)]
    if not left_out or (len(left_out) < len(known) and not fail_on_loss):
        return
    names = ", ".join(map(repr, left_out))
    plural = "s" if len(left_out) > 1 else ""
    if len(left_out) == len(known):
        raise OptionError(
            f"the checkpoint is of a query over stream{plural} {names}, and this query reads "
            f"{what}: name stream{plural} {names} to continue that query, or give a new "
            f"checkpointLocation to begin with {what}"
        )
    raise OptionError(
        f"the checkpoint has offsets of stream{plural} {names}, and this query reads {what}: name "
        f"stream{plural} {names} as well, or give failOnDataLoss = false to leave them out"
    )


def reconcile(start: Offsets, parts: Parts, *, fail_on_loss: bool) -> tuple[Offsets, list[str]]:
    """Compare where a query stands with what the broker has.

    Returns:
        The position from which the next batch is planned (partitions that are new at their first
        offset, those that are gone where they were), and what was lost, as sentences.

    Raises:
        DataLossError: something is lost and `fail_on_loss`.
    """
    current: Offsets = {}
    losses: list[str] = []
    for key in sorted(start.keys() | parts.keys()):
        position, part = start.get(key), parts.get(key)
        if part is None:
            assert position is not None
            losses.append(f"{key} does not exist any more; the query stands at {position.offset}")
            current[key] = position
        elif position is None:
            current[key] = Position(part.first, part.incarnation, part.first)
        elif position.incarnation != part.incarnation:
            losses.append(
                f"{key} was deleted and made again: it is {part.incarnation} now, and the query "
                f"stands at {position.offset} of {position.incarnation}"
            )
            current[key] = Position(part.first, part.incarnation, part.first)
        elif position.offset < part.first:
            losses.append(lost(key, position.offset, part.first))
            current[key] = replace(position, offset=part.first)
        else:
            if position.offset > part.end:
                losses.append(
                    f"{key} ends at {part.end}, and the query has read up to {position.offset}"
                )
            current[key] = position
    if losses and fail_on_loss:
        raise DataLossError(advice("; ".join(losses)))
    return current, losses


def advance(current: Offsets, parts: Parts, limits: BatchLimits) -> Offsets:
    """Return the end of the next batch: everything there is, or the limits' share of it.

    The rows are divided among partitions in proportion to what each has left; as long as there
    are enough, each gets at least one, so that none waits for ever.
    """
    lags = {
        key: max(0, parts[key].end - position.offset) if key in parts else 0
        for key, position in current.items()
    }
    rows = sum(lags.values())
    allowed = rows
    if limits.rows_max is not None:
        allowed = min(allowed, limits.rows_max)
    if limits.bytes_max is not None:
        size = sum(lag * row_bytes(parts[key]) for key, lag in lags.items() if lag)
        if size > limits.bytes_max:
            allowed = min(allowed, max(1, int(rows * limits.bytes_max / size)))
    shares = lags if allowed == rows else share(lags, allowed)
    return {
        key: replace(position, offset=position.offset + shares[key])
        for key, position in current.items()
    }


def worth_it(current: Offsets, parts: Parts, limits: BatchLimits, waited_ms: float) -> bool:
    """Return whether there is enough for a batch, or it has been waited for long enough."""
    if limits.rows_min is None or waited_ms >= limits.delay_ms_max:
        return True
    return lag(current, parts) >= limits.rows_min


def lag(current: Offsets, parts: Parts) -> int:
    """Return how many records there are beyond a position."""
    return sum(
        max(0, parts[key].end - position.offset)
        for key, position in current.items()
        if key in parts
    )


def latest(parts: Parts, known: Offsets) -> Offsets:
    """Return the end of everything, as a position; `since` is kept where it is known."""
    found = {}
    for key, part in parts.items():
        position = known.get(key)
        same = position is not None and position.incarnation == part.incarnation
        since = position.since if position is not None and same else part.first
        found[key] = Position(part.end, part.incarnation, since)
    return found


def row_bytes(part: Part) -> float:
    """Return the mean size of a record."""
    return part.bytes / max(1, part.end - part.first)


# ---------------------------------------------------------------- what tasks read


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """Return what lies between two positions; the same for the same positions, always."""
    found = []
    for key in sorted(end):
        position, before = end[key], start.get(key)
        # Another incarnation, or a start that the end does not go back to: its first batch.
        follows = before is not None and (before.incarnation, before.since) == (
            position.incarnation,
            position.since,
        )
        begin = before.offset if before is not None and follows else position.since
        if position.offset > begin:
            found.append(Range(key, begin, position.offset, position.incarnation))
    return found


def split(whole: Iterable[Range], partitions_min: int | None) -> list[Range]:
    """Divide ranges so that there are at least so many, as far as there are rows.

    Large ranges are divided into more pieces than small ones; the pieces of a range are equal but
    for one row.
    """
    given = list(whole)
    if partitions_min is None or len(given) >= partitions_min:
        return given
    more = share({at: len(part) - 1 for at, part in enumerate(given)}, partitions_min - len(given))
    pieces = []
    for at, part in enumerate(given):
        count = 1 + more[at]
        for piece in range(count):
            begin = part.start + len(part) * piece // count
            end = part.start + len(part) * (piece + 1) // count
            pieces.append(replace(part, start=begin, end=end))
    return pieces


def share(wanted: Mapping[T, int], total: int) -> dict[T, int]:
    """Divide `total` in proportion to what each wants, nobody getting more than that.

    As long as `total` suffices, everybody who wants something gets at least one. All is given
    out: the sum is min(total, sum of wanted).
    """
    hungry = [name for name in wanted if wanted[name] > 0]
    got = dict.fromkeys(wanted, 0)
    left = min(total, sum(wanted.values()))
    if left >= len(hungry):
        for name in hungry:
            got[name] = 1
        left -= len(hungry)
    rest = {name: wanted[name] - got[name] for name in hungry}
    sum_of_rest = sum(rest.values())
    if not left or not sum_of_rest:
        return got
    # Whole parts first, then one more to those whose fraction was the largest. left <= sum_of_rest,
    # so a share never exceeds what is wanted, and a fraction means that there is room for one more.
    remainders: list[tuple[int, int, T]] = []
    for name in hungry:
        whole, remainder = divmod(left * rest[name], sum_of_rest)
        got[name] += whole
        remainders.append((-remainder, len(remainders), name))
    given = sum(left * rest[name] // sum_of_rest for name in hungry)
    for _, _, name in sorted(remainders)[: left - given]:
        got[name] += 1
    return got


# ---------------------------------------------------------------- sentences


def lost(key: Key, start: int, first: int) -> str:
    """Say which offsets are gone."""
    return f"offsets [{start}, {first}) of {key} are gone: retention has removed them"


def advice(losses: str) -> str:
    """Say what was lost, and what one can do."""
    return (
        f"{losses}. Give failOnDataLoss = false to go on with what there is, "
        f"or a new checkpointLocation to start anew"
    )
