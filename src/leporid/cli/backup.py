"""`leporid backup`, `restore` and `check`: copies of a broker's data, and whether it is whole."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from leporid.cli.command import Kind, Parser, Plain, Single, Verb, argument
from leporid.cli.outcomes import DONE, Failure, WrongUse, tell
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


def _restore(options: argparse.Namespace) -> int:
    from leporid.server.check import check
    from leporid.storage.backup import BackupError, restore
    from leporid.storage.lock import DirectoryInUse

    backup, directory = options.backup, options.directory

    def checked() -> None:
        if check(backup, sys.stdout):
            raise BackupError(f"{backup} is not whole; nothing was restored")

    try:
        restore(backup, directory, checked)
    except (BackupError, DirectoryInUse) as error:
        return tell(Failure(str(error)))
    except OSError as error:
        reason = error.strerror or str(error)
        return tell(Failure(f"{backup} cannot be copied to {directory}: {reason}"))
    print(f"{directory}: restored from {backup}; leporid serve --data-dir {directory} starts on it")
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


def _check(options: argparse.Namespace) -> int:
    """Verify; return the exit code."""
    from leporid.server.check import check

    return check(options.directory, sys.stdout)


CHECK: Final = Plain(
    _fill_check,
    _check,
    "Verify every record of a data directory that no broker is using.",
    logs=True,
)
