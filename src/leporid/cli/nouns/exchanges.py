"""`leporid exchanges` and `leporid bindings`: list, show, add, delete."""

from __future__ import annotations

import argparse
from typing import Any, Final

from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_paged
from leporid.cli.nouns.queues import warn_of_unknown
from leporid.cli.outcomes import NotThere, WrongUse
from leporid.cli.output import counted
from leporid.cli.session import Session, arguments_of

DEFAULT_NAME: Final = "amq.default"
"""What paths call the exchange without a name."""
EXCHANGE_COLUMNS: Final = (
    "vhost", "name", "type", "durable", "auto_delete", "internal", "arguments",
)  # fmt: skip
BINDING_COLUMNS: Final = (
    "vhost", "source", "destination", "destination_type", "routing_key", "arguments",
)  # fmt: skip
EXCHANGE: Final = argument("name", metavar="EXCHANGE")
MORE: Final = argument(
    "--argument", "-a", action="append", default=[], metavar="KEY=VALUE", help="may be repeated"
)
SOURCE: Final = argument("source", metavar="EXCHANGE")
DESTINATION: Final = argument("destination", metavar="QUEUE")
KEY: Final = argument("--key", "-k", default="", metavar="KEY", help="routing key (empty)")
TO_EXCHANGE: Final = argument(
    "--to-exchange", action="store_true", help="the destination is an exchange"
)


def _title(session: Session, name: str) -> str:
    return f"exchange '{name}' in '{session.vhost}'"


def _list(session: Session, options: argparse.Namespace) -> None:
    show_paged(session, ["exchanges"], EXCHANGE_COLUMNS)


def _show(session: Session, options: argparse.Namespace) -> None:
    missing = _title(session, options.name)
    path = "exchanges", session.vhost, options.name or DEFAULT_NAME
    session.out.facts(session.get(*path, missing=missing))


def _add(session: Session, options: argparse.Namespace) -> None:
    body: dict[str, Any] = {
        "type": options.type,
        "durable": not options.transient,
        "auto_delete": options.auto_delete,
        "internal": options.internal,
        "arguments": arguments_of(options.argument),
    }
    what = _title(session, options.name)
    if session.would(f"add {what}"):
        return
    made = session.put("exchanges", session.vhost, options.name, body=body)
    session.did(f"{what} {'added' if made else 'was there already, like this'}")
    warn_of_unknown(session, "exchange", options.name, body["arguments"])


def _delete(session: Session, options: argparse.Namespace) -> None:
    what = _title(session, options.name)
    path = "exchanges", session.vhost, options.name
    session.get(*path, missing=what)
    bound = session.every(*path, "bindings", "source")
    if not session.confirmed(f"delete {what} with {counted(len(bound), 'binding')}", options.name):
        return
    session.delete(*path, query={"if-unused": "true" if options.if_unused else None}, missing=what)
    session.did(f"{what} deleted")


EXCHANGES: Final = Noun(
    "exchanges",
    (
        Verb("list", "list exchanges", _list, kind=Kind.LIST, vhost=True),
        Verb("show", "show all of one exchange", _show, (EXCHANGE,), vhost=True,
             completes="exchanges"),
        Verb(
            "add",
            "declare an exchange",
            _add,
            (
                EXCHANGE,
                argument("--type", default="direct", help="direct (the default), topic, fanout, …"),
                argument("--transient", action="store_true", help="gone when the broker stops"),
                argument("--auto-delete", action="store_true", help="gone with its last binding"),
                argument("--internal", action="store_true", help="clients may not publish to it"),
                MORE,
            ),
            Kind.ACT,
            vhost=True,
        ),
        Verb(
            "delete",
            "delete an exchange with its bindings",
            _delete,
            (
                EXCHANGE,
                argument("--if-unused", action="store_true", help="only without bindings"),
            ),
            Kind.DESTROY,
            vhost=True,
            completes="exchanges",
        ),
    ),
)  # fmt: skip


# ---------------------------------------------------------------- bindings


def _list_bindings(session: Session, options: argparse.Namespace) -> None:
    show_paged(session, ["bindings"], BINDING_COLUMNS, "routing_key")


def _between(session: Session, options: argparse.Namespace) -> tuple[str, ...]:
    kind = "e" if options.to_exchange else "q"
    source = options.source or DEFAULT_NAME
    return "bindings", session.vhost, "e", source, kind, options.destination


def _binding_title(session: Session, options: argparse.Namespace) -> str:
    noun = "exchange" if options.to_exchange else "queue"
    return (
        f"binding of {noun} '{options.destination}' to exchange '{options.source}' with key "
        f"'{options.key}' in '{session.vhost}'"
    )


def _add_binding(session: Session, options: argparse.Namespace) -> None:
    arguments = arguments_of(options.argument)
    if options.filter:
        if "x-filter-sql" in arguments:
            raise WrongUse("--filter is the argument x-filter-sql: give one of them")
        arguments["x-filter-sql"] = options.filter
    what = _binding_title(session, options)
    if session.would(f"add {what}"):
        return
    body = {"routing_key": options.key, "arguments": arguments}
    noun = "exchange" if options.to_exchange else "queue"
    ends = f"exchange '{options.source}' or no {noun} '{options.destination}' in '{session.vhost}'"
    session.post(*_between(session, options), body=body, missing=ends)
    session.did(f"{what} added")


def _delete_binding(session: Session, options: argparse.Namespace) -> None:
    what = _binding_title(session, options)
    wanted = arguments_of(options.argument)
    found = [
        one
        for one in session.every(*_between(session, options))
        if one["routing_key"] == options.key and (not wanted or one["arguments"] == wanted)
    ]
    if not found:
        raise NotThere(f"there is no {what}")
    if len(found) > 1:
        raise WrongUse(f"{len(found)} such bindings differ in arguments: say which by --argument")
    if not session.confirmed(f"delete the {what}", options.destination):
        return
    key = str(found[0]["properties_key"])
    session.delete(*_between(session, options), key, missing=what)
    session.did(f"{what} deleted")


BINDINGS: Final = Noun(
    "bindings",
    (
        Verb("list", "list bindings", _list_bindings, kind=Kind.LIST, vhost=True),
        Verb(
            "add",
            "bind a queue, or an exchange, to an exchange",
            _add_binding,
            (
                SOURCE,
                DESTINATION,
                KEY,
                TO_EXCHANGE,
                argument("--filter", metavar="SQL", help="only messages that match"),
                MORE,
            ),
            Kind.ACT,
            vhost=True,
            completes="exchanges",
        ),
        Verb(
            "delete",
            "unbind",
            _delete_binding,
            (SOURCE, DESTINATION, KEY, TO_EXCHANGE, MORE),
            Kind.DESTROY,
            vhost=True,
            completes="exchanges",
        ),
    ),
)
