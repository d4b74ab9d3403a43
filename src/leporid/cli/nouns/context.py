"""`leporid context`: named brokers, so that commands need not say where and as whom.

Responsible for the verbs alone; the file and the choice are in `leporid.cli.contexts`.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Final

from leporid.cli import contexts
from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_rows
from leporid.cli.outcomes import Failure, WrongUse, one_line
from leporid.cli.session import Session

NAME: Final = argument("name", metavar="NAME")
COLUMNS: Final = ("current", "name", "url", "user", "vhost", "password")


def _file(session: Session) -> Path:
    return contexts.file_of_contexts(session.environment)


def _list(session: Session, options: argparse.Namespace) -> None:
    known = contexts.load(_file(session))
    rows = [
        {
            "current": name == known.current,
            "name": name,
            "url": one.url,
            "user": one.user,
            "vhost": one.vhost,
            "password": _where(one),
        }
        for name, one in sorted(known.by_name.items())
    ]
    show_rows(session, rows, COLUMNS)


def _where(one: contexts.Context) -> str:
    """Say where a password is."""
    if one.password_file:
        return f"in {one.password_file}"
    if one.password_env:
        return f"in ${one.password_env}"
    return "kept" if one.password else "none"


def _add(session: Session, options: argparse.Namespace) -> None:
    from leporid.cli.secrets import once

    if not options.name or options.name.startswith("-"):
        raise WrongUse("a context has a name")
    known = contexts.load(_file(session))
    there = known.by_name.get(options.name)
    if there is not None and not options.force:
        _ask(f"replace context '{options.name}', which is {there.url} as '{there.user}'", options)
    url, user, password = contexts.parse_url(options.address)
    user = options.user or user or contexts.GUEST
    one = contexts.Context(url, user, vhost=options.vhost or "/")
    if options.ca_file:
        one = dataclasses.replace(one, ca_file=str(options.ca_file.expanduser().absolute()))
    if options.password_file:
        file = str(options.password_file.expanduser().absolute())
        one = dataclasses.replace(one, password_file=file)
    elif options.password_env:
        one = dataclasses.replace(one, password_env=options.password_env)
    elif password:
        one = dataclasses.replace(one, password=password)
    elif user == contexts.GUEST:
        one = dataclasses.replace(one, password=contexts.GUEST)
    else:
        one = dataclasses.replace(one, password=once(f"Password of '{user}' at {url}"))
    by_name = {**known.by_name, options.name: one}
    contexts.save(_file(session), contexts.Contexts(by_name, known.current or options.name))
    session.did(f"context '{options.name}' is {url} as '{user}'")


def _ask(what: str, options: argparse.Namespace) -> None:
    """Ask before a context is replaced: its password may be nowhere else."""
    if not sys.stdin.isatty():
        raise WrongUse(f"to {what}, give --force")
    print(f"This will {one_line(what)}.", file=sys.stderr)
    print(f"Type {one_line(options.name)} to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().rstrip("\n") != options.name:
        raise Failure("that was not the name; nothing was changed")


def _use(session: Session, options: argparse.Namespace) -> None:
    known = contexts.load(_file(session))
    if options.name == "-":
        contexts.save(_file(session), dataclasses.replace(known, current=""))
        session.did("no context is meant any more, unless an option names one")
        return
    one = known.find(options.name)
    contexts.save(_file(session), dataclasses.replace(known, current=options.name))
    session.did(f"context '{options.name}' is meant from now on: {one.url}")


def _remove(session: Session, options: argparse.Namespace) -> None:
    known = contexts.load(_file(session))
    known.find(options.name)
    by_name = {name: one for name, one in known.by_name.items() if name != options.name}
    current = "" if known.current == options.name else known.current
    contexts.save(_file(session), contexts.Contexts(by_name, current))
    session.did(f"context '{options.name}' removed")


NOUN: Final = Noun(
    "context",
    (
        Verb("list", "list contexts", _list, kind=Kind.LIST, broker=False),
        Verb(
            "add",
            "add or change a context; the first one is meant from then on",
            _add,
            (
                NAME,
                argument("address", metavar="URL", help="https://USER@HOST:15671"),
                argument("--user", metavar="USER", help="(that of the URL, or guest)"),
                argument("--password-file", type=Path, metavar="FILE",
                         help="read the password there each time"),
                argument("--password-env", metavar="NAME",
                         help="read the password from this variable each time"),
                argument("--ca-file", type=Path, metavar="FILE", help="certificates to trust"),
                argument("--vhost", "-p", metavar="V", help="that is meant if none is named (/)"),
                argument("--force", "-f", action="store_true",
                         help="replace a context of that name without a question"),
            ),
            broker=False,
            about="Add or change a context. Without a password in the URL, a file or a variable, "
            "it is asked for and kept in the file of contexts, which only its owner can read.",
        ),
        Verb("use", "have a context meant from now on; - for none", _use, (NAME,), broker=False,
             completes="context"),
        Verb("remove", "remove a context", _remove, (NAME,), broker=False, completes="context"),
    ),
)  # fmt: skip
