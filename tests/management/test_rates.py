"""Rates from samples of totals."""

from __future__ import annotations

import json

import pytest
from tests.management.clients import connected
from tests.management.conftest import World
from tests.management.queues import fill, queue_of

from leporid.management.listings import texts_of
from leporid.management.rates import CHURN, MESSAGES, TOTALS, Ages, Samples, rates_of


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
    assert samples.stats(["messages"])["messages_details"] == {"rate": 0.0}
    fill(world, queue, 50)
    found = samples.stats([*MESSAGES, *TOTALS])
    assert found["publish"] == 0  # by a client
    assert (found["messages"], found["messages_details"]) == (50, {"rate": 10.0})
    assert (found["messages_ready"], found["messages_ready_details"]) == (50, {"rate": 10.0})
    for _ in range(6):
        samples.take()
        clock.now_s += 1
    assert samples.stats(["messages"])["messages_details"] == {"rate": 0.0}


def test_before_the_first_sample_nothing_is_known(world: World, samples: Samples):
    fill(world, queue_of(world), 5)
    assert samples.stats(["messages"]) == {"messages": 5, "messages_details": {"rate": 0.0}}


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
        details = samples.stats(["messages"], ages)["messages_details"]
        found: list[dict[str, int]] = json.loads("".join(texts_of(details)))["samples"]
        return found

    assert [each["sample"] for each in history(10, 5)] == [699, 694]
    assert history(10, 5)[0]["timestamp"] == 1_000_000 - 1000
    hour = [each["sample"] for each in history(600, 60)]
    assert hour[:2] == [690, 630]
    assert len(hour) == 10
    assert [each["sample"] for each in history(86_000, 300)] == [600, 300, 0]
    details = samples.stats(["messages"], Ages(10, 5, 0))["messages_details"]
    assert details["avg_rate"] == 1.0


def test_memory_of_samples_is_bounded(clock: Clock, samples: Samples):
    for _ in range(2000):
        samples.take()
        clock.now_s += 300
    ages = Ages(10**9, 1, 0)
    found = samples.stats(["messages", "ack"], ages)
    texts = list(texts_of(found))
    assert len(json.loads("".join(texts))["ack_details"]["samples"]) == 289
    # One for each value, between which others have turns.
    assert sum(each.startswith("[{") or ":[{" in each for each in texts) == 2


class Thing:
    """Something that keeps what was seen of it."""

    recent: object = None


def test_an_object_has_a_rate_once_it_is_looked_at_again():
    thing = Thing()
    assert list(rates_of(thing, (10, 0), 100.0)) == [0.0, 0.0]
    assert list(rates_of(thing, (30, 5), 110.0)) == [2.0, 0.5]
    # Whoever asks again at once is told the same.
    assert list(rates_of(thing, (30, 5), 110.0)) == [2.0, 0.5]
    assert list(rates_of(thing, (30, 5), 120.0)) == [0.0, 0.0]


def test_what_was_seen_long_ago_is_no_rate():
    thing = Thing()
    rates_of(thing, (0,), 100.0)
    assert list(rates_of(thing, (20,), 1000.0)) == [0.0]


def test_what_comes_and_goes_is_sampled(world: World, clock: Clock, samples: Samples):
    samples.take()
    clock.now_s += 10
    queue_of(world)
    connected(world, 7)
    found = samples.stats(CHURN)
    assert (found["queue_created"], found["connection_created"]) == (1, 1)
    assert found["channel_created_details"] == {"rate": 0.1}
