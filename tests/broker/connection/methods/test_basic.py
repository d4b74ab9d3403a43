"""basic.consume, cancel, get, qos and recover, and direct reply-to."""

from __future__ import annotations

import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.broker.peer import Peer, World, user

from leporid.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    ChannelClose,
    ChannelOpen,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
)
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.broker.names import REPLY_QUEUE
from leporid.engine.selectors.filter import ClassFilter
from leporid.filterserver.filter_class import FilterClass


@pytest.fixture
def world() -> World:
    world = World()
    world.peer().call(QueueDeclare(queue="q"))
    return world


# ---------------------------------------------------------------------- consuming


def test_consume_ok_comes_before_the_first_delivery(world: World):
    peer = world.peer()
    world.queue("q").push("m")
    ok = peer.call(BasicConsume(queue="q", consumer_tag="t"))
    assert ok == BasicConsumeOk("t")
    assert peer.connection.delivered == [("t", "m")]


def test_the_broker_gives_tags(world: World):
    ok = world.peer().call(BasicConsume(queue="q"))
    assert isinstance(ok, BasicConsumeOk)
    assert ok.consumer_tag.startswith("amq.ctag-")
    assert len(ok.consumer_tag) == len("amq.ctag-") + 22


def test_what_the_engine_is_told(world: World):
    peer = world.peer()
    assert peer.call(BasicQos(prefetch_count=7)) == BasicQosOk()
    arguments: dict[str, Value] = {"x-priority": 10}
    peer.say(BasicConsume(queue="q", no_ack=True, no_wait=True, arguments=arguments))
    (consumer,) = world.queue("q").consumers
    assert (consumer.no_ack, consumer.priority, consumer.prefetch) == (True, 10, 7)
    peer.call(BasicConsume(queue="q", arguments={"x-priority": -(1 << 40)}, no_local=True))
    assert world.queue("q").consumers[1].priority == -(2**31 - 1)


@pytest.mark.parametrize(
    ("arguments", "timeout"),
    [
        ({}, (None, None)),
        ({"x-consumer-timeout": 100}, (100, None)),
        ({"x-consumer-timeout": 0}, (0, None)),
        ({"x-consumer-timeout-action": "requeue"}, (None, True)),
        ({"x-consumer-timeout-action": "close", "x-consumer-timeout": 5}, (5, False)),
    ],
)
def test_a_timeout_of_its_own(world: World, arguments: dict[str, Value], timeout: object):
    world.peer().call(BasicConsume(queue="q", arguments=arguments))
    (consumer,) = world.queue("q").consumers
    assert consumer.timeout == timeout


@pytest.mark.parametrize(
    "arguments",
    [{"x-filter-tags": "A || B"}, {"x-filter-sql": "a = 'A' AND b > 1", "x-filter-tags": "A"}],
)
def test_a_filter_of_its_own(world: World, arguments: dict[str, Value]):
    world.peer().call(BasicConsume(queue="q", arguments=arguments))
    (consumer,) = world.queue("q").consumers
    assert consumer.filter is not None
    world.peer().call(BasicConsume(queue="q", arguments={"x-filter-tags": "*"}))
    assert world.queue("q").consumers[1].filter is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"x-filter-sql": "a = 'A' AND"},
            "PRECONDITION_FAILED - invalid arg 'x-filter-sql': ",
        ),
        (
            {"x-filter-tags": 5},
            "PRECONDITION_FAILED - invalid arg 'x-filter-tags': it must be a string",
        ),
    ],
)
def test_what_is_no_filter_is_refused_and_leaves_nothing(
    world: World, arguments: dict[str, Value], text: str
):
    peer = world.peer()
    refusal = peer.refused(BasicConsume(queue="q", consumer_tag="t", arguments=arguments))
    assert refusal.startswith(text)
    assert world.queue("q").consumers == []


def test_the_engine_is_told_which_class_a_consumer_of_a_queue_asks(world: World):
    asked: dict[str, Value] = {"x-filter-class": "C", "x-filter-tags": "a"}
    consume = BasicConsume(queue="q", consumer_tag="t", arguments=asked)
    assert world.peer().refused(consume) == "NOT_FOUND - no filter class 'C' is registered"
    assert world.queue("q").consumers == []
    classes = world.broker.filter_classes
    classes.restore(FilterClass("C", 1, "Filter", b""))
    peer = world.peer()
    peer.call(consume)
    [consumer] = world.queue("q").consumers
    assert isinstance(consumer.filter, ClassFilter)
    assert consumer.filter.name == "C"
    for tag in "ab":
        properties = encode_properties(Properties(headers={"x-tag": tag}))
        assert consumer.filter.matches_message("", "q", properties) == (tag == "a")
    assert list(classes.uses("C")) == ["consumer 't' of queue 'q' in vhost '/'"]
    peer.call(BasicCancel("t"))
    assert list(classes.uses("C")) == []


