"""Documents of definitions for tests, and importing them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.broker.at_once import drop_vhost
from tests.broker.peer import World
from tests.broker.recording import Recording

from leporid.broker.definitions.document import Document, reading
from leporid.broker.definitions.exporting import exported
from leporid.broker.definitions.importing import importing
from leporid.broker.definitions.plan import Plan
from leporid.broker.registry import finished
from leporid.broker.stored import StoredPermissions, StoredUser

DOCUMENTS = Path(__file__).parent / "documents"


def queue(name: str, **more: Any) -> dict[str, Any]:
    given = {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    return given | more


def exchange(name: str, **more: Any) -> dict[str, Any]:
    return queue(name, type="topic", internal=False) | more


def binding(source: str, destination: str, key: str = "", **more: Any) -> dict[str, Any]:
    given = {"source": source, "destination": destination, "routing_key": key, "vhost": "/"}
    return given | {"destination_type": "queue", "arguments": {}} | more


def document(**nouns: list[dict[str, Any]]) -> Document:
    return finished(reading(json.dumps(nouns).encode()))


def run(world: World, scope: Any = None, trial: Any = False, **nouns: Any) -> Plan:
    return finished(importing(world.broker, document(**nouns), "a test", scope=scope, trial=trial))


def all_of(world: World) -> dict[str, list[Any]]:
    """Everything that is there, in an order of its own."""
    found = exported(world.broker)
    return {noun: ordered(filter(None, items)) for noun, items in found.items()}


def ordered(items: Any) -> list[Any]:
    return sorted(items, key=lambda each: json.dumps(each, sort_keys=True))


def recorded(world: World) -> Recording:
    """What is on disk; who was there before anything was imported, too."""
    recording = Recording(["/", "other"])
    guest = World().broker.access.require("guest")
    recording.put(StoredUser.of(guest))
    for vhost, granted in guest.permissions.items():
        recording.put(StoredPermissions.of(vhost, "guest", granted))
    recording.extend(world.changes)
    return recording


def restarted(world: World) -> World:
    """What is there after a restart."""
    after = World()
    after.broker.access.drop_user("guest")
    for vhost in list(after.broker.vhosts):
        drop_vhost(after.broker, vhost)
    after.broker.restore(recorded(world).snapshot())
    return after


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCUMENTS / f"{name}.json").read_text())
    return found
