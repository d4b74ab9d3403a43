"""The real engine and the fake have what the protocols promise."""

from __future__ import annotations

import importlib
import inspect

import pytest
from tests.broker.engine_fake import FakeConnection, FakePlane

from leporid.broker import dataplane


def members(protocol: type) -> set[str]:
    """Return the names that a protocol asks for."""
    named = {name for name, _ in inspect.getmembers(protocol) if not name.startswith("_")}
    return named | set(protocol.__annotations__)


def real() -> dict[str, object]:
    plane = importlib.import_module("leporid.engine.plane").Plane(1)
    connection = plane.connection(None)
    channel = connection.open_channel(1)
    queue = plane.queue(0, "q", False)
    return {
        "Plane": plane,
        "Connection": connection,
        "Channel": channel,
        "Queue": queue,
        "RouteCache": plane.route_cache("e", lambda key, properties: [], True),
        "Consumer": channel.consume(queue, "t", True, 0, 0),
    }


def fake() -> dict[str, object]:
    plane, connection = FakePlane(), FakeConnection()
    channel = connection.open_channel(1)
    queue = plane.queue(0, "q", False)
    return {
        "Plane": plane,
        "Connection": connection,
        "Channel": channel,
        "Queue": queue,
        "RouteCache": plane.route_cache("e", lambda key, properties: [], True),
        "Consumer": channel.consume(queue, "t", True, 0, 0),
    }


@pytest.mark.parametrize("make", [real, fake])
def test_nothing_is_missing(make):
    for name, each in make().items():
        wanted = members(getattr(dataplane, name))
        assert wanted, name
        assert {member for member in wanted if not hasattr(each, member)} == set(), name
