"""`leporid delays`: messages that wait for their time; and the ladder of delays on any broker."""

from __future__ import annotations

import argparse
from typing import Final

from leporid.cli import delays as ladder
from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_rows
from leporid.cli.outcomes import WrongUse
from leporid.cli.output import counted
from leporid.cli.session import Session

EXCHANGE_COLUMNS: Final = ("vhost", "exchange", "waiting", "fired", "cancelled", "unroutable")
MESSAGE_COLUMNS: Final = ("id", "due_ms", "exchange", "routing_key", "body_bytes", "message_id")
EXCHANGE: Final = argument("exchange", metavar="EXCHANGE", help="amq.default for the one without")
CHOOSING: Final = (
    argument("--filter", metavar="SQL", help="only messages that match"),
    argument("--tags", metavar="A|B", help="only messages with such a tag"),
)
WHAT: Final = "delayed messages over HTTP"
COUNT_DEFAULT: Final = 100


def _list(session: Session, options: argparse.Namespace) -> None:
    if options.exchange is None:
        rows = [
            {"vhost": vhost, **one}
            for vhost in session.vhosts()
            for one in session.optional("delays", vhost, what=WHAT)["exchanges"]
        ]
        show_rows(session, rows, EXCHANGE_COLUMNS, "exchange")
        return
    query = {"limit": options.count, "filter": options.filter, "tags": options.tags}
    path = "delays", session.vhost, options.exchange
    found = session.get(
        *path, query=query, missing=f"exchange '{options.exchange}' in '{session.vhost}'"
    )
    show_rows(session, found["messages"], MESSAGE_COLUMNS, "id")


def _show(session: Session, options: argparse.Namespace) -> None:
    path = "delays", session.vhost, options.exchange, options.id
    session.out.facts(session.get(*path, missing=_message(session, options)), "id")


def _message(session: Session, options: argparse.Namespace) -> str:
    of = f"of exchange '{options.exchange}' in '{session.vhost}'"
    return f"delayed message '{options.id}' {of}; it may have come due"


def _delete(session: Session, options: argparse.Namespace) -> None:
    chosen = options.filter is not None or options.tags is not None
    if bool(options.id) + chosen + options.all != 1:
        raise WrongUse("say which to cancel: an ID, --filter or --tags, or --all")
    where = f"of exchange '{options.exchange}' in '{session.vhost}'"
    path = "delays", session.vhost, options.exchange
    if options.id:
        session.get(*path, options.id, missing=_message(session, options))
        if session.confirmed(f"cancel delayed message '{options.id}' {where}", options.id):
            session.delete(*path, options.id)
            session.did(f"delayed message '{options.id}' {where} cancelled")
        return
    query = {
        "filter": options.filter,
        "tags": options.tags,
        "all": "true" if options.all else None,
    }
    missing = f"exchange '{options.exchange}' in '{session.vhost}'"
    query_dry = {**query, "dry_run": "true"}
    count = session.delete(*path, query=query_dry, missing=missing)["matched"]
    if not session.confirmed(
        f"cancel {counted(count, 'delayed message')} {where}", options.exchange
    ):
        return
    cancelled = session.delete(*path, query=query)["cancelled"]
    session.did(f"{counted(cancelled, 'delayed message')} {where} cancelled")


NOUN: Final = Noun(
    "delays",
    (
        Verb(
            "list",
            "list exchanges with delayed messages, or the messages of one",
            _list,
            (
                argument("exchange", nargs="?", metavar="EXCHANGE"),
                argument("--count", "-c", type=int, default=COUNT_DEFAULT, metavar="N",
                         help=f"messages at most, those due next ({COUNT_DEFAULT})"),
                *CHOOSING,
            ),
            Kind.LIST,
            vhost=True,
            completes="exchanges",
        ),
        Verb("show", "show a delayed message with its body", _show,
             (EXCHANGE, argument("id", metavar="ID")), vhost=True, completes="exchanges"),
        Verb(
            "delete",
            "cancel delayed messages",
            _delete,
            (
                EXCHANGE,
                argument("id", nargs="?", metavar="ID"),
                *CHOOSING,
                argument("--all", action="store_true", help="all that wait in the exchange"),
            ),
            Kind.DESTROY,
            vhost=True,
            completes="exchanges",
        ),
        *ladder.VERBS,
    ),
    about="Delayed messages of the broker; and a ladder of topic exchanges and queues, on any "
    "broker, that holds each message for as many seconds as its routing key says "
    "(docs/delay-ladder.md).",
)  # fmt: skip
