"""Starting again and again, with processes that are none and a clock that is moved."""

import asyncio

import pytest
from tests.filterserver.asked import GREATER, numbers

from leporid.filterserver.filter_class import FilterClass
from leporid.filterserver.host import FilterFailure, FilterProcess, ProcessLimits
from leporid.filterserver.keeper import BACK_OFF_LEAST_S, BACK_OFF_MOST_S, Keeper, back_off_s

FIRST = FilterClass("big", 1, "Filter", b"first")


class FakeProcess:
    """Lets everything pass, until it is told to fail."""

    pid = 4711

    def __init__(self) -> None:
        self.failing = ""
        self.killed = False

    async def judge(self, batch: bytes, count: int) -> bytes:
        if self.failing:
            raise FilterFailure(self.failing)
        return b"\1" * count

    def kill(self) -> None:
        self.killed = True

    async def end(self) -> None:
        self.kill()


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        self.started: list[tuple[str, bytes]] = []
        self.processes: list[FakeProcess] = []
        self.broken = ""
        self.keeper = Keeper(FIRST, ProcessLimits(), start=self.start, clock=lambda: self.now)

    async def start(self, class_name: str, source: bytes, limits: ProcessLimits) -> FakeProcess:
        self.started.append((class_name, source))
        if self.broken:
            raise FilterFailure(self.broken)
        self.processes.append(FakeProcess())
        return self.processes[-1]

    async def wait_long(self) -> asyncio.Future[None]:
        """Somebody who waits until a long back-off is over."""
        self.broken = "it does not load"
        while self.keeper.status().retry_seconds < BACK_OFF_MOST_S:
            await self.fail()
        self.broken = ""
        waiting = asyncio.ensure_future(self.keeper.ready())
        await asyncio.sleep(0)
        assert not waiting.done()
        return waiting

    async def fail(self, error: str = "it crashed") -> None:
        if self.processes and not self.broken:
            self.processes[-1].failing = error
        with pytest.raises(FilterFailure):
            await self.keeper.judge(b"", 1)


@pytest.fixture
def world():
    return World()


async def test_starts_when_first_asked_and_stays(world):
    assert world.keeper.status().state == "idle"
    assert await world.keeper.judge(b"", 3) == b"\1\1\1"
    assert await world.keeper.judge(b"", 2) == b"\1\1"
    assert world.started == [("Filter", b"first")]
    status = world.keeper.status()
    assert (status.state, status.pid, status.judged, status.passed) == ("running", 4711, 5, 5)


async def test_a_failure_is_told_and_waited_for(world, caplog):
    await world.keeper.judge(b"", 1)
    await world.fail("it crashed")
    status = world.keeper.status()
    assert (status.state, status.failures, status.error) == ("waiting", 1, "it crashed")
    assert status.retry_seconds == BACK_OFF_LEAST_S
    assert status.failed_at > 0
    [record] = caplog.records
    assert "filter class 'big' (version 1) failed" in record.getMessage()
    assert "0.5 s: it crashed" in record.getMessage()


