"""How groups of readers end, and what is left of them: see test_members for what they do."""

from __future__ import annotations

import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.broker.group.test_members import (
    Member,
    group_of,
    push,
    refused,
    three_partitions,
    turn,
    vhost_of,
)
from tests.broker.peer import World
from tests.broker.recording import Recording, drops, puts

from leporid.amqp.errors import NotFound, PreconditionFailed
from leporid.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from leporid.amqp.tables import Value
from leporid.broker.group import groups as group_registry
from leporid.broker.group.handovers import HANDOVER_MS
from leporid.broker.group.members import Group
from leporid.broker.stored import StoredGroup, StoredReaderOffset, StoredReaderProgress
from leporid.durable import Drop


@pytest.fixture
def world() -> World:
    return three_partitions()


def groups_of(world: World) -> list[Group]:
    return [each for each in vhost_of(world).groups.of("s") if each is not None]


def test_a_group_without_members_is_forgotten_after_a_day(world: World):
    member = Member(world, offset=None)
    day_ms = world.broker.group_expires_ms
    assert day_ms == 24 * 60 * 60 * 1000
    world.engine.clock.now_ms = 5
    world.broker.look_at_groups()
    world.engine.clock.now_ms += 2 * day_ms
    world.broker.look_at_groups()
    world.engine.clock.wall_ms = 77
    member.peer.session.on_lost()
    assert puts(world.changes[-1:], StoredGroup)[0].used_ms == 77
    world.broker.look_at_groups()
    world.engine.clock.now_ms += day_ms - 1
    world.broker.look_at_groups()
    assert groups_of(world) == [group_of(world)]
    world.engine.clock.now_ms += 1
    world.broker.look_at_groups()
    offsets = [("/", f"s-{at}", "g") for at in range(3)]
    assert drops(world.changes, StoredReaderOffset) == offsets
    assert drops(world.changes, StoredReaderProgress) == offsets
    assert world.changes[-1] == Drop(StoredGroup, ("/", "s", "g"))
    assert groups_of(world) == []


def test_many_groups_are_looked_at_in_turn(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_registry, "LOOKS_A_ROUND", 2)
    groups = vhost_of(world).groups
    for number in range(5):
        groups.restore("s", f"g{number}", 0, {}, 0)
    for _ in range(3):
        groups.look_at_all(1, 100)
    left = []
    for _ in range(4):
        groups.look_at_all(200, 100)
        left.append(len(groups_of(world)))
    assert left == [3, 1, 0, 0]


def test_who_comes_in_time_keeps_it(world: World):
    Member(world).peer.session.on_lost()
    for _ in range(3):
        world.engine.clock.now_ms += world.broker.group_expires_ms - 1
        world.broker.look_at_groups()
        Member(world).peer.session.on_lost()
    assert groups_of(world) == [group_of(world)]


def test_a_group_ends_with_its_stream(world: World):
    member = Member(world)
    vhost = vhost_of(world)
    for name in ("s-0", "s-1", "s-2"):
        vhost.delete_queue(vhost.queue(name))
    vhost.delete_exchange(vhost.exchange("s"), if_unused=False)
    assert member.partitions == []
    assert world.broker.handovers.next_due_ms == 1
    turn(world)
    assert member.peer.sent(BasicCancel) == [BasicCancel("t", no_wait=True)]
    assert world.changes[-1] == Drop(StoredGroup, ("/", "s", "g"))
    with pytest.raises(NotFound, match="no stream 's' in vhost '/'"):
        vhost.groups.of("s")
    assert member.peer.call(BasicCancel("t")) == BasicCancelOk("t")


def test_a_stream_made_anew_has_no_groups(world: World):
    declared: dict[str, Value] = {"x-queue-type": "stream"}
    peer = world.peer()
    peer.call(QueueDeclare(queue="one", durable=True, arguments=declared))
    old = Member(world, queue="one", version=7)
    peer.call(QueueDelete(queue="one"))
    peer.call(QueueDeclare(queue="one", durable=True, arguments=declared))
    new = Member(world, queue="one", version=1)
    assert old.peer.sent(BasicCancel) == [BasicCancel("t", no_wait=True)]
    assert new.partitions == ["one"]
    assert group_of(world, stream="one").version == 1
    turn(world)
    assert new.partitions == ["one"]


def test_a_partition_goes_alone(world: World):
    member = Member(world)
    world.peer().call(QueueDelete(queue="s-1"))
    turn(world)
    assert member.partitions == ["s-0", "s-2"]
    second = Member(world)
    member.ack()
    turn(world)
    assert (member.partitions, second.partitions) == (["s-0"], ["s-2"])


@pytest.mark.parametrize(
    ("queue", "declared"), [("s-3", {}), ("other", {"x-queue-type": "stream"})]
)
def test_what_somebody_else_binds_to_a_partitioned_stream_is_no_part_of_it(
    world: World, queue: str, declared: dict[str, Value]
):
    member = Member(world)
    peer = world.peer()
    peer.call(QueueDeclare(queue=queue, durable=True, arguments=declared))
    order: dict[str, Value] = {"x-stream-partition-order": 3}
    bound = peer.call(QueueBind(queue=queue, exchange="s", routing_key="3", arguments=order))
    assert isinstance(bound, QueueBindOk)
    world.broker.look_at_groups()
    assert member.partitions == ["s-0", "s-1", "s-2"]
    assert group_of(world).members
    assert not member.peer.sent(BasicCancel)