def test_a_tag_is_used_once_on_a_channel(world: World):
    peer = world.peer()
    peer.call(ChannelOpen(), 2)
    peer.call(BasicConsume(queue="q", consumer_tag="t"))
    peer.call(BasicConsume(queue="q", consumer_tag="t"), 2)
    for queue in ("q", "none", REPLY_QUEUE):
        again = world.peer()
        again.call(BasicConsume(queue="q", consumer_tag="t"))
        text = again.refused(BasicConsume(queue=queue, consumer_tag="t"))
        assert text == "NOT_ALLOWED - attempt to reuse consumer tag 't'"


def test_an_exclusive_consumer_is_alone(world: World):
    peer = world.peer()
    in_use = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    peer.call(BasicConsume(queue="q", consumer_tag="t"))
    assert world.peer().refused(BasicConsume(queue="q", exclusive=True)) == in_use
    peer.call(BasicCancel("t"))
    peer.call(BasicConsume(queue="q", consumer_tag="t", exclusive=True))
    assert world.peer().refused(BasicConsume(queue="q")) == in_use
    peer.call(BasicCancel("t"))
    world.peer().call(BasicConsume(queue="q"))


def test_with_a_single_active_consumer_nobody_is_exclusive(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="s", arguments={"x-single-active-consumer": True}))
    peer.call(BasicConsume(queue="s"))
    peer.call(BasicConsume(queue="s"))
    assert "in exclusive use" in peer.refused(BasicConsume(queue="s", exclusive=True))


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (BasicConsume(queue="none"), "NOT_FOUND - no queue 'none' in vhost '/'"),
        (BasicGet(queue="none"), "NOT_FOUND - no queue 'none' in vhost '/'"),
        (BasicGet(queue=REPLY_QUEUE), f"NOT_FOUND - no queue '{REPLY_QUEUE}' in vhost '/'"),
        (BasicGet(), "NOT_FOUND - no previously declared queue"),
        (
            BasicConsume(queue="q", arguments={"x-priority": "1"}),
            (
                "PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': "
                '"expected integer, got longstr"'
            ),
        ),
        (BasicQos(prefetch_size=1), "NOT_IMPLEMENTED - prefetch_size!=0 (1)"),
        (BasicRecover(requeue=False), "NOT_IMPLEMENTED - requeue=false"),
        (BasicRecoverAsync(requeue=False), "NOT_IMPLEMENTED - requeue=false"),
    ],
)
def test_refused(world: World, method: Method, text: str):
    assert world.peer().refused(method) == text


def test_a_partitioned_stream_is_no_queue(world: World):
    declare_partitioned_stream(world.broker.vhosts["/"], "s", 2)
    assert world.peer().refused(BasicConsume(queue="s")) == (
        "NOT_FOUND - no queue 's' in vhost '/': a partitioned stream is consumed with x-group, "
        "or partition by partition"
    )


@pytest.mark.parametrize("method", [BasicConsume(queue="q"), BasicGet(queue="q")])
def test_reading_needs_the_right_to(method: Method):
    world = World(user("u", ".*", ".*", ""))
    world.peer().call(QueueDeclare(queue="q"))
    text = world.peer(user="u", password="u").refused(method)
    assert text.startswith("ACCESS_REFUSED")


# ---------------------------------------------------------------------- cancelling


def test_cancel(world: World):
    peer = world.peer()
    peer.call(BasicConsume(queue="q", consumer_tag="t"))
    assert peer.call(BasicCancel("t")) == BasicCancelOk("t")
    assert world.queue("q").consumers == []
    assert peer.call(BasicCancel("t")) == BasicCancelOk("t")
    assert peer.say(BasicCancel("t", no_wait=True)) == []


@pytest.mark.parametrize("end", ["cancel", "close", "refuse", "lose"])
def test_an_auto_delete_queue_goes_with_its_last_consumer(world: World, end: str):
    first, second = world.peer(), world.peer()
    first.call(QueueDeclare(queue="a", auto_delete=True))
    for peer in (first, second):
        peer.call(BasicConsume(queue="a", consumer_tag="t"))
    for peer in (first, second):
        assert world.broker.vhosts["/"].find_queue("a") is not None
        if end == "cancel":
            peer.call(BasicCancel("t"))
        elif end == "close":
            peer.call(ChannelClose(200, "bye"))
        elif end == "refuse":
            peer.refused(QueueDeclare(queue="none", passive=True))
        else:
            peer.session.on_lost()
    assert world.broker.vhosts["/"].find_queue("a") is None


def test_an_auto_delete_queue_that_nobody_consumed_stays(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="a", auto_delete=True))
    peer.session.on_lost()
    assert world.broker.vhosts["/"].find_queue("a") is not None


def test_two_consumers_of_one_auto_delete_queue_on_one_channel(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="a", auto_delete=True))
    peer.call(BasicConsume(queue="a"))
    peer.call(BasicConsume(queue="a"))
    peer.call(ChannelClose(200, "bye"))
    assert world.broker.vhosts["/"].find_queue("a") is None
    assert peer.sent(BasicCancel) == []


