"""Events: told only if somebody wants to know, and without harm to who tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.at_once import drop_policy, drop_vhost, set_policy
from tests.management.conftest import World
from tests.management.queues import fill, peer_of, queue_of

from leporid.amqp.properties import decode_properties
from leporid.broker.access.passwords import NoPassword
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.events import events as module
from leporid.broker.events.actor import acting
from leporid.broker.events.events import EVENT_EXCHANGE, Events
from leporid.broker.exchange.types import Binding
from leporid.broker.global_parameters import GlobalParameter
from leporid.broker.policy.policies import make_policy
from leporid.engine.queue.browse import snapshot
from leporid.engine.queue.queue import Queue


class EventWorld(World):
    """A world whose event exchange is in a virtual host of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.events = Events(self.engine, "told", "node", self.broker.alarms)
        self.broker.users.events = self.broker.events
        self.broker.global_parameters.events = self.broker.events
        self.told = self.broker.add_vhost("told")
        self.vhost = self.broker.add_vhost("main")
        made = self.told.create_queue(
            "events", durable=True, auto_delete=False, arguments={}, owner=None
        )
        assert isinstance(made.engine, Queue)
        self.queue = made.engine

    def listen(self, key: str = "#") -> None:
        binding = Binding(EVENT_EXCHANGE, "events", "queue", key, {})
        self.told.bindings.bind(binding, None)
        self.all()

    def all(self) -> list[tuple[str, dict[str, Any]]]:
        """What was told since the last time."""
        self.turn()
        found = [
            (key, decode_properties(raw).headers or {})
            for _, key, raw, _ in list(snapshot(self.queue))
        ]
        for _ in self.queue.purging():
            pass
        return found

    def keys(self) -> list[str]:
        return [key for key, _ in self.all()]


@pytest.fixture
def world() -> EventWorld:
    return EventWorld()


def is_wanted(world: EventWorld) -> bool:
    return world.broker.events.wanted


def test_nothing_is_made_while_nothing_is_bound(world: EventWorld):
    def fields() -> Any:
        raise AssertionError

    world.broker.events.tell("some.thing", fields)
    assert not is_wanted(world)
    queue_of(world)
    assert world.keys() == []
    world.listen()
    assert is_wanted(world)
    queue_of(world, "q")
    assert world.keys() == ["queue.created"]
    world.told.delete_queue(world.told.queue("events"))
    world.turn()
    assert not is_wanted(world)


def test_who_did_it_is_said(world: EventWorld):
    world.listen("queue.*")
    queue_of(world)
    with acting("ann"):
        queue_of(world, "q")
    assert [headers["user_who_performed_action"] for _, headers in world.all()] == [
        "rmq-internal",
        "ann",
    ]


def test_what_changes_definitions(world: EventWorld):
    world.listen()
    users, vhost = world.broker.users, world.vhost
    parameters = world.broker.global_parameters
    acts: dict[str, Callable[[], object]] = {
        "user.created": lambda: users.put("u", NoPassword(), frozenset({"management"})),
        "user.password.changed": lambda: users.put("u", NoPassword(), frozenset()),
        "permission.created": lambda: users.permit("u", "/", EVERYTHING),
        "permission.deleted": lambda: users.forbid("u", "/"),
        "user.limits.set": lambda: users.limit("u", "max-channels", 3),
        "user.limits.cleared": lambda: users.unlimit("u", "max-channels"),
        "vhost.limits.set": lambda: vhost.limit("max-queues", 3),
        "vhost.updated": lambda: vhost.describe("d", ("t",), ""),
        "policy.set": lambda: set_policy(vhost, make_policy("p", "^x", {"max-length": 1})),
        "policy.cleared": lambda: drop_policy(vhost, "p"),
        "user.deleted": lambda: users.drop("u"),
        "parameter.set": lambda: parameters.put(GlobalParameter("g", {"a": [1, None]})),
        "parameter.cleared": lambda: parameters.drop("g"),
    }
    for key, act in acts.items():
        act()
        (first, headers), *more = world.all()
        assert first == key
        assert headers["timestamp_in_ms"] == world.engine.clock.wall_ms
        assert [name for name, _ in more] == (
            ["user.tags.set"] if key in ("user.created", "user.password.changed") else []
        )


def test_global_parameters_are_told_as_rabbitmq_tells_them(world: EventWorld):
    world.listen("parameter.*")
    parameters = world.broker.global_parameters
    value = {"a": [1, None], "b": {"c": True}}
    with acting("ann"):
        parameters.put(GlobalParameter("g", value))
        parameters.put(GlobalParameter("wide", 1 << 70))
        parameters.drop("g")
        parameters.drop("none")
    told = [
        (key, {name: each for name, each in headers.items() if name != "timestamp_in_ms"})
        for key, headers in world.all()
    ]
    common = {"component": "global", "user_who_performed_action": "ann"}
    assert told == [
        ("parameter.set", {"name": "g", "value": value, **common}),
        # AMQP has no such number.
        ("parameter.set", {"name": "wide", **common}),
        ("parameter.cleared", {"name": "g", **common}),
    ]


def test_exchanges_that_come_with_a_virtual_host_are_not_told_when_they_go(world: EventWorld):
    other = world.broker.add_vhost("other")
    other.add_exchange(
        "own", "direct", durable=True, auto_delete=False, internal=False, arguments={}
    )
    world.listen("exchange.*")
    drop_vhost(world.broker, "other")
    assert [headers["name"] for _, headers in world.all()] == ["own"]


def test_alarms_are_told_and_nothing_else_while_one_is_on(world: EventWorld):
    world.listen()
    world.broker.set_alarm("disk", True)
    queue_of(world)
    assert world.all() == [
        (
            "alarm.set",
            {
                "node": "node",
                "source": "disk",
                "timestamp_in_ms": world.engine.clock.wall_ms,
            },
        )
    ]
    world.broker.set_alarm("disk", False)
    queue_of(world, "q")
    assert world.keys() == ["alarm.cleared", "queue.created"]
    assert world.broker.events.outbox.dropped == 1


def test_events_about_its_own_queue_do_not_go_round(world: EventWorld):
    world.listen()
    peer = peer_of(world, world.queue)
    peer.channel.consume(world.queue, "c", True, 0, 0)
    queue_of(world)
    for _ in range(5):
        world.turn()
    assert len(peer.deliveries()) == 1
    assert world.broker.events.outbox.published == 2  # the binding's own was the first


def test_a_full_queue_of_events_stops_nobody(world: EventWorld):
    world.queue.set_limits(max_length=2, overflow="reject-publish")
    world.listen("queue.created")
    for number in range(5):
        queue_of(world, f"q{number}")
    fill(world, queue_of(world), 1)
    world.turn()
    assert world.queue.ready_count == 2


def test_a_defect_in_an_event_is_not_its_act_s(
    world: EventWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(*_: object) -> Any:
        raise RuntimeError

    world.listen()
    monkeypatch.setattr(module, "Notice", broken)
    queue_of(world)
    assert world.vhost.find_queue("orders") is not None
    assert any("defect" in each for each in caplog.messages)
