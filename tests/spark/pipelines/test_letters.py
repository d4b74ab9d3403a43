"""Dead letters without Spark."""

import io
from datetime import UTC, datetime, timedelta

import pytest

from leporid.spark.pipelines import letters as few
from leporid.spark.pipelines.deadletters import DeadLetters, Redrive
from leporid.spark.pipelines.letters import condition, deaths_of, grid, samples, span, summary
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.replay import ReplayPlan
from leporid.spark.pipelines.runner import Run, run

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
X_DEATH = (
    '[{"reason": "expired", "queue": "mail", "exchange": "e", "routing-keys": ["a", "b"], '
    '"count": 2}, {"reason": "rejected", "queue": "billing"}]'
)


def row(at=0, reason="rejected", queue="billing", body=b"x", **more):
    known = {"reason": reason, "queue": queue, "died_from_exchange": "e", "died_from_key": "k"}
    place = {"stream": "dead", "partition": 0, "offset": at, "exchange": "", "routing_key": "r"}
    return known | place | {
        "timestamp": NOON + timedelta(seconds=at), "deaths": 1, "body": body,
    } | more  # fmt: skip


def test_the_last_death_is_read_from_the_header():
    assert deaths_of({"x-death": X_DEATH}) == {
        "reason": "expired",
        "queue": "mail",
        "died_from_exchange": "e",
        "died_from_key": "a",
        "deaths": 3,
    }


@pytest.mark.parametrize("header", [None, "", "no", "7", "{}"])
def test_a_header_that_is_none_is_no_death(header):
    assert set(deaths_of({"x-death": header}).values()) == {None}


def test_reasons_are_counted_and_the_newest_are_samples():
    rows = [row(at) for at in range(5)] + [row(9, None, None, b"\xff\n\x1b[2J")]
    first, second = summary(rows, NOON + timedelta(days=1, seconds=5))
    assert (first["letters"], first["keys"], first["age"]) == (5, 1, "1 d 00:00:05")
    assert (second["reason"], second["letters"]) == (None, 1)
    found = samples(rows, 2)
    assert [each["offset"] for each in found] == [9, 4, 3]
    text = grid(found)
    assert text.splitlines()[0].split() == [
        "reason", "queue", "partition", "offset", "timestamp", "died_from_key", "body",
    ]  # fmt: skip
    # What a body says to a terminal is shown, and not done.
    assert "\\n\\x1b[2J" in text
    assert "\x1b" not in text
    assert grid([]) == ""


def test_a_time_is_written_in_days_and_hours():
    assert span(2 * 86_400 + 3 * 3600 + 4 * 60 + 5) == "2 d 03:04:05"
    assert span(-1) == "0 d 00:00:00"


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        (None, True),
        ("reason = 'rejected'", True),
        ("reason <> 'rejected'", False),
        ("reason != 'expired'", True),
        ("reason = 'rejected' and (queue like 'bil%' or deaths > 5)", True),
        ("deaths between 2 and 3", False),
        ("not queue in ('a', 'b')", True),
        ("died_from_key is null", False),
        ("routing_key = 'r' and partition = 0", True),
    ],
)
def test_conditions_that_need_no_spark(where, holds):
    found = condition(where)
    assert found is not None
    assert found(row()) is holds


def test_nothing_is_known_of_what_is_null():
    for where in ("reason = 'x'", "reason <> 'x'", "not reason = 'x'"):
        found = condition(where)
        assert found is not None
        assert not found(row(reason=None))


@pytest.mark.parametrize(
    "where",
    [
        "deaths = '1'",
        "reason = 1",
        "queue > 'a'",
        "lower(reason) = 'x'",
        "Reason = 'x'",
        "`offset` = 1",
        "`reason` = 'x'",
        "reason = 'a\\\\b'",
        "value.id = 3",
        "timestamp > '2026'",
        "reason",
        "true",
        "reason = queue",
    ],
)
def test_what_only_spark_can_tell_is_left_to_it(where):
    assert condition(where) is None


@pytest.fixture
def letters(broker):
    broker.make("dead", partitions=2)
    for at in range(6):
        headers = [("x-death", X_DEATH), ("x-last-death-queue", "q"), ("mine", str(at))]
        broker.append("dead", 1, at % 2, body=[b"letter %d" % at], headers=headers)
    broker.append("dead", 1, headers=[("mine", "none")])
    broker.make("e")
    broker.bindings["e"] = "e"
    return Origin("dead", {"url": broker.url})


def test_it_prints_without_spark(letters, capsys):
    pipeline = DeadLetters(None, letters)
    assert not pipeline.needs_spark()
    run(pipeline, Run(once=True, out=io.StringIO()))
    out = capsys.readouterr().out
    assert "expired  mail" in out
    assert "letter 5" in out


def test_letters_go_back_without_spark_each_once(letters, broker, tmp_path):
    plan = ReplayPlan(tmp_path / "state", where="reason = 'expired'", chunk_rows=2)
    redrive = Redrive(None, letters, plan)
    assert not redrive.needs_spark()
    assert redrive.describe()[1] == "6 messages"
    broker.fail("lose", "POST")
    run(redrive, Run(once=True, out=io.StringIO()))
    rows = broker.streams["e"][0].rows.to_pylist()
    assert sorted(each["body"] for each in rows) == [b"letter %d" % at for at in range(6)]
    sent = [each for _, _, table in broker.posted for each in table.to_pylist()]
    assert {(each["exchange"], each["routing_key"]) for each in sent} == {("e", "a")}
    assert sorted(each["headers"] for each in sent)[0] == [("mine", "0")]
    again = Redrive(None, letters, plan)
    assert again.step().rows == 0
    elsewhere = ReplayPlan(tmp_path / "other", exchange="", routing_key="e", until="2025-01-01")
    assert Redrive(None, letters, elsewhere).step().rows == 0


def test_many_letters_or_an_archive_need_spark(letters, tmp_path, monkeypatch):
    state = tmp_path / "state"
    assert Redrive(None, letters, ReplayPlan(state, archive=tmp_path)).needs_spark()
    assert Redrive(None, letters, ReplayPlan(state, where="length(body) > 3")).needs_spark()
    assert DeadLetters(None, letters, tmp_path).needs_spark()
    monkeypatch.setattr(few, "LETTERS_MAX", 6)
    assert DeadLetters(None, letters).needs_spark()
    assert Redrive(None, letters, ReplayPlan(state)).needs_spark()