async def test_ready_when_the_back_off_is_over(world):
    await world.keeper.judge(b"", 1)
    await world.fail()
    waiting = asyncio.ensure_future(world.keeper.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    world.now += BACK_OFF_LEAST_S
    await asyncio.wait_for(world.keeper.ready(), 5)
    waiting.cancel()
    assert await world.keeper.judge(b"", 1) == b"\1"
    assert len(world.started) == 2


async def test_fails_later_and_later_until_it_succeeds(world):
    world.broken = "it does not load"
    waits = []
    for _ in range(4):
        await world.fail()
        waits.append(world.keeper.status().retry_seconds)
        world.now += waits[-1]
    assert waits == [0.5, 1, 2, 4]
    world.broken = ""
    await world.keeper.judge(b"", 1)
    await world.fail()
    assert world.keeper.status().retry_seconds == 0.5


def test_never_waits_longer_than_a_minute():
    assert back_off_s(7) == BACK_OFF_MOST_S
    assert back_off_s(10**9) == BACK_OFF_MOST_S


async def test_a_new_version_is_tried_at_once(world):
    waiting = await world.wait_long()
    world.keeper.replace(FilterClass("big", 2, "Other", b"second"))
    await asyncio.wait_for(waiting, 5)
    assert await world.keeper.judge(b"", 1) == b"\1"
    assert world.started[-1] == ("Other", b"second")
    status = world.keeper.status()
    assert (status.failures, status.error) == (8, "")


async def test_a_new_version_ends_the_process_of_the_old(world):
    await world.keeper.judge(b"", 1)
    world.keeper.replace(FilterClass("big", 2, "Other", b"second"))
    assert world.processes[0].killed
    await world.keeper.judge(b"", 1)
    assert world.started == [("Filter", b"first"), ("Other", b"second")]


async def test_what_the_old_version_was_asked_is_no_failure_of_the_new(world, caplog):
    await world.keeper.judge(b"", 1)

    async def replaced(batch: bytes, count: int) -> bytes:
        world.keeper.replace(FilterClass("big", 2, "Other", b"second"))
        raise FilterFailure("its process was ended by SIGKILL")

    world.processes[0].judge = replaced
    with pytest.raises(FilterFailure):
        await world.keeper.judge(b"", 1)
    assert world.keeper.status().failures == 0
    assert not caplog.records
    await asyncio.wait_for(world.keeper.ready(), 5)


async def test_what_starts_while_a_newer_version_comes_is_not_asked():
    world = World()
    start = world.start

    async def replaced(class_name: str, source: bytes, limits: ProcessLimits) -> FakeProcess:
        made = await start(class_name, source, limits)
        if source == b"first":
            world.keeper.replace(FilterClass("big", 2, "Other", b"second"))
        return made

    world.keeper = Keeper(FIRST, ProcessLimits(), start=replaced, clock=lambda: world.now)
    with pytest.raises(FilterFailure, match="newer version"):
        await world.keeper.judge(b"", 1)
    assert world.processes[0].killed
    assert await world.keeper.judge(b"", 1) == b"\1"
    assert world.keeper.status().failures == 0


async def test_one_that_has_ended_keeps_nobody_waiting_and_asks_nothing(world, caplog):
    waiting = await world.wait_long()
    caplog.clear()
    await world.keeper.end()
    await asyncio.wait_for(waiting, 5)
    with pytest.raises(FilterFailure, match="the class is gone"):
        await world.keeper.judge(b"", 1)
    assert not world.processes
    assert not caplog.records


async def test_what_starts_while_it_ends_is_not_asked_and_ends():
    world = World()
    start = world.start

    async def ending(class_name: str, source: bytes, limits: ProcessLimits) -> FakeProcess:
        made = await start(class_name, source, limits)
        await world.keeper.end()
        return made

    world.keeper = Keeper(FIRST, ProcessLimits(), start=ending, clock=lambda: world.now)
    with pytest.raises(FilterFailure, match="the class is gone"):
        await world.keeper.judge(b"", 1)
    assert world.processes[0].killed


@pytest.mark.slow
async def test_with_a_real_process_that_is_killed():
    made: list[FilterProcess] = []

    async def start(class_name: str, source: bytes, limits: ProcessLimits) -> FilterProcess:
        made.append(await FilterProcess.start(class_name, source, limits))
        return made[-1]

    keeper = Keeper(FilterClass("big", 1, "Filter", GREATER), ProcessLimits(), start=start)
    assert await keeper.judge(numbers(7, 5), 2) == b"\1\0"
    made[0].kill()
    with pytest.raises(FilterFailure, match="SIGKILL"):
        await keeper.judge(numbers(7), 1)
    await keeper.ready()
    assert await keeper.judge(numbers(5, 7), 2) == b"\0\1"
    assert keeper.status().passed == 2
    await keeper.end()
