"""The brokers that are measured: our own, started for each workload, or one that runs already.

Responsible for starting and ending our broker and for reading what a process uses from /proc. It
does not know AMQP. Invariant: what was started is ended, and its data directory goes with it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from leporid.testing import BrokerProcess
from leporid.testing.process import COMMAND_VARIABLE

# The benchmarks of filter classes register them as guest. Another command may be that of a version
# which does not know the setting, and needs none.
CONFIG = "" if COMMAND_VARIABLE in os.environ else "filter_server.allow_guest = true\n"

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Broker:
    """Where to send load, and the process to look at.

    Args:
        name: the column's title.
        url: an amqp:// URL.
        pid: the broker's process, if it is on this machine and known.
    """

    def __init__(self, name: str, url: str, pid: int | None) -> None:
        self.name = name
        self.url = url
        self.pid = pid

    @property
    def http_url(self) -> str | None:
        """Where streams are tables; None if it has no such thing that we know of."""
        return None

    def memory_mb(self) -> float | None:
        """Resident memory, mapped files included."""
        if self.pid is None:
            return None
        status = Path(f"/proc/{self.pid}/status").read_text()
        kilobytes = next(line.split()[1] for line in status.splitlines() if "VmRSS" in line)
        return int(kilobytes) / 1024

    def cpu_seconds(self) -> float | None:
        """Processor time used so far, of all threads, the kernel's share included."""
        if self.pid is None:
            return None
        # The name in parentheses may hold anything; what follows is numbers.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def crash(self) -> float | None:
        """Kill it and start it again; returns seconds until clients may connect.

        A broker that we did not start is left alone: None.
        """
        return None


class OwnBroker(Broker):
    """A `leporid serve` of this checkout, on a free port and a data directory of its own."""

    def __init__(self, process: BrokerProcess) -> None:
        super().__init__("leporid", process.url, process.pid)
        self._process = process

    @property
    def http_url(self) -> str:
        """Where streams are tables."""
        return f"http://127.0.0.1:{self._process.http_port}"

    def crash(self) -> float:
        """Kill it and start it again; returns seconds until clients may connect."""
        self._process.kill()
        began = time.monotonic()
        self._process.start()
        seconds = time.monotonic() - began
        self.url, self.pid = self._process.url, self._process.pid
        return seconds


@contextlib.contextmanager
def own_broker() -> Iterator[OwnBroker]:
    """Our broker, freshly started, so that no workload pays for the one before it."""
    with (
        tempfile.TemporaryDirectory(prefix="leporid-bench-") as directory,
        BrokerProcess(Path(directory, "data"), config=CONFIG) as process,
    ):
        yield OwnBroker(process)


def busy_share(seconds: float) -> float:
    """How much of the machine's processors is in use, 0 to 1, measured for that long."""
    before = _processor_times()
    time.sleep(seconds)
    after = _processor_times()
    total = sum(after) - sum(before)
    idle = after[3] + after[4] - before[3] - before[4]  # idle, and waiting for a disk
    return 1 - idle / total if total else 0.0


def _processor_times() -> list[int]:
    with Path("/proc/stat").open() as stat:
        return [int(word) for word in stat.readline().split()[1:9]]
