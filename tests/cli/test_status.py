"""`leporid status`."""

import pytest

from leporid.cli.status import duration, size
from leporid.testing import BrokerProcess


def test_the_page(leporid, shared_broker):
    said = leporid("status")
    facts = dict(line.split("\t", 1) for line in said.splitlines())
    assert facts["broker"].startswith("Leporid ")
    assert facts["alarms"] == "none"
    assert f"127.0.0.1:{shared_broker.amqp_port}" in facts["listeners"]
    found = leporid.json("status")
    assert found["alarms"] == []
    assert found["memory"]["used"] > 0
    assert leporid("status", "-q") == "ok\n"


@pytest.fixture
def as_manager(leporid, name, monkeypatch):
    """The options of a user with the tag management alone."""
    user = name("u")
    leporid("users", "add", user, "--new-password", "x", "--tags", "management")
    leporid("permissions", "set", user, "", "", "")
    monkeypatch.setenv("SECRET", "x")
    yield "--user", user, "--password-env", "SECRET"
    leporid("users", "delete", user, "--yes")


def test_who_may_not_see_the_node_sees_the_rest(leporid, as_manager):
    leporid("status", *as_manager)
    facts = dict(line.split("\t", 1) for line in leporid.out.splitlines())
    assert facts["broker"].startswith("Leporid ")
    assert facts["alarms"] == "none"
    assert "queues" in facts["objects"]
    assert facts["not seen"].startswith("memory, disk, connections, uptime, files: ")
    assert "monitoring" in facts["not seen"]
    assert "memory" not in facts
    assert leporid.json("status")["not_seen"] == []


def test_what_a_manager_may_not_see_the_doctor_says(leporid, as_manager):
    found = leporid.json("doctor", *as_manager)
    assert any(each.startswith("memory, disk") for each in found["not_looked_at"])
    assert not any(each.startswith("queues") for each in found["not_looked_at"])


@pytest.mark.slow
def test_an_alarm_ends_with_1(cli, tmp_path, monkeypatch):
    with BrokerProcess(tmp_path / "data", config='memory_watermark = "1 MiB"') as broker:
        monkeypatch.setenv("LEPORID_URL", f"http://127.0.0.1:{broker.http_port}")
        cli("status", code=1)
        assert cli("status", "-q", code=1) == "alarms memory\n"
        assert cli("status", "-q", "--any") == "alarms memory\n"
        cli("rabbitmqctl", "status")
        cli("rabbitmq-diagnostics", "check_local_alarms", code=1)
        assert cli.json("doctor", code=1)["findings"][0]["check"] == "alarms"
        # Who does not see the node is told as well.
        cli("users", "add", "ann", "--new-password", "x", "--tags", "management")
        monkeypatch.setenv("SECRET", "x")
        said = cli("status", "-q", "--user", "ann", "--password-env", "SECRET", code=1)
        assert said.startswith("alarms ")


def test_nobody_answers(cli):
    cli("status", "--url", "http://127.0.0.1:1", code=1)
    assert cli.error.startswith("leporid: no answer from the broker at 127.0.0.1:1: ")


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (2e12, "2.0 TB"), (None, "?")],
)
def test_sizes(count, shown):
    assert size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59.9, "59 s"), (61, "1 min 1 s"), (90_000, "1 d 1 h"), (3600, "1 h")],
)
def test_durations(seconds, shown):
    assert duration(seconds) == shown
