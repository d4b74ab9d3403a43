"""Dead letters, on a real Spark."""

import json
import re

import pytest

pytest.importorskip("pyspark")

from leporid.spark.pipelines.deadletters import DeadLetters, Redrive, letters, samples, summary
from leporid.spark.pipelines.letters import condition, read, rows_of
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.replay import ReplayPlan
from leporid.spark.pipelines.table import table

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]


def death(reason, queue, key, *, exchange="orders", count=1):
    return {
        "count": count,
        "reason": reason,
        "queue": queue,
        "time": "2026-01-01T12:00:00Z",
        "exchange": exchange,
        "routing-keys": [key],
    }


def headers(*deaths):
    first = {"x-first-death-queue": deaths[-1]["queue"], "x-first-death-reason": "x"}
    return {"x-death": json.dumps(deaths), "mine": "kept", **first}


LETTERS = [
    headers(death("rejected", "billing", "order.paid")),
    headers(death("rejected", "billing", "order.paid", count=2)),
    headers(death("expired", "mail", "order.sent"), death("rejected", "billing", "order.paid")),
    {"mine": "no death"},
]


@pytest.fixture
def stream(broker):
    broker.make("dead")
    for at, each in enumerate(LETTERS):
        broker.append("dead", 1, body=[b"letter %d" % at], headers=list(each.items()))
    broker.make("orders")
    broker.bindings["orders"] = "orders"
    return broker


@pytest.fixture
def found(spark, stream):
    return letters(table(spark, "dead", options={"url": stream.url}))


def test_the_last_death_becomes_columns(found):
    rows = found.orderBy("`offset`").collect()
    assert [(row.reason, row.queue, row.died_from_key, row.deaths) for row in rows] == [
        ("rejected", "billing", "order.paid", 1),
        ("rejected", "billing", "order.paid", 2),
        ("expired", "mail", "order.sent", 2),
        (None, None, None, None),
    ]
    assert rows[0].died_at.isoformat() == "2026-01-01T12:00:00"


def test_letters_are_counted_by_reason_and_queue(found):
    counted = {(row.reason, row.queue): row.letters for row in summary(found).collect()}
    assert counted == {("rejected", "billing"): 2, ("expired", "mail"): 1, (None, None): 1}


def test_the_age_of_letters_is_written_as_people_do(spark):
    rows = spark.sql(
        "select 'r' reason, 'q' queue, 'x' died_from_exchange, 'k' died_from_key, 1 deaths, "
        "current_timestamp() - interval '2 03:04:05' day to second as timestamp"
    )
    (row,) = summary(rows).collect()
    assert row.age in {"2 d 03:04:05", "2 d 03:04:06"}


def test_samples_are_the_newest(found):
    shown = {(row.reason, row.body) for row in samples(found, 1).collect()}
    assert shown == {("rejected", "letter 1"), ("expired", "letter 2"), (None, "letter 3")}


def test_selected_letters_go_back_without_traces(spark, stream, tmp_path):
    plan = ReplayPlan(tmp_path / "state", where="reason = 'rejected' and deaths < 5")
    run = Redrive(spark, Origin("dead", {"url": stream.url}), plan)
    assert run.step().rows == 2
    sent = stream.posted[-1][2].to_pylist()
    assert [(row["exchange"], row["routing_key"], row["body"]) for row in sent] == [
        ("orders", "order.paid", b"letter 0"),
        ("orders", "order.paid", b"letter 1"),
    ]
    assert sent[0]["headers"] == [("mine", "kept")]
    assert Redrive(spark, Origin("dead", {"url": stream.url}), plan).step().rows == 0


def test_what_never_died_stays(spark, stream, tmp_path):
    run = Redrive(spark, Origin("dead", {"url": stream.url}), ReplayPlan(tmp_path / "state"))
    assert run.step().rows == 3


def test_the_pipeline_prints_what_it_prints_without_spark(spark, stream, capsys):
    origin = Origin("dead", {"url": stream.url})
    assert DeadLetters(spark, origin).step().rows == 4
    out = capsys.readouterr().out
    assert "billing" in out
    assert DeadLetters(None, origin).step().rows == 4
    without = capsys.readouterr().out
    # An age may be a second more, or a minute.
    assert re.sub(r":\d\d\b", "", without) == re.sub(r":\d\d\b", "", out)


@pytest.mark.parametrize(
    "where",
    [
        "reason = 'rejected' and deaths < 5",
        "not queue like 'bil%'",
        "reason is null",
        "deaths <> 2",
    ],
)
def test_a_condition_selects_the_same_without_spark(found, stream, where):
    origin = Origin("dead", {"url": stream.url})
    holds = condition(where)
    assert holds is not None
    few = [row["offset"] for row in rows_of(read(origin)) if holds(row)]
    assert few == [row.offset for row in found.where(where).orderBy("`offset`").collect()]
