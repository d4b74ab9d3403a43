"""One filter class over time: its process is started when asked, and again when it has failed.

Responsible for the back-off and for what there is to know about the class. Must not know where
messages come from or go to. Invariant: at most one process of a class is asked; none is started
before the back-off is over, unless there is a new version.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from leporid.filterserver.filter_class import FilterClass, FilterClassStatus
from leporid.filterserver.host import FilterFailure, FilterProcess, ProcessLimits

logger = logging.getLogger(__name__)

BACK_OFF_LEAST_S: Final = 0.5
BACK_OFF_MOST_S: Final = 60.0


class Process(Protocol):
    """What is needed of a `FilterProcess`."""

    @property
    def pid(self) -> int:
        """Its number."""

    async def judge(self, batch: bytes, count: int, /) -> bytes:
        """Give verdicts, or raise FilterFailure."""

    def kill(self) -> None:
        """Have it end."""

    async def end(self) -> None:
        """The same; return when it is gone."""


Start = Callable[[str, bytes, ProcessLimits], Awaitable[Process]]


class Keeper:
    """Keeps a filter class going.

    Args:
        filter_class: what is loaded.
        limits: of its process.
        start: how a process is started.
        clock: seconds that never jump.
    """

    def __init__(
        self,
        filter_class: FilterClass,
        limits: ProcessLimits,
        *,
        start: Start = FilterProcess.start,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.filter_class = filter_class
        self._limits = limits
        self._start = start
        self._clock = clock
        self._process: Process | None = None
        self._leaving: set[asyncio.Future[None]] = set()
        self._changed = asyncio.Event()
        self._in_a_row = 0
        self._retry_at = 0.0
        self._ended = False
        self._judged = self._passed = self._failures = 0
        self._error, self._failed_at = "", 0.0

    def __repr__(self) -> str:
        return f"<Keeper {self.filter_class.name!r} version={self.filter_class.version}>"

    def replace(self, filter_class: FilterClass) -> None:
        """A newer version: it judges from the next batch on, whatever the old one did."""
        self.filter_class = filter_class
        self._in_a_row, self._retry_at = 0, 0.0
        self._error, self._failed_at = "", 0.0
        self.stop()
        self._changed.set()

    def stop(self) -> None:
        """End the process; it is started again when something is asked."""
        if self._process is not None:
            self._let_go(self._process)
            self._process = None

    async def end(self) -> None:
        """The same, for good; return when it is gone. Nobody waits for a back-off any more."""
        self._ended, self._retry_at = True, 0.0
        self.stop()
        self._changed.set()
        await asyncio.gather(*self._leaving)

    def _let_go(self, process: Process) -> None:
        process.kill()
        leaving = asyncio.ensure_future(process.end())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def ready(self) -> None:
        """Return when the class may be asked: at once, or when its back-off is over."""
        while (wait_s := self._retry_at - self._clock()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def judge(self, batch: bytes, count: int) -> bytes:
        """Return 1 or 0 for each message of a batch; see `FilterProcess.judge`.

        Raises:
            FilterFailure: there is no verdict; it was logged, and `ready` says when to ask again.
        """
        judging = self.filter_class
        try:
            if not self._counts(judging):
                raise FilterFailure("the class is gone")
            if self._process is None:
                started = await self._start(judging.class_name, judging.source, self._limits)
                if not self._counts(judging):
                    self._let_go(started)
                    raise FilterFailure("the class is gone, or there is a newer version")
                self._process = started
            found = await self._process.judge(batch, count)
        except FilterFailure as failure:
            if self._counts(judging):
                self._fail(str(failure))
            raise
        self._in_a_row = 0
        self._judged += count
        self._passed += found.count(1)
        return found

    def _counts(self, filter_class: FilterClass) -> bool:
        """Whether that is what is to judge, still."""
        return not self._ended and self.filter_class is filter_class

    def _fail(self, error: str) -> None:
        self._process = None
        self._failures += 1
        self._error, self._failed_at = error, time.time()
        wait_s = back_off_s(self._in_a_row)
        self._in_a_row += 1
        self._retry_at = self._clock() + wait_s
        logger.warning(
            "filter class '%s' (version %d) failed, what it judges waits, and it is tried again in "
            "%g s: %s",
            self.filter_class.name,
            self.filter_class.version,
            wait_s,
            error,
        )

    def status(self) -> FilterClassStatus:
        """Say how it is."""
        retry_seconds = max(0.0, self._retry_at - self._clock())
        process = self._process
        state = "running" if process is not None else "waiting" if retry_seconds else "idle"
        return FilterClassStatus(
            state=state,
            pid=0 if process is None else process.pid,
            judged=self._judged,
            passed=self._passed,
            failures=self._failures,
            error=self._error,
            failed_at=self._failed_at,
            retry_seconds=retry_seconds,
        )


def back_off_s(failures_before: int) -> float:
    """Return how long to wait after a failure: twice as long as after the one before."""
    return min(BACK_OFF_MOST_S, BACK_OFF_LEAST_S * 2.0 ** min(failures_before, 20))
