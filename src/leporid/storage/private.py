"""A data directory that nobody but its owner can read: it holds other people's messages.

Responsible for the modes of what is there, and of what this process makes. Must not know what any
file is for. Invariant: after `make_private`, no other user of the machine can read or change
anything of ours in the directory, unless its files are somebody else's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

UMASK: Final = 0o077
"""What this process makes is its owner's alone, whatever it was started with."""

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def make_private(directory: Path, is_ours: Callable[[str], bool] = lambda _: True) -> list[str]:
    """Take all rights on a directory, and on what is ours in it, from everybody but the owner.

    Links are left as they are, and not followed.

    Args:
        directory: which.
        is_ours: says it of a name in the directory: somebody may have chosen one with other files.

    Returns:
        What could not be changed, a sentence each.
    """
    troubles = []
    for path, mode in _wide(directory, is_ours):
        try:
            path.chmod(mode)
        except FileNotFoundError:
            pass
        except OSError as error:
            troubles.append(f"{path} can be read by others: {error.strerror or error}")
    return troubles


def _wide(
    directory: Path, is_ours: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[Path, int]]:
    """Go through what others have rights on; a directory before what is in it."""
    if _is_wide(directory.stat()):
        yield directory, DIRECTORY_MODE
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_symlink() or not is_ours(entry.name):
                continue
            if entry.is_dir():
                yield from _wide(Path(entry.path))
            elif entry.is_file() and _is_wide(entry.stat()):
                yield Path(entry.path), FILE_MODE


def _is_wide(found: os.stat_result) -> bool:
    return bool(stat.S_IMODE(found.st_mode) & UMASK)
