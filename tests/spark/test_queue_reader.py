"""The reader of queues as Spark calls it, without Spark; the rest is in test_in_spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from tests.spark.fake import FakeBroker

from leporid.spark import options
from leporid.spark.errors import BrokerError, CutError, LeaseError, OptionError
from leporid.spark.queue_reader import QueueReader
from leporid.spark.schema import QUEUE_COLUMNS

Make = Callable[..., QueueReader]


@pytest.fixture
def make(broker: FakeBroker) -> Make:
    def make(**given: str) -> QueueReader:
        given = {"url": broker.url, "queue": "work", "retryTimeout": "2s", **given}
        values = options.check_all(given)
        return QueueReader(
            options.connection(values, {}), options.queue_reading(values), QUEUE_COLUMNS
        )

    return make


@pytest.fixture
def work(broker: FakeBroker) -> list[int]:
    broker.queues["work"] = list(range(25))
    return broker.queues["work"]


def bodies(reader: QueueReader) -> list[int]:
    # As on an executor: with a copy of reader and partition.
    reader, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))
    return [
        int(body)
        for piece in partitions
        for batch in reader.read(piece)
        for body in batch.column("body").to_pylist()
    ]


def test_a_browse_is_one_task_and_changes_nothing(work: list[int], make: Make):
    reader = make(minPartitions="4", batchRows="10")
    assert len(reader.partitions()) == 1
    assert bodies(reader) == list(range(25))
    assert bodies(make(limit="3")) == [0, 1, 2]
    assert work == list(range(25))


def test_a_browse_that_is_cut_before_its_first_row_is_begun_again(
    broker: FakeBroker, work: list[int], make: Make
):
    broker.fail("drop", "messages")
    broker.fail("status", "messages")
    assert bodies(make()) == list(range(25))


def test_a_browse_that_is_cut_on_the_way_fails(broker: FakeBroker, work: list[int], make: Make):
    work.extend(range(25, 6000))  # more than is read ahead
    broker.fail("cut", "messages", bytes=-200)
    with pytest.raises(CutError, match="queue 'work'"):
        bodies(make(batchRows="100"))


def lease(broker: FakeBroker) -> dict[str, Any]:
    broker.leases["l"] = list(range(100, 120))
    return {"lease": "l", "leaseMessages": "20"}


def test_a_lease_is_divided_among_tasks(broker: FakeBroker, work: list[int], make: Make):
    reader = make(**lease(broker), minPartitions="3")
    assert [repr(part) for part in reader.partitions()] == ["[0, 6)", "[6, 13)", "[13, 20)"]
    assert bodies(reader) == list(range(100, 120))
    assert len(make(**lease(broker)).partitions()) == 1
    assert len(make(**lease(broker), minPartitions="99").partitions()) == 20


def test_a_lease_goes_on_after_a_cut(broker: FakeBroker, work: list[int], make: Make):
    broker.fail("cut", "messages", bytes=-200)
    broker.fail("end", "messages")
    assert bodies(make(**lease(broker), batchRows="5")) == list(range(100, 120))
    assert broker.count("messages") > 2


def test_a_lease_that_has_ended_is_said(broker: FakeBroker, work: list[int], make: Make):
    with pytest.raises(LeaseError, match="lease of queue 'work' ended"):
        bodies(make(lease="gone", leaseMessages="5"))


def test_what_the_broker_refuses_is_raised(broker: FakeBroker, make: Make):
    with pytest.raises(BrokerError, match="no queue 'work'"):
        bodies(make())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffsets": "earliest"}, "startingOffsets has no meaning in reading a queue"),
        ({"stream": "s"}, "stream has no meaning in reading"),
        ({"lease": "l"}, "lease and leaseMessages"),
        ({"lease": "l", "leaseMessages": "1", "limit": "3"}, "no meaning with lease"),
        ({"exchange": "e"}, "exchange has no meaning"),
    ],
)
def test_options_that_do_not_fit_are_refused(make: Make, given: dict[str, str], says: str):
    with pytest.raises(OptionError, match=says):
        make(**given)
