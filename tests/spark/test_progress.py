import json
import logging
from types import SimpleNamespace as Event

import pytest

pytest.importorskip("pyspark")

from leporid.spark import progress
from leporid.spark.offsets import Key, to_json
from leporid.spark.offsets import Position as Stored
from leporid.spark.progress import Position, QueryProgress, positions


def offsets(*numbers):
    found = {Key("orders", at): Stored(number, "i", 0) for at, number in enumerate(numbers)}
    return json.dumps(to_json(found))


def source(end, latest):
    return Event(endOffset=end, latestOffset=latest)


def report(rows=10, end=(5, 7), latest=(9, 7), name="etl"):
    return Event(
        progress=Event(
            id="1", name=name, batchId=3, numInputRows=rows, batchDuration=250,
            sources=[source(offsets(*end), offsets(*latest)), source("null", None)],
        )
    )  # fmt: skip


def values(path):
    lines = path.read_text().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_a_position_is_the_offset_after_the_last_record_and_what_is_beyond():
    assert positions(source(offsets(5, 7), offsets(9))) == [
        Position(Key("orders", 0), 5, 4),
        Position(Key("orders", 1), 7, None),
    ]


@pytest.mark.parametrize("end", [None, "null", "7", '"x"', '{"topic": {"0": 5}}', "{"])
def test_other_sources_have_no_position(end):
    assert positions(source(end, end)) == []


def test_a_batch_is_logged_and_exported(tmp_path, caplog):
    caplog.set_level(logging.INFO, progress.log.name)
    path = tmp_path / "queries.prom"
    listener = QueryProgress(path, clock=lambda: 1000.0)
    listener.onQueryStarted(Event(id="1", name="etl"))
    listener.onQueryProgress(report())
    assert (
        "query etl: batch 3, 10 rows in 0.250 s; partition 0 of stream 'orders' next offset 5, "
        "4 behind; partition 1 of stream 'orders' next offset 7, 0 behind"
    ) in caplog.text
    found = values(path)
    assert found['leporid_query_running{query="etl"}'] == "1.0"
    assert found['leporid_query_rows_total{query="etl"}'] == "10.0"
    assert found['leporid_query_batch_seconds{query="etl"}'] == "0.25"
    assert found['leporid_query_last_progress_timestamp_seconds{query="etl"}'] == "1000.0"
    place = '{partition="0",query="etl",stream="orders"}'
    assert found[f"leporid_query_next_offset{place}"] == "5.0"
    assert found[f"leporid_query_lag_messages{place}"] == "4.0"


def test_an_idle_query_is_alive_and_no_batch(tmp_path):
    path = tmp_path / "queries.prom"
    now = [1.0]
    listener = QueryProgress(path, clock=lambda: now[0])
    listener.onQueryProgress(report(name=None))
    listener.onQueryProgress(report(rows=0, latest=(20, 7)))
    now[0] = 2.0
    listener.onQueryIdle(Event(id="1"))
    listener.onQueryIdle(Event(id="unknown"))
    found = values(path)
    assert found['leporid_query_batches_total{query="1"}'] == "1.0"
    assert found['leporid_query_last_progress_timestamp_seconds{query="1"}'] == "2.0"
    lag = 'leporid_query_lag_messages{partition="0",query="1",stream="orders"}'
    assert found[lag] == "15.0"


def test_the_end_of_a_query_and_its_failure_are_told(tmp_path, caplog):
    path = tmp_path / "queries.prom"
    listener = QueryProgress(path)
    listener.onQueryStarted(Event(id="1", name="etl"))
    listener.onQueryTerminated(Event(id="1", exception="it broke\nat Java"))
    listener.onQueryTerminated(Event(id="2", exception=None))
    assert "query etl failed: it broke" in caplog.text
    assert "at Java" not in caplog.text
    found = values(path)
    assert found['leporid_query_running{query="etl"}'] == "0.0"
    assert found['leporid_query_failed{query="etl"}'] == "1.0"
    assert found['leporid_query_failed{query="2"}'] == "0.0"
    listener.onQueryStarted(Event(id="1", name="etl"))
    assert values(path)['leporid_query_running{query="etl"}'] == "1.0"


def test_queries_that_ended_are_forgotten_when_there_are_many(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "QUERIES_MAX", 2)
    path = tmp_path / "queries.prom"
    listener = QueryProgress(path)
    for number in "1234":
        listener.onQueryStarted(Event(id=number, name=None))
        if number != "1":
            listener.onQueryTerminated(Event(id=number, exception=None))
    assert [name for name in values(path) if "running" in name] == [
        'leporid_query_running{query="1"}',
        'leporid_query_running{query="4"}',
    ]


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path, caplog):
    QueryProgress(tmp_path / "none" / "x.prom").onQueryStarted(Event(id="1", name="etl"))
    assert "the metrics of queries were not written" in caplog.text
