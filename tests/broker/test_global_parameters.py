"""Global parameters: kept, recorded, and there again after a restart."""

from __future__ import annotations

import pytest
from tests.broker.peer import World
from tests.broker.recording import Recording

from leporid.amqp.errors import PreconditionFailed
from leporid.broker import global_parameters
from leporid.broker.global_parameters import GlobalParameter


def test_a_cluster_gets_an_id_once():
    world = World()
    there = world.broker.global_parameters
    assert list(there) == []
    there.seed_cluster_id(bytes)
    there.seed_cluster_id(lambda size: b"x" * size)
    assert there.cluster_id == "rabbitmq-cluster-id-AAAAAAAAAAAAAAAAAAAAAA"
    assert len(world.changes) == 1
    there.put(GlobalParameter("internal_cluster_id", 7))
    assert there.cluster_id is None


def test_parameters_are_recorded_and_come_back(monkeypatch: pytest.MonkeyPatch):
    world = World()
    there = world.broker.global_parameters
    assert there.put(GlobalParameter("a", {"x": [1, None]}))
    assert not there.put(GlobalParameter("a", {"x": [2]}))
    assert not there.put(GlobalParameter("a", {"x": [2]}))
    assert there.put(GlobalParameter("b", "text"))
    assert len(world.changes) == 3
    monkeypatch.setattr(global_parameters, "PARAMETERS_MAX", 2)
    with pytest.raises(PreconditionFailed, match="there may be 2 global parameters at most"):
        there.put(GlobalParameter("c", 1))
    assert there.drop("b")
    assert not there.drop("b")
    after = World()
    after.broker.restore(Recording(["/"], world.changes).snapshot())
    assert list(after.broker.global_parameters) == [GlobalParameter("a", {"x": [2]})]
