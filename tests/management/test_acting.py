"""A channel of a request's own: the rules are AMQP's, and nothing of it is left."""

from __future__ import annotations

import pytest
from tests.broker.at_once import drop_vhost
from tests.management.conftest import World
from tests.management.queues import fill, queue_of

from leporid.amqp.methods import BasicAck, BasicNack, QueueDeclare, QueuePurge
from leporid.amqp.properties import Properties, encode_properties
from leporid.broker.access.access import User
from leporid.broker.exchange.types import Binding
from leporid.management.acting import Acting, BodyTooLarge, Outcome, Outgoing
from leporid.management.refusals import Refusal

PLAIN = encode_properties(Properties(delivery_mode=2))


def user(world: World, name: str = "guest") -> User:
    found = world.broker.access.user(name)
    assert found is not None
    return found


def acting(world: World, name: str = "guest") -> Acting:
    return Acting(world.around, user(world, name), world.vhost, "HTTP")


def nothing_left(world: World) -> None:
    world.engine.run()
    assert not world.broker.sessions
    assert world.broker.session_index.channel_count == 0
    assert world.broker.memory.user("guest").bytes == 0


async def test_what_was_declared_is_on_disk(world: World):
    with acting(world) as channel:
        await channel.act(QueueDeclare(queue="q", durable=True))
        assert world.broker.recorded_generation <= world.engine.logs.synced
    assert world.vhost.find_queue("q") is not None
    nothing_left(world)


async def test_it_is_neither_listed_nor_counted(world: World):
    with acting(world):
        assert world.broker.statistics().connection_count == 0


async def test_a_virtual_host_or_user_that_is_gone_meanwhile(world: World):
    vhost = world.broker.add_vhost("gone")
    drop_vhost(world.broker, "gone")
    for who, where in ((user(world), vhost), (User("gone", user(world).password), world.vhost)):
        with pytest.raises(Refusal) as caught:
            Acting(world.around, who, where, "HTTP")
        assert caught.value.status == 404
    nothing_left(world)


async def test_rights_are_asked_for(world: World):
    with acting(world, "reader") as channel:
        with pytest.raises(Refusal, match="configure access to queue 'q'") as caught:
            await channel.act(QueueDeclare(queue="q"))
        assert (caught.value.status, caught.value.word) == (401, "not_authorised")
    assert world.vhost.find_queue("q") is None
    nothing_left(world)


async def test_a_name_that_no_frame_could_hold_is_refused(world: World):
    with acting(world) as channel, pytest.raises(Refusal, match="255") as caught:
        await channel.act(QueueDeclare(queue="q" * 256))
    assert caught.value.status == 400


@pytest.mark.parametrize("size", [0, 5, 131_064, 131_065, 400_000])
async def test_a_message_goes_through(world: World, size: int):
    queue_of(world, "q")
    body = bytes(range(256)) * (size // 256 + 1)
    with acting(world) as channel:
        assert await channel.publish("", "q", PLAIN, body[:size]) == Outcome(
            routed=True, accepted=True
        )
        found = await channel.get("q", size)
        assert found is not None
        assert (found.body, found.properties) == (body[:size], PLAIN)
        assert (found.method.routing_key, found.method.redelivered) == ("q", False)
        assert await channel.get("q", size) is None
    # It was not settled.
    world.engine.run()
    assert world.vhost.queue("q").engine.ready_count == 1
    nothing_left(world)


async def test_what_no_queue_gets_is_told(world: World):
    with acting(world) as channel:
        assert await channel.publish("", "nowhere", PLAIN, b"x") == Outcome(
            routed=False, accepted=True
        )


async def test_what_a_full_queue_refuses_is_told(world: World):
    queue_of(world, "q", {"x-max-length": 0, "x-overflow": "reject-publish"})
    with acting(world) as channel:
        assert await channel.publish("", "q", PLAIN, b"x") == Outcome(routed=True, accepted=False)


async def test_a_publish_that_is_refused(world: World):
    foreign = encode_properties(Properties(user_id="somebody"))
    other = "user_id property set to 'somebody' but authenticated user was 'guest'"
    for exchange, properties, reason in (
        ("none", PLAIN, "404 NOT_FOUND - no exchange 'none' in vhost '/'"),
        ("", foreign, f"406 PRECONDITION_FAILED - {other}"),
    ):
        with acting(world) as channel, pytest.raises(Refusal) as caught:
            await channel.publish(exchange, "q", properties, b"x")
        assert (caught.value.status, caught.value.word) == (400, "bad_request")
        assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("how", "left"),
    [(BasicAck(0, multiple=True), 1), (BasicNack(0, multiple=True, requeue=True), 3)],
)
async def test_what_was_got_is_settled(world: World, how: BasicAck | BasicNack, left: int):
    queue = queue_of(world, "q")
    fill(world, queue, 3)
    with acting(world) as channel:
        assert [await channel.get("q", 9) for _ in range(2)].count(None) == 0
        await channel.settle(how)
        assert queue.ready_count == left
        assert queue.unacked_count == 0


