"""Virtual hosts, users and permissions of a document."""

from __future__ import annotations

import pytest
from tests.broker.definitions.given import all_of, run
from tests.broker.peer import World

from leporid.broker.access.access import User
from leporid.broker.access.passwords import NoPassword


@pytest.fixture
def world() -> World:
    return World()


def test_users_of_the_document_are_in_force(world: World):
    run(world, users=[{"name": "ann", "password_hash": "", "tags": "a, b"}])
    assert world.broker.access.require("ann") == User("ann", NoPassword(), ("a", "b"))


def test_what_a_document_does_not_say_of_a_virtual_host_stays(world: World):
    vhost = world.broker.vhosts["/"]
    vhost.describe("mine", ["b", "a"], "quorum")
    assert run(world, vhosts=[{"name": "/"}]).difference["vhosts"].unchanged == 1
    run(world, vhosts=[{"name": "/", "metadata": {"description": "yours"}}])
    assert (vhost.description, vhost.tags, vhost.default_queue_type) == (
        "yours",
        ("a", "b"),
        "quorum",
    )


def test_types_and_limits_that_are_not_here_are_told(world: World):
    metadata = {"default_queue_type": "mqtt-qos0"}
    user = {"name": "u", "limits": {"max-foo": 1, "max-channels": 2}}
    difference = run(world, vhosts=[{"name": "v", "metadata": metadata}], users=[user]).difference
    assert [what for what, _ in difference.ignored] == [
        "default_queue_type 'mqtt-qos0' of vhost 'v'",
        "limit 'max-foo' of user 'u'",
    ]
    assert world.broker.access.require("u").limits == {"max-channels": 2}


def test_topic_permissions(world: World):
    given = {"user": "guest", "vhost": "/", "exchange": "amq.topic", "write": "a", "read": "b"}
    run(world, topic_permissions=[given])
    assert all_of(world)["topic_permissions"] == [given]
    assert run(world, topic_permissions=[given]).difference["topic_permissions"].unchanged == 1
