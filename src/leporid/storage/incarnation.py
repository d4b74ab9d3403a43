"""The data directory's own id: `DIR/incarnation`, made once.

Whoever keeps an offset of a stream elsewhere (a checkpoint of Spark, say) keeps this id beside it:
in another directory the same offset is another message. Responsible for the file; must not know
who asks. Invariant: an id that was returned is on disk, and is never given to another directory.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from leporid.storage.segments import Naming, sync_directory

NAME: Final = "incarnation"
ID: Final = re.compile(rb"([0-9a-f]{16})\n")
# What is read of the file at most; a damaged one may have any size.
READ_BYTES_MAX: Final = 64


def incarnation(directory: Path, new: bytes) -> tuple[str, str | None]:
    """Return the id of a data directory, and what there is to tell if it had to be made anew.

    Args:
        directory: the data directory.
        new: 8 random bytes, for one that has no id yet.
    """
    path = directory / NAME
    trouble = None
    if path.exists():
        with path.open("rb") as file:
            match = ID.fullmatch(file.read(READ_BYTES_MAX))
        if match:
            return match[1].decode(), None
        aside = _set_aside(path)
        trouble = f"{path} holds no id; it is now {aside}, and readers of streams begin anew"
    unfinished = path.with_name(f"{NAME}.new")
    with unfinished.open("wb") as file:
        file.write(f"{new.hex()}\n".encode())
        file.flush()
        with Naming(unfinished):
            os.fsync(file.fileno())
    unfinished.rename(path)
    sync_directory(directory)
    return new.hex(), trouble


def _set_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    return aside