def test_a_partition_that_is_unbound_is_read_no_more(world: World):
    member = Member(world)
    binding = world.broker.vhosts["/"].exchange("s").outgoing
    one = next(each for each in binding if each.destination == "s-1")
    world.peer().call(QueueUnbind(queue="s-1", exchange="s", routing_key=one.key,
                                  arguments=dict(one.arguments)))  # fmt: skip
    world.broker.look_at_groups()
    assert member.partitions == ["s-0", "s-2"]
    push(world, 1, "c")
    assert "1c" not in member.bodies


def test_a_partition_that_goes_while_it_is_handed_over(world: World):
    Member(world)
    second = Member(world)
    world.peer().call(QueueDelete(queue="s-2"))
    turn(world)
    turn(world, HANDOVER_MS)
    turn(world)
    assert second.partitions in ([], ["s-1"])
    assert repr(world.broker.handovers) == "<Handovers readings=0 changed=0>"


def test_groups_are_dropped_by_name_when_nobody_is_in_them(world: World):
    member = Member(world, offset=None)
    groups = vhost_of(world).groups
    with pytest.raises(PreconditionFailed, match="has a member; end it first"):
        groups.drop("s", "g")
    member.peer.session.on_lost()
    groups.drop("s", "g")
    assert world.changes[-1] == Drop(StoredGroup, ("/", "s", "g"))
    assert vhost_of(world).reader_offsets("s-0") == {}
    with pytest.raises(NotFound, match="no group 'g' of stream 's'"):
        groups.drop("s", "g")


def test_nothing_that_is_settled_late_brings_back_the_offsets_of_a_dropped_group(world: World):
    member = Member(world)
    assert member.peer.call(BasicCancel("t")) == BasicCancelOk("t")
    vhost_of(world).groups.drop("s", "g")
    member.ack()
    world.broker.save_reader_offsets()
    turn(world)
    turn(world, HANDOVER_MS)
    assert [vhost_of(world).reader_offsets(f"s-{at}") for at in range(3)] == [{}, {}, {}]
    assert world.changes[-1] == Drop(StoredGroup, ("/", "s", "g"))
    member.peer.session.on_lost()
    assert world.changes[-1] == Drop(StoredGroup, ("/", "s", "g"))


def test_a_group_made_anew_begins_where_it_says_whoever_still_settles_for_the_old(world: World):
    member = Member(world)
    member.peer.call(BasicCancel("t"))
    vhost_of(world).groups.drop("s", "g")
    second = Member(world, prefetch=1)
    member.ack()
    turn(world)
    turn(world, HANDOVER_MS)
    second.peer.session.on_lost()
    assert vhost_of(world).reader_offsets("s-0") == {}
    assert Member(world).bodies == ["0a", "0b", "1a", "1b", "2a", "2b"]


def test_a_group_ends_in_steps_and_who_wants_its_name_waits():
    world = World()
    vhost = vhost_of(world)
    declare_partitioned_stream(vhost, "s", 40)
    for number in range(40):
        push(world, number, "a")
    Member(world, offset=None).peer.session.on_lost()
    world.cut_everywhere()
    world.changes.clear()
    done: list[object] = []
    vhost.groups.drop("s", "g", done.append)
    assert len(world.changes) < 5
    assert not done
    with pytest.raises(NotFound, match="no group 'g' of stream 's'"):
        vhost.groups.find("s", "g")
    with pytest.raises(PreconditionFailed, match="is being deleted; try again"):
        vhost.groups.check_offset("s-0", "g")
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=100))
    new: dict[str, Value] = {"x-group": "g", "x-stream-offset": "first"}
    assert peer.say(BasicConsume(queue="s", consumer_tag="t", arguments=new)) == []
    while world.engine.jobs.waiting:
        world.turn()
    assert done == [None]
    assert Drop(StoredGroup, ("/", "s", "g")) in world.changes
    assert len(peer.sent(BasicConsumeOk)) == 1
    assert len(peer.connection.delivered) == 40


def test_groups_are_back_after_a_restart():
    world = World()
    declare_partitioned_stream(vhost_of(world), "s", 2)
    Member(world, version=4, x_filter_tags="A || B").peer.session.on_lost()
    Member(world, group="gone").peer.session.on_lost()
    vhost_of(world).groups.drop("s", "gone")
    vhost_of(world).set_reader_offset("s-0", "g", 0)
    recording = Recording(["/", "other"], world.changes)
    # One whose stream is gone goes as well, as soon as somebody looks.
    recording.put(StoredGroup("/", "none", "g", 1, b"\0\0\0\0", 0))
    again = World()
    again.broker.restore(recording.snapshot())
    for at in range(2):
        push(again, at, "a", "b")
    again.changes.clear()
    again.broker.look_at_groups()
    assert again.changes == [Drop(StoredGroup, ("/", "none", "g"))]
    assert "with x-filter-tags 'A || B', which has replaced version 3" in refused(again, version=3)
    assert Member(again, version=4, x_filter_tags="A || B").bodies == ["0b", "1a", "1b"]
