"""Real processes, and what filters do to them."""

import asyncio
import os
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from tests.filterserver.asked import GREATER, batch_frame, judging, message, numbers

from leporid.filterserver.host import ROOT, FilterFailure, FilterProcess, ProcessLimits

pytestmark = pytest.mark.slow

IMPATIENT = ProcessLimits(batch_seconds=0.3)


@asynccontextmanager
async def started(source: bytes, limits: ProcessLimits | None = None):
    process = await FilterProcess.start("Filter", source, limits)
    try:
        yield process
    finally:
        await process.end()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def failure(source: bytes, limits: ProcessLimits | None = None) -> str:
    """Ask a filter that fails; returns what is said, after looking that its process is gone."""
    async with started(source, limits) as process:
        with pytest.raises(FilterFailure) as caught:
            await process.judge(numbers(1, 2), 2)
        assert is_gone(process.pid)
        return str(caught.value)


async def test_judges_batches_one_after_the_other():
    async with started(GREATER) as process:
        assert await process.judge(numbers(7, 5), 2) == b"\1\0"
        assert await process.judge(numbers(*range(300)), 300) == b"\0" * 6 + b"\1" * 294
    assert is_gone(process.pid)


async def test_judges_a_large_body():
    async with started(judging("return len(message.body) == 3_000_000")) as process:
        batch = batch_frame([message(body=b"x" * 3_000_000), message(body=b"x")])
        assert await process.judge(batch, 2) == b"\1\0"


async def test_a_class_that_does_not_load_says_why():
    with pytest.raises(FilterFailure, match="ZeroDivisionError"):
        await FilterProcess.start("Filter", b"1/0")


async def test_loading_has_a_time_limit():
    with pytest.raises(FilterFailure, match=r"more than 0.2 s to load"):
        await FilterProcess.start("Filter", b"while True: pass", ProcessLimits(load_seconds=0.2))


async def test_a_filter_that_sleeps_is_ended():
    source = judging("import time; time.sleep(3600)")
    assert await failure(source, IMPATIENT) == "it took more than 0.3 s for 2 messages"


async def test_a_filter_that_loops_is_ended():
    assert "more than 0.3 s" in await failure(judging("while True: pass"), IMPATIENT)


async def test_a_filter_that_loops_in_c_is_ended():
    assert "more than 0.3 s" in await failure(judging("return 9 ** 9 ** 9 > 0"), IMPATIENT)


async def test_a_filter_that_allocates_meets_its_limit():
    source = judging("return len([b'x' * 10**7 for _ in range(10**6)]) > 0")
    limits = ProcessLimits(memory_bytes=200 * 2**20)
    assert "MemoryError" in await failure(source, limits)


async def test_a_filter_that_exits_is_a_failure():
    source = judging("import os; os._exit(0)")
    assert await failure(source) == "its process ended by itself, with exit code 0"


