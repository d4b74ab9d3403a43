"""`leporid config`: what is shown of a configuration, what is wrong in it, and RabbitMQ's files."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from leporid.cli.main import main
from leporid.server.config import Config, load
from leporid.server.settings import settings_of


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEPORID_CONFIG", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "users.toml").write_text('[users.ann]\npassword = "hunter2"\n')
    file = tmp_path / "leporid.toml"
    file.write_text('heartbeat = 10\nvhosts = ["shop"]\n[limits]\nhandshake_seconds = 3\n')
    return file


def test_show_has_each_value_with_its_origin(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LEPORID_HEARTBEAT", "20")
    assert main(["config", "show", "--config", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "heartbeat = 20  # LEPORID_HEARTBEAT",
        f'vhosts = ["shop"]  # {file}:2',
        f"limits.handshake_seconds = 3  # {file}:4",
        f'users.ann.password = "***"  # {file.parent}/conf.d/users.toml:2',
    ]


def test_show_effective_has_all_settings_and_can_be_used(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LEPORID_CONFIG", str(file.parent))
    assert main(["config", "show", "--effective"]) == 0
    shown = capsys.readouterr().out
    assert "hunter2" not in shown
    lines = dict(line.split(" = ", 1) for line in shown.splitlines())
    missing = {key for key, _ in settings_of(Config)} - lines.keys()
    assert missing == {"users", "tls.certificate", "tls.key", "tls.client_ca"}
    assert lines["limits.connections_max"] == "1000000  # default"
    assert lines["limits.handshake_seconds"] == f"3  # {file}:4"
    again = tmp_path / "again.toml"
    again.write_text(shown)
    given = load(again, {"users": {"ann": {"password": "hunter2"}}})
    given = replace(given, redeclare_by_vhost=None, unknown_arguments_by_vhost=None)
    assert replace(given, tls=replace(given.tls, names=None)) == load(file)
    assert tomllib.loads(shown)["users"]["ann"]["password"] == "***"


def test_show_says_what_is_wrong(file: Path, capsys: pytest.CaptureFixture[str]):
    file.write_text("heartbeet = 1\nframe_max = 1\n")
    assert main(["config", "show", "--config", str(file)]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"leporid: {file}:1: heartbeet: unknown setting; did you mean")
    assert second.startswith(f"leporid: {file}:2: frame_max = 1: must be")


def test_check_names_every_mistake_and_goes_on(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("a = 1\n\n[limits]\nhandshake = 5\n")
    assert main(["config", "check", str(wrong), str(file)]) == 1
    said = capsys.readouterr()
    assert said.out == f"{file}: nothing is wrong\n"
    assert said.err.splitlines() == [
        f"leporid: {wrong}:1: a: unknown setting",
        f'leporid: {wrong}:4: limits.handshake: unknown setting; did you mean "handshake_seconds"?',
    ]


def test_check_of_what_cannot_be_read_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["config", "check", str(tmp_path / "none.toml")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err
    assert main(["config", "import", str(tmp_path / "none.conf")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err


def test_the_environment_is_no_matter_for_check(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("LEPORID_HEARTBEAT", "never")
    assert main(["config", "check", str(file)]) == 0


def test_import_prints_what_can_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = tmp_path / "rabbitmq.conf"
    source.write_text("heartbeat = 20\ncluster_name = x\n")
    assert main(["config", "import", str(source)]) == 0
    output = capsys.readouterr().out
    assert "heartbeat = 20  # rabbitmq.conf:1 heartbeat\n" in output
    assert "# rabbitmq.conf:2 cluster_name: there is one node\n" in output
    target = tmp_path / "leporid.toml"
    target.write_text(output)
    assert load(target).heartbeat == 20


def test_import_refuses_erlang_terms(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = tmp_path / "advanced.config"
    source.write_text("[{rabbit, [{heartbeat, 10}]}].\n")
    assert main(["config", "import", str(source)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("leporid: advanced.config holds Erlang terms")
    assert len(said.err.splitlines()) == 1
