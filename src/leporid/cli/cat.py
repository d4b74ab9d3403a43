"""`leporid cat queue://Q` and `stream://S`: the messages of a queue or a stream, in kcat's manner.

Responsible for reading them over HTTP, page after page, and for writing each as a format says.
Nothing is changed unless `--take` has messages taken out of a queue.

Invariant: without `--take` nothing changes. With it, what was on its way when the connection broke
is lost, as with automatic acknowledgement; so little is asked for at a time.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit

from leporid.cli.command import Single, Verb, argument
from leporid.cli.outcomes import WrongUse
from leporid.cli.session import Session

PAGE: Final = 500
"""Messages that are asked for at a time; a broker may give fewer."""
TAKEN_AT_ONCE: Final = 100
"""What is on its way when a connection breaks is lost, so it is little."""
FOLLOW_SECONDS: Final = 0.5
NAMED_OFFSETS: Final = ("first", "last", "next")
AT_TIME: Final = "timestamp:"
JSON: Final = "json"
FORMAT_DEFAULT: Final = "%s\\n"
WHAT: Final = "messages to browse over HTTP"

_PLACE: Final = re.compile(r"%(.)|\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}


def parse_source(text: str, vhost: str) -> tuple[str, str, str]:
    """Read `queue://NAME`, `stream://NAME` or `queue://VHOST/NAME`, percent-encoded.

    Returns:
        The noun of the path ("queues" or "streams"), virtual host, name.

    Raises:
        WrongUse: it is none of these.
    """
    parts = urlsplit(text)
    names = (parts.netloc + parts.path).split("/")
    if not parts.scheme and text:
        raise WrongUse(f"is it a queue or a stream? Write queue://{text} or stream://{text}")
    if parts.scheme not in ("queue", "stream") or len(names) > 2 or not names[-1]:
        raise WrongUse(
            f"{text!r} is not queue://NAME or stream://NAME, perhaps with VHOST/ before the name; "
            "a slash in a name is %2F"
        )
    if len(names) == 2:
        vhost = unquote(names[0])
    return parts.scheme + "s", vhost, unquote(names[-1])


def payload_of(message: Mapping[str, Any]) -> bytes:
    """Return the body of a message."""
    text = str(message["payload"])
    return base64.b64decode(text) if message["payload_encoding"] == "base64" else text.encode()


def formatted(template: str, message: Mapping[str, Any]) -> bytes:
    r"""Write a message as a format of kcat's says.

    `%s` body, `%S` bytes of the body, `%k` routing key, `%x` exchange, `%o` offset, `%T` time in
    milliseconds, `%t` the same as text, `%h` headers, `%p` properties as JSON, `%r` whether it is
    redelivered, `%%` a per cent sign; `\n`, `\t`, `\r`, `\0` as usual.

    Raises:
        WrongUse: there is no such place.
    """
    out, at = b"", 0
    for found in _PLACE.finditer(template):
        out += template[at : found.start()].encode()
        at = found.end()
        if found[2] is not None:
            if found[2] not in _ESCAPES:
                raise WrongUse(
                    f"--format: \\{found[2]} means nothing; there are \\n \\t \\r \\0 \\\\"
                )
            out += _ESCAPES[found[2]]
        else:
            out += _place(found[1], message)
    return out + template[at:].encode()


def _place(letter: str, message: Mapping[str, Any]) -> bytes:
    properties = message.get("properties") or {}
    if letter == "s":
        return payload_of(message)
    if letter == "%":
        return b"%"
    made: dict[str, Any] = {
        "S": message.get("payload_bytes", 0),
        "k": message.get("routing_key", ""),
        "x": message.get("exchange", ""),
        "o": message.get("offset", ""),
        "T": message.get("timestamp_ms") or "",
        "t": _time(message.get("timestamp_ms")),
        "r": str(bool(message.get("redelivered"))).lower(),
    }
    if letter == "h":
        headers = properties.get("headers") or {} if isinstance(properties, Mapping) else {}
        return ",".join(f"{key}={_value(value)}" for key, value in headers.items()).encode()
    if letter == "p":
        return json.dumps(properties, ensure_ascii=False).encode()
    if letter not in made:
        raise WrongUse(
            f"--format: %{letter} means nothing; there are %s %S %k %x %o %T %t %h %p %r"
        )
    return str(made[letter]).encode()


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _time(timestamp_ms: Any) -> str:
    if not isinstance(timestamp_ms, int):
        return ""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def browsed(
    session: Session, path: tuple[str, ...], query: Mapping[str, Any], count: int | None
) -> Iterator[dict[str, Any]]:
    """Go through messages without changing them, as far as there are any now.

    Args:
        session: asks the broker.
        path: of the queue or stream.
        query: which messages; `from` is where to begin.
        count: at most; None: all.
    """
    asked, left = dict(query), count
    noun, vhost, name = path
    missing = f"{noun.removesuffix('s')} '{name}' in '{vhost}'"
    follow = bool(getattr(session.options, "follow", False))
    while left is None or left > 0:
        asked["limit"] = PAGE if left is None else min(PAGE, left)
        found = session.optional(*path, "browse", query=asked, what=WHAT, missing=missing)
        yield from found["messages"]
        if left is not None:
            left -= len(found["messages"])
        following = found.get("next")
        if following is not None:
            asked["from"] = following
            if found["messages"] or not follow:
                continue
        elif not follow:
            return
        elif "end" in found:
            asked["from"] = found["end"]
        elif found["messages"]:
            asked["from"] = found["messages"][-1]["offset"] + 1
        time.sleep(FOLLOW_SECONDS)


def taken(session: Session, path: tuple[str, ...], count: int | None) -> Iterator[dict[str, Any]]:
    """Take messages out of a queue, as far as there are any now."""
    left = count
    follow = bool(getattr(session.options, "follow", False))
    while left is None or left > 0:
        most = TAKEN_AT_ONCE if left is None else min(TAKEN_AT_ONCE, left)
        body = {"count": most, "ackmode": "ack_requeue_false", "encoding": "auto"}
        found = session.post(*path, "get", body=body, missing=f"queue '{path[-1]}'")
        yield from found
        if left is not None:
            left -= len(found)
        if not found:
            if not follow:
                return
            time.sleep(FOLLOW_SECONDS)


def start_of(text: str) -> str:
    """Read `--from`: first, last, next, an offset, or a time in ISO 8601, which is milliseconds.

    Raises:
        WrongUse: it is none of these.
    """
    if text in NAMED_OFFSETS or (text.isascii() and text.isdigit()):
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUse(
            f"invalid offset {text!r}: expected first, last, next, a number, or a time such as "
            "2026-11-23T07:00:00Z"
        ) from None
    # A time without a zone is that of this machine.
    return f"{AT_TIME}{int(when.timestamp() * 1000)}"


def _cat(session: Session, options: argparse.Namespace) -> None:
    noun, vhost, name = parse_source(options.source, session.vhost)
    path = noun, vhost, name
    if options.count is not None and options.count < 1:
        raise WrongUse("-c is 1 at least")
    formatted(options.format, NOTHING) if options.format != JSON else None
    chosen = options.start or options.filter or options.tags or options.key
    if options.take:
        if noun == "streams" or chosen:
            raise WrongUse("--take takes what is first in a queue: no stream, --from or filter")
        if not session.confirmed(f"take messages out of queue '{name}' in '{vhost}'", name):
            return
        messages = taken(session, path, options.count)
    else:
        messages = _browsed(session, path, options)
    out = session.out.stream.buffer if hasattr(session.out.stream, "buffer") else None
    for message in messages:
        _write(session, out, options.format, message)


NOTHING: Final[Mapping[str, Any]] = {"payload": "", "payload_encoding": "string"}


def _browsed(
    session: Session, path: tuple[str, ...], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Go through the messages that are chosen, one partition of a stream after the other."""
    query = {"filter": options.filter, "tags": options.tags, "routing_key": options.key}
    start = None if options.start is None else start_of(options.start)
    if path[0] == "queues":
        if options.partition is not None or (start is not None and not start.isdigit()):
            if start != "first" or options.partition is not None:
                raise WrongUse("a queue has offsets, but no last, next, times or partitions")
            start = None
        yield from browsed(session, path, {**query, "from": start}, options.count)
        return
    left = options.count
    for partition, offset in _starts(session, path, options.partition, start):
        if left == 0:
            return
        asked = {**query, "partition": partition, "from": offset}
        for message in browsed(session, path, asked, left):
            yield message
            left = None if left is None else left - 1


