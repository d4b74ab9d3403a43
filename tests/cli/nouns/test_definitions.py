"""`leporid definitions` against a broker."""

import json
import os
import tempfile
from pathlib import Path

import pytest

from leporid.cli.nouns.definitions import _write
from leporid.testing import BrokerProcess

DEFINITIONS: dict[str, list[dict[str, object]]] = {
    "vhosts": [{"name": "shop"}],
    "queues": [
        {"name": "orders", "vhost": "shop", "durable": True, "auto_delete": False, "arguments": {}}
    ],
}


def test_a_file_that_is_none(leporid, tmp_path):
    file = tmp_path / "definitions.json"
    leporid("definitions", "import", str(file), "--yes", code=1)
    assert "cannot be read" in leporid.error
    file.write_text("[")
    leporid("definitions", "import", str(file), "--yes", code=1)
    assert "is not JSON" in leporid.error
    file.write_text("[]")
    leporid("definitions", "import", str(file), "--yes", code=1)


def test_import_and_export(leporid, tmp_path, shared_broker: BrokerProcess):
    file, out = tmp_path / "definitions.json", tmp_path / "out.json"
    file.write_text(json.dumps(DEFINITIONS))
    leporid("definitions", "import", str(file), code=2)
    if not has_definitions(leporid):
        leporid("definitions", "export", code=1)
        assert "has no definitions over HTTP: it is older, or RabbitMQ" in leporid.error
        return
    leporid("definitions", "import", str(file), "--dry-run")
    assert "shop" not in leporid("vhosts", "list", "-q")
    leporid("definitions", "import", str(file), "--yes")
    assert leporid("queues", "list", "-p", "shop", "-q") == "orders\n"
    leporid("definitions", "export", str(out))
    assert out.stat().st_mode & 0o077 == 0
    exported = json.loads(out.read_text())
    assert "orders" in [one["name"] for one in exported["queues"]]
    leporid("vhosts", "delete", "shop", "--yes")


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    _write(pipe, "{}")
    assert os.read(reader, 10) == b"{}"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="no folder in memory here")
def test_a_file_in_memory_is_for_its_owner_as_on_a_disk():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder) / "out.json"
        _write(file, "{}")
        assert file.stat().st_mode & 0o077 == 0


def has_definitions(leporid) -> bool:
    return bool(leporid.run("definitions", "export", "-q") == 0)


@pytest.mark.parametrize("product", ["RabbitMQ", None])
def test_a_dry_run_never_imports_elsewhere(cli, tmp_path, monkeypatch, product):
    from leporid.client.management import Management

    asked = []

    def request(self, method, path, query=None, body=None, headers=None):
        asked.append((method, path))
        return 200, json.dumps({"product_name": product}).encode()

    monkeypatch.setattr(Management, "request", request)
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(DEFINITIONS))
    cli("definitions", "import", str(file), "--dry-run", code=1)
    assert "cannot say what an import changes" in cli.error
    assert asked == [("GET", "/api/overview")]


def test_what_an_import_says(leporid, tmp_path):
    file = tmp_path / "definitions.json"
    given = {
        **DEFINITIONS,
        "vhosts": [{"name": "told"}],
        "queues": [{**DEFINITIONS["queues"][0], "vhost": "told"}],
        "policies": [
            {"vhost": "told", "name": "p", "pattern": "x", "definition": {"max-length": 5}}
        ],
        "parameters": [{"vhost": "told", "component": "shovel", "name": "s", "value": {}}],
    }
    file.write_text(json.dumps(given))
    leporid("vhosts", "add", "told")
    leporid("queues", "add", "orders", "-p", "told", "--transient")
    said = leporid("definitions", "import", str(file), "--dry-run").splitlines()
    assert said[:4] == [
        "vhosts: 1 unchanged",
        "policies: 1 added",
        "queues: 1 conflicting",
        "ignored: 1",
    ]
    assert said[4:6] == ["added policy 'p' in 'told'", said[5]]
    assert said[5].startswith("conflicting queue 'orders' in 'told': ")
    assert said[6].startswith("ignored ")
    assert "{" not in "".join(said)
    said = leporid("definitions", "import", str(file), "--yes").splitlines()
    assert said[0] == "imported, but for what is named below"
    assert "added policy 'p' in 'told'" not in said
    assert said[5].startswith("conflicting queue 'orders' in 'told': ")
    assert leporid("definitions", "import", str(file), "--yes", "--quiet") == ""
    file.write_text(json.dumps({"vhosts": [{"name": "told"}, {"name": "/"}]}))
    said = leporid("definitions", "import", str(file), "--yes")
    assert said == "2 virtual hosts imported\n"
    leporid("vhosts", "delete", "told", "--yes")
