"""`leporid definitions`: export all of a broker or of a virtual host as JSON, and import it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.outcomes import Failure, one_line
from leporid.cli.output import counted
from leporid.cli.session import Session

WHAT: Final = "definitions over HTTP"
STANDARD: Final = "-"
PRODUCT: Final = "Leporid"
CONFLICTING: Final = "conflicting"
CHANGES: Final = ("added", "changed", "unchanged", CONFLICTING)
NOUNS: Final[Mapping[str, tuple[str, ...]]] = {
    "vhosts": ("virtual host",),
    "users": ("user",),
    "permissions": ("permission",),
    "topic_permissions": ("topic permission",),
    "parameters": ("parameter",),
    "global_parameters": ("global parameter",),
    "policies": ("policy", "policies"),
    "exchanges": ("exchange",),
    "queues": ("queue",),
    "bindings": ("binding",),
}
"""How the nouns of a document are counted: singular, and plural where that is not with an s."""


def _export(session: Session, options: argparse.Namespace) -> None:
    of = [session.vhost_asked] if session.vhost_asked is not None else []
    found = session.optional("definitions", *of, what=WHAT)
    text = json.dumps(found, ensure_ascii=False, indent=2) + "\n"
    if options.file == STANDARD:
        session.out.text(text)
        return
    _write(Path(options.file), text)
    print(f"{_counted(found)} written to {options.file}", file=sys.stderr)


def _is_device(file: Path) -> bool:
    """Whether a path is of a device, of which `/dev/stdout` may be an ordinary file."""
    return file.is_relative_to("/dev") and not file.is_relative_to("/dev/shm")  # noqa: S108


def _write(file: Path, text: str) -> None:
    """Write a file as a whole, for its owner alone, as there are hashes of passwords in it."""
    try:
        if (file.exists() and not file.is_file()) or _is_device(file):
            # A pipe or a device is written to, and not replaced.
            file.write_text(text, encoding="utf-8")
            return
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Failure(f"{file}: cannot be written: {error.strerror}") from None


def _import(session: Session, options: argparse.Namespace) -> None:
    given = _read(options.file)
    of = [session.vhost_asked] if session.vhost_asked is not None else []
    what = _counted(given)
    if options.dry_run:
        if session.get("overview").get("product_name") != PRODUCT:
            # RabbitMQ would pass over the parameter, and import.
            raise Failure(f"the broker at {session.api.where} cannot say what an import changes")
        query = {"dry_run": "true"}
        content = session.change("POST", "definitions", *of, query=query, body=given, what=WHAT)
        _show_difference(session, _object_in(content))
        return
    if not session.confirmed(f"import {what} into {session.api.where}", "import"):
        return
    content = session.change("POST", "definitions", *of, body=given, what=WHAT)
    difference = _object_in(content) if content.strip() else {}
    if session.out.as_json:
        session.out.json(difference)
        return
    # The broker answers with a difference only if something of the file is not in force.
    session.did("imported, but for what is named below" if difference else f"{what} imported")
    _show_difference(session, difference)


def _read(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == STANDARD else Path(file).read_text(encoding="utf-8")
        found = json.loads(text)
    except OSError as error:
        raise Failure(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise Failure(f"{file}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Failure(f"{file}: definitions are a JSON object")
    return found


def _object_in(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        raise Failure("the broker answers with no JSON") from None
    if not isinstance(found, dict):
        raise Failure("the broker answers with something else than the difference")
    return found


def _show_difference(session: Session, difference: Mapping[str, Any]) -> None:
    """Write what an import changes: how much of each noun, then what of it somebody must look at.

    What is new is named only if nothing was changed yet.
    """
    out = session.out
    if out.as_json:
        out.json(difference)
        return
    if out.quiet:
        return
    nouns = {noun: value for noun, value in difference.items() if isinstance(value, Mapping)}
    for noun, changes in nouns.items():
        counts = {kind: _size(changes.get(kind)) for kind in CHANGES}
        said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        if said:
            out.line(f"{_titled(noun)}: {said}")
    ignored = difference.get("ignored") or []
    count = difference.get("ignored_count", len(ignored))
    if count:
        out.line(f"ignored: {count}")
    named = CHANGES if difference.get("dry_run") else (CONFLICTING,)
    for noun, changes in nouns.items():
        for kind in named:
            listed = changes.get(kind)
            for one in listed if isinstance(listed, list) else ():
                out.line(f"{kind} {NOUNS.get(noun, (noun,))[0]} {_named(one)}")
    for one in ignored:
        out.line(f"ignored {one_line(str(one.get('what')))}: {one_line(str(one.get('reason')))}")
    if count > len(ignored):
        out.line(f"ignored {count - len(ignored)} more")


def _size(changes: Any) -> int:
    return len(changes) if isinstance(changes, list) else int(changes or 0)


def _named(one: Mapping[str, Any]) -> str:
    """Write what names a definition, and what is told of it: "orders in /: durable differs"."""
    values = {key: str(value) for key, value in one.items()}
    reason, vhost = values.pop("reason", ""), values.pop("vhost", "")
    text = " ".join(repr(value) for value in values.values())
    text += f" in '{vhost}'" if vhost else ""
    return one_line(text + (f": {reason}" if reason else ""))


def _titled(noun: str) -> str:
    return noun.replace("_", " ")


def _counted(found: Mapping[str, Any]) -> str:
    """Say how much there is: "1 user, 14 queues"."""
    counts = [
        counted(len(value), *NOUNS.get(noun, (_titled(noun), _titled(noun))))
        for noun, value in found.items()
        if isinstance(value, list) and value
    ]
    return ", ".join(counts) or "nothing"


OF: Final = argument("--vhost", "-p", metavar="V", help="of one virtual host only (all)")

NOUN: Final = Noun(
    "definitions",
    (
        Verb(
            "export",
            "write all definitions as RabbitMQ's JSON",
            _export,
            (argument("file", nargs="?", default=STANDARD, metavar="FILE",
                      help="(standard output)"), OF),
            Kind.SHOW,
        ),
        Verb(
            "import",
            "make what a file of definitions says; all of it or nothing",
            _import,
            (argument("file", metavar="FILE", help="- for standard input"), OF),
            Kind.DESTROY,
        ),
    ),
)  # fmt: skip
