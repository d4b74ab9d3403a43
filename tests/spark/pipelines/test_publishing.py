import pyarrow as pa
import pytest

from leporid.spark import options
from leporid.spark.errors import PublishError
from leporid.spark.http import client_for
from leporid.spark.pipelines.publishing import Numbered, Pace, publishable
from leporid.spark.schema import PROPERTIES


@pytest.fixture
def client(broker):
    broker.make("q")
    return client_for(options.connection({"url": broker.url}, {}))


def rows(*bodies):
    return pa.table(
        {"body": [body.encode() for body in bodies], "routing_key": ["q"] * len(bodies)}
    )


def bodies(broker):
    return broker.streams["q"][0].rows.column("body").to_pylist()


def test_what_was_published_is_left_out_when_it_comes_again(broker, client):
    out = Numbered(client, "me")
    assert out.publish(rows("a", "b"), 0) == 0
    assert out.publish(rows("a", "b", "c"), 0) == 2
    assert Numbered(client, "other").publish(rows("a"), 0) == 0
    assert bodies(broker) == [b"a", b"b", b"c", b"a"]


def test_an_answer_that_was_lost_is_asked_for_again(broker, client):
    broker.fail("lose", "POST /api/publish")
    assert Numbered(client, "me").publish(rows("a", "b"), 0) == 2
    assert bodies(broker) == [b"a", b"b"]


def test_a_message_that_goes_nowhere_is_an_error_or_not(client):
    with pytest.raises(PublishError, match="went to no queue"):
        Numbered(client, "me", "nowhere").publish(rows("a"), 0)
    assert Numbered(client, "you", "nowhere", unroutable_fails=False).publish(rows("a"), 0) == 0


def test_with_a_rate_requests_are_small(broker, client):
    slept: list[float] = []
    pace = Pace(30.0, lambda: sum(slept), slept.append)
    Numbered(client, "me", pace=pace).publish(rows(*"abcdefghi"), 0)
    assert [query["sequence"] for _, query, _ in broker.posted] == ["0", "3", "6"]
    assert sum(slept) == pytest.approx(0.2)


def test_a_pace_spreads_messages_and_does_not_catch_up():
    now = [0.0]
    pace = Pace(100.0, lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
    for _ in range(11):
        pace.take(10)
    assert now[0] == pytest.approx(1.0)
    now[0] += 60
    pace.take(10)
    pace.take(10)
    assert now[0] == pytest.approx(61.1)


def test_what_cannot_be_published_is_left_out():
    properties = pa.array([{"user_id": "bob", "type": "t"}, None], PROPERTIES)
    arrays = [pa.array([1, 2]), pa.array(["x", None]), properties]
    batch = pa.RecordBatch.from_arrays(arrays, names=["offset", "body", "properties"])
    found = publishable(batch)
    assert found.schema.names == ["body", "properties"]
    first, second = found.to_pylist()
    assert "user_id" not in first["properties"]
    assert first["properties"]["type"] == "t"
    assert second == {"body": None, "properties": None}
