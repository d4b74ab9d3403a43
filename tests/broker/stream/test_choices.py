"""What a consumer of a stream asks for, and what is wrong with it."""

from __future__ import annotations

import pytest
from tests.broker.engine_fake import FakeReader
from tests.broker.peer import World

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.methods import BasicCancel, BasicConsume, BasicQos, QueueDeclare
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Int32, LongString, Value
from leporid.broker.filter.filter_classes import FilterClassConflict
from leporid.broker.stream.choices import choice_for, choice_of
from leporid.filters.dialects import Dialect
from leporid.filters.errors import FilterError
from leporid.filterserver.filter_class import FilterClass

TITLE = "queue 's' in vhost '/'"


def passes(arguments: dict[str, Value], **headers: Value) -> bool:
    choice = choice_of(arguments)
    assert choice is not None
    raw = encode_properties(Properties(headers=headers))
    return choice.filter.matches_message("", "s", raw)


@pytest.mark.parametrize("arguments", [{}, {"x-stream-offset": "first"}, {"x-filter-tags": "*"}])
def test_everything_is_no_choice(arguments):
    assert choice_of(arguments) is None


def test_values_of_a_stream_filter():
    value = "x-stream-filter-value"
    assert passes({"x-stream-filter": "a"}, **{value: "a"})
    assert not passes({"x-stream-filter": "a"}, **{value: "b"})
    assert not passes({"x-stream-filter": "a"})
    assert passes({"x-stream-filter": ["b", "a"]}, **{value: "a"})
    unfiltered: dict[str, Value] = {"x-stream-filter": "a", "x-stream-match-unfiltered": True}
    assert passes(unfiltered)
    assert passes(unfiltered, **{value: "a"})
    assert not passes(unfiltered, **{value: "b"})
    # A tag is not what RabbitMQ's filters look at.
    assert not passes({"x-stream-filter": "a"}, **{"x-tag": "a"})


def test_all_filters_must_hold():
    asked: dict[str, Value] = {
        "x-stream-filter": "v",
        "x-filter-tags": "t",
        "x-filter-sql": "n > 1",
    }
    headers: dict[str, Value] = {"x-stream-filter-value": "v", "x-tag": "t", "n": 2}
    assert passes(asked, **headers)
    for name in headers:
        assert not passes(asked, **(headers | {name: "x"}))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"x-stream-filter": Int32(5)},
            f"invalid arg 'x-stream-filter' for {TITLE}: {{unacceptable_type,signedint}}",
        ),
        (
            {"x-stream-filter": ["a", True]},
            f"invalid arg 'x-stream-filter' for {TITLE}: {{unacceptable_type,bool}}",
        ),
        (
            {"x-stream-filter": LongString(b"\xff")},
            f"invalid arg 'x-stream-filter' for {TITLE}: \"expected text in UTF-8\"",
        ),
        (
            {"x-stream-filter": [str(number) for number in range(201)]},
            "invalid arg 'x-stream-filter': it has 201 values; at most 200",
        ),
        (
            {"x-stream-match-unfiltered": "yes"},
            f"invalid arg 'x-stream-match-unfiltered' for {TITLE}: {{unacceptable_type,longstr}}",
        ),
        (
            {"x-filter-sql": "n >"},
            "invalid arg 'x-filter-sql': character 4: ",
        ),
        (
            {"x-filter-tags": "a || *"},
            "invalid arg 'x-filter-tags': character 6: ",
        ),
    ],
)
def test_refused_at_consume_time(arguments, text):
    world = World()
    peer = world.peer()
    peer.call(QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"}))
    peer.call(BasicQos(prefetch_count=1))
    refused = peer.refused(BasicConsume(queue="s", arguments=arguments))
    assert refused.startswith(f"PRECONDITION_FAILED - {text}")
    assert not world.stream("s").consumers


def test_a_class_is_no_part_of_it():
    asked: list[str] = []
    assert choice_of({"x-filter-class": "C"}, asked.append) is None
    assert choice_of({"x-filter-class": "D", "x-filter-tags": "a"}, asked.append) is not None
    assert asked == ["C", "D"]


def test_the_engine_is_told_which_class_to_ask():
    world = World()
    peer = world.peer()
    peer.call(QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"}))
    peer.call(BasicQos(prefetch_count=1))
    asked = BasicConsume(queue="s", consumer_tag="t", arguments={"x-filter-class": "C"})
    assert peer.refused(asked) == "NOT_FOUND - no filter class 'C' is registered"
    assert not world.stream("s").consumers
    classes = world.broker.filter_classes
    classes.restore(FilterClass("C", 1, "Filter", b""))
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=1))
    peer.call(asked)
    [reader] = world.stream("s").consumers
    assert isinstance(reader, FakeReader)
    assert (reader.filter_class, reader.choice) == ("C", None)
    user = "consumer 't' of queue 's' in vhost '/'"
    assert list(classes.uses("C")) == [user]
    reader.judging = 7
    assert sum(world.broker.waiting_for_verdicts("C")) == 7
    with pytest.raises(FilterClassConflict, match=user):
        classes.drop("C")
    peer.call(BasicCancel("t"))
    classes.drop("C")


def test_the_engine_is_told():
    world = World()
    peer = world.peer()
    peer.call(QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"}))
    peer.call(BasicQos(prefetch_count=1))
    peer.call(BasicConsume(queue="s", arguments={"x-filter-sql": "n = 1"}))
    peer.call(BasicConsume(queue="s"))
    one, other = world.stream("s").consumers
    assert isinstance(one, FakeReader)
    assert isinstance(other, FakeReader)
    assert one.choice is not None
    assert other.choice is None


def test_other_queues_keep_a_streams_filter_without_effect():
    peer = World().peer()
    peer.call(QueueDeclare(queue="q"))
    peer.call(BasicConsume(queue="q", arguments={"x-stream-filter": Int32(5)}))


def test_from_texts_alone():
    assert choice_for(None, None) is None
    assert choice_for("*", None) is None
    for tags, sql, dialect in (
        ("a", None, Dialect.JMS),
        (None, "\"x-tag\" = 'a'", Dialect.JMS),
        ("a", "TAGS = 'a'", Dialect.ROCKETMQ),
    ):
        choice = choice_for(tags, sql, dialect)
        assert choice is not None
        for tag in ("a", "b"):
            raw = encode_properties(Properties(headers={"x-tag": tag}))
            assert choice.filter.matches_message("", "", raw) is (tag == "a")
    with pytest.raises(FilterError, match="character 4"):
        choice_for(None, "n >")
    with pytest.raises(FilterError, match="character 6"):
        choice_for("a || *", None)


def test_a_check_of_one_value_says_what_it_expects():
    with pytest.raises(PreconditionFailed, match="it must be a string, not bool"):
        choice_of({"x-filter-sql": True})
