"""Where a command finds AMQP."""

import argparse
from pathlib import Path
from typing import Any

import pytest
from tests.server.certificates import configured, make_files, running

from leporid.cli import amqp
from leporid.cli.outcomes import Failure, Forbidden, WrongUse
from leporid.cli.session import Session
from leporid.testing import reserve_port


def session(url: str, **environment: str) -> Session:
    given = dict.fromkeys(("url", "context", "user", "password_file", "password_env", "ca_file"))
    options = argparse.Namespace(**given, amqp_url=None, vhost=None)
    return Session(options, {"LEPORID_URL": url, **environment})


def test_the_management_api_says_where(shared_broker):
    at_work = session(f"http://127.0.0.1:{shared_broker.http_port}")
    client = amqp.connected(at_work)
    assert client.sock.getpeername() == ("127.0.0.1", shared_broker.amqp_port)
    client.close()
    at_work.close()


def test_a_variable_wins(shared_broker):
    client = amqp.connected(session("http://127.0.0.1:1", LEPORID_AMQP_URL=shared_broker.url))
    client.close()


def test_an_address_says_whom_to_trust(tmp_path: Path):
    files = make_files(tmp_path)
    with running(tmp_path, configured(files.issue("localhost", "server"))) as broker:
        url = f"amqps://localhost:{broker.amqps_port}/"
        given = f"{url}?cacertfile={files.trusted}"
        client = amqp.connected(session("http://127.0.0.1:1", LEPORID_AMQP_URL=given))
        assert client.declare_queue("q") == 0
        client.close()
        with pytest.raises(Failure, match="certificate of localhost over AMQP is not trusted"):
            amqp.connected(session("http://127.0.0.1:1", LEPORID_AMQP_URL=url))


@pytest.mark.parametrize(
    ("url", "failure"),
    [("http://x", WrongUse), ("amqp://guest:wrong@127.0.0.1:{port}", Forbidden)],
)
def test_refusals(shared_broker, url, failure):
    given = url.format(port=shared_broker.amqp_port)
    with pytest.raises(failure) as caught:
        amqp.connected(session("http://127.0.0.1:1", LEPORID_AMQP_URL=given))
    assert "wrong" not in str(caught.value)


def test_nobody_is_there():
    url = f"amqp://127.0.0.1:{reserve_port()}"
    with pytest.raises(Failure, match=r"no broker at 127\.0\.0\.1 over AMQP: .*refused"):
        amqp.connected(session("http://127.0.0.1:1", LEPORID_AMQP_URL=url))


class Answered(Session):
    """A session whose management API names some ports."""

    def get(self, *_path: str, **_options: Any) -> Any:
        return {"listeners": [*self.listeners]}

    listeners: tuple[dict[str, Any], ...] = ()


def named(url: str, *listeners: tuple[str, str]) -> Answered:
    found = Answered(session(url).options, {"LEPORID_URL": url})
    found.listeners = tuple(
        {"protocol": protocol, "ip_address": address, "port": 5671 + (protocol == "amqp")}
        for protocol, address in listeners
    )
    return found


PLAIN, ENCRYPTED = ("amqp", "0.0.0.0"), ("amqp/ssl", "0.0.0.0")


@pytest.mark.parametrize(
    ("url", "listeners", "where", "encrypted"),
    [
        ("http://mq.example.org", (PLAIN, ENCRYPTED), "mq.example.org:5672/", False),
        ("https://mq.example.org", (PLAIN, ENCRYPTED), "mq.example.org:5671/", True),
        ("https://localhost", (PLAIN, ENCRYPTED), "localhost:5672/", False),
        ("https://localhost", (("amqp", "10.0.0.1"), ENCRYPTED), "localhost:5671/", True),
    ],
)
def test_a_password_that_was_encrypted_stays_so(url, listeners, where, encrypted):
    found, context = amqp._found(named(url, *listeners))
    assert where in found
    assert (context is not None) == encrypted


def test_without_tls_no_password_that_was_encrypted_is_sent():
    with pytest.raises(Failure, match=r"names no AMQP port with TLS: give --amqp-url"):
        amqp._found(named("https://mq.example.org", PLAIN))
