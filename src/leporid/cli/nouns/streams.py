"""`leporid streams`, `readers` and `groups`: streams, who reads them, and how far they are."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_rows
from leporid.cli.nouns.queues import warn_of_unknown
from leporid.cli.outcomes import Failure, WrongUse
from leporid.cli.output import counted
from leporid.cli.session import Session, arguments_of
from leporid.client.management import NOT_FOUND, ManagementError, path_of

STREAM: Final = argument("stream", metavar="STREAM")
READER: Final = argument("reader", metavar="READER")
GROUP: Final = argument("group", metavar="GROUP")
PARTITION: Final = argument(
    "--partition", type=int, default=0, metavar="N", help="of a partitioned stream (0)"
)
STREAM_COLUMNS: Final = ("vhost", "name", "partitions", "messages", "bytes", "first", "end")
READER_COLUMNS: Final = (
    "vhost", "stream", "partition", "reader", "next_offset", "lag", "lag_ms", "user",
    "skipped_messages",
)  # fmt: skip
GROUP_COLUMNS: Final = ("vhost", "stream", "group", "members", "partitions", "lag", "version")


def _title(session: Session, stream: str) -> str:
    return f"stream '{stream}' in '{session.vhost}'"


def streams_of(session: Session) -> Iterator[tuple[str, str, int]]:
    """Go through the streams that are asked for: virtual host, name, number of partitions."""
    for vhost in session.vhosts():
        listed = session.optional("streams", vhost, what="streams over HTTP")
        for one in listed["streams"]:
            yield vhost, one["name"], one["partitions"]


def _everywhere(session: Session, noun: str) -> list[dict[str, Any]] | None:
    """Return a list of all virtual hosts, of the one that is asked for; None: there is none yet."""
    try:
        rows = [one for page in session.api.pages(path_of(noun)) for one in page]
    except ManagementError as error:
        if error.status == NOT_FOUND:
            return None
        raise Failure(str(error)) from None
    asked = session.vhost_asked
    return [one for one in rows if asked is None or one["vhost"] == asked]


def partitions_of(session: Session, vhost: str, stream: str) -> list[dict[str, Any]]:
    """Return what there is to say of each partition of a stream."""
    found = session.get("streams", vhost, stream, missing=f"stream '{stream}' in '{vhost}'")
    partitions: list[dict[str, Any]] = found["partitions"]
    return partitions


def _list(session: Session, options: argparse.Namespace) -> None:
    # Facts of each partition in one list; a stream of one partition has its name.
    facts = {(one["vhost"], one["name"]): one for one in _everywhere(session, "streams") or ()}
    rows = []
    for vhost, name, count in streams_of(session):
        single = facts.get((vhost, name)) if count == 1 else None
        parts = [single] if single is not None else partitions_of(session, vhost, name)
        rows.append(
            {
                "vhost": vhost,
                "name": name,
                "partitions": len(parts),
                "messages": sum(one["end"] - one["first"] for one in parts),
                "bytes": sum(one["bytes"] for one in parts),
                "first": min(one["first"] for one in parts),
                "end": max(one["end"] for one in parts),
            }
        )
    show_rows(session, rows, STREAM_COLUMNS)


def _show(session: Session, options: argparse.Namespace) -> None:
    parts = partitions_of(session, session.vhost, options.stream)
    if session.out.as_json:
        session.out.json({"vhost": session.vhost, "name": options.stream, "partitions": parts})
    else:
        columns = ("partition", "queue", "first", "end", "bytes", "last_timestamp_ms")
        session.out.rows(parts, columns, "queue")


def _add(session: Session, options: argparse.Namespace) -> None:
    what = _title(session, options.stream)
    arguments = arguments_of(options.argument)
    body: dict[str, Any] = {"arguments": arguments}
    if options.partitions is not None:
        body |= {"partitions": options.partitions, "routing": options.routing}
    if session.would(f"add {what}"):
        return
    path = "streams", session.vhost, options.stream
    made = session.put(*path, body=body, what="streams over HTTP")
    session.did(f"{what} {'added' if made else 'was there already, like this'}")
    warn_of_unknown(session, "queue", options.stream, arguments)


def _delete(session: Session, options: argparse.Namespace) -> None:
    what = _title(session, options.stream)
    parts = partitions_of(session, session.vhost, options.stream)
    count = sum(one["end"] - one["first"] for one in parts)
    if not session.confirmed(f"delete {what} with {counted(count, 'message')}", options.stream):
        return
    session.delete("streams", session.vhost, options.stream, missing=what)
    session.did(f"{what} deleted")


STREAMS: Final = Noun(
    "streams",
    (
        Verb("list", "list streams", _list, kind=Kind.LIST, vhost=True),
        Verb("show", "show the partitions of a stream", _show, (STREAM,), vhost=True,
             completes="streams"),
        Verb(
            "add",
            "declare a stream",
            _add,
            (
                STREAM,
                argument("--partitions", type=int, metavar="N", help="(one stream)"),
                argument("--routing", choices=("hash", "key"), default="hash",
                         help="which partition gets a message (hash of the routing key)"),
                argument("--argument", "-a", action="append", default=[], metavar="KEY=VALUE",
                         help="x-max-age=7D"),
            ),
            Kind.ACT,
            vhost=True,
        ),
        Verb("delete", "delete a stream with its messages", _delete, (STREAM,), Kind.DESTROY,
             vhost=True, completes="streams"),
    ),
)  # fmt: skip


# ---------------------------------------------------------------- readers


def _list_readers(session: Session, options: argparse.Namespace) -> None:
    rows = _everywhere(session, "readers") if options.stream is None else None
    if rows is None:
        named = options.stream is not None
        streams = [(session.vhost, options.stream, 0)] if named else streams_of(session)
        rows = [row for vhost, stream, _ in streams for row in _readers_of(session, vhost, stream)]
    show_rows(session, rows, READER_COLUMNS, "reader")


def _readers_of(session: Session, vhost: str, stream: str) -> Iterator[dict[str, Any]]:
    found = session.get("streams", vhost, stream, "readers", missing=f"stream '{stream}'")
    parts = partitions_of(session, vhost, stream) if found["readers"] else []
    for one in found["readers"]:
        part = parts[one["partition"]]
        begins = max(part["first"], one["offset"] + 1)
        lag = max(0, part["end"] - begins)
        yield {"vhost": vhost, "stream": stream, "lag": lag, **one}


def _set_reader(session: Session, options: argparse.Namespace) -> None:
    offset, what = options.offset, f"reader '{options.reader}' of {_title(session, options.stream)}"
    part = _partition(session, options)
    if offset in ("first", "last", "next"):
        number = {"first": part["first"], "last": part["end"] - 1, "next": part["end"]}[offset]
    elif offset.isascii() and offset.isdigit():
        number = int(offset)
    else:
        raise WrongUse(f"invalid offset {offset!r}: expected first, last, next or a number")
    if number < 1:
        raise WrongUse(
            "nothing was read before the first message of all: delete the reader, and it "
            "begins where its x-stream-offset says"
        )
    if session.would(f"have {what} go on at offset {number}"):
        return
    # What is kept is the last message that was read.
    session.put(
        "streams", session.vhost, options.stream, "readers", options.reader,
        query={"partition": options.partition}, body={"offset": number - 1},
    )  # fmt: skip
    session.did(f"{what} goes on at offset {number}")


def _partition(session: Session, options: argparse.Namespace) -> dict[str, Any]:
    parts = partitions_of(session, session.vhost, options.stream)
    if not 0 <= options.partition < len(parts):
        raise WrongUse(f"{_title(session, options.stream)} has partitions 0 to {len(parts) - 1}")
    found: dict[str, Any] = parts[options.partition]
    return found


def _delete_reader(session: Session, options: argparse.Namespace) -> None:
    what = f"reader '{options.reader}' of {_title(session, options.stream)}"
    path = "streams", session.vhost, options.stream, "readers", options.reader
    query = {"partition": options.partition}
    session.get(*path, query=query, missing=what)
    if not session.confirmed(f"forget how far {what} is", options.reader):
        return
    session.delete(*path, query=query, missing=what)
    session.did(f"{what} forgotten")


READERS: Final = Noun(
    "readers",
    (
        Verb("list", "list named readers with their lag in messages", _list_readers,
             (argument("stream", nargs="?", metavar="STREAM"),), Kind.LIST, vhost=True,
             completes="streams"),
        Verb("set", "have a reader go on elsewhere", _set_reader,
             (STREAM, READER, argument("offset", metavar="first|last|next|N"), PARTITION),
             Kind.ACT, vhost=True, completes="streams"),
        Verb("delete", "forget how far a reader is", _delete_reader, (STREAM, READER, PARTITION),
             Kind.DESTROY, vhost=True, completes="streams"),
    ),
)  # fmt: skip


# ---------------------------------------------------------------- groups


def _list_groups(session: Session, options: argparse.Namespace) -> None:
    if options.stream is not None:
        streams = {(session.vhost, options.stream)}
    else:
        known = _everywhere(session, "groups")
        if known is None:
            streams = {(vhost, stream) for vhost, stream, _ in streams_of(session)}
        else:
            streams = {(one["vhost"], one["stream"]) for one in known}
    rows = []
    for vhost, stream in sorted(streams):
        found = session.get("groups", vhost, stream, missing=f"stream '{stream}'")
        for one in found["groups"]:
            counts = {name: len(one[name]) for name in ("members", "partitions")}
            rows.append({"vhost": vhost, **one, **counts})
    show_rows(session, rows, GROUP_COLUMNS, "group")


def _show_group(session: Session, options: argparse.Namespace) -> None:
    what = f"group '{options.group}' of {_title(session, options.stream)}"
    found = session.get("groups", session.vhost, options.stream, options.group, missing=what)
    session.out.facts(found, "group")


def _delete_group(session: Session, options: argparse.Namespace) -> None:
    what = f"group '{options.group}' of {_title(session, options.stream)}"
    path = "groups", session.vhost, options.stream, options.group
    session.get(*path, missing=what)
    if not session.confirmed(f"forget {what}, its filter and its offsets", options.group):
        return
    session.delete(*path, missing=what)
    session.did(f"{what} forgotten")


GROUPS: Final = Noun(
    "groups",
    (
        Verb("list", "list groups of readers with their lag", _list_groups,
             (argument("stream", nargs="?", metavar="STREAM"),), Kind.LIST, vhost=True,
             completes="streams"),
        Verb("show", "show members and partitions of a group", _show_group, (STREAM, GROUP),
             vhost=True, completes="streams"),
        Verb("delete", "forget a group that nobody is in", _delete_group, (STREAM, GROUP),
             Kind.DESTROY, vhost=True, completes="streams"),
    ),
)  # fmt: skip
