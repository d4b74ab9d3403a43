import time

import pytest

from leporid.spark import options
from leporid.spark.checks import EARLIEST, LATEST
from leporid.spark.errors import BrokerError, OptionError
from leporid.spark.offsets import Key, initial
from leporid.spark.options import Start
from leporid.spark.survey import Survey


def survey(client, **given) -> Survey:
    return Survey(client, options.reading(options.check_all(given)))


def standing(parts, at=None):
    return initial({key: part.end if at is None else at for key, part in parts.items()}, parts)


def test_a_wrong_name_is_refused_with_the_nearest_there_is(broker, client):
    broker.make("orders")
    with pytest.raises(OptionError, match=r"no stream 'ordres' in vhost '/'; did you mean \"ord"):
        survey(client, stream="ordres").check()
    with pytest.raises(OptionError, match="no stream 'nope'"):
        survey(client, streams="orders,nope").check()


def test_a_queue_that_is_named_as_a_stream_is_told_from_a_wrong_name(broker, client):
    broker.queues["jobs"] = [1]
    with pytest.raises(OptionError, match=r"'jobs' in vhost '/' is a queue.*option queue = jobs"):
        survey(client, stream="jobs").check()


def test_a_missing_right_is_passed_on(broker, client):
    broker.make("orders")
    broker.forbidden.add("orders")
    with pytest.raises(BrokerError, match="403"):
        survey(client, stream="orders").check()


def test_a_pattern_finds_streams_and_new_ones_after_a_while(broker, client, monkeypatch):
    broker.make("a-1")
    broker.make("b-1")
    found = survey(client, streamPattern="a-.*")
    assert found.parts().keys() == {Key("a-1", 0)}
    broker.make("a-2", partitions=2)
    assert found.parts().keys() == {Key("a-1", 0)}
    monkeypatch.setattr(found, "_names_until", 0.0)
    assert found.parts().keys() == {Key("a-1", 0), Key("a-2", 0), Key("a-2", 1)}


def test_a_deleted_stream_is_missing_only_where_that_is_expected(broker, client):
    broker.make("a")
    assert survey(client, streams="a,b").parts(missing=True).keys() == {Key("a", 0)}
    with pytest.raises(BrokerError, match="404"):
        survey(client, streams="a,b").parts()
    assert survey(client, stream="b").wait({}, 10) == {}


def test_a_time_is_asked_once_for_a_stream(broker, client):
    broker.make("a", partitions=3)
    broker.append("a", 10, partition=1)
    found = survey(client, stream="a", startingTimestamp="0")
    parts = found.parts()
    place = Start(moment_ms=1_767_225_600_004)
    assert found.resolve(place, parts, "ending") == {
        Key("a", 0): 0, Key("a", 1): 4, Key("a", 2): 0,
    }  # fmt: skip
    assert broker.count("offset-for") == 1


def test_times_by_partition(broker, client):
    broker.make("a", partitions=2)
    broker.append("a", 10, partition=0)
    broker.append("a", 10, partition=1)
    found = survey(client, stream="a")
    moments = {"a": {0: 1_767_225_600_004, 1: 1_767_225_600_007}}
    assert list(found.resolve(Start(moments_ms=moments), found.parts(), "starting").values()) == [
        4, 7,
    ]  # fmt: skip
    one = Start(moments_ms={"a": {0: 1_767_225_600_004}})
    for others, offset in ((EARLIEST, 0), (LATEST, 10)):
        assert found.resolve(one, found.parts(), "starting", others)[Key("a", 1)] == offset


@pytest.mark.parametrize("names", ["a", "a,b,c,d"])
def test_waiting_ends_when_something_comes(broker, client, names):
    for name in names.split(","):
        broker.make(name)
    found = survey(client, streams=names)
    position = standing(found.parts())
    assert found.wait(position, 20).keys() == position.keys()
    started = time.monotonic()
    broker.append("a", 5)
    parts = found.wait(position, 20_000)
    assert parts[Key("a", 0)].end == 5
    assert time.monotonic() - started < 10


def test_what_is_there_already_is_not_waited_for(broker, client):
    for name in ("a", "b"):
        broker.make(name)
        broker.append(name, 5)
    found = survey(client, streams="a,b")
    position = standing(found.parts(), at=0)
    started = time.monotonic()
    assert found.wait(position, 20_000)[Key("b", 0)].end == 5
    broker.append("b", 5)
    assert found.wait(position, 20_000)[Key("b", 0)].end == 10
    assert time.monotonic() - started < 10


@pytest.mark.slow
def test_waiting_for_many_streams_costs_no_more_calls_than_for_one(broker, client):
    names = [f"s{number}" for number in range(10)]
    for name in names:
        broker.make(name)
    found = survey(client, streams=",".join(names))
    position = standing(found.parts())
    found.wait(position, 100)
    before = len(broker.calls)
    rounds = 10
    for _ in range(rounds):
        found.wait(position, 100)
    # Ten rounds of 100 ms; each stream's poll is out for a second.
    assert len(broker.calls) - before <= 2 * len(names)


def test_a_stream_that_is_deleted_while_it_is_waited_for_has_no_parts(broker, client):
    broker.make("a")
    broker.make("b")
    found = survey(client, streams="a,b")
    position = standing(found.parts())
    found.wait(position, 10)
    del broker.streams["a"]
    deadline = time.monotonic() + 10
    while Key("a", 0) in found.wait(position, 50):
        assert time.monotonic() < deadline


def test_a_stream_that_is_new_to_the_query_is_waited_for_and_seen(broker, client, monkeypatch):
    broker.make("a-1")
    found = survey(client, streamPattern="a-.*")
    position = standing(found.parts())
    broker.make("a-2")
    monkeypatch.setattr(found, "_names_until", 0.0)
    before = len(broker.calls)
    assert Key("a-2", 0) in found.wait(position, 50)
    assert len(broker.calls) - before < 10
    broker.append("a-2", 3)
    assert found.wait(position, 20_000)[Key("a-2", 0)].end == 3


def test_no_stream_at_all_is_waited_out(broker, client):
    started = time.monotonic()
    assert survey(client, streamPattern="none.*").wait({}, 30) == {}
    assert time.monotonic() - started >= 0.03
