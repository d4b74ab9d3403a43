"""What an attack costs the broker's process: memory, and whether it lives.

Responsible for reading /proc while an attack runs, and for ending a broker of ours before it
takes the machine's memory. It does not know AMQP. Invariant: a broker that we did not start is
never signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from bench.attacks.target import Target

SAMPLE_SECONDS = 0.02
# No attack shall be judged by a machine that swaps, nor end other programs.
KILL_BYTES = 4_000_000_000
MACHINE_FREE_BYTES_MIN = 2_000_000_000
# In clear_refs: forget the highest resident memory so far.
RESET_PEAK = "5"


class Watcher:
    """Watches the broker's process.

    Attributes:
        peak_bytes: the most anonymous memory that a sample saw.
        ended: why the process is no more; empty: it lives.
    """

    def __init__(self, target: Target, kill_bytes: int = KILL_BYTES) -> None:
        self._pid = target.pid
        self._ours = target.ours
        self._kill_bytes = kill_bytes
        self.peak_bytes = 0
        self.ended = ""
        self._turns_ns = self._waited_ns()
        self.sample()

    def begin(self) -> None:
        """Count peaks from now on."""
        self.peak_bytes = 0
        self._turns_ns = self._waited_ns()
        if self._pid is not None:
            with contextlib.suppress(OSError):
                Path(f"/proc/{self._pid}/clear_refs").write_text(RESET_PEAK)
        self.sample()

    def sample(self) -> int:
        """Look once; returns the anonymous memory in bytes, 0 if it is not known."""
        if self._pid is None or self.ended:
            return 0
        found = status(self._pid)
        if found is None:
            self.ended = "it ended"
            return 0
        anonymous = found.get("RssAnon", 0)
        self.peak_bytes = max(self.peak_bytes, anonymous)
        if anonymous > self._kill_bytes or machine_free_bytes() < MACHINE_FREE_BYTES_MIN:
            self._end(f"ended by us at {anonymous / 1e9:.1f} GB")
        return anonymous

    def _end(self, why: str) -> None:
        if self._ours and self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self.ended = why

    def resident_peak_bytes(self) -> int:
        """The most resident memory since `begin`, mapped files included; 0: not known."""
        found = status(self._pid) if self._pid is not None and not self.ended else None
        return (found or {}).get("VmHWM", 0)

    def waited_ms(self) -> float:
        """For how long its threads were ready to run, together, and others had the processor."""
        return (self._waited_ns() - self._turns_ns) / 1e6

    def _waited_ns(self) -> int:
        total = 0
        for thread in Path(f"/proc/{self._pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, IndexError):
                total += int(thread.read_text().split()[1])
        return total

    def until(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Sample until something is so; False: it is not, or the process has ended."""
        deadline = time.monotonic() + seconds
        while not reached():
            self.sample()
            if self.ended or time.monotonic() > deadline:
                return False
            time.sleep(SAMPLE_SECONDS)
        return True


def status(pid: int) -> dict[str, int] | None:
    """The sizes in /proc/PID/status, in bytes; None: there is no such process any more."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "State" and value.split()[0] in "ZX":
            return None
        if value.endswith(" kB"):
            found[name] = int(value.split()[0]) * 1024
    return found


def machine_free_bytes() -> int:
    """What the kernel could give to programs now."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return MACHINE_FREE_BYTES_MIN
