"""`leporid backup`, `restore` and `check`: copies of a broker's data, and whether it is whole."""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

from leporid.cli.command import Kind, Parser, Plain, Single, Verb, add_form, argument
from leporid.cli.outcomes import DONE, Failure, WrongUse, tell
from leporid.cli.output import Output
from leporid.cli.session import Session
from leporid.cli.status import size

WHAT: Final = "backups"
SECONDS: Final = 24 * 3600.0
"""How long the answer is waited for: what is copied to another disk takes as long as that does."""
COLUMNS: Final = ("name", "made_at", "files", "bytes", "version")


def _backup(session: Session, options: argparse.Namespace) -> None:
    if options.list:
        if options.name is not None:
            raise WrongUse("--list takes no name")
        session.out.rows(session.optional("backups", what=WHAT), COLUMNS)
        return
    name = options.name or datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    if session.would(f"back up {session.api.where} as '{name}'"):
        return
    session.api.address = dataclasses.replace(session.api.address, seconds=SECONDS)
    found = json.loads(session.change("PUT", "backups", name, what=WHAT))
    if session.out.as_json:
        session.out.json(found)
        return
    session.did(f"{found['directory']}: {_sized(found)}")


def _sized(found: Any) -> str:
    """Say how much a backup holds: "3 segments with 21.4 MB, 2 of them hard links"."""
    files, linked = found["files"], found["linked"]
    links = f", {linked} of them hard links" if linked else ""
    held = size(found["bytes"])
    return f"{files} {'segment' if files == 1 else 'segments'} with {held}{links}"


BACKUP: Final = Single(
    Verb(
        "backup",
        "make a backup of the running broker, on the broker's own disk",
        _backup,
        (
            argument("name", nargs="?", metavar="NAME", help="(the time, in UTC)"),
            argument("--list", action="store_true", help="list the backups that there are"),
        ),
        Kind.ACT,
        about="Make a backup of the running broker, below the directory that its configuration "
        "names (backup_dir), while it goes on working. Needs an administrator.",
    )
)


def _fill(parser: Parser) -> None:
    parser.add_argument("backup", type=Path, metavar="BACKUP", help="its directory")
    parser.add_argument("directory", type=Path, metavar="DIR", help="data directory to be made")
    add_form(parser)


def _restore(options: argparse.Namespace) -> int:
    from leporid.server.check import check
    from leporid.storage.backup import BackupError, restore
    from leporid.storage.lock import DirectoryInUse

    backup, directory, out = options.backup, options.directory, Output.of(options)
    told: TextIO = io.StringIO() if out.as_json or out.quiet else sys.stdout

    def checked() -> None:
        if check(backup, told):
            raise BackupError(f"{backup} is not whole; nothing was restored")

    try:
        restore(backup, directory, checked)
    except (BackupError, DirectoryInUse) as error:
        return tell(Failure(str(error)))
    except OSError as error:
        reason = error.strerror or str(error)
        return tell(Failure(f"{backup} cannot be copied to {directory}: {reason}"))
    if out.as_json:
        out.json({"directory": str(directory), "backup": str(backup)})
    else:
        then = f"leporid serve --data-dir {directory} starts on it"
        out.say(f"{directory}: restored from {backup}; {then}")
    return DONE


RESTORE: Final = Plain(
    _fill,
    _restore,
    "Verify a backup and copy it to a data directory that is empty or not there. The broker that "
    "is started on it has what the other one had when the backup was begun.",
    logs=True,
)


def _fill_check(parser: Parser) -> None:
    """Add the argument."""
    parser.add_argument("directory", type=Path, metavar="DIR")
    add_form(parser)


def _check(options: argparse.Namespace) -> int:
    """Verify; return the exit code."""
    out = Output.of(options)
    if not out.as_json and not out.quiet:
        from leporid.server.check import check

        return check(options.directory, sys.stdout)
    from leporid.server.check import DAMAGED, WRONG_USE, CannotCheckError, verify

    try:
        found = verify(options.directory)
    except CannotCheckError as error:
        tell(Failure(str(error)))
        return WRONG_USE
    if out.as_json:
        out.json({"directory": str(options.directory), **dataclasses.asdict(found)})
    return DAMAGED if found.problems else DONE


CHECK: Final = Plain(
    _fill_check,
    _check,
    "Verify every record of a data directory that no broker is using.",
    logs=True,
)
