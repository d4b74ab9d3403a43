"""Policies and parameters of a document."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.definitions.given import all_of, queue, run
from tests.broker.peer import World

from leporid.broker.definitions import policies
from leporid.broker.definitions.plan import DefinitionsRefused
from leporid.broker.policy.policies import make_policy


@pytest.fixture
def world() -> World:
    return World()


def test_limits_of_a_document_count_for_it(world: World):
    limits = {
        "name": "limits",
        "vhost": "/",
        "component": "vhost-limits",
        "value": {"max-queues": 1},
    }
    with pytest.raises(DefinitionsRefused, match=r"queue limit in vhost '/' \(1\) is reached"):
        run(world, parameters=[limits], queues=[queue("a"), queue("b")])
    assert world.broker.vhosts["/"].limits == {}
    run(world, parameters=[limits], queues=[queue("a")])
    assert world.broker.vhosts["/"].limits == {"max-queues": 1}


def policy(name: str, length: int, **more: Any) -> dict[str, Any]:
    given = {"name": name, "vhost": "/", "pattern": "^q", "definition": {"max-length": length}}
    return given | {"priority": 0, "apply-to": "all"} | more


def test_policies_govern_what_is_imported_with_them(world: World):
    run(world, policies=[policy("p", 5)], queues=[queue("q")])
    vhost = world.broker.vhosts["/"]
    assert vhost.queue("q").governed.definition == {"max-length": 5}
    difference = run(world, policies=[policy("p", 6)]).difference
    assert list(difference["policies"].changed) == [("/", "p")]
    assert vhost.queue("q").governed.definition == {"max-length": 6}


def test_federation_is_left_out_of_policies(world: World):
    """As its parameters are, and said; RabbitMQ without the plugin refuses the whole document."""
    federated = policy("f", 0, definition={"federation-upstream-set": "all"})
    both = policy("b", 0, definition={"federation-upstream": "up", "max-length": 3})
    for _ in range(2):
        difference = run(world, policies=[federated, both], queues=[queue("q")]).difference
        assert difference.ignored == [
            ("policy 'f' in vhost '/'", "there is no federation here"),
            ("federation in policy 'b' in vhost '/'", "there is no federation here"),
        ]
    assert difference["policies"].unchanged == 1
    vhost = world.broker.vhosts["/"]
    assert [each.name for each in vhost.policies] == ["b"]
    assert vhost.queue("q").governed.definition == {"max-length": 3}


def test_there_may_be_so_many(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(policies, "POLICIES_MAX", 2)
    with pytest.raises(DefinitionsRefused, match="vhost '/' may have 2 of that kind"):
        run(world, policies=[policy(name, 1) for name in "abc"])
    run(world, policies=[policy(name, 1) for name in "ab"])


def test_a_policy_of_the_configuration_file_stays(world: World):
    vhost = world.broker.vhosts["/"]
    configured = make_policy("p", "^q", {"max-length": 7})
    vhost.policies.configure([configured])
    difference = run(world, policies=[policy("p", 5)]).difference
    assert difference["policies"].conflicting[0][0] == ("/", "p")
    assert vhost.policies.find("p", operator=False) == configured
    assert run(world, policies=[policy("p", 7)]).difference["policies"].unchanged == 1


def test_global_parameters_have_any_value(world: World):
    given = [{"name": "g", "value": [1, {"a": None}]}]
    run(world, global_parameters=given)
    assert all_of(world)["global_parameters"] == given
    assert run(world, global_parameters=given).difference["global_parameters"].unchanged == 1