async def test_a_filter_that_crashes_is_a_failure():
    source = judging("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert await failure(source) == "its process was ended by SIGSEGV"


async def test_a_filter_that_closes_its_pipes_is_a_failure():
    source = judging("import os; os.closerange(0, 64); return True")
    assert await failure(source, IMPATIENT)


async def test_a_filter_that_writes_into_its_pipe_is_a_failure():
    source = judging("import os; [os.write(fd, b'x' * 64) for fd in (4, 5)]; return True")
    assert await failure(source, IMPATIENT)


def test_a_filter_that_writes_where_it_is_asked_from_is_told_so(caplog):
    source = judging("import os; return os.write(3, b'x' * 64) > 0")
    assert "Bad file descriptor" in uvloop.run(failure(source))
    assert not caplog.records


async def test_printing_harms_nothing():
    source = judging("import sys; print('x' * 10**5); print(file=sys.stderr); return True")
    async with started(source) as process:
        assert await process.judge(numbers(1, 2), 2) == b"\1\1"


async def test_reading_standard_input_harms_nothing():
    async with started(judging("import sys; return sys.stdin.read() == ''")) as process:
        assert await process.judge(numbers(1, 2), 2) == b"\1\1"


async def test_what_a_filter_started_ends_with_it():
    source = (
        b"import subprocess\n"
        b"child = subprocess.Popen(['sleep', '3600'])\n"
        b"class Filter:\n"
        b"    def match(self, message):\n"
        b"        return message.headers['n'] == child.pid\n"
    )
    async with started(source) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 1
    await until_ended(children[0])


@pytest.mark.skipif(sys.platform != "linux", reason="nothing tells elsewhere")
@pytest.mark.parametrize("leaving", ["os._exit(3)", "os.kill(os.getpid(), 9)"])
async def test_what_a_filter_started_ends_with_it_also_when_it_leaves_by_itself(leaving):
    source = (
        "import os, subprocess, threading, time\n"
        "child = subprocess.Popen(['sleep', '3600'])\n"
        "class Filter:\n"
        "    def match(self, message):\n"
        f"        {leaving}\n"
    )
    async with started(source.encode()) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        with pytest.raises(FilterFailure):
            await process.judge(numbers(1), 1)
    await until_ended(children[0])


@pytest.mark.skipif(sys.platform != "linux", reason="nothing tells elsewhere")
def test_a_copy_of_a_filter_does_not_outlive_one_that_nobody_asks():
    source = (
        b"import os, time\n"
        b"if not os.fork():\n"
        b"    time.sleep(3600)\n"
        b"class Filter:\n"
        b"    def match(self, message): return True\n"
    )

    async def leave() -> None:
        process = await FilterProcess.start("Filter", source)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(process.pid, 9)
        await until_ended(children[0])
        await process.end()

    uvloop.run(leave())


@pytest.mark.parametrize("answer", ["child != 0", "{}[child]"])
async def test_a_copy_of_a_filter_gives_no_answers(answer):
    source = judging(f"import os; child = os.fork(); return child > 0 or {answer}")
    async with started(source) as process:
        for _ in range(3):
            assert await process.judge(numbers(1, 2), 2) == b"\1\1"


async def test_an_answer_too_many_is_not_taken_for_the_next_one():
    source = (
        "from leporid.filterserver import frames\n"
        "import os\n"
        "class Filter:\n"
        "    asked = 0\n"
        "    def match(self, message):\n"
        "        self.asked += 1\n"
        "        if self.asked == 1:\n"
        "            answer = frames.answer_frame(frames.VERDICTS, 1, bytes([1]))\n"
        "            os.write(4, answer + answer)\n"
        "        return False\n"
    )
    async with started(source.encode()) as process:
        assert await process.judge(numbers(1), 1) == b"\1"
        with pytest.raises(FilterFailure, match="gave an answer that is none"):
            await process.judge(numbers(1), 1)


async def until_ended(pid: str) -> None:
    deadline = time.monotonic() + 10
    while not ended(pid) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert ended(pid)


def ended(pid: str) -> bool:
    """Whether a process is gone, or waits to be forgotten by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_an_environment_and_descriptors_are_not_handed_on(monkeypatch, tmp_path, run):
    monkeypatch.setenv("LEPORID_SECRET", "secret")
    source = (
        b"import os\n"
        b"there = {fd for fd in range(256) if os.path.exists(f'/proc/self/fd/{fd}')}\n"
        b"names = {os.readlink(f'/proc/self/fd/{fd}') for fd in there}\n"
        b"class Filter:\n"
        b"    def match(self, message):\n"
        b"        inherited = [name for name in names if name.endswith('/log')]\n"
        b"        environment = 'LEPORID_SECRET' in os.environ\n"
        b"        return len(there) == 5 and not inherited and not environment\n"
    )

    async def ask() -> object:
        async with started(source) as process:
            return await process.judge(numbers(1), 1)

    # Whoever started the broker may have left it some, at any number.
    with (tmp_path / "log").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        os.dup2(held.fileno(), 200)
        try:
            assert run(ask()) == b"\1"
        finally:
            os.close(200)


async def test_kill_9_is_a_failure_and_a_new_process_goes_on():
    async with started(GREATER) as process:
        os.kill(process.pid, 9)
        with pytest.raises(FilterFailure, match="ended by SIGKILL"):
            await process.judge(numbers(1), 1)
    async with started(GREATER) as process:
        assert await process.judge(numbers(7), 1) == b"\1"


def test_a_process_that_died_unasked_is_a_failure_in_the_brokers_loop_too():
    async def ask() -> str:
        async with started(GREATER) as process:
            assert await process.judge(numbers(7), 1) == b"\1"
            os.kill(process.pid, 9)
            await process._process.wait()  # its pipes are seen broken before anybody asks
            with pytest.raises(FilterFailure) as caught:
                await process.judge(numbers(7), 1)
            return str(caught.value)

    assert uvloop.run(ask()) == "its process was ended by SIGKILL"


async def test_a_question_that_nobody_waits_for_any_more_ends_the_process():
    async with started(judging("import time; time.sleep(3600)")) as process:
        asked = asyncio.ensure_future(process.judge(numbers(1), 1))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await process.end()
        assert is_gone(process.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="no such signal elsewhere")
def test_a_broker_that_is_killed_takes_a_looping_filter_along():
    broker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"""
import asyncio, sys
sys.path[:0] = [{str(ROOT)!r}]
from leporid.filterserver.host import FilterProcess
async def main():
    process = await FilterProcess.start("Filter", b"class Filter:\\n def match(self, m): 1/0")
    print(process.pid, flush=True)
    await asyncio.sleep(3600)
asyncio.run(main())
""",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with broker:
        assert broker.stdout is not None
        pid = broker.stdout.readline().strip()
        assert not ended(pid)
        broker.kill()
    deadline = time.monotonic() + 10
    while not ended(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended(pid)


def children() -> set[int]:
    """The processes that this one has started and not waited for."""
    return {
        int(pid)
        for path in Path("/proc/self/task").glob("*/children")
        for pid in path.read_text().split()
    }


@pytest.mark.parametrize("spawned", [False, True])
def test_a_start_that_nobody_waits_for_any_more_leaves_no_process(spawned):
    before = children()

    async def cancelled() -> set[int]:
        start = asyncio.create_task(FilterProcess.start("Filter", b"while True: pass"))
        await asyncio.sleep(0)  # it begins
        deadline = time.monotonic() + 20
        while spawned and children() == before:
            assert time.monotonic() < deadline
            await asyncio.sleep(0)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        return children()

    # The broker's loop waits for processes by itself, if it has time to.
    assert uvloop.run(cancelled()) == before
