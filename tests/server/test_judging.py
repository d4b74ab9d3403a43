"""Filter classes at work, in real processes."""

import asyncio

import pytest
from tests.filterserver.asked import GREATER, judging, numbers

from leporid.broker.filter.filter_classes import FilterClasses
from leporid.filterserver import frames
from leporid.filterserver.filter_class import FilterClass, FilterClassStatus
from leporid.filterserver.host import FilterFailure, FilterProcess, ProcessLimits
from leporid.filterserver.keeper import Keeper
from leporid.filterserver.message import messages_of
from leporid.server.judging import Judging, most_within

BIG = FilterClass("big", 1, "Filter", GREATER)


def made(*configured: FilterClass) -> tuple[FilterClasses, Judging]:
    classes = FilterClasses(configured, lambda change: None, lambda name: [])
    return classes, Judging(classes, ProcessLimits())


@pytest.mark.slow
async def test_a_class_is_tried_out_before_it_counts():
    _, judging = made()
    await judging.try_out(BIG)
    with pytest.raises(FilterFailure, match="ZeroDivisionError"):
        await judging.try_out(FilterClass("big", 2, "Filter", b"1/0"))


@pytest.mark.slow
async def test_a_configured_class_that_does_not_load_is_told(caplog):
    _, judging = made(BIG, FilterClass("bad", 1, "Filter", b"1/0"))
    await judging.try_configured()
    [record] = caplog.records
    assert record.getMessage().startswith("filter class 'bad' does not load: ")


async def test_configured_classes_are_tried_at_the_same_time(monkeypatch):
    names = ("a", "b", "c")
    _, work = made(*(FilterClass(name, 1, "Filter", GREATER) for name in names))
    together = asyncio.Barrier(len(names))

    async def start(*_: object) -> Slow:
        await together.wait()
        return Slow(monkeypatch)

    monkeypatch.setattr(FilterProcess, "start", start)
    await asyncio.wait_for(work.try_configured(), 20)


@pytest.mark.slow
async def test_a_newer_version_judges_what_comes():
    classes, judging = made()
    classes.put(BIG)
    assert judging.status("big") == FilterClassStatus()
    assert await judging.keeper("big").judge(numbers(7, 5), 2) == b"\1\0"
    classes.put(FilterClass("big", 2, "Filter", GREATER.replace(b">", b"<=")))
    assert await judging.keeper("big").judge(numbers(7, 5), 2) == b"\0\1"
    assert judging.statuses()["big"].judged == 4
    await judging.stop()


@pytest.mark.slow
async def test_a_class_that_is_gone_has_no_process():
    classes, judging = made()
    classes.put(BIG)
    keeper = judging.keeper("big")
    await keeper.judge(numbers(7), 1)
    classes.drop("big")
    await asyncio.sleep(0)
    assert keeper.status().state == "idle"
    assert judging.status("big") == FilterClassStatus()
    assert judging.statuses() == {}
    await judging.stop()


class Waiting:
    """Messages that wait for a class, a batch each."""

    def __init__(self, name: str, *batches: tuple[int, ...]) -> None:
        self.name = name
        self.batches = list(batches)
        self.out: tuple[int, ...] | None = None
        self.verdicts: list[bytes] = []
        self.changed = asyncio.Event()

    def batch(self, most: int, bytes_max: int, /) -> tuple[bytes, int] | None:
        if not self.batches:
            return None
        self.out = self.batches.pop(0)
        return numbers(*self.out), len(self.out)

    def judged(self, verdicts: bytes, /) -> None:
        self.verdicts.append(verdicts)
        self.changed.set()

    def give_back(self) -> None:
        assert self.out is not None
        self.batches.insert(0, self.out)
        self.changed.set()

    async def until(self, *verdicts: bytes) -> None:
        async with asyncio.timeout(20):
            while self.verdicts != list(verdicts):
                self.changed.clear()
                await self.changed.wait()


class AtWork:
    """Classes, and what waits for them."""

    def __init__(self, *waiting: Waiting) -> None:
        self.waiting = list(waiting)
        self.classes = FilterClasses((), lambda change: None, lambda name: [])
        self.judging = Judging(self.classes, ProcessLimits(), waiting=self.take)

    def take(self) -> list[Waiting]:
        taken, self.waiting = self.waiting, []
        return taken


@pytest.mark.slow
async def test_what_waits_is_judged_in_turn():
    first, second = Waiting("big", (7, 1), (8,)), Waiting("big", (1, 2, 9))
    work = AtWork(first, second)
    work.classes.put(BIG)
    work.judging.poll()
    await first.until(b"\1\0", b"\1")
    await second.until(b"\0\0\1")
    await work.judging.stop()


@pytest.mark.slow
async def test_what_a_class_fails_about_is_asked_about_again():
    waiting = Waiting("big", (7, 1))
    work = AtWork(waiting)
    work.classes.put(FilterClass("big", 1, "Filter", GREATER.replace(b"5", b"None")))
    work.judging.poll()
    await waiting.changed.wait()
    assert (waiting.batches, waiting.verdicts) == ([(7, 1)], [])
    work.classes.put(FilterClass("big", 2, "Filter", GREATER))
    work.waiting = [waiting]
    work.judging.poll()
    await waiting.until(b"\1\0")
    await work.judging.stop()


