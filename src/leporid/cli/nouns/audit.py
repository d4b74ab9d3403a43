"""`leporid audit`: who has changed what over HTTP, and what became of it."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any, Final

from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_rows
from leporid.cli.outcomes import WrongUse
from leporid.cli.session import Session

COLUMNS: Final = ("at", "user", "address", "method", "path", "status", "outcome", "reason")
OUTCOMES: Final = ("done", "refused", "failed")


def _list(session: Session, options: argparse.Namespace) -> None:
    query: dict[str, str | int | None] = {
        "user": options.of,
        "vhost": session.vhost_asked,
        "outcome": options.outcome,
        "since_ms": _milliseconds(options.since),
        "until_ms": _milliseconds(options.until),
    }
    if options.last is not None and options.last < 1:
        raise WrongUse("--last is 1 at least")
    rows: list[dict[str, Any]] = session.optional("audit", query=query, what="list of acts")
    # `at` is for people; programs have at_ms.
    shown = [{"at": _text(row["at_ms"]), **row} for row in rows[: options.last]]
    show_rows(session, shown, COLUMNS, "path")


def _milliseconds(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        # A time without a zone is that of this machine.
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise WrongUse(
            f"invalid time {text!r}: expected a date or a time such as 2026-11-23T07:00:00Z"
        ) from None


def _text(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


NOUN: Final = Noun(
    "audit",
    (
        Verb(
            "list",
            "list administrative acts, the newest first",
            _list,
            (
                argument("--of", metavar="USER", help="of that user only"),
                argument("--outcome", choices=OUTCOMES, help="of that outcome only"),
                argument("--since", metavar="TIME", help="from that time on (ISO 8601)"),
                argument("--until", metavar="TIME", help="before that time (ISO 8601)"),
                argument("--last", metavar="N", type=int, help="the newest N only"),
            ),
            kind=Kind.LIST,
            vhost=True,
            about="List administrative acts over HTTP since the start of the broker, the newest "
            "first: who, from where, what, and what became of it.",
        ),
    ),
)
