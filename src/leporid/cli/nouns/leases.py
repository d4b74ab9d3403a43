"""`leporid leases`: messages that are out of a queue for a limited time, over HTTP."""

from __future__ import annotations

import argparse
from typing import Final

from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_rows
from leporid.cli.outcomes import NotThere
from leporid.cli.session import Session

COLUMNS: Final = ("vhost", "queue", "lease", "user", "messages", "ends_in_ms")
QUEUE: Final = argument("queue", metavar="QUEUE")
LEASE: Final = argument("lease", metavar="LEASE", help="its name, as `list` shows it")


def _list(session: Session, options: argparse.Namespace) -> None:
    of = [session.vhost_asked] if session.vhost_asked is not None else []
    rows = session.optional("leases", *of, what="list of leases")
    show_rows(session, rows, COLUMNS, "lease")


def _check(session: Session, options: argparse.Namespace, what: str) -> None:
    """With `--dry-run`: raise NotThere if there is no such lease.

    Otherwise the broker is asked at once: it remembers leases that have ended, so that whoever lost
    its answer may ask again.
    """
    if not session.dry:
        return
    rows = session.optional("leases", session.vhost, what="list of leases", missing=what)
    if all((one["queue"], one["lease"]) != (options.queue, options.lease) for one in rows):
        raise NotThere(f"there is no {what}")


def _release(session: Session, options: argparse.Namespace) -> None:
    what = f"lease '{options.lease}' of queue '{options.queue}' in '{session.vhost}'"
    _check(session, options, what)
    if session.would(f"release {what}"):
        return
    path = "queues", session.vhost, options.queue, "leases", options.lease, "release"
    session.post(*path, missing=what)
    session.did(f"{what} released: its messages are back")


def _delete(session: Session, options: argparse.Namespace) -> None:
    what = f"lease '{options.lease}' of queue '{options.queue}' in '{session.vhost}'"
    _check(session, options, what)
    if not session.confirmed(f"acknowledge the messages of {what}", options.lease):
        return
    session.delete("queues", session.vhost, options.queue, "leases", options.lease, missing=what)
    session.did(f"{what} acknowledged: its messages are gone")


NOUN: Final = Noun(
    "leases",
    (
        Verb("list", "list leases", _list, kind=Kind.LIST, vhost=True),
        Verb("release", "give the messages of a lease back to their queue", _release,
             (QUEUE, LEASE), Kind.ACT, vhost=True, completes="queues"),
        Verb("delete", "acknowledge the messages of a lease, which deletes them", _delete,
             (QUEUE, LEASE), Kind.DESTROY, vhost=True, completes="queues"),
    ),
)  # fmt: skip
