"""`leporid publish EXCHANGE KEY`: lines of standard input or a file as messages.

Responsible for what is a message of the input, and for counting what became of them. Each is
confirmed before the next is sent, over HTTP, which RabbitMQ does as well; for a load there is
`leporid bench`.
"""

from __future__ import annotations

import argparse
import base64
import difflib
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO, Final

from leporid.amqp.properties import Properties
from leporid.cli.command import Kind, Single, Verb, argument
from leporid.cli.outcomes import FAILED, Failure, WrongUse
from leporid.cli.session import Session, arguments_of

MESSAGE_BYTES_MAX: Final = 128 * 2**20
"""The broker's own default limit of a body."""
DEFAULT_NAME: Final = "amq.default"
WHOLE_NUMBERS: Final = ("delivery_mode", "priority", "timestamp")
PROPERTIES: Final = tuple(each.name for each in fields(Properties) if each.name != "headers")


def messages_of(source: BinaryIO, *, whole: bool) -> Iterator[bytes]:
    """Go through the messages of an input: its lines without their ends, or all of it.

    Raises:
        Failure: one is too large.
    """
    if whole:
        body = source.read(MESSAGE_BYTES_MAX + 1)
        if len(body) > MESSAGE_BYTES_MAX:
            raise Failure(f"the file has more than {MESSAGE_BYTES_MAX} bytes")
        yield body
        return
    while line := source.readline(MESSAGE_BYTES_MAX + 1):
        if len(line) > MESSAGE_BYTES_MAX:
            raise Failure(f"a line has more than {MESSAGE_BYTES_MAX} bytes")
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def properties_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the properties that options give; raises WrongUse."""
    found = arguments_of(options.property)
    for name in found:
        if name not in PROPERTIES:
            # Over HTTP it would be left out without a word.
            near = difflib.get_close_matches(name, PROPERTIES, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PROPERTIES)}"
            meant = "headers are given by --header" if name == "headers" else meant
            raise WrongUse(f"there is no property {name!r}; {meant}")
        if name in WHOLE_NUMBERS and not isinstance(found[name], int):
            raise WrongUse(f"{name} is a whole number, not {found[name]!r}")
        if name not in WHOLE_NUMBERS:
            found[name] = str(found[name])
    headers = arguments_of(options.header)
    if headers:
        found["headers"] = headers
    if not options.transient:
        found.setdefault("delivery_mode", 2)
    return found


def _publish(session: Session, options: argparse.Namespace) -> int | None:
    if options.message is not None and options.file is not None:
        raise WrongUse("give --message or --file, not both")
    properties = properties_of(options)
    path = "exchanges", session.vhost, options.exchange or DEFAULT_NAME, "publish"
    missing = (
        f"exchange '{options.exchange}' in '{session.vhost}'; to send to a queue of that name: "
        f"leporid publish {DEFAULT_NAME} '{options.exchange}'"
    )
    sent = unroutable = 0
    for body in _bodies(options):
        request = {
            "properties": properties,
            "routing_key": options.key,
            "payload": base64.b64encode(body).decode(),
            "payload_encoding": "base64",
        }
        answer = session.post(*path, body=request, missing=missing)
        sent += 1
        unroutable += not answer["routed"]
    if session.out.as_json:
        session.out.json({"published": sent, "unroutable": unroutable})
    else:
        gone = f", of which {unroutable} went nowhere: no binding leads on" if unroutable else ""
        session.did(f"{sent} message{'' if sent == 1 else 's'} published{gone}")
    return FAILED if unroutable else None


def _bodies(options: argparse.Namespace) -> Iterator[bytes]:
    if options.message is not None:
        yield options.message.encode()
    elif options.file is None:
        yield from messages_of(sys.stdin.buffer, whole=options.whole)
    else:
        try:
            with options.file.open("rb") as source:
                yield from messages_of(source, whole=not options.lines)
        except OSError as error:
            raise Failure(f"{options.file}: cannot be read: {error.strerror}") from None


COMMAND: Final = Single(
    Verb(
        "publish",
        "publish lines of standard input, or a file",
        _publish,
        (
            argument("exchange", metavar="EXCHANGE", help="'' for the default one"),
            argument("key", nargs="?", default="", metavar="KEY", help="routing key (empty)"),
            argument("--message", "-m", metavar="TEXT", help="one message, instead of the input"),
            argument("--file", "-f", type=Path, metavar="FILE", help="a file as one message"),
            argument("--lines", "-l", action="store_true", help="each line of --file is a message"),
            argument("--whole", action="store_true", help="all of standard input is one message"),
            argument("--header", action="append", default=[], metavar="NAME=VALUE"),
            argument(
                "--property", action="append", default=[], metavar="NAME=VALUE",
                help="content_type, expiration, priority, message_id, …",
            ),
            argument("--transient", action="store_true", help="not kept when the broker stops"),
        ),
        Kind.SHOW,
        vhost=True,
        about="Publish each line of standard input as a message, each confirmed before the next. "
        "Exit code 1: the broker refused one, or one went nowhere.",
    )
)  # fmt: skip
