"""`leporid config`: what is shown of a configuration, what is wrong in it, and RabbitMQ's files."""

import json
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
    none = ("resource_server_id", "issuer", "jwks_url", "ca", "default_key", "scope_prefix")
    files = {"definitions.import", "backup_dir"}
    paths = ("user_path", "vhost_path", "resource_path", "topic_path")
    http = {f"auth_http.{key}" for key in (*paths, "ca")}
    client = ("client_id", "client_secret", "authorization_endpoint", "token_endpoint")
    tokens = {f"oauth2.{key}" for key in (*none, *client, "additional_scopes_key")}
    assert missing == {
        "users",
        "tls.certificate",
        "tls.key",
        "tls.client_ca",
        *tokens,
        *http,
        *files,
    }
    assert lines["limits.connections_max"] == "1000000  # default"
    assert lines["limits.handshake_seconds"] == f"3  # {file}:4"
    again = tmp_path / "again.toml"
    again.write_text(shown)
    given = load(again, {"users": {"ann": {"password": "hunter2"}}})
    given = replace(given, redeclare_by_vhost=None, unknown_arguments_by_vhost=None)
    given = replace(given, tls=replace(given.tls, names=None))
    oauth2 = replace(given.oauth2, signing_keys=None, scope_aliases=None)
    assert replace(given, oauth2=oauth2) == load(file)
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


def test_check_looks_at_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[tls]\ncertificate = "/none.pem"\nkey = "/none.key"\n')
    assert main(["config", "check", str(wrong)]) == 1
    said = capsys.readouterr()
    problem = "tls.certificate: /none.pem: cannot be read: No such file or directory"
    assert (said.out, said.err) == ("", f"leporid: {wrong}:2: {problem}\n")


def test_check_doubts_tags_that_look_misspelt(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "leporid.toml"
    file.write_text('[users.ann]\npassword = "x"\ntags = ["managment", "monitoring", "team-a"]\n')
    assert main(["config", "check", str(file)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{file}: nothing else is wrong\n"
    assert said.err == (
        f"leporid: {file}: warning: users.ann.tags: the tag 'managment' gives no right; "
        'did you mean "management"?\n'
    )


QUEUE = '{"name": "q", "vhost": "%s", "durable": true, "auto_delete": false, "arguments": {}}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"vhosts": [{"name": "v"}], "users": [{"name": "u", "password": "x", "tags": ""}]}', ""),
        (f'{{"queues": [{QUEUE % "shop"}]}}', ""),
        ("{", "definitions.import: "),
        (f'{{"queues": [{QUEUE % "missing"}]}}', "queues[0] 'q': "),
        ('{"users": [{"name": "u", "password_hash": "?"}]}', "users[0] 'u': "),
        (None, "cannot be read: No such file"),
    ],
)
def test_check_looks_at_definitions(
    content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    document, file = tmp_path / "definitions.json", tmp_path / "leporid.toml"
    if content is not None:
        document.write_text(content)
    file.write_text(f'vhosts = ["/", "shop"]\n[definitions]\nimport = "{document}"\n')
    assert main(["config", "check", str(file)]) == (1 if said else 0)
    assert said in capsys.readouterr().err


def test_check_says_where_there_is_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "conf.d"
    folder.mkdir()
    assert main(["config", "check", str(tmp_path)]) == 0
    assert f"{tmp_path}: there is nothing in it" in capsys.readouterr().out
    assert main(["config", "check", str(folder)]) == 0
    assert f"give {tmp_path}, which it is in" in capsys.readouterr().out
    file = tmp_path / "leporid.toml"
    file.touch()
    for place in (file, tmp_path):
        assert main(["config", "check", str(place)]) == 0
        assert f"{folder}: there is nothing in it: no file *.toml" in capsys.readouterr().out
    (folder / "a.toml").touch()
    assert main(["config", "check", str(file)]) == 0
    assert "nothing in it" not in capsys.readouterr().out


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


def test_show_as_json_and_names_alone(file: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["config", "show", "--config", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"name": "heartbeat", "value": 10, "origin": f"{file}:1"},
        {"name": "vhosts", "value": ["shop"], "origin": f"{file}:2"},
        {"name": "limits.handshake_seconds", "value": 3, "origin": f"{file}:4"},
        {
            "name": "users.ann.password",
            "value": "***",
            "origin": f"{file.parent}/conf.d/users.toml:2",
        },
    ]
    assert main(["config", "show", "--config", str(file), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        *("heartbeat", "vhosts", "limits.handshake_seconds", "users.ann.password"),
    ]
    assert main(["config", "show", "--config", str(file), "--effective", "--json"]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["amqp_port"] == {"name": "amqp_port", "value": 5672, "origin": "default"}


def test_check_as_json_and_nothing(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("a = 1\n")
    assert main(["config", "check", str(wrong), str(file), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == [
        {
            "file": str(wrong),
            "problems": [f"{wrong}:1: a: unknown setting"],
            "warnings": [],
            "notes": [],
        },
        {"file": str(file), "problems": [], "warnings": [], "notes": []},
    ]
    assert main(["config", "check", str(file), "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_import_as_json_and_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = tmp_path / "rabbitmq.conf"
    source.write_text("heartbeat = 20\n")
    assert main(["config", "import", str(source), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"] == {"heartbeat": 20}
    assert "rabbitmq.conf:1" in found["toml"]
    assert main(["config", "import", str(source), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
