"""Rates from samples of totals."""

from __future__ import annotations

import pytest
from tests.management.conftest import World
from tests.management.queues import fill, queue_of

from leporid.management.rates import MESSAGES, TOTALS, Ages, Samples, rates_of


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def samples(world: World, clock: Clock) -> Samples:
    return Samples(world.broker, world.engine, clock)


def test_a_rate_is_that_of_the_last_seconds(world: World, clock: Clock, samples: Samples):
    queue = queue_of(world)
    for _ in range(20):
        samples.take()
        clock.now_s += 1
    assert samples.stats(["publish"])["publish_details"] == {"rate": 0.0}
    fill(world, queue, 50)
    found = samples.stats([*MESSAGES, *TOTALS])
    assert (found["publish"], found["publish_details"]) == (50, {"rate": 10.0})
    assert (found["messages_ready"], found["messages_ready_details"]) == (50, {"rate": 10.0})
    for _ in range(6):
        samples.take()
        clock.now_s += 1
    assert samples.stats(["publish"])["publish_details"] == {"rate": 0.0}


def test_before_the_first_sample_nothing_is_known(world: World, samples: Samples):
    fill(world, queue_of(world), 5)
    assert samples.stats(["publish"]) == {"publish": 5, "publish_details": {"rate": 0.0}}


def test_samples_of_an_hour_and_a_day_are_further_apart(
    world: World, clock: Clock, samples: Samples
):
    queue = queue_of(world)
    for _ in range(700):
        samples.take()
        fill(world, queue, 1)
        clock.now_s += 1

    def history(age_s: int, every_s: int) -> list[dict[str, int]]:
        ages = Ages(age_s, every_s, 1_000_000)
        found: list[dict[str, int]] = samples.stats(["publish"], ages)["publish_details"]["samples"]
        return found

    assert [each["sample"] for each in history(10, 5)] == [699, 694]
    assert history(10, 5)[0]["timestamp"] == 1_000_000 - 1000
    hour = [each["sample"] for each in history(600, 60)]
    assert hour[:2] == [690, 630]
    assert len(hour) == 10
    assert [each["sample"] for each in history(86_000, 300)] == [600, 300, 0]
    details = samples.stats(["publish"], Ages(10, 5, 0))["publish_details"]
    assert details["avg_rate"] == 1.0


def test_memory_of_samples_is_bounded(clock: Clock, samples: Samples):
    for _ in range(2000):
        samples.take()
        clock.now_s += 300
    ages = Ages(10**9, 1, 0)
    assert len(samples.stats(["publish"], ages)["publish_details"]["samples"]) == 289


def test_a_queue_has_a_rate_once_it_is_looked_at_again(world: World):
    queue = queue_of(world)
    state = world.vhost.queue("orders")
    fill(world, queue, 10)
    assert rates_of(state, 100.0) == ((10, 0, 10, 10, 0), (0.0,) * 5)
    fill(world, queue, 20)
    values, rates = rates_of(state, 110.0)
    assert (values[0], rates[0], rates[2]) == (30, 2.0, 2.0)
    # Whoever asks again at once is told the same.
    assert rates_of(state, 110.0)[1] == rates
    assert rates_of(state, 120.0)[1][0] == 0.0


def test_what_was_seen_long_ago_is_no_rate(world: World):
    queue = queue_of(world)
    state = world.vhost.queue("orders")
    rates_of(state, 100.0)
    fill(world, queue, 20)
    assert rates_of(state, 1000.0)[1][0] == 0.0
