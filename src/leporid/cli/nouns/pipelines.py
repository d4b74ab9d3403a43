"""`leporid pipelines`: what data pipelines reported of their runs; `pipeline run` runs them."""

from __future__ import annotations

import argparse
from typing import Final

from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_paged
from leporid.cli.session import Session

NAME: Final = argument("name", metavar="NAME")
OF: Final = argument("--of", metavar="USER", help="whose pipeline it is (the user who asks)")
COLUMNS: Final = (
    "vhost", "name", "user", "state", "records", "put_aside", "lag", "failed_runs", "reported_ms",
)  # fmt: skip
RUN_COLUMNS: Final = (
    "started_ms", "ended_ms", "state", "exit_code", "records", "put_aside", "failures", "error",
)  # fmt: skip


def _list(session: Session, options: argparse.Namespace) -> None:
    show_paged(session, ("pipelines",), COLUMNS)


def _show(session: Session, options: argparse.Namespace) -> None:
    query = {"user": options.of}
    path = "pipelines", session.vhost, options.name
    found = session.get(*path, query=query, missing=_title(session, options))
    if session.out.as_json:
        session.out.json(found)
    else:
        session.out.rows(found["runs"], RUN_COLUMNS, "started_ms")


def _delete(session: Session, options: argparse.Namespace) -> None:
    what = _title(session, options)
    path, query = ("pipelines", session.vhost, options.name), {"user": options.of}
    session.get(*path, query=query, missing=what)
    if not session.confirmed(f"forget the runs of {what}", options.name):
        return
    session.delete(*path, query=query, missing=what)
    session.did(f"{what} forgotten")


def _title(session: Session, options: argparse.Namespace) -> str:
    of = f" of '{options.of}'" if options.of else ""
    return f"pipeline '{options.name}'{of} in '{session.vhost}'"


NOUN: Final = Noun(
    "pipelines",
    (
        Verb("list", "list pipelines with their newest runs", _list, kind=Kind.LIST, vhost=True),
        Verb("show", "show the runs of a pipeline that are kept", _show, (NAME, OF), vhost=True),
        Verb("delete", "forget a pipeline and its runs", _delete, (NAME, OF), Kind.DESTROY,
             vhost=True),
    ),
)  # fmt: skip
