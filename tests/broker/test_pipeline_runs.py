"""Reports of pipelines: bounded, each user's own, back after a restart."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.at_once import drop_vhost
from tests.broker.peer import World
from tests.broker.recording import Recording, drops

from leporid.amqp.errors import PreconditionFailed
from leporid.broker import pipeline_runs
from leporid.broker.pipeline_runs import PipelineRun, PipelineRuns
from leporid.broker.stored import StoredPipelineRun


@pytest.fixture
def world() -> World:
    return World()


def runs_of(world: World) -> PipelineRuns:
    return world.broker.vhosts["/"].pipeline_runs


def report(world: World, started_ms: int, user: str = "ann", name: str = "p", **facts: Any) -> None:
    runs_of(world).report(PipelineRun(user, name, started_ms, started_ms + 1, facts))


def started(world: World, user: str = "ann") -> list[int]:
    return [run.started_ms for run in runs_of(world).of(user, "p")]


def test_a_run_has_the_newest_report_and_a_pipeline_its_newest_runs(world: World, monkeypatch: Any):
    monkeypatch.setattr(pipeline_runs, "RUNS_MAX", 2)
    report(world, 10, state="running")
    report(world, 10, state="done")
    assert [run.facts for run in runs_of(world).of("ann", "p")] == [{"state": "done"}]
    report(world, 30)
    report(world, 20)
    assert started(world) == [30, 20]
    assert drops(world.changes, StoredPipelineRun) == [("/", "ann", "p", 10)]


def test_users_do_not_share_pipelines(world: World):
    report(world, 1)
    report(world, 2, user="bob")
    assert (started(world), started(world, "bob")) == ([1], [2])
    assert runs_of(world).drop("ann", "p")
    assert not runs_of(world).drop("ann", "p")
    assert (started(world), started(world, "bob"), len(runs_of(world))) == ([], [2], 1)
    assert [[run.user for run in runs] for runs in runs_of(world)] == [["bob"]]


def test_there_are_so_many_pipelines_and_no_more(world: World, monkeypatch: Any):
    monkeypatch.setattr(pipeline_runs, "PIPELINES_MAX", 1)
    report(world, 1)
    before = list(world.changes)
    with pytest.raises(PreconditionFailed, match="has 1 pipelines that reported runs; delete some"):
        report(world, 1, name="another")
    assert world.changes == before
    report(world, 2)
    assert started(world) == [2, 1]


def test_one_user_leaves_room_for_others(world: World, monkeypatch: Any):
    monkeypatch.setattr(pipeline_runs, "USER_PIPELINES_MAX", 1)
    report(world, 1)
    with pytest.raises(PreconditionFailed, match="has 1 pipelines of user 'ann' that reported"):
        report(world, 1, name="another")
    report(world, 1, user="bob")
    assert len(runs_of(world)) == 2


def test_what_runs_take_is_charged_until_they_go(world: World, monkeypatch: Any):
    monkeypatch.setattr(pipeline_runs, "RUNS_MAX", 2)
    definitions = world.broker.memory.definitions
    before = definitions.bytes
    report(world, 1, error="x" * 1000)
    assert definitions.bytes - before > 1000
    report(world, 1)
    report(world, 2)
    two = definitions.bytes
    report(world, 3)
    assert definitions.bytes == two
    definitions.limit = two
    with pytest.raises(PreconditionFailed, match="cannot make run of pipeline 'p' in vhost '/'"):
        report(world, 4)
    assert started(world) == [3, 2]
    assert world.broker.memory.by_user() == [("ann", 0, two - before)]
    runs_of(world).drop("ann", "p")
    assert (definitions.bytes, world.broker.memory.by_user()) == (before, [])


def test_runs_go_with_their_virtual_host(world: World):
    definitions = world.broker.memory.definitions
    world.broker.add_vhost("other")
    before = definitions.bytes
    world.broker.vhosts["other"].pipeline_runs.report(PipelineRun("ann", "p", 1, 2, {}))
    assert definitions.bytes > before
    drop_vhost(world.broker, "other")
    assert definitions.bytes <= before


def test_runs_are_back_after_a_restart(world: World):
    report(world, 1, error="Ünïcode", lag=2**63 - 1)
    report(world, 1, name="gone")
    runs_of(world).drop("ann", "gone")
    again = World()
    again.broker.restore(Recording(["/"], world.changes).snapshot())
    assert list(runs_of(again)) == list(runs_of(world))
    assert again.changes == []
