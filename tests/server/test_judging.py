"""Filter classes at work, in real processes."""

import asyncio

import pytest
from tests.filterserver.asked import GREATER, judging, numbers

from leporid.broker.filter_classes import FilterClasses
from leporid.filterserver.filter_class import FilterClass, FilterClassStatus
from leporid.filterserver.host import FilterFailure, ProcessLimits
from leporid.server.judging import Judging

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
