"""`leporid filters` and `filter-classes`: what filters were asked, and those written in Python."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_rows
from leporid.cli.outcomes import Failure
from leporid.cli.session import Session

WHAT: Final = "filters over HTTP"
COLUMNS: Final = ("vhost", "kind", "name", "filters", "asked", "evaluated", "matched")
TOTALS: Final = ("kind", "asked", "ruled_out", "evaluated", "matched", "type_errors")
PLACES: Final = {"exchanges": "exchange", "queues": "queue", "streams": "stream"}


def _list(session: Session, options: argparse.Namespace) -> None:
    if options.total:
        found = session.optional("filters", what=WHAT)
        show_rows(session, [{"kind": kind, **each} for kind, each in found.items()], TOTALS, "kind")
        return
    rows: list[dict[str, Any]] = []
    for vhost in session.vhosts():
        found = session.optional("filters", vhost, what=WHAT)
        for noun, kind in PLACES.items():
            rows += ({"vhost": vhost, "kind": kind, **each} for each in found[noun])
    show_rows(session, rows, COLUMNS)


FILTERS: Final = Noun(
    "filters",
    (
        Verb(
            "list",
            "list exchanges, queues and streams with filters, and what these were asked",
            _list,
            (argument("--total", action="store_true", help="of the whole broker"),),
            Kind.LIST,
            vhost=True,
        ),
    ),
)


# ---------------------------------------------------------------- filter classes

CLASS_COLUMNS: Final = (
    "name", "version", "state", "waiting", "judged", "passed", "failures", "error",
)  # fmt: skip
NAME: Final = argument("name", metavar="NAME")


def _list_classes(session: Session, options: argparse.Namespace) -> None:
    show_rows(session, session.optional("filter-classes", what="filter classes"), CLASS_COLUMNS)


def _show_class(session: Session, options: argparse.Namespace) -> None:
    found = session.get("filter-classes", options.name, missing=f"filter class '{options.name}'")
    if options.source:
        session.out.text(found["source"])
    else:
        session.out.facts(found)


def _set_class(session: Session, options: argparse.Namespace) -> None:
    try:
        source = options.file.read_bytes()
    except OSError as error:
        raise Failure(f"{options.file}: cannot be read: {error.strerror}") from None
    what = f"filter class '{options.name}'"
    if session.would(f"register {what} from {options.file}"):
        return
    query = {"version": options.version, "class": options.class_name}
    session.change(
        "PUT", "filter-classes", options.name, query=query, body=source, what="filter classes"
    )
    session.did(f"{what} registered")


def _delete_class(session: Session, options: argparse.Namespace) -> None:
    what = f"filter class '{options.name}'"
    session.get("filter-classes", options.name, missing=what)
    if not session.confirmed(f"delete {what}", options.name):
        return
    session.delete("filter-classes", options.name, missing=what)
    session.did(f"{what} deleted")


FILTER_CLASSES: Final = Noun(
    "filter-classes",
    (
        Verb("list", "list filter classes and how they are", _list_classes, kind=Kind.LIST),
        Verb("show", "show a filter class", _show_class,
             (NAME, argument("--source", action="store_true", help="its source alone")),
             completes="filter-classes"),
        Verb(
            "set",
            "register a filter class, or a newer version of it",
            _set_class,
            (
                NAME,
                argument("file", type=Path, metavar="FILE.py"),
                argument("--version", type=int, metavar="N", help="(the next one)"),
                argument("--class", dest="class_name", metavar="C", help="in the file (Filter)"),
            ),
            Kind.ACT,
        ),
        Verb("delete", "delete a filter class that nothing uses", _delete_class, (NAME,),
             Kind.DESTROY, completes="filter-classes"),
    ),
)  # fmt: skip
