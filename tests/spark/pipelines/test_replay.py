"""Replaying, on a real Spark, to the small broker of these tests."""

from typing import Any

import pytest

pytest.importorskip("pyspark")

from leporid.spark.errors import OptionError, PublishError
from leporid.spark.offsets import Key, Position
from leporid.spark.pipelines.archive import archive
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.publishing import Numbered
from leporid.spark.pipelines.replay import Replay, ReplayPlan, State, ahead

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]


DEFAULTS: dict[str, Any] = {"exchange": "again", "chunk_rows": 40}


@pytest.fixture
def stream(broker):
    broker.make("s", 2)
    broker.append("s", 100, 0, routing_key=["even" if at % 2 == 0 else "odd" for at in range(100)])
    broker.append("s", 50, 1)
    broker.make("copy")
    broker.bindings["again"] = "copy"
    return broker


def replay(spark, broker, tmp_path, **plan):
    return Replay(
        spark, Origin("s", {"url": broker.url}), ReplayPlan(tmp_path / "state", **(DEFAULTS | plan))
    )


def drain(run):
    rows = 0
    while True:
        step = run.step()
        rows += step.rows
        if not step.lag:
            return rows


def bodies(broker):
    return [int(body) for body in broker.streams["copy"][0].rows.column("body").to_pylist()]


def test_a_stream_comes_once_and_each_partition_in_order(spark, stream, tmp_path):
    assert drain(replay(spark, stream, tmp_path)) == 150
    assert sorted(bodies(stream)) == sorted([*range(100), *range(50)])


def test_a_selection_of_an_archive_keeps_order_and_content(spark, stream, tmp_path):
    archive(spark, "s", tmp_path / "a", options={"url": stream.url})
    stream.cut("s", 100, 0)
    plan = {"archive": tmp_path / "a", "where": "routing_key = 'odd'", "routing_key": "new"}
    assert drain(replay(spark, stream, tmp_path, **plan)) == 50
    assert bodies(stream) == list(range(1, 100, 2))
    sent = stream.posted[-1][2].to_pylist()[-1]
    assert sent["routing_key"] == "new"
    assert sent["headers"] == [("h", "1")]
    assert sent["properties"]["content_type"] == "text/plain"
    assert "user_id" not in sent["properties"]


def test_what_does_not_fit_the_schema_is_counted_and_replayed_on_request(spark, stream, tmp_path):
    # The bodies are the numbers themselves, which are no objects.
    archive(spark, "s", tmp_path / "a", options={"url": stream.url}, schema="id bigint")
    plan = {"archive": tmp_path / "a", "where": "routing_key = 'odd'", "chunk_rows": 1000}
    run = replay(spark, stream, tmp_path, **plan)
    assert run.describe()[1:] == [
        "0 messages",
        "50 that do not fit the archive's schema left out (see --include-bad)",
    ]
    step = run.step()
    assert (step.rows, step.lag) == (0, 0)
    assert "50 that do not fit" in step.note
    every = replay(spark, stream, tmp_path / "every", include_bad=True, **plan)
    assert drain(every) == 50
    assert bodies(stream) == list(range(1, 100, 2))


def test_killed_after_publishing_nothing_comes_twice(spark, stream, tmp_path, monkeypatch):
    run = replay(spark, stream, tmp_path)
    run.step()
    publish = Numbered.publish

    def killed(self, rows, sequence):
        publish(self, rows.slice(0, rows.num_rows // 2), sequence)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Numbered, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            run.step()
    # What comes meanwhile belongs to no replay that has begun.
    stream.append("s", 10, 0)
    again = replay(spark, stream, tmp_path)
    first = again.step()
    assert "were there already" in first.note
    drain(again)
    assert sorted(bodies(stream)) == sorted([*range(100), *range(50)])
    assert drain(replay(spark, stream, tmp_path)) == 0


def test_a_state_belongs_to_one_selection(spark, stream, tmp_path):
    replay(spark, stream, tmp_path).step()
    with pytest.raises(OptionError, match="another replay"):
        replay(spark, stream, tmp_path, where="routing_key = 'odd'")


def test_a_message_that_goes_nowhere_stops_the_replay(spark, stream, tmp_path):
    with pytest.raises(PublishError, match="went to no queue"):
        replay(spark, stream, tmp_path, exchange="nowhere").step()
    ignoring = replay(spark, stream, tmp_path, exchange="nowhere", unroutable_fails=False)
    assert drain(ignoring) == 150


def test_a_damaged_state_is_an_error(tmp_path):
    (tmp_path / "state").write_text("{")
    with pytest.raises(OptionError, match="cannot be read"):
        State.load(tmp_path / "state")
    assert State.load(tmp_path / "none") is None


def test_chunks_divide_what_is_left():
    one, two = Key("s", 0), Key("s", 1)
    at = {one: Position(0, "", 0), two: Position(5, "", 5)}
    end = {one: Position(90, "", 0), two: Position(15, "", 5)}
    found = ahead(at, end, 10)
    assert {key: place.offset for key, place in found.items()} == {one: 8, two: 7}
    assert ahead(at, end, 1000) == end
