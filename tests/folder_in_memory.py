"""A folder in memory for the temporary files of one run of the tests.

A sync costs nothing there, and the suite waits for many thousands. The tests that kill a broker
lose nothing by it: what a killed process has written is in the kernel's pages, and so survives, on
a disk just as well. What is synced, and in which order, is asserted of the calls (`tests/storage`),
not of the disk. Invariant: a folder is removed by its own run, or when no process holds its lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
BYTES_MIN: Final = 4 * 2**30
"""For two processes and what failed tests leave; containers have 64 MB there."""


def is_large() -> bool:
    """Whether so many bytes of files fit into memory."""
    if not os.access(MEMORY, os.W_OK):
        return False
    try:
        found = os.statvfs(MEMORY)
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return False
    available = (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    return min(found.f_bavail * found.f_frsize, *available, 2**62) >= BYTES_MIN


def hold() -> Path:
    """Make a folder that is this run's until its process ends; clear those of others.

    A run that was killed leaves its folder, and one in which tests failed leaves theirs to be
    looked at: the newest stays, so that failed tests which are run once more do not take away
    what they left the first time.
    """
    beginning = f"leporid-{os.getuid()}-"
    memory = os.open(MEMORY, os.O_RDONLY)
    try:
        # Between its making and its lock no other run may take the folder for one that was left.
        fcntl.flock(memory, fcntl.LOCK_EX)
        left = [each for each in os.scandir(MEMORY) if each.name.startswith(beginning)]
        for each in sorted(left, key=_made_ns)[:-1]:
            # It may be another run's, or go at this moment with the end of one.
            with contextlib.suppress(OSError):
                held = os.open(each.path, os.O_RDONLY)
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(each.path, ignore_errors=True)
                finally:
                    os.close(held)
        folder = Path(tempfile.mkdtemp(prefix=beginning, dir=MEMORY))
        # Never closed: the lock goes with the process, however that ends.
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
    finally:
        os.close(memory)
    return folder


def _made_ns(folder: os.DirEntry[str]) -> int:
    try:
        return folder.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
