"""Logins that a server decides, with brokers, pika, and a server of the test's."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import httpx
import pika
import pytest
from tests.server.certificates import PATIENCE_S, logged_in, running, until
from tests.server.outside import Decider

from leporid.amqp.errors import AccessRefused
from leporid.amqp.frames import method_frame
from leporid.amqp.methods import ConnectionStartOk
from leporid.broker.access.access import Access, User
from leporid.broker.access.backends import Backends, Internal, LoginRequest
from leporid.broker.access.logins import Logins
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.sasl import Credentials
from leporid.engine.engine import Engine
from leporid.limits.refusals import Refusals
from leporid.server.http_logins import WAITING_MAX
from leporid.server.login_backends import LoginBackends
from leporid.server.oauth_settings import Auth, AuthHttp, OAuth2
from leporid.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

SECRET = b"s" * 32
PATHS = ("user", "vhost", "resource", "topic")
DENIED = (200, b"deny")
RIGHTS = 'permissions."/" = {configure = ".*", write = ".*", read = ".*"}'


@pytest.fixture(scope="module")
def decider() -> Iterator[Decider]:
    made = Decider()
    yield made
    made.close()


@pytest.fixture(scope="module", params=["get", "post"])
def broker(
    request: pytest.FixtureRequest, decider: Decider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    config = f"""
[auth]
backends = ["http", "internal"]
cache_seconds = 3600
[auth_http]
user_path = "{decider.url}/auth/user"
http_method = "{request.param}"
[users.till]
password = "own"
tags = ["management"]
{RIGHTS}
"""
    with running(tmp_path_factory.mktemp("decided"), config) as started:
        decider.asked.clear()
        decider.answers.clear()
        yield started


def connect(broker: BrokerProcess, password: str, name: str = "till") -> pika.BlockingConnection:
    return logged_in(broker, name, password)


def test_who_is_allowed_is_a_user_of_the_broker(broker, decider):
    decider.asked.clear()
    for _ in range(3):
        connection = connect(broker, "right +ü")
        connection.channel().queue_declare("", exclusive=True)
        connection.close()
    # The others were remembered.
    ((method, _, query),) = decider.asked
    assert method in ("GET", "POST")
    assert query == {"username": "till", "password": "right +ü"}
    answer = httpx.get(
        f"http://localhost:{broker.http_port}/api/whoami",
        auth=("till", "right +ü"),
        trust_env=False,
    )
    assert answer.json()["tags"] == ["management"]


def test_who_is_denied_is_asked_of_the_next(broker):
    connect(broker, "own").close()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, "wrong-secret")
    text = broker.log_path.read_text()
    assert "PLAIN login refused by http: user 'till' - denied" in text
    assert "wrong-secret" not in text


def test_who_is_no_user_of_the_broker_is_refused(broker):
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, "right +ü", "stranger")
    until(lambda: "user 'stranger' - there is no user of that name" in broker.log_path.read_text())


@pytest.mark.parametrize(
    ("name", "said", "why"),
    [
        ("error", (500, b"allow"), "answers 500"),
        ("other", (200, b"allowed"), "neither allow nor deny"),
        ("empty", (200, b""), "neither allow nor deny"),
        ("moved", (302, b"allow"), "answers 302"),
        ("large", (200, b"allow " + b"x" * 5000), "more than 4096 octets"),
    ],
)
def test_what_is_no_allow_lets_nobody_in(broker, decider, name, said, why):
    decider.answers[name] = said
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, "right +ü", name)
    text = broker.log_path.read_text()
    assert why in text
    assert "right" not in text
    assert "password=" not in text


def test_a_server_that_does_not_answer_keeps_nobody_else_waiting(broker, decider):
    connect(broker, "right +ü").close()
    decider.hold.clear()
    waiting = []
    before = len(decider.asked)
    for number in range(20):
        sock = raw_login(broker, f"unheard{number}")
        waiting.append(sock)
    until(lambda: len(decider.asked) > before)
    # Who is remembered needs no answer, and messages go on.
    connection = connect(broker, "right +ü")
    connection.channel().queue_declare("", exclusive=True)
    connection.close()
    assert len(decider.asked) - before <= 4
    assert len(waiting) < WAITING_MAX
    for sock in waiting:
        sock.close()
    decider.hold.set()


async def test_own_passwords_go_with_rights_of_the_server(decider: Decider):
    """The back end `internal:http`, by itself: no broker, and the test's server."""
    decider.answers.clear()
    decider.hold.set()
    decider.decides = lambda path, fields: (
        DENIED if fields["username"] == "out" else (200, b"allow monitoring")
    )
    paths = {f"{name}_path": f"{decider.url}/auth/{name}" for name in PATHS}
    config = SimpleNamespace(
        auth=Auth(("internal:http",), cache_seconds=60),
        auth_http=AuthHttp(**paths, http_method="post"),  # type: ignore[arg-type]
        oauth2=OAuth2(),
    )
    users = [User(name, salted_sha256("own", SECRET), tags=("a",)) for name in ("jo", "out")]
    access, refusals = Access(users, SECRET), Refusals()

    def at_once(work: Callable[[], None], done: Callable[[], None]) -> None:
        work()
        done()

    engine = Engine()
    logins = Logins(access, at_once, refusals, engine.jobs)
    internal = Internal(access, lambda: logins)
    broker = SimpleNamespace(
        access=access,
        backends=Backends(internal, access.attempts),
        refusals=refusals,
        recheck=lambda name: None,
        engine=engine,
    )
    made = LoginBackends(config, broker, lambda: None)  # type: ignore[arg-type]

    async def log_in(name: str, password: bytes) -> User | AccessRefused:
        answer: asyncio.Future[User | AccessRefused] = asyncio.get_running_loop().create_future()
        login = LoginRequest(
            Credentials("PLAIN", name, password), "here", loopback=True, host="::1"
        )
        broker.backends.log_in(login, answer.set_result)
        return await asyncio.wait_for(answer, PATIENCE_S)

    decider.asked.clear()
    for _ in range(2):
        found = await log_in("jo", b"own")
        assert isinstance(found, User)
        assert (found.name, tuple(found.tags)) == ("jo", ("a", "monitoring"))
        assert found.remote is not None
    # The server does not see the password, and is asked once.
    assert decider.asked == [("POST", "/auth/user", {"username": "jo"})]
    assert isinstance(await log_in("jo", b"wrong"), AccessRefused)
    assert len(decider.asked) == 1
    assert isinstance(await log_in("out", b"own"), AccessRefused)
    assert not broker.backends.ask_internal
    made.stop()
    decider.decides = lambda path, fields: None


def raw_login(broker: BrokerProcess, password: str) -> socket.socket:
    """A client that has sent connection.start-ok and waits."""
    sock = socket.create_connection(("127.0.0.1", broker.amqp_port), PATIENCE_S)
    sock.sendall(b"AMQP\0\0\x09\x01")
    assert sock.recv(4096)
    response = b"\0till\0" + password.encode()
    sock.sendall(method_frame(0, ConnectionStartOk({}, "PLAIN", response, "en_US")))
    return sock