async def test_a_body_that_is_too_large_is_not_read_and_goes_back(world: World):
    queue = queue_of(world, "q")
    fill(world, queue, 1, body=b"x" * 300_000)
    with acting(world) as channel:
        with pytest.raises(BodyTooLarge) as caught:
            await channel.get("q", 299_999)
        assert caught.value.size == 300_000
        await channel.give_back(caught.value.tag)
    world.engine.run()
    assert queue.ready_count == 1


async def test_a_purge(world: World):
    queue = queue_of(world, "q")
    fill(world, queue, 3)
    with acting(world) as channel:
        await channel.act(QueuePurge(queue="q"), settles=True)
    assert queue.ready_count == 0


def test_an_act_is_no_connection_of_its_user(world: World):
    with acting(world):
        assert world.broker.session_index.channels_of_user("guest") == 1
    nothing_left(world)
    assert world.broker.session_index.count_of_user("guest") == 0
    assert world.broker.session_index.channels_of_user("guest") == 0


async def test_several_messages_at_once_each_with_its_outcome(world: World):
    queue = queue_of(world, "q")
    small = queue_of(world, "small", {"x-max-length": 1, "x-overflow": "reject-publish"})
    messages = [
        Outgoing("", "q", PLAIN, b"a"),
        Outgoing("", "nowhere", PLAIN, b"b" * 300_000),
        Outgoing("", "small", PLAIN, b"c"),
        Outgoing("", "small", PLAIN, b"d"),
        Outgoing("", "q", PLAIN, b""),
    ]
    outcomes: list[Outcome | Refusal] = []
    with acting(world) as channel:
        await channel.publish_all(messages, outcomes)
        assert outcomes == [
            Outcome(*each)
            for each in ((True, True), (False, True), (True, True), (True, False), (True, True))
        ]
        await channel.publish_all([], outcomes)
        await channel.publish_all(messages[1:2], outcomes)
        assert outcomes[5:] == [Outcome(routed=False, accepted=True)]
    assert (queue.ready_count, small.ready_count) == (2, 1)
    nothing_left(world)


async def test_one_that_is_refused_is_told_and_the_others_are_published(world: World):
    queue = queue_of(world, "q")
    world.vhost.create_exchange(
        "inner", "fanout", durable=True, auto_delete=False, internal=True, arguments={}
    )
    messages = [
        Outgoing("", "q", PLAIN, b"a"),
        Outgoing("inner", "", PLAIN, b""),
        Outgoing("", "q", PLAIN, b"b" * 300_000),
        Outgoing("inner", "", PLAIN, b"c" * 300_000),
        Outgoing("", "q" * 256, PLAIN, b"d"),
        Outgoing("", "nowhere", PLAIN, b"e"),
        Outgoing("", "q", PLAIN, b"f"),
    ]
    outcomes: list[Outcome | Refusal] = []
    with acting(world) as channel:
        await channel.publish_all(messages, outcomes)
        with pytest.raises(Refusal, match="internal exchange"):
            await channel.publish("inner", "", PLAIN, b"")
    refused = [isinstance(each, Refusal) for each in outcomes]
    assert refused == [False, True, False, True, True, False, False]
    assert [tuple(each)[:2] for each in outcomes if isinstance(each, Outcome)] == [
        (True, True), (True, True), (False, True), (True, True),
    ]  # fmt: skip
    assert queue.ready_count == 3
    nothing_left(world)


async def test_of_equal_messages_only_those_without_a_route_are_not_routed(world: World):
    queue = queue_of(world, "q")
    world.vhost.bindings.bind(
        Binding("amq.headers", "q", "queue", "", {"x-match": "all", "a": 1}), None
    )
    messages = [
        Outgoing("amq.headers", "", encode_properties(Properties(headers={"a": value})), b"")
        for value in (1, 2, 1, 2)
    ]
    outcomes: list[Outcome | Refusal] = []
    with acting(world) as channel:
        await channel.publish_all(messages, outcomes)
    assert outcomes == [Outcome(routed=number % 2 == 0, accepted=True) for number in range(4)]
    assert queue.ready_count == 2


