"""The broker's end of a filter class's process: start it, ask it, end it.

Responsible for what is asked and answered, and for time: nothing here takes longer than its limits
say, whatever the process does. Must not know what is asked, nor by whom. Invariant: a process that
failed in any way is dead before anybody is told; it is never asked again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leporid.filterserver import frames
from leporid.filterserver.piped import PipedProcess

ROOT: Final = Path(__file__).parents[2]
"""Where the package `leporid` is: the process finds it there, and not by what is around it."""

_MAIN: Final = (
    "import sys; sys.path[:0] = [{root!r}]; from leporid.filterserver.child import main; main()"
)

ALARM_SLACK_S: Final = 1.0
"""The process ends itself that much later than the broker would, should there be none."""

END_S: Final = 5.0
"""For a process to be gone that was killed."""


class FilterFailure(Exception):
    """A filter class did not give what it must; the text says what happened instead."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What the process of a filter class may use.

    Attributes:
        memory_bytes: of addresses; what is beyond raises MemoryError in the filter.
        batch_seconds: for the verdicts of one batch.
        load_seconds: from the start of the process until its class is there.
    """

    memory_bytes: int = 512 * 2**20
    batch_seconds: float = 5.0
    load_seconds: float = 10.0


class FilterProcess:
    """The process of one class, which is loaded; `start` makes it."""

    def __init__(self, process: PipedProcess, limits: ProcessLimits) -> None:
        self._process = process
        self._limits = limits
        self._answers = 0

    def __repr__(self) -> str:
        return f"<FilterProcess pid={self._process.pid}>"

    @property
    def pid(self) -> int:
        """Its number, also when it is gone."""
        return self._process.pid

    @classmethod
    async def start(
        cls, class_name: str, source: bytes, limits: ProcessLimits | None = None
    ) -> FilterProcess:
        """Start a process and load a class in it.

        Raises:
            FilterFailure: the class does not load; the process is gone.
        """
        limits = limits or ProcessLimits()
        try:
            made = cls(await _spawn(limits), limits)
        except OSError as error:
            raise FilterFailure(f"its process cannot be started: {error}") from error
        try:
            ready = await made._ask(
                frames.load_frame(class_name, source), frames.READY, limits.load_seconds, "to load"
            )
        except asyncio.CancelledError:
            await made.end()
            raise
        if ready:
            raise await made._failed("it gave an answer that is none")
        return made

    async def judge(self, batch: bytes, count: int) -> bytes:
        """Return 1 or 0 for each message of a batch.

        Args:
            batch: a BATCH frame.
            count: of its messages.

        Raises:
            FilterFailure: there is no verdict; the process is gone.
        """
        seconds = self._limits.batch_seconds
        found = await self._ask(batch, frames.VERDICTS, seconds, f"for {count} messages")
        if len(found) != count or found.strip(b"\0\1"):
            raise await self._failed("it gave an answer that is none")
        return found

    async def end(self) -> None:
        """End the process and whatever it started; return when it is gone."""
        self.kill()
        try:
            async with asyncio.timeout(END_S):
                await self._process.wait()
        except TimeoutError:
            pass  # it is dead, and in the middle of something that the kernel does for it

    def kill(self) -> None:
        """Have the process end, without waiting for that."""
        self._process.kill()

    async def _ask(self, request: bytes, kind: int, seconds: float, what: str) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                got, payload = await self._exchange(request)
        except TimeoutError:
            raise await self._failed(f"it took more than {seconds:g} s {what}") from None
        except (asyncio.IncompleteReadError, OSError, RuntimeError):
            # The last is uvloop's for a pipe that it has seen broken.
            raise await self._failed(None) from None
        except BaseException:
            # Nobody waits for the answer, which must not be taken for that to another question.
            self.kill()
            raise
        if got == frames.FAILED:
            raise await self._failed(frames.error_text(payload))
        if got != kind:
            raise await self._failed("it gave an answer that is none")
        return payload

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        to, answers = self._process.to, self._process.answers
        to.write(request)
        await to.drain()
        head = await answers.readexactly(frames.ANSWER_HEAD.size)
        kind, size, number = frames.ANSWER_HEAD.unpack(head)
        if size > frames.ANSWER_BYTES_MAX or number != self._answers:
            return 0, b""
        self._answers += 1
        return kind, await answers.readexactly(size)

    async def _failed(self, reason: str | None) -> FilterFailure:
        """End the process; returns what to raise."""
        if reason is None:
            # It is about to be gone by itself; how, its exit says.
            try:
                async with asyncio.timeout(self._limits.batch_seconds):
                    reason = _ended(await self._process.wait())
            except TimeoutError:
                reason = "its process closed the pipe"
        await self.end()
        return FilterFailure(reason)


async def _spawn(limits: ProcessLimits) -> PipedProcess:
    """Start a process that waits for a class to load; raises OSError."""
    command = [
        sys.executable,
        "-I",
        "-c",
        _MAIN.format(root=str(ROOT)),
        str(limits.memory_bytes),
        str(max(limits.batch_seconds, limits.load_seconds) + ALARM_SLACK_S),
        str(os.getpid()),
    ]
    return await PipedProcess.start(command, {"LANG": "C.UTF-8"})


def _ended(code: int) -> str:
    if code >= 0:
        return f"its process ended by itself, with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"its process was ended by {name}"
