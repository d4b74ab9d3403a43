"""What commands write: tables, JSON, or names alone.

Responsible for the three forms of an answer, and for what a terminal is shown. On a terminal a
table is rich's, if that is installed (`leporid[cli]`); into a pipe it is a line for each row with
tabs between, header first, which `cut` and `awk` take. Must not know where values come from.

Invariant: nothing that somebody else named or wrote reaches a terminal unescaped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from leporid.cli.outcomes import WrongUse, one_line

Row = Mapping[str, Any]

# What stands for a value that is not there.
NOTHING: Final = ""
# A list or an object in a cell.
CELL_CHARACTERS_MAX: Final = 200
# A number of milliseconds above this is a time since 1970 (2001 and later), below it a duration.
CLOCK_MS_MIN: Final = 10**12


class Output:
    """Where the answer of a command goes.

    Args:
        as_json: JSON instead of text.
        quiet: names only, one a line; what was done is not said.
        stream: None: standard output.
        terminal: whether somebody looks at it; None: as the stream says.
    """

    def __init__(
        self,
        *,
        as_json: bool = False,
        quiet: bool = False,
        stream: TextIO | None = None,
        terminal: bool | None = None,
    ) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.stream = stream or sys.stdout
        self.terminal = self.stream.isatty() if terminal is None else terminal

    @classmethod
    def of(cls, options: argparse.Namespace) -> Output:
        """Return the form that `--json` and `--quiet` say."""
        return cls(as_json=options.json, quiet=options.quiet)

    def line(self, text: str) -> None:
        """Write a line as it is."""
        self.stream.write(text + "\n")

    def say(self, text: str) -> None:
        """Say what was done; not when nobody wants to know."""
        if self.as_json:
            self.json({"done": text})
        elif not self.quiet:
            self.line(one_line(text))

    def json(self, value: Any) -> None:
        """Write a value as JSON."""
        indent = 2 if self.terminal else None
        self.text(json.dumps(value, ensure_ascii=False, indent=indent) + "\n")

    def text(self, text: str) -> None:
        """Write a text of several lines as it is; on a terminal, what it could obey is escaped."""
        if self.terminal:
            # As JSON has it, so that JSON stays that.
            text = "".join(
                one if one.isprintable() or one in "\n\t" else _escaped(one) for one in text
            )
        self.stream.write(text)

    def rows(self, rows: Sequence[Row], columns: Sequence[str], name: str = "name") -> None:
        """Write a list of objects.

        Args:
            rows: them, as the broker gives them.
            columns: to show; a dot leads into an object (`message_stats.publish`).
            name: the column that `--quiet` writes.
        """
        if self.as_json:
            self.json(list(rows))
        elif self.quiet:
            for row in rows:
                self.line(text_of(value_at(row, name)))
        elif self.terminal:
            self._table(rows, columns)
        else:
            self.line("\t".join(columns))
            for row in rows:
                self.line("\t".join(_texts(row, columns)))

    def facts(self, facts: Row, name: str = "name") -> None:
        """Write one object: each of its facts on a line."""
        if self.as_json:
            self.json(facts)
        elif self.quiet:
            self.line(text_of(value_at(facts, name)))
        elif self.terminal:
            self._grid([(key, text_of(value)) for key, value in facts.items()])
        else:
            for key, value in facts.items():
                self.line(f"{one_line(key)}\t{text_of(value)}")

    def _table(self, rows: Iterable[Row], columns: Sequence[str]) -> None:
        made = [[value_at(row, column) for column in columns] for row in rows]
        lines = [tuple(map(_shown, columns, row)) for row in made]
        # rich takes 60 ms to load, and 6 MB of disk: for terminals only, where somebody wants it.
        try:
            from rich.box import SIMPLE_HEAD
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            self._aligned([tuple(columns), *lines])
            return
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for at, column in enumerate(columns):
            numbers = all(_is_number(row[at]) for row in made) and bool(made)
            table.add_column(Text(column), justify="right" if numbers else "left", overflow="fold")
        for line in lines:
            # Text, as brackets in a name are no markup.
            table.add_row(*map(Text, line))
        self._print(table)

    def _grid(self, lines: Sequence[tuple[str, str]]) -> None:
        try:
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            self._aligned([(one_line(key), value) for key, value in lines])
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold")
        grid.add_column(overflow="fold")
        for key, value in lines:
            grid.add_row(Text(one_line(key)), Text(value))
        self._print(grid)

    def _aligned(self, lines: Sequence[Sequence[str]]) -> None:
        """Write columns side by side, without rich."""
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
            self.line("  ".join(padded).rstrip())

    def _print(self, renderable: Any) -> None:
        from rich.console import Console

        Console(file=self.stream, highlight=False, emoji=False).print(renderable)


def counted(count: int, singular: str, plural: str = "") -> str:
    """Say how many: "1 queue", "2 queues"; `plural` where that is not the singular with an s."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def _escaped(character: str) -> str:
    # JSON leaves DEL as it is.
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def _texts(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(text_of(value_at(row, column)) for column in columns)


def _shown(column: str, value: Any) -> str:
    """Write a value for people: a time since 1970 as one of the clock, in UTC."""
    if column.endswith("_ms") and isinstance(value, int) and value > CLOCK_MS_MIN:
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return text_of(value)


def value_at(row: Row, column: str) -> Any:
    """Return the value of a column; None if it is not there."""
    if column in row:
        return row[column]
    found: Any = row
    for part in column.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def text_of(value: Any) -> str:
    """Write a value for a cell."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, Mapping):
        text = " ".join(f"{key}={_inside(each)}" for key, each in value.items())
    elif isinstance(value, Sequence):
        text = ",".join(_inside(each) for each in value)
    else:
        return str(value)
    text = one_line(text)
    return text if len(text) <= CELL_CHARACTERS_MAX else text[: CELL_CHARACTERS_MAX - 1] + "…"


def _inside(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def columns_of(given: str | None, shown: Sequence[str]) -> list[str]:
    """Return the columns to show: those that are asked for, or the usual ones.

    Args:
        given: names with commas between.
        shown: the usual ones.

    Raises:
        WrongUse: there is nothing between two commas.
    """
    if given is None:
        return list(shown)
    columns = [each.strip() for each in given.split(",")]
    for column in columns:
        if not column:
            raise WrongUse(f"--columns {given}: a name is missing")
    return columns


def sorted_rows(rows: Sequence[Row], column: str | None, reverse: bool) -> list[Row]:
    """Return rows in the order of a column, what has no value last."""
    if column is None:
        return list(rows)
    have = [row for row in rows if value_at(row, column) is not None]
    lack = [row for row in rows if value_at(row, column) is None]
    return sorted(have, key=lambda row: _order(value_at(row, column)), reverse=reverse) + lack


def _order(value: Any) -> tuple[int, Any]:
    return (0, float(value)) if isinstance(value, int | float) else (1, text_of(value))
