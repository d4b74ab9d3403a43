"""Memory and disk: when the broker runs low, publishers are not read until it does not.

Responsible for looking, once a second, and for telling the broker. It does not know who is
blocked by it. Invariant: an alarm that is on was true at the last look.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0


class Alarms:
    """Watches memory and disk.

    Args:
        directory: the data directory, whose file system counts.
        memory_bytes_max: anonymous memory of this process above which the memory alarm is on.
        disk_free_min: free bytes below which the disk alarm is on.
        tell: called with ("memory" | "disk", on) when one changes.
    """

    def __init__(
        self,
        directory: Path,
        *,
        memory_bytes_max: int,
        disk_free_min: int,
        tell: Callable[[str, bool], None],
    ) -> None:
        self._directory = directory
        self._memory_bytes_max = memory_bytes_max
        self._disk_free_min = disk_free_min
        self._tell = tell
        self._on: set[str] = set()
        self._disk_full = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._look()

    def disk_full(self, full: bool) -> None:
        """A write found no room, or found it again."""
        self._disk_full = full
        self._set("disk", full or disk_free(self._directory) < self._disk_free_min)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_EVERY_S, self._look)
        self._set("memory", memory_used() > self._memory_bytes_max)
        self._set("disk", self._disk_full or disk_free(self._directory) < self._disk_free_min)

    def _set(self, reason: str, on: bool) -> None:
        if on == (reason in self._on):
            return
        if on:
            self._on.add(reason)
            logger.warning("alarm: low on %s; publishers are blocked", reason)
        else:
            self._on.discard(reason)
            logger.warning("alarm over: %s", reason)
        self._tell(reason, on)


def memory_used() -> int:
    """Anonymous memory of this process in bytes; mapped files are the kernel's to drop."""
    with Path("/proc/self/status").open("rb") as status:
        for line in status:
            if line.startswith(b"RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def memory_there_is() -> int:
    """Memory of this machine, or of the control group if that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def disk_free(directory: Path) -> int:
    """Bytes that this process may still allocate where the data lies."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize
