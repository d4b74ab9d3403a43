"""A process with a pipe in each direction, on an event loop.

Responsible for starting it, for its pipes, and for saying when it has ended. Must not know what is
written. Invariants: what it started ends as soon as it does by itself; a process is reaped here
alone.

Neither asyncio's nor uvloop's own processes do. Those of uvloop are made by `fork`, for which the
loop waits while the kernel copies the tables of all pages: 30 ms for 1.5 GB. `subprocess` uses
`vfork`, which copies none. And what a process wrote into uvloop's pipe for its input, which is a
socket, came back as an error of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from threading import Thread


class PipedProcess:
    """A process in a session of its own; `start` makes it, on the thread that lives longest.

    Attributes:
        to: what it reads.
        answers: what it writes.
    """

    to: asyncio.StreamWriter
    answers: asyncio.StreamReader

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pipes: list[asyncio.BaseTransport] = []
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        self._watched = self._watch()
        if self._watched is None:
            # Not one of the loop's: it waits as long as the process lives.
            Thread(target=self._await_end, args=(loop,), daemon=True).start()

    def __repr__(self) -> str:
        return f"<PipedProcess pid={self.pid}>"

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> PipedProcess:
        """Start one.

        Raises:
            OSError: it cannot be started.
        """
        made = cls(
            subprocess.Popen(  # noqa: ASYNC220, S603 - as said above; it is our own command
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        )
        connecting = asyncio.ensure_future(made._connect())
        try:
            await asyncio.shield(connecting)
        except BaseException:
            # It would be there, and nobody's.
            made._kill()
            with contextlib.suppress(OSError):
                await connecting
            made.kill()
            await made.wait()
            raise
        return made

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        self.answers = asyncio.StreamReader()
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.answers), self._process.stdout
        )
        self._pipes.append(reading)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), self._process.stdin
        )
        self._pipes.append(transport)
        self.to = asyncio.StreamWriter(transport, protocol, None, loop)

    @property
    def pid(self) -> int:
        """Its number, also when it is gone."""
        return self._process.pid

    async def wait(self) -> int:
        """Return the exit code when it is gone; negative: the signal that ended it."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Have it end, and what it started; nothing is read or written any more."""
        self._kill()
        for pipe in self._pipes:
            pipe.close()

    def _kill(self) -> None:
        if not self._ended.done():
            self._kill_group()

    def _kill_group(self) -> None:
        """End the process and what it started; not later, when its number may be another's."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _watch(self) -> int | None:
        """Be told of its end; nobody may ask it for days.

        What it started may hold the pipes, so these do not tell. Returns a descriptor.
        """
        try:
            watched = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            return None  # not on Linux; or no descriptor is left
        asyncio.get_running_loop().add_reader(watched, self._end)
        return watched

    def _await_end(self, loop: asyncio.AbstractEventLoop) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        """It has ended."""
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            os.close(self._watched)
            self._watched = None
        self._kill_group()
        code = self._process.wait()
        if not self._ended.done():
            self._ended.set_result(code)