def _starts(
    session: Session, path: tuple[str, ...], partition: int | None, start: str | None
) -> Iterator[tuple[int, str]]:
    """Go through the partitions to read, each with the offset to begin at."""
    missing = f"stream '{path[2]}' in '{path[1]}'"
    parts = session.get(*path, missing=missing)["partitions"]
    if partition is not None:
        if not 0 <= partition < len(parts):
            raise WrongUse(f"{missing} has partitions 0 to {len(parts) - 1}")
        parts = [parts[partition]]
    elif len(parts) > 1 and session.options.follow:
        raise WrongUse(f"{missing} has {len(parts)} partitions: say which to follow by --partition")
    offsets: dict[int, Any] = {}
    if start is not None and start.startswith(AT_TIME):
        query = {"timestamp_ms": start.removeprefix(AT_TIME)}
        found = session.get(*path, "offset-for", query=query, missing=missing)["partitions"]
        offsets = {one["partition"]: one["offset"] for one in found}
    for one in parts:
        number, end = one["partition"], one["end"]
        named = {"first": one["first"], "last": max(one["first"], end - 1), "next": end}
        yield number, str(offsets.get(number, named.get(start or "first", start)))


def _write(
    session: Session, out: BinaryIO | None, template: str, message: Mapping[str, Any]
) -> None:
    if template == JSON or session.out.as_json:
        line = (json.dumps(message, ensure_ascii=False) + "\n").encode()
    else:
        line = formatted(template, message)
    if session.out.terminal:
        # What somebody published must not move the cursor of whoever reads it.
        session.out.text(line.decode(errors="backslashreplace"))
    elif out is None:
        session.out.stream.write(line.decode(errors="replace"))
    else:
        out.write(line)
    session.out.stream.flush()


