"""One command at work: questions, refusals, exit codes."""

import argparse
import io
import socket
import sys
import threading

import pytest

from leporid.cli.command import Verb
from leporid.cli.outcomes import Failure, Forbidden, NotThere, WrongUse
from leporid.cli.output import Output
from leporid.cli.session import Session, arguments_of, run_verb
from leporid.client.management import ManagementError


def session(**options) -> tuple[Session, io.StringIO]:
    stream = io.StringIO()
    given = argparse.Namespace(**{"yes": False, "dry_run": False, **options})
    return Session(given, {}, Output(stream=stream, terminal=False)), stream


NOBODY = dict.fromkeys(("context", "user", "password_file", "password_env", "ca_file"))
OLDER = "the broker at h:1 has no delays: it is older, or RabbitMQ"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "goes_on"), [("q\n", True), ("\n", False), ("Q\n", False)])
def test_somebody_at_a_terminal_types_the_name(typed, goes_on, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    at_work, _ = session()
    if goes_on:
        assert at_work.confirmed("delete queue 'q'", "q")
    else:
        with pytest.raises(Failure, match="nothing was changed"):
            at_work.confirmed("delete queue 'q'", "q")
    assert "This will delete queue 'q'" in capsys.readouterr().err


def test_without_a_terminal_nothing_is_destroyed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
    with pytest.raises(WrongUse, match="give --yes"):
        session()[0].confirmed("delete queue 'q'", "q")
    assert session(yes=True)[0].confirmed("delete queue 'q'", "q")
    at_work, said = session(dry_run=True, yes=True)
    assert not at_work.confirmed("delete queue 'q'", "q")
    assert said.getvalue() == "would delete queue 'q'\n"


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (404, "", NotThere),
        (400, "404 NOT_FOUND - no queue 'q'", NotThere),
        (400, "403 ACCESS_REFUSED", Forbidden),
        (401, "", Forbidden),
        (403, "", Forbidden),
        (400, "bad", Failure),
        (503, "busy", Failure),
        (0, "", Failure),
    ],
)
def test_refusals(status, reason, kind):
    def ask() -> None:
        raise ManagementError("said", status=status, reason=reason)

    with pytest.raises(Failure) as caught:
        session()[0].asking(ask)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("status", "reason", "older"),
    [
        (404, "", True),
        (404, "Not Found", True),
        (400, "", True),
        (406, "", True),
        (405, "x", True),
        (404, "no queue 'q'", False),
        (400, "filter: character 3", False),
        (500, "", False),
    ],
)
def test_what_older_brokers_do_not_have(status, reason, older, monkeypatch):
    at_work, _ = session(url="http://h:1", **NOBODY)

    def get(*_: object) -> None:
        raise ManagementError("said", status=status, reason=reason)

    monkeypatch.setattr(at_work.api, "get", get)
    with pytest.raises(Failure) as caught:
        at_work.optional("delays", "/", what="delays")
    assert (str(caught.value) == OLDER) is older


@pytest.mark.parametrize(
    ("raised", "code"),
    [(None, 0), (WrongUse("x"), 2), (KeyboardInterrupt(), 130), (Failure("x"), 1)],
)
def test_how_a_verb_ends(raised, code, capsys):
    def run(at_work: Session, options: argparse.Namespace) -> None:
        if raised is not None:
            raise raised

    assert run_verb(Verb("v", "help", run), argparse.Namespace()) == code


def test_whoever_reads_may_have_seen_enough(leporid, shared_broker):
    import subprocess

    command = [sys.executable, "-m", "leporid.cli.main", "exchanges", "list", "--json"]
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(30) == 0


def test_the_wrong_port_is_told(leporid, shared_broker):
    leporid("queues", "list", "--url", f"http://127.0.0.1:{shared_broker.amqp_port}", code=1)
    assert "that is a port of AMQP; the management API is at another" in leporid.error


@pytest.mark.parametrize(
    "command",
    [
        "queues show", "queues add", "queues delete -y", "queues purge -y", "queues pause",
        "exchanges add", "exchanges delete -y", "users show", "users delete -y",
        "vhosts show", "vhosts add", "vhosts delete -y", "policies show", "streams show",
        "streams delete -y", "connections show", "channels show", "filter-classes show",
        "readers list", "groups list", "bindings add amq.topic",
    ],
)  # fmt: skip
def test_a_name_that_is_empty_is_told(leporid, command):
    # As from a variable of the shell that is not set.
    leporid(*command.split(), "", code=2)
    assert "a name is empty" in leporid.error


def test_a_virtual_host_without_a_name_is_told(leporid):
    leporid("queues", "list", "--vhost", "", code=2)
    assert "a name is empty" in leporid.error


def test_a_port_that_closes_without_an_answer_may_want_tls(leporid):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)

        closing = threading.Thread(target=close)
        closing.start()
        leporid("queues", "list", "--url", f"http://127.0.0.1:{server.getsockname()[1]}", code=1)
        closing.join()
    assert "closed without an answer; if it speaks TLS, its address begins with https://" in (
        leporid.error
    )


def test_arguments():
    assert arguments_of(["a=1", "b=x", 'c="1"', "d=true", "e=a=b", "f="]) == {
        "a": 1, "b": "x", "c": "1", "d": True, "e": "a=b", "f": "",
    }  # fmt: skip
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(WrongUse):
            arguments_of(wrong)
