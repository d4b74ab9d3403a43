"""What this process uses of the machine, and how much of it there is.

Responsible for asking the operating system, at each scrape anew. Must not know who asks. Invariant:
an answer takes no longer the more connections or files there are.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from leporid.server.alarms import disk_free, memory_used

DESCRIPTORS: Final = Path("/proc/self/fd")


@dataclass(frozen=True, slots=True)
class Used:
    """What is used, and the limits.

    Attributes:
        memory_bytes: anonymous memory, which the watermark is compared with.
        alarms: those that are on: memory, disk.
        sockets: those of AMQP clients.
    """

    memory_bytes: int
    memory_bytes_max: int
    disk_free_bytes: int
    disk_free_bytes_min: int
    descriptors: int
    descriptors_max: int
    sockets: int
    sockets_max: int
    cpu_seconds: float
    uptime_seconds: float
    alarms: frozenset[str]


class Limits(Protocol):
    """Limits that may change.

    Attributes:
        memory_bytes_max: the watermark.
        disk_free_min: free bytes below which the disk alarm is on.
    """

    memory_bytes_max: int
    disk_free_min: int


class Resources:
    """Asks.

    Args:
        directory: the data directory, whose file system counts.
        limits: those of memory and disk, as they are at the moment.
        sockets: how many AMQP clients have a connection.
        sockets_max: how many may.
        alarms: those that are on.
    """

    def __init__(
        self,
        directory: Path,
        *,
        limits: Limits,
        sockets: Callable[[], int] = lambda: 0,
        sockets_max: Callable[[], int] = lambda: 0,
        alarms: Collection[str] = (),
    ) -> None:
        self._directory = directory
        self._limits = limits
        self._sockets = sockets
        self._sockets_max = sockets_max
        self._alarms = alarms
        self._began = time.monotonic()

    def now(self) -> Used:
        """Return what is used now."""
        spent = os.times()
        return Used(
            memory_bytes=memory_used(),
            memory_bytes_max=self._limits.memory_bytes_max,
            disk_free_bytes=disk_free(self._directory) or 0,
            disk_free_bytes_min=self._limits.disk_free_min,
            descriptors=open_descriptors(),
            descriptors_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            sockets=self._sockets(),
            sockets_max=self._sockets_max(),
            cpu_seconds=spent.user + spent.system,
            uptime_seconds=time.monotonic() - self._began,
            alarms=frozenset(self._alarms),
        )


def open_descriptors() -> int:
    """Return how many file descriptors are open.

    Linux says so as the size of the directory, since 6.2. Listing it would stop the event loop if
    there are a hundred thousand. On older systems, the lowest descriptor that is free is returned:
    those that are open are at least as many, but for gaps, which are filled first.
    """
    try:
        count = DESCRIPTORS.stat().st_size
        if count:
            return count
        free = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    os.close(free)
    return free
