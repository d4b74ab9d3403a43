"""What is exported of a broker, and of a virtual host."""

from __future__ import annotations

import pytest
from tests.broker.definitions.given import binding, queue, run
from tests.broker.peer import World

from leporid.broker.definitions.exporting import exported, exported_of


@pytest.fixture
def world() -> World:
    return World()


def test_a_document_of_one_virtual_host_goes_where_it_is_imported(world: World):
    given = queue("q")
    del given["vhost"]
    plan = run(world, scope="other", queues=[given], users=[{"name": "u"}])
    assert world.broker.vhosts["other"].find_queue("q") is not None
    assert plan.difference.ignored == [("users", "they do not belong to a virtual host")]
    assert world.broker.access.user("u") is None
    found = exported_of(world.broker.vhosts["other"])
    assert [each for each in found["queues"] if each] == [given]


def test_each_binding_is_between_what_was_listed(world: World):
    run(world, queues=[queue("a"), queue("b")], bindings=[binding("amq.topic", "a")])
    found = exported(world.broker)
    listed = [each for each in found["queues"] if each]
    # Between the lists, others make something.
    run(world, queues=[queue("c")], bindings=[binding("amq.topic", "c")])
    list(found["exchanges"])
    assert [each["name"] for each in listed] == ["a", "b"]
    assert [each["destination"] for each in found["bindings"] if each] == ["a"]


def test_where_a_user_may_come_from_is_said_if_it_is_not_usual(world: World):
    run(world, users=[{"name": "a", "loopback_only": True}, {"name": "b"}])
    found = {
        each["name"]: each.get("loopback_only") for each in exported(world.broker)["users"] if each
    }
    assert (found["a"], found["b"]) == (True, None)
