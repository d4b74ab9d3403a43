"""Rounds of the hand-over go on whatever one of them meets; the rest is in test_members."""

from __future__ import annotations

import logging

import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.broker.group.test_members import Member, group_of, push, turn, vhost_of
from tests.broker.peer import World

from leporid.broker.group.groups import Groups
from leporid.broker.group.handovers import HANDOVER_MS
from leporid.broker.group.members import Group, Reading


@pytest.fixture
def world() -> World:
    world = World()
    declare_partitioned_stream(vhost_of(world), "s", 2)
    push(world, 0, "a")
    push(world, 1, "a")
    return world


def test_a_defect_at_one_partition_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    members = [Member(world) for _ in range(1)]
    members += [Member(world), Member(world, group="other"), Member(world, group="other")]
    real = Group.release

    def release(group: Group, reading: Reading) -> None:
        if group.name == "g":
            raise ZeroDivisionError
        real(group, reading)

    monkeypatch.setattr(Group, "release", release)
    turn(world)
    with caplog.at_level(logging.ERROR):
        turn(world, HANDOVER_MS)
    assert "defect: queue 's-1' in vhost '/' could not be handed on" in caplog.text
    assert members[3].partitions == ["s-1"]


def test_a_defect_at_one_group_stops_no_turn(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    Member(world)

    def look(_groups: Groups, _group: Group) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Groups, "look", look)
    world.broker.handovers.look_at(group_of(world))
    turn(world)
    assert "could not be looked at" in caplog.text
    assert world.broker.handovers.next_due_ms == 0


def test_what_many_members_did_not_settle_goes_on_in_steps():
    world = World()
    declare_partitioned_stream(vhost_of(world), "s", 40)
    for number in range(40):
        push(world, number, "a")
    Member(world, prefetch=100)
    second = Member(world)
    turn(world)
    world.cut_everywhere()
    turn(world, HANDOVER_MS)
    assert len(second.partitions) < 5
    while world.engine.jobs.waiting:
        world.turn()
    assert len(second.partitions) == 20


def test_what_is_not_settled_yet_is_looked_at_in_steps():
    world = World()
    declare_partitioned_stream(vhost_of(world), "s", 40)
    for number in range(40):
        push(world, number, "a")
    Member(world, prefetch=100)
    Member(world)
    world.cut_everywhere()
    turn(world)
    rounds = 0
    while world.engine.jobs.waiting:
        world.turn()
        rounds += 1
    assert rounds >= 20 // 2


def test_it_is_due_again_soon_while_something_is_unsettled(world: World):
    handovers = world.broker.handovers
    assert handovers.next_due_ms == 0
    Member(world)
    Member(world)
    world.engine.clock.now_ms = 1000
    assert handovers.next_due_ms == 1
    turn(world)
    assert 1000 < handovers.next_due_ms <= 1020
