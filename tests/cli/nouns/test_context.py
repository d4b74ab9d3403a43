"""`leporid context`: named brokers."""

import io
import stat
import sys

import pytest


def test_contexts_are_added_used_and_removed(cli, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    cli("context", "add", "local", "http://localhost:15672")
    monkeypatch.setenv("SECRET", "x")
    cli("context", "add", "prod", "https://ann@mq.example:15671", "--password-env", "SECRET")
    rows = cli.rows("context", "list")
    assert [(row["name"], row["current"]) for row in rows] == [("local", "yes"), ("prod", "no")]
    assert rows[1]["user"] == "ann"
    assert rows[1]["password"] == "in $SECRET"
    cli("context", "use", "prod")
    assert [row["current"] for row in cli.rows("context", "list")] == ["no", "yes"]
    cli("context", "remove", "prod")
    cli("context", "use", "prod", code=3)
    assert "there are: local" in cli.error
    file = tmp_path / "config" / "leporid" / "contexts.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_context_is_where_commands_go(leporid, shared_broker, monkeypatch):
    monkeypatch.delenv("LEPORID_URL")
    url = f"http://guest:guest@127.0.0.1:{shared_broker.http_port}"
    leporid("context", "add", "here", url, "--vhost", "/")
    leporid("context", "add", "nowhere", "http://guest:guest@127.0.0.1:1")
    leporid("vhosts", "list")
    leporid("context", "use", "nowhere")
    leporid("vhosts", "list", code=1)
    assert "no answer from the broker at 127.0.0.1:1" in leporid.error
    leporid("vhosts", "list", "--context", "here")
    monkeypatch.setenv("LEPORID_CONTEXT", "here")
    leporid("vhosts", "list")
    leporid("vhosts", "list", "--context", "here", "--url", url, code=2)


@pytest.mark.parametrize("url", ["amqp://host", "host", "http://host:port", "http://"])
def test_an_address_that_is_none(cli, url):
    cli("context", "add", "x", url, code=2)
    assert "not of the form http://" in cli.error


def test_a_password_is_shown_nowhere(cli):
    cli("context", "add", "a", "http://ann:hunter2@host")
    assert "hunter2" not in cli("context", "list") + cli("context", "list", "--json")
    cli("vhosts", "list", "--url", "ftp://ann:hunter2@host", code=2)
    assert "hunter2" not in cli.error


def test_nobody_is_there_to_ask(cli):
    cli("context", "add", "a", "http://ann@host", code=2)
    assert "--password-file" in cli.error


def test_a_context_is_not_replaced_unasked(cli, monkeypatch):
    cli("context", "add", "prod", "http://ann:hunter2@host")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    cli("context", "add", "prod", "http://bob:secret@other", code=2)
    assert cli.error == (
        "leporid: to replace context 'prod', which is http://host as 'ann', give --force\n"
    )
    (row,) = cli.rows("context", "list")
    assert row["user"] == "ann"
    cli("context", "add", "prod", "http://bob:secret@other", "--force")
    (row,) = cli.rows("context", "list")
    assert row["user"] == "bob"


class Terminal(io.TextIOWrapper):
    """What the tests' command line gives as standard input."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "code"), [("prod\n", 0), ("no\n", 1)])
def test_somebody_at_a_terminal_is_asked(cli, monkeypatch, typed, code):
    cli("context", "add", "prod", "http://ann:hunter2@host")
    monkeypatch.setattr(io, "TextIOWrapper", Terminal)
    cli("context", "add", "prod", "http://bob:secret@other", code=code, stdin=typed.encode())
    (row,) = cli.json("context", "list")
    assert row["user"] == ("ann" if code else "bob")
