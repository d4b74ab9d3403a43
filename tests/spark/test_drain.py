"""Draining a queue, with a session that only reads: acknowledged after it was written, or back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spark.fake import FakeBroker

from leporid.spark.drain import drain
from leporid.spark.errors import BrokerError, LeaseError, OptionError
from leporid.spark.source import DefaultSource


class Session:
    """Reads with the data source as Spark would, at once."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    @property
    def read(self) -> Session:
        return self

    def format(self, name: str) -> Session:
        assert name == "leporid"
        return self

    def options(self, **given: str) -> Session:
        self.given = given
        return self

    def schema(self, text: str) -> Session:
        self.given["schema"] = text
        return self

    def load(self) -> list[int]:
        from pyspark.sql.types import BinaryType, StructField, StructType

        reader = DefaultSource(self.given).reader(StructType([StructField("body", BinaryType())]))
        return [
            int(body)
            for part in reader.partitions()
            for batch in reader.read(part)
            for body in batch.column("body").to_pylist()
        ]


@pytest.fixture
def where(broker: FakeBroker) -> dict[str, str]:
    broker.queues["work"] = list(range(25))
    return {"url": broker.url, "retryTimeout": "2s"}


def test_everything_is_given_and_then_acknowledged(broker: FakeBroker, where: dict[str, str]):
    written: list[list[int]] = []

    def sink(frame: Any) -> None:
        assert len(broker.leases) == 1  # not acknowledged before it is written
        written.append(frame)

    assert drain(Session(), "work", sink, options=where, messages=10) == 25
    assert written == [[*range(10)], [*range(10, 20)], [*range(20, 25)]]
    assert (broker.queues["work"], broker.leases) == ([], {})


def test_a_limit(broker: FakeBroker, where: dict[str, str]):
    written: list[int] = []
    assert drain(Session(), "work", written.extend, options=where, messages=10, limit=12) == 12
    assert written == list(range(12))
    assert broker.queues["work"] == list(range(12, 25))


def test_what_a_sink_could_not_write_is_back_at_once(broker: FakeBroker, where: dict[str, str]):
    def sink(frame: list[int]) -> None:
        if 10 in frame:
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        drain(Session(), "work", sink, options=where, messages=10)
    assert (broker.queues["work"], broker.leases) == (list(range(10, 25)), {})


def test_a_lease_that_was_over_before_the_sink_was_done_is_said(
    broker: FakeBroker, where: dict[str, str]
):
    def slow(frame: list[int]) -> None:
        broker.end("work", next(iter(broker.leases)), back=True)

    with pytest.raises(LeaseError, match=r"ttl = 10m.*they come again"):
        drain(Session(), "work", slow, options=where)
    assert broker.queues["work"] == list(range(25))


def test_a_lost_acknowledgement_is_asked_for_again(broker: FakeBroker, where: dict[str, str]):
    broker.fail("status", "DELETE")
    assert drain(Session(), "work", len, options=where) == 25


def test_an_empty_queue_has_nothing_to_write(broker: FakeBroker, where: dict[str, str]):
    broker.queues["work"].clear()
    assert drain(Session(), "work", lambda frame: pytest.fail("nothing to do"), options=where) == 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"options": {"lease": "l", "leaseMessages": "1"}}, "not for draining"),
        ({"options": {"limit": "1"}}, "not for draining"),
        ({"options": {"startingOffsets": "earliest"}}, "startingOffsets"),
        ({"messages": 0}, "messages = 0"),
        ({"ttl": "soon"}, "ttl"),
    ],
)
def test_what_is_not_allowed_takes_nothing(broker: FakeBroker, more: dict[str, Any], says: str):
    broker.queues["work"] = [1]
    with pytest.raises(OptionError, match=says):
        drain(Session(), "work", len, **more)
    assert broker.calls == []


def test_a_queue_that_is_not_there(broker: FakeBroker, where: dict[str, str]):
    with pytest.raises(BrokerError, match="no queue 'other'"):
        drain(Session(), "other", len, options=where)