COMMAND: Final = Single(
    Verb(
        "cat",
        "write the messages of a queue or a stream",
        _cat,
        (
            argument("source", metavar="SOURCE", help="queue://Q, stream://S, queue://VHOST/Q"),
            argument(
                "--from", dest="start", metavar="WHERE",
                help="first (the default), last, next, an offset, or a time (ISO 8601)",
            ),
            argument("--count", "-c", type=int, metavar="N", help="so many at most (all)"),
            argument("--partition", type=int, metavar="N", help="of a stream (all in turn)"),
            argument("--follow", "-F", action="store_true", help="wait for what comes"),
            argument("--filter", metavar="SQL", help="only messages that match"),
            argument("--tags", metavar="A|B", help="only messages with such a tag"),
            argument("--key", "-k", metavar="KEY", help="only messages with this routing key"),
            argument(
                "--format", "-f", default=FORMAT_DEFAULT, metavar="FORMAT",
                help="%%s body, %%k routing key, %%x exchange, %%o offset, %%h headers, …; or json "
                "(%%s\\n)",
            ),
            argument("--take", action="store_true", help="take them out of the queue"),
            argument("--yes", "-y", action="store_true", help="do not ask"),
        ),
        vhost=True,
        about="Write the messages of a queue or a stream, without changing it; with --take, take "
        "them out of the queue.",
    )
)  # fmt: skip