class Slow:
    """A process whose class takes a second for a message, and ten at most."""

    pid = 1

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[int] = []
        self.poison: int | None = None
        self.now = 0.0
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda real=loop.time: real() + self.now)

    async def judge(self, batch: bytes, count: int) -> bytes:
        self.asked.append(count)
        await asyncio.sleep(0)
        self.now += min(count, 10)
        if count > 10:
            raise FilterFailure("it took more than 10 s")
        numbers_of = [each.headers["n"] for each in messages_of(batch[frames.HEAD.size :])]
        if self.poison in numbers_of:
            raise FilterFailure("it cannot judge that")
        return b"\1" * count

    def kill(self) -> None:
        """It is none."""

    async def end(self) -> None:
        """It is none."""


class Many(Waiting):
    """Messages that wait, in batches as they are asked for."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__(name)
        self.left = list(range(count))

    def batch(self, most: int, bytes_max: int, /) -> tuple[bytes, int] | None:
        self.out = tuple(self.left[:most])
        return (numbers(*self.out), len(self.out)) if self.out else None

    def judged(self, verdicts: bytes, /) -> None:
        del self.left[: len(verdicts)]
        super().judged(verdicts)

    def give_back(self) -> None:
        self.changed.set()


def slow_work(waiting: Many, monkeypatch: pytest.MonkeyPatch) -> tuple[AtWork, Slow]:
    work, slow = AtWork(waiting), Slow(monkeypatch)
    work.classes.put(BIG)
    work.judging = Judging(work.classes, ProcessLimits(batch_seconds=10.0), waiting=work.take)

    async def start(class_name: str, source: bytes, limits: ProcessLimits) -> Slow:
        return slow

    work.judging._keepers["big"] = Keeper(BIG, ProcessLimits(), start=start, clock=lambda: 10.0**9)
    return work, slow


async def test_a_slow_class_is_asked_about_as_much_as_it_has_time_for(monkeypatch):
    waiting = Many("big", 40)
    work, slow = slow_work(waiting, monkeypatch)
    monkeypatch.setattr(Keeper, "_fail", lambda self, error: None)
    work.judging.poll()
    async with asyncio.timeout(1000):
        while waiting.left:
            waiting.changed.clear()
            await waiting.changed.wait()
    assert slow.asked[:4] == [40, 20, 10, 2]
    assert set(slow.asked[4:]) <= {1, 2, 3}
    await work.judging.stop()


async def test_what_stands_before_a_message_that_a_class_cannot_judge_does_not_wait(monkeypatch):
    waiting = Many("big", 9)
    work, slow = slow_work(waiting, monkeypatch)
    slow.poison = 5
    monkeypatch.setattr(Keeper, "_fail", lambda self, error: None)
    work.judging.poll()
    async with asyncio.timeout(1000):
        while waiting.left != [5, 6, 7, 8] or slow.asked[-1] > 1:
            waiting.changed.clear()
            await waiting.changed.wait()
    await work.judging.stop()


@pytest.mark.parametrize(
    ("took_seconds", "most"), [(0.0, 500), (0.1, 500), (1.0, 100), (50.0, 2), (1000.0, 1)]
)
def test_how_much_fits_into_some_time(took_seconds, most):
    assert most_within(100, took_seconds, 1.0) == most


@pytest.mark.slow
async def test_what_waits_is_not_judged_by_a_class_that_was_deleted_and_made_anew(tmp_path):
    healed = tmp_path / "healed"
    waiting = Waiting("big", (7, 1))
    work = AtWork(waiting)
    source = f"open({str(healed)!r}); return False"
    work.classes.put(FilterClass("big", 1, "Filter", judging(source)))
    work.judging.poll()
    await waiting.changed.wait()  # it is in its back-off
    healed.touch()
    work.classes.drop("big")
    work.classes.put(BIG)
    await waiting.until(b"\1\0")
    assert work.judging.status("big").failures == 0
    await work.judging.stop()


@pytest.mark.slow
async def test_what_waits_for_a_class_that_is_not_there_waits_until_it_is(caplog):
    waiting = Waiting("big", (7, 1))
    work = AtWork(waiting)
    for _ in range(3):
        work.waiting = [waiting]  # more came
        work.judging.poll()
    assert caplog.text.count("no filter class 'big' is registered") == 1
    work.classes.put(BIG)
    await waiting.until(b"\1\0")
    await work.judging.stop()


async def test_who_asks_is_told_of_another_version():
    classes = FilterClasses((), lambda change: None, lambda name: [])
    renewed: list[str] = []
    judging = Judging(classes, ProcessLimits(), renewed=renewed.append)
    classes.put(BIG)
    classes.put(BIG)
    assert renewed == ["big"]
    classes.put(FilterClass("big", 2, "Filter", GREATER))
    classes.drop("big")
    assert renewed == ["big", "big"]
    await judging.stop()


async def test_who_has_nothing_to_ask_any_more_has_a_turn():
    """What it was to ask about may be gone, and then it has to look on."""
    classes = FilterClasses((BIG,), lambda change: None, lambda name: [])
    turn = asyncio.Event()
    nothing = Waiting("big")
    judging = Judging(classes, ProcessLimits(), waiting=lambda: [nothing], judged=turn.set)
    judging.poll()
    async with asyncio.timeout(20):
        await turn.wait()
    await judging.stop()
