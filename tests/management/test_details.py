"""How objects name each other."""

from __future__ import annotations

from tests.management.clients import connected
from tests.management.conftest import World

from leporid.broker.connection.transport import Endpoints
from leporid.management.details import channel_details, channel_name, connection_details


def test_ends_are_written_as_in_rabbitmq(world: World):
    session = connected(world, 7).session
    session.endpoints = Endpoints("::1", 40000, "::1", 5672)
    name = "[::1]:40000 -> [::1]:5672"
    assert connection_details(session) == {"name": name, "peer_host": "::1", "peer_port": 40000}
    assert channel_name(session.channels[1]) == f"{name} (1)"
    assert channel_details(session.channels[1], "n")["connection_name"] == name


def test_a_connection_without_a_socket_has_its_name(world: World):
    session = connected(world, 0).session
    assert connection_details(session) == {
        "name": "10.0.0.1:4",
        "peer_host": None,
        "peer_port": None,
    }
    assert channel_details(session.channels[1], "n")["peer_port"] is None
