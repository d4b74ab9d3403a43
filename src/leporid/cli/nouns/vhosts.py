"""`leporid vhosts` and `limits`: virtual hosts, and what they and users may have at most."""

from __future__ import annotations

import argparse
from typing import Any, Final

from leporid.cli.command import IGNORE_NOT_FOUND, Kind, Noun, Verb, argument
from leporid.cli.listing import show_rows
from leporid.cli.outcomes import NotThere, WrongUse
from leporid.cli.session import Session

NAME: Final = argument("name", metavar="VHOST")
COLUMNS: Final = ("name", "description", "tags", "default_queue_type", "messages", "tracing")
QUEUE_TYPES: Final = ("classic", "quorum", "stream")


def _list(session: Session, options: argparse.Namespace) -> None:
    show_rows(session, session.every("vhosts"), COLUMNS)


def _show(session: Session, options: argparse.Namespace) -> None:
    missing = f"virtual host '{options.name}'"
    session.out.facts(session.get("vhosts", options.name, missing=missing))


def _add(session: Session, options: argparse.Namespace) -> None:
    if session.would(f"add virtual host '{options.name}'"):
        return
    body = _body(options)
    made = session.put("vhosts", options.name, body=body)
    there = "was there already" + (", and is like this now" if body else "")
    session.did(f"virtual host '{options.name}' {'added' if made else there}")


def _set(session: Session, options: argparse.Namespace) -> None:
    body = _body(options)
    if not body:
        raise WrongUse("say what to set: --description, --tags, --default-queue-type, --tracing")
    found = session.get("vhosts", options.name, missing=f"virtual host '{options.name}'")
    if session.would(f"change virtual host '{options.name}'"):
        return
    kept = {key: found[key] for key in ("description", "default_queue_type") if found.get(key)}
    if found.get("tags"):
        kept["tags"] = ",".join(found["tags"])
    session.put("vhosts", options.name, body={**kept, **body})
    session.did(f"virtual host '{options.name}' changed")


def _body(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "description": options.description,
        "tags": options.tags,
        "default_queue_type": options.default_queue_type,
        "tracing": None if options.tracing is None else options.tracing == "on",
    }
    return {key: value for key, value in given.items() if value is not None}


def _delete(session: Session, options: argparse.Namespace) -> None:
    what = f"virtual host '{options.name}'"
    session.get("vhosts", options.name, missing=what)
    queues = session.get("queues", options.name, query={"page": 1, "page_size": 1})
    count = queues.get("total_count", 0) if isinstance(queues, dict) else len(queues)
    if not session.confirmed(f"delete {what} with its {count} queues and all else", options.name):
        return
    session.delete("vhosts", options.name, missing=what)
    session.did(f"{what} deleted")


SETTINGS: Final = (
    argument("--description", metavar="TEXT"),
    argument("--tags", metavar="A,B"),
    argument("--default-queue-type", choices=QUEUE_TYPES),
    argument("--tracing", choices=("on", "off"), help="messages to amq.rabbitmq.trace, too"),
)

VHOSTS: Final = Noun(
    "vhosts",
    (
        Verb("list", "list virtual hosts", _list, kind=Kind.LIST),
        Verb("show", "show one virtual host", _show, (NAME,), completes="vhosts"),
        Verb("add", "add a virtual host", _add, (NAME, *SETTINGS), Kind.ACT),
        Verb("set", "change a virtual host", _set, (NAME, *SETTINGS), Kind.ACT,
             completes="vhosts"),
        Verb("delete", "delete a virtual host with all that is in it", _delete, (NAME,),
             Kind.DESTROY, completes="vhosts"),
    ),
)  # fmt: skip


# ---------------------------------------------------------------- limits

KINDS: Final = {"vhost": "vhost-limits", "user": "user-limits"}
LIMITS: Final = {
    "vhost": ("max-connections", "max-queues"),
    "user": ("max-connections", "max-channels"),
}


def _list_limits(session: Session, options: argparse.Namespace) -> None:
    rows = [
        {"kind": kind, "of": one[kind], "limit": limit, "value": value}
        for kind, path in KINDS.items()
        for one in session.get(path)
        for limit, value in one["value"].items()
    ]
    show_rows(session, rows, ("kind", "of", "limit", "value"), "of")


def _check_limit(options: argparse.Namespace) -> None:
    known = LIMITS[options.of]
    if options.limit not in known:
        raise WrongUse(f"a {options.of} has no limit {options.limit!r}, only {' and '.join(known)}")


def _called(options: argparse.Namespace) -> str:
    return f"{'virtual host' if options.of == 'vhost' else 'user'} '{options.name}'"


def _set_limit(session: Session, options: argparse.Namespace) -> None:
    _check_limit(options)
    what = f"{options.limit} of {options.of} '{options.name}'"
    if session.would(f"set {what} to {options.value}"):
        return
    path = KINDS[options.of], options.name, options.limit
    session.put(*path, body={"value": options.value}, missing=_called(options))
    session.did(f"{what} is {options.value}")


def _delete_limit(session: Session, options: argparse.Namespace) -> None:
    every = options.limit == ALL
    if not every:
        _check_limit(options)
    path, missing = (KINDS[options.of], options.name), _called(options)
    given = {limit for one in session.get(*path, missing=missing) for limit in one["value"]}
    found = sorted(given if every else given & {options.limit})
    of = f"of {options.of} '{options.name}'"
    if not found:
        # The broker answers the same whether there was one or not.
        none = f"there is no {'limit' if every else options.limit} {of}"
        if not options.ignore_not_found:
            raise NotThere(none)
        session.did(none)
        return
    what = f"{' and '.join(found)} {of}"
    if session.would(f"drop {what}"):
        return
    for limit in found:
        session.delete(*path, limit, missing=missing)
    session.did(f"{what} dropped")


OF: Final = argument("of", choices=tuple(KINDS))
LIMITED: Final = argument("name", metavar="NAME", help="of the virtual host or user")
LIMIT: Final = argument("limit", metavar="LIMIT", help="max-connections, max-queues, max-channels")
ALL: Final = "all"
# A limit is set again in no time, with nothing lost; scripts say this of every `delete`.
NOT_ASKED: Final = argument(
    "--yes", "-y", action="store_true", help="as of others that delete; this one does not ask"
)
DROPPED: Final = argument("limit", metavar="LIMIT", help="as for set; all for each that is set")

LIMITS_NOUN: Final = Noun(
    "limits",
    (
        Verb("list", "list limits of virtual hosts and users", _list_limits, kind=Kind.LIST),
        Verb("set", "set a limit; below 0 there is none", _set_limit,
             (OF, LIMITED, LIMIT, argument("value", type=int, metavar="N")), Kind.ACT),
        Verb("delete", "drop a limit", _delete_limit,
             (OF, LIMITED, DROPPED, IGNORE_NOT_FOUND, NOT_ASKED), Kind.ACT),
    ),
)  # fmt: skip
