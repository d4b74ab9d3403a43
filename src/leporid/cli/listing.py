"""The verb `list` of any noun: columns, order, names, conditions, all pages.

Responsible for asking the broker for no more than is shown, where it knows columns and order, and
for doing the same here where it does not. Must not know any noun.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence

from leporid.cli.outcomes import WrongUse, one_line
from leporid.cli.output import Row, columns_of, sorted_rows, value_at
from leporid.cli.session import Session
from leporid.management.conditions import Condition, ConditionError, conditions_in


def show_paged(
    session: Session, path: Sequence[str], columns: Sequence[str], name: str = "name"
) -> None:
    """List what the broker gives in pages, in the order and with the columns that it knows.

    Args:
        session: the command.
        path: below /api/; of one virtual host if the options name one.
        columns: that are shown if the options name none.
        name: the column that `--quiet` and `--name` mean.
    """
    options = session.options
    shown = columns_of(options.columns, columns)
    conditions = _conditions(options)
    query: dict[str, str | int | Sequence[str] | None] = {"where": options.where or None}
    if options.like:
        query |= {"name": options.like, "use_regex": "true" if options.regex else None}
    if options.sort:
        query |= {"sort": options.sort, "sort_reverse": "true" if options.reverse else None}
    if not session.out.as_json or options.columns:
        wanted = [name] if session.out.quiet else shown
        wanted = [*wanted, *_sorted_by(options), *(".".join(each.path) for each in conditions)]
        query["columns"] = ",".join(dict.fromkeys(wanted))
    asked = list(path) + ([session.vhost_asked] if session.vhost_asked is not None else [])
    rows: list[Row] = []
    vhost = session.vhost_asked
    missing = "" if vhost is None else f"virtual host '{vhost}'"
    for page in session.pages(*asked, query=query, missing=missing):
        rows += page
    if conditions and not rows:
        # Is there nothing, or is a name wrong?
        one = next(session.pages(*asked, missing=missing), [])
        _tell_of_empty(one, (".".join(each.path) for each in conditions))
    _tell_of_empty(rows, _named(options))
    # RabbitMQ knows no conditions, and gives all.
    session.out.rows(_narrowed(session, rows, conditions, shown), shown, name)


def show_rows(
    session: Session, rows: Iterable[Row], columns: Sequence[str], name: str = "name"
) -> None:
    """List what is here already."""
    options: argparse.Namespace = session.options
    shown = columns_of(options.columns, columns)
    conditions = _conditions(options)
    kept = list(rows)
    _tell_of_empty(kept, (".".join(each.path) for each in conditions))
    if options.like:
        wanted = _wanted(options)
        kept = [row for row in kept if wanted(str(value_at(row, name) or ""))]
    _tell_of_empty(kept, _named(options))
    kept = sorted_rows(kept, options.sort, options.reverse)
    session.out.rows(_narrowed(session, kept, conditions, shown), shown, name)


def _conditions(options: argparse.Namespace) -> tuple[Condition, ...]:
    try:
        return conditions_in(options.where or ())
    except ConditionError as error:
        raise WrongUse(f"--{error}") from None


def _narrowed(
    session: Session, rows: Iterable[Row], conditions: Sequence[Condition], shown: Sequence[str]
) -> list[Row]:
    """Return the rows that are wanted, with the columns that are."""
    kept = [
        row
        for row in rows
        if all(each.is_met(value_at(row, ".".join(each.path))) for each in conditions)
    ]
    if session.out.as_json and session.options.columns:
        return [{column: value_at(row, column) for column in shown} for row in kept]
    return kept


def _sorted_by(options: argparse.Namespace) -> list[str]:
    return [options.sort] if options.sort else []


def _named(options: argparse.Namespace) -> dict[str, None]:
    """Return the columns that are asked for, to be shown or to order by."""
    return dict.fromkeys([*columns_of(options.columns, ()), *_sorted_by(options)])


def _tell_of_empty(rows: Sequence[Row], asked: Iterable[str]) -> None:
    """Say of columns that were asked for and are in no row: their names may be wrong.

    What a dot leads to may be missing because nothing has happened yet.
    """
    for column in asked:
        if rows and "." not in column and not any(column in row for row in rows):
            said = f"nothing here has the column '{column}'; --json shows those that there are"
            print(f"leporid: {one_line(said)}", file=sys.stderr)


def _wanted(options: argparse.Namespace) -> Callable[[str], object]:
    """Return what says of a name whether it is wanted, however its letters are written."""
    text: str = options.like
    if not options.regex:
        return lambda name: text.casefold() in name.casefold()
    try:
        return re.compile(text, re.IGNORECASE).search
    except re.error as error:
        raise WrongUse(f"--name {text!r} is not a regular expression: {error}") from None
