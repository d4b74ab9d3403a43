"""Memory and disk: while the broker runs low on either, connections that publish are blocked.

Responsible for looking, once a second, more often while an alarm is on, and whenever somebody has
made much at once; for having freed memory given back while there is little of it; and for telling
the broker. It does not know who is blocked by it. Invariant: an alarm that is on was true at the
last look.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from leporid.server.allocator import give_back_freed_memory

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
# While an alarm is on: publishers wait for its end.
LOOK_AGAIN_S: Final = 0.2
# While there is work, which may fill gigabytes in a second; a look takes a tenth of a millisecond.
LOOK_AT_WORK_MS: Final = 50
# Giving freed memory back takes 20 ms for some hundred MB, and who allocates meanwhile may have to
# wait for it: at most one part in so many of the time.
GIVE_BACK_SHARE: Final = 20
# Above so much more memory than the watermark, or with so much less room on the disk than there
# should be, the broker itself makes nothing any more, either.
EXCESS: Final = 1.25


class Alarms:
    """Watches memory and disk.

    Args:
        directory: the data directory, whose file system counts.
        memory_bytes_max: anonymous memory of this process above which the memory alarm is on.
        disk_free_min: free bytes below which the disk alarm is on.
        tell: called with ("memory" | "disk", on) when one changes.
        hold: called with whether there is so little that the broker has to stop, too.

    Attributes:
        limits: those of memory and disk in bytes, by the name of the alarm.
    """

    def __init__(
        self,
        directory: Path,
        *,
        memory_bytes_max: int,
        disk_free_min: int,
        tell: Callable[[str, bool], None],
        hold: Callable[[bool], None],
    ) -> None:
        self._directory = directory
        self.limits = {"memory": memory_bytes_max, "disk": disk_free_min}
        self._tell = tell
        self._hold = hold
        self._holds = False
        self._on: set[str] = set()
        self._disk_full = False
        self._disk_silent = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, "give back")
        self._giving_back = False
        self._give_back_at = 0.0
        self._looked_ms = 0
        self._stopped = False
        self._look()

    @property
    def memory_bytes_max(self) -> int:
        """The watermark; may be changed."""
        return self.limits["memory"]

    @memory_bytes_max.setter
    def memory_bytes_max(self, count: int) -> None:
        self.limits["memory"] = count

    @property
    def disk_free_min(self) -> int:
        """Free bytes below which the disk alarm is on; may be changed."""
        return self.limits["disk"]

    @disk_free_min.setter
    def disk_free_min(self, count: int) -> None:
        self.limits["disk"] = count

    def disk_full(self, full: bool) -> None:
        """A write found no room, or found it again."""
        self._disk_full = full
        self._set("disk", full or self._disk_free() < self.disk_free_min)

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown(wait=False)

    def _look(self) -> None:
        self.look()
        wait_s = LOOK_AGAIN_S if self._on else LOOK_EVERY_S
        self._timer = self._loop.call_later(wait_s, self._look)

    def at_work(self, now_ms: int) -> None:
        """Something was done: look, unless that was done a moment ago."""
        if now_ms - self._looked_ms >= LOOK_AT_WORK_MS:
            self._looked_ms = now_ms
            self.look()

    def look(self) -> None:
        """Compare memory and disk with their limits; a tenth of a millisecond."""
        used, free = memory_used(), self._disk_free()
        low = used > self.memory_bytes_max
        self._set("memory", low)
        self._set("disk", self._disk_full or free < self.disk_free_min)
        holds = used > EXCESS * self.memory_bytes_max or free < self.disk_free_min / EXCESS
        if holds != self._holds:
            self._holds = holds
            logger.warning("dead letters %s", "wait: memory or disk is short" if holds else "go on")
            self._hold(holds)
        if self._stopped:
            return
        if low and not self._giving_back and self._loop.time() >= self._give_back_at:
            self._giving_back = True
            self._loop.run_in_executor(self._thread, _give_back).add_done_callback(self._given_back)

    def _disk_free(self) -> int:
        free = disk_free(self._directory)
        if (free is None) != self._disk_silent:
            self._disk_silent = free is None
            said = "cannot be told, as if there was none" if free is None else "can be told again"
            logger.warning("what is free on the disk %s: %s", said, self._directory)
        return free or 0

    def _given_back(self, done: asyncio.Future[float]) -> None:
        self._giving_back = False
        self._give_back_at = self._loop.time() + GIVE_BACK_SHARE * done.result()
        if not self._stopped and "memory" in self._on:
            self._set("memory", memory_used() > self.memory_bytes_max)

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


def _give_back() -> float:
    """Give freed memory back; returns the seconds that took."""
    began = time.perf_counter()
    give_back_freed_memory()
    return time.perf_counter() - began


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


def disk_free(directory: Path) -> int | None:
    """Bytes that this process may still allocate where the data lies; None: nobody can tell.

    So it is on a disk that fails, or when the directory was taken away.
    """
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
