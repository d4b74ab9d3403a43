"""Dead letters without Spark: what a stream of some thousands holds, in Arrow over HTTP.

What `deadletters` says of letters with Spark's functions is said here with Python's, for as many as
are read and looked at in less time than Spark takes to start. Must not know how letters are
published again.

Invariant: a selection is the one that Spark would make of the same condition, or none is made
(`condition` returns None).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from leporid.amqp.properties import Properties
from leporid.filters.dialects import DEFAULT
from leporid.filters.errors import FilterError
from leporid.filters.interpreter import Outcome, evaluate
from leporid.filters.messages import FilteredMessage
from leporid.filters.nodes import (
    And,
    Between,
    Comparison,
    Condition,
    Exchange,
    Header,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Order,
    RoutingKey,
)
from leporid.filters.parser import parse
from leporid.spark.offsets import Key, Offsets, Range
from leporid.spark.pipelines.origin import Origin
from leporid.spark.records import ReadOptions, batches
from leporid.spark.schema import COLUMNS

# More take longer than Spark's start, or more memory than a command should.
LETTERS_MAX = 20_000
BYTES_MAX = 64 * 1024 * 1024

# Columns that a condition may have here beside the exchange and the routing key, and the types of
# their values.
COMPARED: Mapping[str, type] = {
    "reason": str,
    "queue": str,
    "died_from_exchange": str,
    "died_from_key": str,
    "deaths": int,
    "stream": str,
    "partition": int,
}

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def are_few(origin: Origin) -> bool:
    """Whether a stream has so few letters that Spark is not worth its start."""
    parts = origin.parts().values()
    count = sum(part.end - part.first for part in parts)
    return count <= LETTERS_MAX and sum(part.bytes for part in parts) <= BYTES_MAX


def read(origin: Origin, start: Offsets | None = None, end: Offsets | None = None) -> pa.Table:
    """Return the letters between two positions, or all, with the columns of a stream."""
    options = ReadOptions(COLUMNS, fail_on_loss=origin.fail_on_loss)
    found: list[pa.RecordBatch] = []
    for key, part in sorted(origin.parts().items()):
        begin = start[key].offset if start and key in start else part.first
        until = end[key].offset if end and key in end else part.end
        found += batches(origin.client, Range(key, begin, until, part.incarnation), options)
    return pa.Table.from_batches(found, COLUMNS)


def rows_of(table: pa.Table) -> list[Row]:
    """Return letters as rows with what is known of their deaths; see `deadletters.letters`."""
    # As numbers: for a time with a zone Arrow imports pandas, which takes half a second.
    at, times = table.schema.get_field_index("timestamp"), table["timestamp"].cast(pa.int64())
    plain = table.set_column(at, "timestamp", times).drop_columns(["properties"]).to_pylist()
    return [
        row
        | {"timestamp": EPOCH + timedelta(microseconds=row["timestamp"])}
        | deaths_of(dict(row["headers"] or ()))
        for row in plain
    ]


def deaths_of(headers: Mapping[str, str | None]) -> Row:
    """Return the columns that a letter's headers come to."""
    try:
        deaths = json.loads(headers.get("x-death") or "")
    except ValueError:
        deaths = None
    if not isinstance(deaths, list):
        names = ("reason", "queue", "died_from_exchange", "died_from_key", "deaths")
        return dict.fromkeys(names)
    known = [each for each in deaths if isinstance(each, dict)]
    last = known[0] if known else {}
    keys = last.get("routing-keys")
    counts = (each.get("count") for each in known)
    return {
        "reason": last.get("reason"),
        "queue": last.get("queue"),
        "died_from_exchange": last.get("exchange"),
        "died_from_key": keys[0] if isinstance(keys, list) and keys else None,
        "deaths": sum(1 if count is None else count for count in counts),
    }


# ---------------------------------------------------------------- which of them


def condition(where: str | None) -> Callable[[Row], bool] | None:
    """Return a condition of SQL as a function; None if only Spark can tell what it means.

    That is so of everything but comparisons of a column with constants of its type, and of what
    SQL and the broker's own expressions write differently.
    """
    if where is None:
        return lambda row: True
    # Spark's texts have escapes, and its names may be quoted.
    if re.search(r'[\\`"]', where):
        return None
    try:
        tree = parse(where, DEFAULT)
    except FilterError:
        return None
    if not _is_plain(tree):
        return None

    def holds(row: Row) -> bool:
        values = {name: row[name] for name in COMPARED if row[name] is not None}
        message = FilteredMessage(Properties(headers=values), row["exchange"], row["routing_key"])
        return evaluate(tree, DEFAULT, message) is Outcome.MATCH

    return holds


