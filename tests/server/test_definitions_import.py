"""Definitions that are imported at a start; real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.broker.peer import World

from leporid.broker.registry import finished
from leporid.server.definitions_import import import_files
from leporid.server.settings import ConfigError
from leporid.testing import BrokerProcess

slow = pytest.mark.slow

QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
USER = {"name": "ann", "password": "secret", "tags": "administrator"}
GRANT = {"user": "ann", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
DOCUMENT: dict[str, Any] = {"users": [USER], "permissions": [GRANT], "queues": [QUEUE]}


def write(path: Path, **nouns: Any) -> Path:
    path.write_text(json.dumps(nouns))
    return path


def numbered(count: int) -> bytes:
    return bytes(count)


def test_files_of_a_directory_are_imported_in_order(tmp_path: Path):
    world = World()
    write(tmp_path / "2.json", bindings=[_binding()])
    write(tmp_path / "1.json", **DOCUMENT)
    (tmp_path / "3.txt").write_text("no document")
    assert import_files(world.broker, tmp_path, numbered) == ["ann"]
    vhost = world.broker.vhosts["/"]
    assert len(list(vhost.bindings_to(vhost.queue("q")))) == 1
    assert world.broker.access.require("ann").password.matches(b"secret")
    # Once more, the user keeps the same hash.
    before = list(world.changes)
    import_files(world.broker, tmp_path, lambda count: b"\1" * count)
    assert world.changes == before


def _binding() -> dict[str, Any]:
    return {"source": "amq.topic", "vhost": "/", "destination": "q", "destination_type": "queue",
            "routing_key": "k", "arguments": {}}  # fmt: skip


def test_what_is_unchanged_may_be_skipped(tmp_path: Path):
    world = World()
    path = write(tmp_path / "d.json", **DOCUMENT)
    import_files(world.broker, path, numbered, skip_if_unchanged=True)
    vhost = world.broker.vhosts["/"]
    finished(vhost.deleting_queue(vhost.queue("q")))
    assert import_files(world.broker, path, numbered, skip_if_unchanged=True) == ["ann"]
    assert vhost.find_queue("q") is None
    import_files(world.broker, path, numbered)
    assert vhost.find_queue("q") is not None
    write(path, queues=[QUEUE, QUEUE | {"name": "q2"}])
    import_files(world.broker, path, numbered, skip_if_unchanged=True)
    assert vhost.find_queue("q2") is not None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file"),
        ("nope", "the definitions are not such JSON"),
        ('{"queues": [{"name": "q", "vhost": "nope"}]}', "there is no vhost 'nope'"),
    ],
)
def test_what_cannot_be_imported(tmp_path: Path, content: str | None, reason: str):
    path = tmp_path / "d.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        import_files(World().broker, path, numbered)
    assert str(path) in str(caught.value)
    assert caught.value.problems[0].key == "definitions.import"


def _asked(broker: BrokerProcess, path: str, auth: tuple[str, str]) -> httpx.Response:
    url = f"http://127.0.0.1:{broker.http_port}{path}"
    return httpx.get(url, auth=auth, trust_env=False)


@slow
def test_a_broker_starts_with_definitions(tmp_path: Path):
    path = write(tmp_path / "d.json", **DOCUMENT)
    config = f'[definitions]\nimport = "{path}"\nskip_if_unchanged = true\n'
    with BrokerProcess(tmp_path / "data", config=config) as broker:
        ann = ("ann", "secret")
        assert _asked(broker, "/api/queues/%2F/q", ann).status_code == 200
        # As with RabbitMQ, there is no default user then.
        assert _asked(broker, "/api/whoami", ("guest", "guest")).status_code == 401
        assert broker.stop() == 0
        # One that cannot be imported keeps it from starting, and changes nothing.
        write(path, queues=[QUEUE | {"name": "new"}, QUEUE | {"vhost": "nope"}])
        code, log = broker.start_refused()
        assert code == 1
        assert f"cannot start: definitions.import: {path}: queues[1] 'q': there is no vhost" in log
        assert "Traceback" not in log
        write(path, **DOCUMENT)
        broker.start()
        names = [each["name"] for each in _asked(broker, "/api/queues", ann).json()]
        assert names == ["q"]
        assert broker.stop() == 0
