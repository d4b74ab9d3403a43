"""Processes with pipes, on the loops that there are."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from leporid.filterserver.piped import PipedProcess

pytestmark = pytest.mark.slow

PATIENCE_S = 30.0
ECHO = "import sys; [sys.stdout.buffer.raw.write(line) for line in sys.stdin.buffer.raw]"
Run = Callable[[Awaitable[None]], None]


async def started(program: str) -> PipedProcess:
    return await PipedProcess.start([sys.executable, "-I", "-c", program], {"LANG": "C.UTF-8"})


async def ended(process: PipedProcess) -> int:
    async with asyncio.timeout(PATIENCE_S):
        return await process.wait()


@pytest.fixture(params=[asyncio.run, uvloop.run])
def run(request: pytest.FixtureRequest) -> Run:
    chosen: Run = request.param
    return chosen


@pytest.fixture(params=[True, False])
def _pidfd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere, or without a descriptor that is free, a thread waits."""

    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(pid, flags)

    if not request.param:
        monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)


@pytest.mark.usefixtures("_pidfd")
def test_what_is_written_comes_back_and_the_end_is_told(run):
    async def talk() -> None:
        process = await started(ECHO)
        process.to.write(b"one\n")
        await process.to.drain()
        assert await process.answers.readexactly(4) == b"one\n"
        process.to.close()
        assert await ended(process) == 0
        assert await process.answers.read() == b""
        process.kill()

    run(talk())


@pytest.mark.usefixtures("_pidfd")
def test_one_that_is_killed_says_so(run):
    async def kill() -> None:
        process = await started("import time; time.sleep(3600)")
        process.kill()
        assert await ended(process) == -9
        process.kill()

    run(kill())


def test_what_cannot_be_started_is_an_error():
    async def start() -> None:
        with pytest.raises(FileNotFoundError):
            await PipedProcess.start(["/there/is/no/such/program"], {})

    asyncio.run(start())
