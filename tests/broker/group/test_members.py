"""Groups of readers: who is sent what, what is committed, and what a group agrees on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.broker.engine_fake import FakeReader
from tests.broker.peer import Peer, World

from leporid.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    QueueBind,
    QueueDeclare,
)
from leporid.amqp.tables import Int32, Value
from leporid.broker.filter.filter_classes import FilterClassConflict
from leporid.broker.group import groups as group_registry
from leporid.broker.group.handovers import HANDOVER_MS
from leporid.broker.group.members import Group
from leporid.broker.stored import StoredGroup, StoredReaderOffset
from leporid.broker.vhost import VirtualHost
from leporid.durable import Put
from leporid.filterserver.filter_class import FilterClass

TITLE = "group 'g' of stream 's' in vhost '/'"


@pytest.fixture
def world() -> World:
    return three_partitions()


def three_partitions() -> World:
    """Make a world with a partitioned stream of three partitions, each with two messages."""
    world = World()
    declare_partitioned_stream(vhost_of(world), "s", 3)
    for number in range(3):
        push(world, number, "a", "b")
    world.changes.clear()
    return world


def vhost_of(world: World) -> VirtualHost:
    return world.broker.vhosts["/"]


def group_of(world: World, name: str = "g", stream: str = "s") -> Group:
    return vhost_of(world).groups.find(stream, name)


def push(world: World, partition: int, *bodies: str) -> None:
    for body in bodies:
        world.stream(f"s-{partition}").push(f"{partition}{body}")


def turn(world: World, later_ms: int = 0) -> None:
    world.engine.clock.now_ms += later_ms
    world.broker.handovers.run(world.engine.clock.now_ms)
    world.broker.cancels.run(world.engine.clock.now_ms)


def arguments_of(group: Value, version: Value, offset: Value, **more: Value) -> dict[str, Value]:
    arguments = {"x-group": group, "x-group-version": version, "x-stream-offset": offset, **more}
    return {key.replace("_", "-"): value for key, value in arguments.items() if value is not None}


class Member:
    """A client with one consumer."""

    def __init__(
        self,
        world: World,
        *,
        prefetch: int = 10,
        group: Value = "g",
        version: Value = None,
        offset: Value = "first",
        queue: str = "s",
        peer: Peer | None = None,
        **more: Value,
    ) -> None:
        self.peer = peer or world.peer()
        self.peer.call(BasicQos(prefetch_count=prefetch))
        arguments = arguments_of(group, version, offset, **more)
        answer = self.peer.call(BasicConsume(queue=queue, consumer_tag="t", arguments=arguments))
        assert answer == BasicConsumeOk("t")

    @property
    def bodies(self) -> list[str]:
        return sorted(body for _, body in self.peer.connection.delivered)

    @property
    def partitions(self) -> list[str]:
        return sorted(reader.queue.name for reader in self.readers)

    @property
    def readers(self) -> list[FakeReader]:
        found = self.peer.connection.channels[1].consumers
        return [reader for reader in found if isinstance(reader, FakeReader)]

    def ack(self) -> None:
        """Settle everything that was delivered up to now."""
        everything = self.peer.connection.channels[1].readers
        counts = [(reader, len(reader.unacked)) for reader in everything]
        for reader, count in counts:
            reader.ack(count)


def moved(partition: int, offset: int) -> Put:
    return Put(StoredReaderOffset("/", f"s-{partition}", "g", offset))


# ---------------------------------------------------------------------- reading


def test_one_member_reads_every_partition_under_one_tag(world: World):
    member = Member(world)
    assert member.bodies == ["0a", "0b", "1a", "1b", "2a", "2b"]
    assert {tag for tag, _ in member.peer.connection.delivered} == {"t"}
    assert [len(vhost_of(world).queue(f"s-{at}").subscriptions) for at in range(3)] == [1, 1, 1]
    push(world, 1, "c")
    assert "1c" in member.bodies


def test_the_prefetch_count_is_for_all_partitions_together(world: World):
    member = Member(world, prefetch=4)
    assert len(member.bodies) == 4
    member.ack()
    assert len(member.bodies) == 6


def test_members_take_turns_at_a_single_stream(world: World):
    declared: dict[str, Value] = {"x-queue-type": "stream"}
    world.peer().call(QueueDeclare(queue="one", durable=True, arguments=declared))
    first, second = Member(world, queue="one"), Member(world, queue="one")
    world.stream("one").push("a")
    assert (first.bodies, second.bodies) == (["a"], [])
    first.peer.session.on_lost()
    assert second.bodies == ["a"]


def test_what_is_settled_goes_on_at_once(world: World):
    first = Member(world)
    first.ack()
    second = Member(world)
    assert (first.partitions, second.partitions) == (["s-0", "s-1"], ["s-2"])
    push(world, 0, "c")
    push(world, 2, "c")
    assert second.bodies == ["2c"]
    assert "2c" not in first.bodies
    assert moved(2, 1) in world.changes


def test_what_is_not_settled_is_waited_for(world: World):
    first = Member(world)
    second = Member(world)
    turn(world)
    push(world, 2, "c")
    turn(world, HANDOVER_MS - 1)
    assert first.partitions == ["s-0", "s-1"]
    assert (second.partitions, second.bodies) == ([], [])
    assert world.broker.handovers.next_due_ms > world.engine.clock.now_ms
    first.ack()
    turn(world, 0)
    assert second.bodies == ["2c"]
    assert world.broker.handovers.next_due_ms == 0


def test_but_not_for_long_and_it_comes_again_in_order(world: World):
    first = Member(world)
    reader = first.readers[2]
    reader.ack()
    second = Member(world)
    assert world.broker.handovers.next_due_ms == 1
    turn(world)
    turn(world, HANDOVER_MS)
    assert second.bodies == ["2b"]
    assert reader.unacked == []
    assert moved(2, 0) in world.changes


@pytest.mark.parametrize(
    "end",
    [
        lambda peer: peer.call(ChannelClose(200, "", 0, 0)),
        lambda peer: peer.say(ConnectionClose(200, "", 0, 0), 0),
        lambda peer: peer.session.on_lost(),
        lambda peer: peer.refused(BasicConsume(queue="none")),
    ],
    ids=["channel", "connection", "lost", "fault"],
)
def test_what_a_channel_had_goes_on_when_it_closes(world: World, end: Callable[[Peer], object]):
    first, second = Member(world), Member(world)
    first.ack()
    turn(world)
    second.peer.connection.delivered.clear()
    push(world, 0, "c", "d")
    first.readers[0].ack()
    end(first.peer)
    assert second.partitions == ["s-0", "s-1", "s-2"]
    assert second.bodies == ["0d"]
    assert vhost_of(world).reader_offsets("s-0") == {"g": 2}
    assert len(group_of(world).members) == 1


def test_channels_of_one_connection_that_go_together(world: World):
    last = Member(world, group="other")
    first = Member(world)
    first.peer.call(ChannelOpen(), 2)
    first.peer.call(BasicQos(prefetch_count=10), 2)
    first.peer.call(BasicConsume(queue="s", arguments={"x-group": "g"}), 2)
    second = first.peer.connection.channels[2]
    first.peer.session.on_lost()
    assert second.consumers == []
    assert group_of(world).members == []
    assert len(last.bodies) == 6


def test_who_cancels_may_still_settle(world: World):
    first, second = Member(world), Member(world)
    first.ack()
    turn(world)
    push(world, 0, "c")
    assert first.peer.call(BasicCancel("t")) == BasicCancelOk("t")
    assert second.partitions == ["s-1", "s-2"]
    push(world, 0, "d")
    first.ack()
    turn(world)
    assert second.bodies == ["0d"]
    again = Member(world, peer=first.peer)
    second.ack()
    turn(world)
    assert len(again.partitions) + len(second.partitions) == 3


def test_who_cancelled_and_goes_settles_nothing_more(world: World):
    first = Member(world)
    first.peer.call(BasicCancel("t"))
    second = Member(world)
    assert second.bodies == []
    first.peer.session.on_lost()
    assert len(second.bodies) == 6
    turn(world)
    turn(world, HANDOVER_MS)
    assert len(second.bodies) == 6


def test_a_tag_is_used_once(world: World):
    member = Member(world)
    text = member.peer.refused(BasicConsume(queue="s", consumer_tag="t"))
    assert text == "NOT_ALLOWED - attempt to reuse consumer tag 't'"


# ---------------------------------------------------------------------- where it begins


def test_a_group_begins_where_its_first_member_says(world: World):
    first = Member(world, offset=None)
    assert first.bodies == []
    assert world.changes[:4] == [*(moved(at, 1) for at in range(3)), put_group()]
    push(world, 0, "c")
    # It crashes with its first message: the next one begins there, not at the end.
    first.peer.session.on_lost()
    assert Member(world, offset=None).bodies == ["0c"]
    assert "0a" not in Member(world, offset="first").bodies


def put_group(version: int = 0, arguments: bytes = b"\0\0\0\0") -> Put:
    return Put(StoredGroup("/", "s", "g", version, arguments, 0))


def test_a_group_that_begins_with_everything(world: World):
    first = Member(world)
    assert world.changes == [put_group()]
    first.peer.session.on_lost()
    assert len(Member(world, offset=None).bodies) == 6


def test_a_group_goes_on_where_a_reader_of_its_name_was(world: World):
    vhost_of(world).set_reader_offset("s-1", "g", 0)
    assert Member(world).bodies == ["0a", "0b", "1b", "2a", "2b"]


def test_a_partition_that_comes_later_is_read_from_its_first_message(world: World):
    member = Member(world, offset=None)
    peer = world.peer()
    declared: dict[str, Value] = {"x-queue-type": "stream"}
    peer.call(QueueDeclare(queue="s-3", durable=True, arguments=declared))
    push(world, 3, "a")
    order: dict[str, Value] = {"x-stream-partition-order": 3}
    peer.call(QueueBind(queue="s-3", exchange="s", routing_key="3", arguments=order))
    world.broker.look_at_groups()
    assert member.bodies == ["3a"]


def test_consume_ok_waits_until_the_group_is_on_disk(world: World):
    member = Member(world)
    events = member.peer.connection.events
    assert events[-2:] == ["hold 1", "basic.consume-ok"]
    assert Member(world).peer.connection.events[-2:] == ["basic.qos-ok", "basic.consume-ok"]


# ---------------------------------------------------------------------- agreeing


def refused(world: World, **arguments: Value) -> str:
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=1))
    given = arguments_of("g", arguments.pop("version", None), None, **arguments)
    return peer.refused(BasicConsume(queue="s", arguments=given))


def test_another_filter_needs_a_higher_version(world: World):
    Member(world, version=3, x_filter_tags="A")
    has = f"PRECONDITION_FAILED - {TITLE} has version 3 with x-filter-tags 'A'"
    higher = f"{has}; other arguments need a higher x-group-version"
    assert refused(world, version=3, x_filter_tags="B") == higher
    assert refused(world, version=3) == higher
    assert refused(world, version=2, x_filter_tags="A") == f"{has}, which has replaced version 2"
    assert refused(world) == f"{has}, which has replaced version 0"
    Member(world, version=Int32(3), x_filter_tags="A")


def test_readers_get_the_filter(world: World):
    member = Member(world, x_filter_tags="A")
    assert all(reader.choice is not None for reader in member.readers)
    assert all(reader.choice is None for reader in Member(world, group="all").readers)


def test_a_newer_version_replaces_the_members(world: World):
    olds = [Member(world) for _ in range(2)]
    for old in olds:
        old.ack()
    turn(world)
    new = Member(world, version=1, x_filter_sql="a = 1")
    for old in olds:
        assert old.peer.sent(BasicCancel) == [BasicCancel("t", no_wait=True)]
        assert old.partitions == []
    assert new.partitions == ["s-0", "s-1", "s-2"]
    assert group_of(world).version == 1
    assert world.changes[-1] == put_group(1, b"\0\0\0\x17\x0cx-filter-sqlS\0\0\0\5a = 1")
    has = "has version 1 with x-filter-sql 'a = 1', which has replaced version 0"
    assert refused(world).endswith(has)


def test_who_has_the_old_version_may_settle_what_it_has(world: World):
    old = Member(world)
    new = Member(world, version=1)
    assert new.bodies == []
    old.ack()
    turn(world)
    push(world, 0, "c")
    assert new.bodies == ["0c"]


def test_a_newer_version_that_is_wrong_changes_nothing(world: World):
    old = Member(world, x_filter_sql="a = 1")
    before = list(world.changes)
    assert "x-filter-sql" in refused(world, version=1, x_filter_sql="a = = 1")
    text = "NOT_FOUND - no filter class 'none' is registered"
    assert refused(world, version=1, x_filter_class="none") == text
    assert old.partitions == ["s-0", "s-1", "s-2"]
    assert (group_of(world).version, world.changes) == (0, before)


def test_members_ask_the_class_of_their_group(world: World):
    classes = world.broker.filter_classes
    classes.restore(FilterClass("C", 1, "Filter", b""))
    member = Member(world, x_filter_class="C")
    assert [each.filter_class for each in member.readers] == ["C"] * 3
    assert refused(world, x_filter_class="D") == "NOT_FOUND - no filter class 'D' is registered"
    assert "other arguments need a higher x-group-version" in refused(world)
    # It has the class as long as it is there, members or not.
    member.peer.session.on_lost()
    assert list(classes.uses("C")) == [TITLE]
    with pytest.raises(FilterClassConflict, match=TITLE):
        classes.drop("C")
    Member(world, version=1)
    classes.drop("C")


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"x-group": ""}, "'x-group' for {}: \"expected 1 to 255 bytes of text\""),
        ({"x-group": Int32(1)}, "'x-group' for {}: {{unacceptable_type,signedint}}"),
        ({"x-group": "g", "x-reader": "r"}, "'x-group' for {}: \"a member of a group has no x-r"),
        ({"x-group": "g", "x-group-version": -1}, "'x-group-version' for {}: {{value_negative,-1"),
        ({"x-group": "g", "x-group-version": "1"}, "'x-group-version' for {}: \"expected integer"),
        ({"x-group": "g", "x-stream-offset": "?"}, "'x-stream-offset' for {}: {{invalid_stream"),
        ({"x-group": "g", "x-priority": 1}, "'x-priority' for {} of queue type rabbit_stream"),
    ],
)
def test_wrong_arguments(world: World, arguments: dict[str, Value], wrong: str):
    text = world.peer().refused(BasicConsume(queue="s", arguments=arguments))
    expected = wrong.format("queue 's' in vhost '/'")
    assert text.startswith(f"PRECONDITION_FAILED - invalid arg {expected}")


def test_a_version_is_that_of_a_group(world: World):
    text = world.peer().refused(BasicConsume(queue="s-0", arguments={"x-group-version": 1}))
    assert text.endswith("invalid arg 'x-group-version' for queue 's-0' in vhost '/': "
                         '"there is no x-group beside it"')  # fmt: skip


def test_what_holds_for_consumers_of_streams_holds_for_members(world: World):
    grouped = BasicConsume(queue="s", arguments={"x-group": "g"})
    text = world.peer().refused(grouped)
    assert text.endswith("consumer prefetch count is not set for 'queue 's' in vhost '/''")
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=1))
    automatic = BasicConsume(queue="s", no_ack=True, arguments={"x-group": "g"})
    assert "automatic acknowledgement not supported" in peer.refused(automatic)
    assert world.peer().refused(BasicConsume(queue="none", arguments={"x-group": "g"})) == (
        "NOT_FOUND - no queue 'none' in vhost '/'"
    )
    assert list(vhost_of(world).groups) == []


def test_other_queues_keep_the_argument_without_effect(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    peer.call(BasicConsume(queue="q", arguments={"x-group": 5, "x-group-version": "?"}))
    assert world.changes == []


def test_there_are_so_many_groups_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_registry, "GROUPS_MAX", 1)
    Member(world, group="first")
    assert "vhost '/' has 1 groups" in refused(world)
    Member(world, group="first")


# ---------------------------------------------------------------------- many of them


def steps(world: World) -> int:
    """Do all that is left, a step of each job at a time; returns how many turns that took."""
    count = 0
    while world.engine.jobs.waiting:
        world.turn()
        count += 1
    return count


def join_many(world: World, peer: Peer, count: int) -> None:
    peer.call(BasicQos(prefetch_count=10))
    for number in range(count):
        arguments: dict[str, Value] = {"x-group": "g", "x-stream-offset": "first"}
        peer.call(BasicConsume(queue="s", consumer_tag=f"t{number}", arguments=arguments))


def test_many_partitions_begin_one_by_one(world: World):
    declare_partitioned_stream(vhost_of(world), "many", 40)
    world.cut_everywhere()
    first = Member(world, queue="many")
    assert len(first.partitions) < 5
    steps(world)
    assert len(first.partitions) == 40
    second = Member(world, queue="many")
    assert len(first.partitions) > 35
    steps(world)
    assert (len(first.partitions), len(second.partitions)) == (20, 20)
    first.peer.session.on_lost()
    assert len(second.partitions) < 25
    steps(world)
    assert len(second.partitions) == 40


def test_who_goes_before_its_share_has_begun_leaves_all_of_it(world: World):
    declare_partitioned_stream(vhost_of(world), "many", 40)
    world.cut_everywhere()
    first, second = Member(world, queue="many"), Member(world, queue="many")
    first.peer.session.on_lost()
    steps(world)
    assert len(second.partitions) == 40


def test_a_newer_version_cancels_thousands_of_members_in_steps(world: World):
    peer = world.peer()
    join_many(world, peer, 3000)
    world.cut_everywhere()
    new = Member(world, version=1)
    # Nobody of the old version is in it from the first step on; they are told one by one.
    assert len(group_of(world).members) == 1
    turn(world)
    assert len(peer.sent(BasicCancel)) < 5
    # One that cancels first is not told.
    assert peer.call(BasicCancel("t2999")) == BasicCancelOk("t2999")
    assert steps(world) >= 1400  # of two steps each
    while world.broker.cancels.next_due_ms:
        turn(world)
    assert len(peer.sent(BasicCancel)) == 2999
    for _ in range(2):
        turn(world, HANDOVER_MS)
        steps(world)
    assert new.partitions == ["s-0", "s-1", "s-2"]


@pytest.mark.parametrize("cut", [False, True])
def test_nothing_begins_on_a_channel_that_closes_with_its_members(world: World, cut: bool):
    peer = world.peer()
    join_many(world, peer, 3000)
    channel = peer.connection.channels[1]
    for _ in range(2):
        for reader in channel.readers:
            reader.ack(len(reader.unacked))
        turn(world)
    begun = list(channel.readers)
    assert {reader.tag for reader in begun} == {"t0", "t1", "t2"}
    other = Member(world)
    if cut:
        world.cut_everywhere()
    peer.session.on_lost()
    assert steps(world) >= (1400 if cut else 0)
    assert channel.readers == begun
    assert other.partitions == ["s-0", "s-1", "s-2"]


def test_a_partition_that_comes_back_has_one_reader(world: World):
    member = Member(world)
    group = group_of(world)
    all_three = list(group.partitions)
    world.cut_everywhere()
    second = Member(world)
    group.look(all_three[:1])
    group.look(all_three)
    steps(world)
    turn(world, HANDOVER_MS)
    turn(world, HANDOVER_MS)
    steps(world)
    assert sorted(member.partitions + second.partitions) == ["s-0", "s-1", "s-2"]
    assert world.broker.handovers.next_due_ms == 0