# ---------------------------------------------------------------------- get, qos, recover


def test_get(world: World):
    peer = world.peer()
    assert peer.call(BasicGet(queue="q")) == BasicGetEmpty()
    world.queue("q").push("m")
    assert peer.say(BasicGet(queue="q")) == []
    assert peer.connection.delivered == [("", "m")]


def test_qos_per_consumer_ends_the_one_per_channel(world: World):
    peer = world.peer()
    engine = peer.connection.channels[1]
    assert peer.call(BasicQos(prefetch_count=5, global_=True)) == BasicQosOk()
    assert (engine.prefetch_global, engine.prefetch_count) == (5, 0)
    peer.call(BasicQos(prefetch_count=3))
    assert (engine.prefetch_global, engine.prefetch_count) == (0, 3)


def test_kombu_limits_the_channel_without_saying_global(world: World):
    peer = world.peer()
    peer.session.client_properties = {"product": "py-amqp"}
    engine = peer.connection.channels[1]
    peer.call(BasicQos(prefetch_count=5))
    assert (engine.prefetch_global, engine.prefetch_count) == (5, 0)


def test_recover(world: World):
    peer = world.peer()
    assert peer.call(BasicRecover(requeue=True)) == BasicRecoverOk()
    assert peer.say(BasicRecoverAsync(requeue=True)) == []
    assert peer.connection.channels[1].recovered == 2


# ---------------------------------------------------------------------- direct reply-to


def asking(world: World, tag: str = "r") -> tuple[Peer, str]:
    """Return a peer that waits for replies, and its address."""
    peer = world.peer()
    peer.call(BasicConsume(queue=REPLY_QUEUE, consumer_tag=tag, no_ack=True))
    return peer, peer.session.reply_address(1)


def test_a_reply_finds_its_way(world: World):
    peer, address = asking(world)
    assert address.startswith("amq.rabbitmq.reply-to.")
    answering = world.peer()
    assert answering.connection.publish(1, "", address, "answer") == 1
    assert peer.connection.delivered == [("r", "answer")]


def test_each_channel_has_its_own_address(world: World):
    assert asking(world)[1] != asking(world)[1]


def test_a_reply_address_can_be_asked_after_and_nothing_else(world: World):
    _, address = asking(world)
    other = world.peer()
    for name in (address, REPLY_QUEUE):
        assert other.call(QueueDeclare(queue=name, passive=True)) == QueueDeclareOk(name, 0, 1)
        assert other.call(QueueDeclare(queue=name)) == QueueDeclareOk(name, 0, 1)
    missing = f"NOT_FOUND - no queue '{address}' in vhost '/'"
    for method in (
        BasicConsume(queue=address),
        BasicGet(queue=address),
        QueueBind(queue=address, exchange="amq.topic"),
    ):
        assert world.peer().refused(method) == missing
    other.call(QueueDelete(queue=address))
    assert other.connection.publish(1, "", address) == 1
    assert all(each.name == "q" for each in world.broker.vhosts["/"].queues())


@pytest.mark.parametrize("end", ["cancel", "close", "refuse", "lose"])
def test_an_address_ends_with_its_channel(world: World, end: str):
    peer, address = asking(world)
    if end == "cancel":
        assert peer.call(BasicCancel("r")) == BasicCancelOk("r")
    elif end == "close":
        peer.call(ChannelClose(200, "bye"))
    elif end == "refuse":
        peer.refused(QueueDeclare(queue="none", passive=True))
    else:
        peer.session.on_lost()
    assert world.engine.queues[-1].retired
    other = world.peer()
    assert other.connection.publish(1, "", address) == 0
    text = other.refused(QueueDeclare(queue=address, passive=True))
    assert text == f"NOT_FOUND - no queue '{address}' in vhost '/'"


def test_the_rules_of_reply_consumers(world: World):
    peer = world.peer()
    text = peer.refused(BasicConsume(queue=REPLY_QUEUE))
    assert text == "PRECONDITION_FAILED - reply consumer cannot acknowledge"
    peer, _ = asking(world)
    text = peer.refused(BasicConsume(queue=REPLY_QUEUE, no_ack=True))
    assert text == "PRECONDITION_FAILED - reply consumer already set"
    peer = world.peer()
    assert peer.say(BasicConsume(queue=REPLY_QUEUE, no_ack=True, no_wait=True)) == []
    peer.call(BasicCancel(""))
    assert peer.session.channels[1].replies is not None


def test_the_tag_of_a_reply_consumer_may_be_used_again(world: World):
    peer, _ = asking(world)
    peer.call(BasicConsume(queue="q", consumer_tag="r"))
    peer.call(BasicCancel("r"))
    assert len(world.queue("q").consumers) == 1
    peer.call(BasicCancel("r"))
    assert world.queue("q").consumers == []
