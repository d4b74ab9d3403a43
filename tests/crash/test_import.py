"""kill -9 while definitions are imported: all of them are there afterwards, or none."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from leporid.testing import BrokerProcess

pytestmark = [pytest.mark.crash, pytest.mark.slow]

COUNT = 600


def document() -> dict[str, Any]:
    """Queues in two virtual hosts, of which one is new, each bound; users, a policy."""
    queues: list[dict[str, Any]] = [
        {"name": f"q{at}", "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
        for at in range(COUNT)
        for vhost in ("/", "new")
    ]
    return {
        "vhosts": [{"name": "new"}],
        "users": [{"name": f"u{at}", "password_hash": "", "tags": ""} for at in range(50)],
        "policies": [
            {"name": "p", "vhost": "new", "pattern": "", "definition": {"max-length": 5}},
        ],
        "queues": queues,
        "bindings": [
            {
                "source": "amq.topic",
                "vhost": each["vhost"],
                "destination": each["name"],
                "destination_type": "queue",
                "routing_key": "k",
                "arguments": {},
            }
            for each in queues
        ],
    }


def counts(broker: BrokerProcess) -> list[int]:
    with client(broker) as asking:
        found = asking.get("/api/definitions").json()
    return [len(found[noun]) for noun in ("vhosts", "users", "policies", "queues", "bindings")]


def client(broker: BrokerProcess) -> httpx.Client:
    base = f"http://127.0.0.1:{broker.http_port}"
    return httpx.Client(base_url=base, auth=("guest", "guest"), trust_env=False, timeout=60)


def test_all_of_an_import_survives_or_nothing(tmp_path: Path):
    body = json.dumps(document()).encode()
    nothing, everything = [1, 1, 0, 0, 0], [2, 51, 1, 2 * COUNT, 2 * COUNT]
    seen = set()
    # How long an import takes is found out first; then it is killed at parts of that.
    with BrokerProcess(tmp_path / "whole") as broker:
        begun = time.monotonic()
        with client(broker) as asking:
            assert asking.post("/api/definitions", content=body).status_code == 204
        took = time.monotonic() - begun
        broker.kill()
        broker.start()
        assert counts(broker) == everything
    for part in range(1, 5):
        with BrokerProcess(tmp_path / f"data{part}") as broker:
            with client(broker) as asking:
                asking.get("/api/whoami")

                def post(asking: httpx.Client = asking) -> None:
                    try:
                        asking.post("/api/definitions", content=body)
                    except httpx.HTTPError:
                        pass  # it was killed

                posting = threading.Thread(target=post)
                posting.start()
                posting.join(took * part / 4)  # not for a result: a moment to kill at
                broker.kill()
                posting.join()
            broker.start()
            found = counts(broker)
            assert found in (nothing, everything), found
            seen.add(tuple(found))
    assert tuple(nothing) in seen