def _is_plain(tree: Node) -> bool:
    """Whether both languages mean the same by an expression."""
    match tree:
        case And() | Or():
            return _is_plain(tree.left) and _is_plain(tree.right)
        case Not() | Condition():
            return not isinstance(tree.operand, Header) and _is_plain(tree.operand)
        case Comparison():
            # The broker's expressions do not order texts.
            return _fits(tree.left, [tree.right], None if tree.order is Order.EQUAL else int)
        case Between():
            return _fits(tree.value, [tree.low, tree.high], int)
        case In():
            return _fits(tree.value, tree.items)
        case Like():
            return tree.escape is None and _kind(tree.value) is str
        case IsNull():
            return _kind(tree.operand) is not None
    return False


def _fits(column: Node, constants: Sequence[Node], must_be: type | None = None) -> bool:
    kind = _kind(column)
    return (
        kind is not None
        and kind is (must_be or kind)
        and all(isinstance(each, Literal) and type(plain(each.value)) is kind for each in constants)
    )


def plain(value: Any) -> Any:
    """Return a constant of an expression as a row has it."""
    return value.decode() if isinstance(value, bytes) else value


def _kind(node: Node) -> type | None:
    match node:
        case RoutingKey() | Exchange():
            return str
        case Header():
            return COMPARED.get(node.name)
    return None


# ---------------------------------------------------------------- what they are


def summary(rows: Iterable[Row], now: datetime | None = None) -> list[Row]:
    """Count letters by reason and queue, as `deadletters.summary` does."""
    now = now or datetime.now(UTC)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        group = row["reason"], row["queue"], row["died_from_exchange"]
        groups.setdefault(group, []).append(row)
    found = []
    for (reason, queue, exchange), of in groups.items():
        oldest = min(row["timestamp"] for row in of)
        deaths = [row["deaths"] for row in of if row["deaths"] is not None]
        found.append(
            {
                "reason": reason,
                "queue": queue,
                "died_from_exchange": exchange,
                "letters": len(of),
                "keys": len({row["died_from_key"] for row in of} - {None}),
                "oldest": oldest,
                "newest": max(row["timestamp"] for row in of),
                "deaths_max": max(deaths, default=None),
                "age": span(int((now - oldest).total_seconds())),
            }
        )
    return sorted(found, key=lambda row: (-row["letters"], row["reason"] or "", row["queue"] or ""))


def samples(rows: Iterable[Row], count: int = 3, characters: int = 80) -> list[Row]:
    """Return the newest letters of each reason and queue, as `deadletters.samples` does."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["reason"] or "", row["queue"] or ""), []).append(row)
    found = []
    for group in sorted(groups):
        newest = sorted(
            groups[group], key=lambda row: (row["timestamp"], row["partition"], row["offset"])
        )
        for row in newest[::-1][:count]:
            body = row["body"][: 4 * characters].decode("utf-8", "replace")[:characters]
            names = ("reason", "queue", "partition", "offset", "timestamp", "died_from_key")
            found.append({name: row[name] for name in names} | {"body": body})
    return found


def span(seconds: int) -> str:
    """Write a number of seconds as in 2 d 03:04:05."""
    days, rest = divmod(max(0, seconds), 86_400)
    return f"{days} d {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def grid(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a table of text; control characters of bodies are escaped."""
    if not rows:
        return ""
    names = list(rows[0])
    lines = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(value))


# ---------------------------------------------------------------- sending them back


def returned(table: pa.Table, rows: Sequence[Row], traces: str) -> pa.Table:
    """Return letters as they are published again; see `deadletters.returned`.

    Args:
        table: the letters.
        rows: the same, as `rows_of` returns them.
        traces: a regular expression of headers that are left out.
    """
    kept = [at for at, row in enumerate(rows) if row["died_from_key"] is not None]
    table, rows = table.take(pa.array(kept, pa.int64())), [rows[at] for at in kept]
    trace = re.compile(traces)
    headers = [[pair for pair in row["headers"] or () if not trace.search(pair[0])] for row in rows]
    changed = {
        "exchange": [row["died_from_exchange"] or "" for row in rows],
        "routing_key": [row["died_from_key"] for row in rows],
        "headers": headers,
    }
    for name, values in changed.items():
        at = COLUMNS.get_field_index(name)
        table = table.set_column(at, COLUMNS.field(at), pa.array(values, COLUMNS.field(at).type))
    return table


def extent(rows: Iterable[Row], stream: str) -> Iterator[tuple[Key, int, int]]:
    """Give the least and the greatest offset of rows, by partition."""
    by_partition: dict[int, list[int]] = {}
    for row in rows:
        by_partition.setdefault(row["partition"], []).append(row["offset"])
    for partition, offsets in sorted(by_partition.items()):
        yield Key(stream, partition), min(offsets), max(offsets)