async def test_more_is_returned_than_a_connection_may_leave_unread(world: World):
    messages = [Outgoing("", "nowhere", PLAIN, b"x" * 70_000)] * 30
    outcomes: list[Outcome | Refusal] = []
    with acting(world) as channel:
        await channel.publish_all(messages, outcomes)
    assert outcomes == [Outcome(routed=False, accepted=True)] * 30
    nothing_left(world)


async def test_a_large_message_that_is_not_read_is_given_back(world: World):
    queue = queue_of(world, "q")
    fill(world, queue, 1, body=b"x" * 3_000_000)
    with acting(world) as channel:
        with pytest.raises(BodyTooLarge) as caught:
            await channel.get("q", 1000)
        assert caught.value.size == 3_000_000
        await channel.give_back(caught.value.tag)
    assert (queue.ready_count, queue.unacked_count) == (1, 0)
    nothing_left(world)


async def test_a_duplicate_is_told_from_a_message_that_came_to_a_queue(world: World):
    queue = queue_of(world, "q", {"x-message-deduplication": True})
    one = encode_properties(Properties(headers={"x-deduplication-header": "one"}))
    outcomes: list[Outcome | Refusal] = []
    with acting(world) as channel:
        await channel.publish_all([Outgoing("", "q", one, b"a"), Outgoing("", "q", one, b"b")],
                                  outcomes)  # fmt: skip
    assert outcomes == [
        Outcome(routed=True, accepted=True),
        Outcome(routed=True, accepted=True, duplicate=True),
    ]
    assert queue.ready_count == 1


async def test_an_alarm_on_the_way_leaves_outcomes_of_what_came_before(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    queue = queue_of(world, "q")
    outcomes: list[Outcome | Refusal] = []
    with acting(world) as channel:
        feed, fed = channel._feed, []

        async def alarmed_at_last(octets: bytes) -> None:
            fed.append(octets)
            if len(fed) == 5:  # method and header, then the body
                raise Refusal(503, "blocked", "low on memory")
            await feed(octets)

        monkeypatch.setattr(channel, "_feed", alarmed_at_last)
        with pytest.raises(Refusal, match="low on memory"):
            await channel.publish_all([Outgoing("", "q", PLAIN, b"a")] * 3, outcomes)
    assert outcomes == [Outcome(routed=True, accepted=True)] * 2
    assert queue.ready_count == 2
    nothing_left(world)


async def test_there_may_be_as_many_arguments_as_over_amqp(world: World):
    with acting(world) as channel:
        for count, name in ((256, "most"), (257, "more")):
            declare = QueueDeclare(queue=name, arguments={f"x-{at}": at for at in range(count)})
            if count == 256:
                await channel.act(declare)
            else:
                with pytest.raises(Refusal, match="more values than the limit of 256"):
                    await channel.act(declare)
    assert [queue.name for queue in world.vhost.queues()] == ["most"]


@pytest.mark.parametrize("size", [0, 1, 300_000])
async def test_a_message_that_an_alarm_finds_on_its_way_is_the_last_one(
    world: World, monkeypatch: pytest.MonkeyPatch, size: int
):
    queue = queue_of(world, "q")
    outcomes: list[Outcome | Refusal] = []
    with acting(world) as channel:
        feed = channel._feed

        async def alarmed(octets: bytes) -> None:
            if octets[7:11] == bytes((0, 60, 0, 40)):
                world.broker.set_alarm("memory", True)
            await feed(octets)

        monkeypatch.setattr(channel, "_feed", alarmed)
        with pytest.raises(Refusal, match="low on memory"):
            await channel.publish_all([Outgoing("", "q", PLAIN, b"x" * size)] * 3, outcomes)
    assert outcomes == [Outcome(routed=True, accepted=True)]
    assert queue.ready_count == 1
    nothing_left(world)


@pytest.mark.parametrize("size", [1, 300_000])
async def test_a_user_who_is_deleted_on_the_way_ends_it(
    world: World, monkeypatch: pytest.MonkeyPatch, size: int
):
    queue_of(world, "q")
    outcomes: list[Outcome | Refusal] = []
    with acting(world, "reader") as channel:
        feed = channel._feed

        async def deleted(octets: bytes) -> None:
            if world.broker.access.user("reader") is not None:
                world.broker.users.drop("reader")
            await feed(octets)

        monkeypatch.setattr(channel, "_feed", deleted)
        with pytest.raises(Refusal, match="deleted during the request"):
            await channel.publish_all([Outgoing("", "q", PLAIN, b"x" * size)] * 3, outcomes)
    assert outcomes == []
    nothing_left(world)
