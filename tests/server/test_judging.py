"""Filter classes at work, in real processes."""

import asyncio

import pytest
from tests.filterserver.asked import GREATER, numbers

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
