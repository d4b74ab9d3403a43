"""`leporid queues`: list, show, add, delete, purge, move, pause, resume."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_paged
from leporid.cli.outcomes import FAILED, Failure, WrongUse, one_line
from leporid.cli.output import counted
from leporid.cli.session import Session, arguments_of

COLUMNS: Final = (
    "vhost", "name", "type", "state", "messages_ready", "messages_unacknowledged", "consumers",
)  # fmt: skip
NAME: Final = argument("name", metavar="QUEUE")
TYPES: Final = ("classic", "quorum", "stream")


def title(session: Session, name: str) -> str:
    """Say which queue."""
    return f"queue '{name}' in '{session.vhost}'"


def warn_of_unknown(
    session: Session, place: str, name: str, arguments: Mapping[str, object]
) -> None:
    """Tell of arguments that were just given and that the broker does not know.

    Args:
        session: the command.
        place: of what: "queue" or "exchange".
        name: its name.
        arguments: of its declaration.
    """
    if not arguments:
        return
    try:
        found = session.get("unknown-arguments", session.vhost)["unknown_arguments"]
    except Failure:
        return  # RabbitMQ has no such list, and takes any argument without a word
    for one in found:
        # Long names are cut in the list.
        given = [key for key in arguments if key.startswith(str(one["argument"]).rstrip("…"))]
        if one["place"] == place and one["name"] == name and given:
            reason = one_line(f"argument {given[0]!r} has no effect: {one['reason']}")
            print(f"leporid: {reason}", file=sys.stderr)


def _list(session: Session, options: argparse.Namespace) -> None:
    show_paged(session, ["queues"], COLUMNS)


def _show(session: Session, options: argparse.Namespace) -> None:
    missing = title(session, options.name)
    session.out.facts(session.get("queues", session.vhost, options.name, missing=missing))


def _add(session: Session, options: argparse.Namespace) -> None:
    arguments = arguments_of(options.argument)
    if options.type:
        arguments["x-queue-type"] = options.type
    body = {
        "durable": not options.transient,
        "auto_delete": options.auto_delete,
        "arguments": arguments,
    }
    what = title(session, options.name)
    if session.would(f"add {what}"):
        return
    made = session.put("queues", session.vhost, options.name, body=body)
    session.did(f"{what} {'added' if made else 'was there already, like this'}")
    warn_of_unknown(session, "queue", options.name, arguments)


def _delete(session: Session, options: argparse.Namespace) -> None:
    what = title(session, options.name)
    found = session.get("queues", session.vhost, options.name, missing=what)
    count = counted(found.get("messages", 0), "message")
    if not session.confirmed(f"delete {what} with {count}", options.name):
        return
    query = {
        "if-empty": "true" if options.if_empty else None,
        "if-unused": "true" if options.if_unused else None,
    }
    session.delete("queues", session.vhost, options.name, query=query, missing=what)
    session.did(f"{what} deleted")


def _purge(session: Session, options: argparse.Namespace) -> None:
    what = title(session, options.name)
    found = session.get("queues", session.vhost, options.name, missing=what)
    count = counted(found.get("messages_ready", 0), "message")
    if not session.confirmed(f"purge {what} of {count}", options.name):
        return
    session.delete("queues", session.vhost, options.name, "contents", missing=what)
    session.did(f"{what} purged")


def _move(session: Session, options: argparse.Namespace) -> int | None:
    to = _destination(options)
    if options.limit is not None and options.limit < 1:
        raise WrongUse("--limit is 1 at least")
    query: dict[str, str | int | None] = {
        "filter": options.filter,
        "tags": options.tags,
        "routing_key": options.only_key,
        "dry_run": "true" if session.dry else None,
    }
    what, path = title(session, options.name), ("queues", session.vhost, options.name)
    # So that a queue that is missing is told from a broker that moves nothing.
    session.get(*path, missing=what)
    moved, left = 0, options.limit
    while True:
        query["limit"] = left
        said = session.change(
            "POST", *path, "move", body={"to": to}, query=query, what="queues to move from"
        )
        found = json.loads(said)
        moved += found["moved"]
        if left is not None:
            left -= found["matched"]
        # A request ends after some seconds, and the next one begins at the front again.
        if not found["more"] or not found["moved"] or left == 0:
            break
    return _tell_of_move(session, what, {**found, "moved": moved})


def _destination(options: argparse.Namespace) -> dict[str, str]:
    """Return where to, as the body of a request; raises WrongUse unless one place is named."""
    places = {"queue": options.to, "exchange": options.exchange, "origin": options.origin}
    given = {name: value for name, value in places.items() if value is not None}
    if len(given) != 1:
        raise WrongUse("say where to: a QUEUE, --exchange or --origin, and one of them")
    if options.key is not None:
        if options.exchange is None:
            raise WrongUse("--key goes with --exchange")
        given["routing_key"] = options.key
    return given


def _tell_of_move(session: Session, what: str, found: Mapping[str, Any]) -> int | None:
    stayed = ", ".join(f"{count} {reason}" for reason, count in sorted(found["stayed"].items()))
    if session.out.as_json:
        session.out.json(found)
    elif session.dry:
        session.did(f"would move {counted(found['matched'], 'message')} of {what}")
        for each in found["targets"]:
            problem = f", but {each['problem']}" if each["problem"] else ""
            to = f"exchange '{each['exchange']}' with key '{each['routing_key']}'"
            session.did(f"  {counted(each['messages'], 'message')} to {to}{problem}")
    else:
        session.did(f"{counted(found['moved'], 'message')} of {what} moved")
        if stayed:
            print(f"leporid: {one_line(f'messages that stay: {stayed}')}", file=sys.stderr)
    return FAILED if stayed else None


def _pause(session: Session, options: argparse.Namespace) -> None:
    _switch(session, options.name, "pause", "paused: it takes messages and gives none")


def _resume(session: Session, options: argparse.Namespace) -> None:
    _switch(session, options.name, "resume", "resumed")


def _switch(session: Session, name: str, verb: str, done: str) -> None:
    what = title(session, name)
    # So that a queue that is missing is told from a broker that has no such thing.
    session.get("queues", session.vhost, name, missing=what)
    if session.would(f"{verb} {what}"):
        return
    session.change("PUT", "queues", session.vhost, name, verb, what=f"queues that {verb}")
    session.did(f"{what} {done}")


NOUN: Final = Noun(
    "queues",
    (
        Verb("list", "list queues", _list, kind=Kind.LIST, vhost=True),
        Verb("show", "show all of one queue", _show, (NAME,), vhost=True, completes="queues"),
        Verb(
            "add",
            "declare a queue",
            _add,
            (
                NAME,
                argument("--type", choices=TYPES, help="(the virtual host's default)"),
                argument("--transient", action="store_true", help="gone when the broker stops"),
                argument("--auto-delete", action="store_true", help="gone with its last consumer"),
                argument(
                    "--argument", "-a", action="append", default=[], metavar="KEY=VALUE",
                    help="x-max-length=1000; docs/queue-arguments.md lists them",
                ),
            ),
            Kind.ACT,
            vhost=True,
        ),
        Verb(
            "delete",
            "delete a queue with its messages",
            _delete,
            (
                NAME,
                argument("--if-empty", action="store_true", help="only without messages"),
                argument("--if-unused", action="store_true", help="only without consumers"),
            ),
            Kind.DESTROY,
            vhost=True,
            completes="queues",
        ),
        Verb(
            "purge",
            "delete the messages of a queue that no consumer has",
            _purge,
            (NAME,),
            Kind.DESTROY,
            vhost=True,
            completes="queues",
        ),
        Verb(
            "move",
            "move the ready messages of a queue elsewhere",
            _move,
            (
                NAME,
                argument("to", nargs="?", metavar="TO", help="the queue that they go to"),
                argument("--exchange", metavar="NAME", help="instead of TO: to that exchange"),
                argument("--key", metavar="KEY", help="with that routing key (each its own)"),
                argument(
                    "--origin", choices=("queue", "exchange"),
                    help="instead of TO: dead letters, to where each died last, or came from",
                ),
                argument("--limit", metavar="N", type=int, help="at most N (all)"),
                argument("--filter", metavar="SQL", help="only those that the filter passes"),
                argument("--tags", metavar="A|B", help="only those with one of these tags"),
                argument("--only-key", metavar="KEY", help="only those with that routing key"),
            ),
            Kind.ACT,
            vhost=True,
            completes="queues",
            about="Move the ready messages of a queue to a queue or an exchange, or dead letters "
            "to where they died. Each leaves the queue when its copy is confirmed. Exit code 1: "
            "some stay.",
        ),
        Verb(
            "pause",
            "have a queue give nothing to consumers",
            _pause,
            (NAME,),
            Kind.ACT,
            vhost=True,
            completes="queues",
        ),
        Verb(
            "resume",
            "have a queue give messages again",
            _resume,
            (NAME,),
            Kind.ACT,
            vhost=True,
            completes="queues",
        ),
    ),
)  # fmt: skip
