"""Logins by token, with a broker, an issuer that publishes keys, and pika."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest
from joserfc.jwk import RSAKey
from tests.server.certificates import PATIENCE_S, logged_in, running, until
from tests.server.outside import ISSUED, Issuer, token
from tests.server.test_outgoing import serving

from leporid.limits.refusals import Refusals
from leporid.limits.shares import NoSlot
from leporid.server.oauth_settings import OAuth2
from leporid.server.token_logins import WAITING_MAX, Keys
from leporid.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

LATER = RSAKey.generate_key(2048, {"kid": "later"})
OWN = RSAKey.generate_key(2048, {"kid": "own"})


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def broker(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "own.pem").write_bytes(OWN.as_pem(private=False))
    config = f"""
[auth]
backends = ["oauth2", "internal"]
[oauth2]
resource_server_id = "mq"
issuer = "{issuer.url}"
signing_keys.own = "{folder / "own.pem"}"
"""
    with running(folder, config) as started:
        yield started


def connect(broker: BrokerProcess, password: str, name: str = "any") -> pika.BlockingConnection:
    return logged_in(broker, name, password)


def ask(broker: BrokerProcess, path: str, bearer: str) -> httpx.Response:
    return httpx.get(
        f"http://localhost:{broker.http_port}/api/{path}",
        headers={"authorization": f"Bearer {bearer}"},
        trust_env=False,
    )


def test_a_token_in_the_place_of_a_password(broker, issuer):
    connection = connect(broker, token(issuer))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("jos", exclusive=True)
    channel.basic_publish("", "jos", b"1", pika.BasicProperties(user_id="jo"))
    assert channel.basic_get("jos", auto_ack=True)[2] == b"1"
    (shown,) = ask(broker, "connections", token(issuer)).json()
    assert shown["user"] == "jo"
    connection.close()


def test_users_of_the_broker_log_in_as_before(broker):
    connect(broker, "guest", "guest").close()
    answer = httpx.get(
        f"http://localhost:{broker.http_port}/api/whoami",
        auth=("guest", "guest"),
        trust_env=False,
    )
    assert answer.json()["name"] == "guest"


def test_scopes_are_permissions(broker, issuer):
    few = token(issuer, scope="mq.configure:%2F/a* mq.read:%2F/a* mq.write:%2F/amq.topic/k.*")
    channel = connect(broker, few).channel()
    channel.queue_declare("a1", exclusive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        channel.queue_declare("b1", exclusive=True)
    channel = channel.connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "k.1", b"")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        channel.basic_publish("amq.topic", "l.1", b"")
    channel.connection.close()
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost '/' refused"):
        connect(broker, token(issuer, scope="mq.read:other/*"))


def test_over_http(broker, issuer):
    assert ask(broker, "whoami", token(issuer)).json()["name"] == "jo"
    assert ask(broker, "users", token(issuer)).status_code == 200
    assert ask(broker, "users", token(issuer, scope="mq.tag:management")).status_code == 401
    basic = httpx.get(
        f"http://localhost:{broker.http_port}/api/whoami",
        auth=("", token(issuer)),
        trust_env=False,
    )
    assert basic.json()["name"] == "jo"
    headers = {"authorization": f"Bearer {token(issuer)}"}
    with httpx.Client(
        base_url=f"http://localhost:{broker.http_port}/api/", headers=headers, trust_env=False
    ) as client:
        client.put("queues/%2F/made", json={}).raise_for_status()
        client.put("vhosts/tokens").raise_for_status()
        client.delete("vhosts/tokens").raise_for_status()
        client.delete("queues/%2F/made").raise_for_status()


def test_what_is_refused_is_refused_the_same_way(broker, issuer):
    stranger = RSAKey.generate_key(2048, {"kid": "first"})
    for bad in (
        token(issuer, key=stranger),
        token(issuer, aud="other"),
        token(issuer, seconds=-1),
        token(issuer, iss="http://elsewhere.example"),
        token(issuer).rpartition(".")[0] + ".",
        "a.b.c",
    ):
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(broker, bad)
        answer = ask(broker, "whoami", bad)
        assert answer.status_code == 401
        assert bad not in broker.log_path.read_text()
        signature = bad.rpartition(".")[2]
        assert len(signature) < 10 or signature not in broker.log_path.read_text()
    text = broker.log_path.read_text()
    for why in ("signature is not right", "somebody else", "expired"):
        assert why in text


def test_keys_of_files_and_new_keys_of_the_issuer(broker, issuer):
    connect(broker, token(issuer, key=OWN)).close()
    connect(broker, token(issuer)).close()
    issuer.keys = [ISSUED, LATER]
    asked = issuer.asked
    # Unless it was asked a moment ago, the first who shows the new key has it fetched.
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(pika.exceptions.ProbableAuthenticationError):
            connect(broker, token(issuer, key=LATER)).close()
            break
        assert time.monotonic() < deadline
    assert issuer.asked == asked + 1
    unknown = RSAKey.generate_key(2048, {"kid": "unknown"})
    for _ in range(5):
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(broker, token(issuer, key=unknown))
    assert issuer.asked <= asked + 2


def test_a_connection_ends_with_its_token(broker, issuer):
    connection = connect(broker, token(issuer, seconds=1.5))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="'jo' has expired"):
        connection.process_data_events(PATIENCE_S)


def test_a_new_token_goes_on(broker, issuer):
    connection = connect(broker, token(issuer, seconds=2))
    channel = connection.channel()
    connection.update_secret(token(issuer, scope="mq.configure:*/a*"), "renewed")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        channel.queue_declare("b", exclusive=True)
    connection.update_secret(token(issuer, seconds=3), "renewed")
    connection.process_data_events(2.2)
    connection.channel().queue_declare("b", exclusive=True)
    connection.close()


@pytest.mark.parametrize("bad", [{"sub": "root"}, {"aud": "other"}, {"seconds": -1}])
def test_a_new_token_that_is_not_right_ends_the_connection(broker, issuer, bad):
    connection = connect(broker, token(issuer))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="New secret was refused"):
        connection.update_secret(token(issuer, **bad), "renewed")
    until(lambda: "secret update refused: user 'jo'" in broker.log_path.read_text())


def test_a_token_that_has_expired_is_told_so_and_no_other_reason(broker, issuer):
    for bad, reason in (
        (token(issuer, seconds=-1), "The token has expired"),
        (token(issuer, aud="other"), "The token was refused; the log of the broker says why"),
        (token(issuer, seconds=-1)[:-3], "The token was refused; the log of the broker says why"),
        ("no.token.atall", "The token was refused; the log of the broker says why"),
    ):
        answer = ask(broker, "whoami", bad)
        assert (answer.status_code, answer.json()["reason"]) == (401, reason)
        assert (
            f'error="invalid_token", error_description="{reason}"'
            in (answer.headers["www-authenticate"])
        )
    text = broker.log_path.read_text()
    assert "Bearer login refused by oauth2: user '' - The token has expired" in text
    assert "oauth2.resource_server_id (aud)" in text
    # Over HTTP Basic and AMQP it is a password like any other.
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, token(issuer, seconds=-1))


def test_a_request_that_waits_ends_with_its_token(broker, issuer):
    with httpx.Client(trust_env=False, timeout=PATIENCE_S) as client:
        api = f"http://localhost:{broker.http_port}/api/streams/%2F/waited"
        rights = "mq.configure:*/* mq.read:*/*"

        def bearer(seconds: float) -> dict[str, str]:
            made = token(issuer, seconds=seconds, scope=rights)
            return {"authorization": f"Bearer {made}"}

        assert client.put(api, headers=bearer(60), json={}).status_code in (201, 204)
        answer = client.get(f"{api}?beyond=0:0&wait_ms=20000", headers=bearer(1))
        assert (answer.status_code, answer.json()["reason"]) == (401, "The token has expired")


async def test_one_address_has_half_of_the_places_to_wait_for_keys():
    settings = OAuth2(resource_server_id="mq", jwks_url="http://127.0.0.1:1/")
    release = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(release.wait)  # the request waits for its turn
        refusals = Refusals()
        keys = Keys(settings, pool, refusals)
        leave = [keys.wait("a", print) for _ in range(WAITING_MAX // 2)]
        with pytest.raises(NoSlot) as caught:
            keys.wait("a", print)
        assert caught.value.own
        assert keys.wait("b", print) is not None
        assert leave[0] is not None
        leave[0]()
        assert keys.wait("a", print) is not None
        keys.stop()
        release.set()


async def test_those_who_waited_for_keys_go_on_one_in_a_round_of_the_loop():
    settings = OAuth2(resource_server_id="mq", jwks_url="http://127.0.0.1:1/")
    release = threading.Event()
    loop = asyncio.get_running_loop()
    served: list[int] = []
    before: list[int] = []

    def begin_round() -> None:
        before.append(len(served))
        if len(served) < 9:
            loop.call_soon(begin_round)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(release.wait)  # the request waits for its turn
        keys = Keys(settings, pool, Refusals())
        leave = [keys.wait("a", partial(served.append, at)) for at in range(10)]
        begin_round()
        release.set()
        async with asyncio.timeout(PATIENCE_S):
            while not served:
                await asyncio.sleep(0)
            # Whoever leaves is served no more; there is room for others.
            assert leave[9] is not None
            leave[9]()
            while len(served) < 9:
                await asyncio.sleep(0)
        keys.stop()
    assert served == list(range(9))
    assert max(map(int.__sub__, before[1:], before)) == 1


@pytest.mark.parametrize("address", [1, "", "http:///keys", "http://[", "http://h:0/", "file:///k"])
def test_an_issuer_that_names_no_address_is_no_defect(address, caplog):
    def answer(peer: socket.socket) -> None:
        body = json.dumps({"jwks_uri": address}).encode()
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    async def wait(where: str) -> None:
        with ThreadPoolExecutor() as pool:
            keys = Keys(OAuth2(resource_server_id="mq", issuer=where), pool, Refusals())
            answered = asyncio.Event()
            assert keys.wait("here", answered.set) is not None
            await asyncio.wait_for(answered.wait(), PATIENCE_S)

    with serving(answer) as where:
        asyncio.run(wait(where))
    assert "does not say where keys are (jwks_uri)" in caplog.text
    assert "defect" not in caplog.text


def test_without_the_extra_the_start_ends(tmp_path: Path):
    hidden = tmp_path / "hidden"
    (hidden / "joserfc").mkdir(parents=True)
    (hidden / "joserfc" / "__init__.py").write_text(
        "raise ModuleNotFoundError('hidden', name='joserfc')\n"
    )
    config = """
auth.backends = ["oauth2"]
oauth2 = {resource_server_id = "mq", jwks_url = "https://127.0.0.1:1/keys"}
"""
    broker = BrokerProcess(
        tmp_path / "data",
        config=config,
        command=["env", f"PYTHONPATH={hidden}", *BrokerProcess(tmp_path / "x")._command],
    )
    code, log = broker.start_refused()
    assert code == 1
    assert "which needs joserfc: pip install 'leporid[oauth]'" in log


def test_a_new_token_takes_rights_away(broker, issuer):
    connection = connect(broker, token(issuer))
    channel = connection.channel()
    channel.queue_declare("taken", exclusive=True)
    cancelled: list[Any] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume("taken", lambda *_: None)
    connection.update_secret(token(issuer, scope="mq.configure:*/*"), "renewed")
    deadline = time.monotonic() + PATIENCE_S
    while not cancelled and time.monotonic() < deadline:
        connection.process_data_events(0.1)
    assert cancelled

    def lose() -> None:
        connection.update_secret(token(issuer, scope="mq.tag:management"), "renewed")
        connection.process_data_events(PATIENCE_S)

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="revoked from user 'jo'"):
        lose()


def test_a_user_of_the_broker_with_the_same_name_is_another_one(broker, issuer):
    connection = connect(broker, token(issuer, sub="twin", scope="mq.configure:*/twins"))
    channel = connection.channel()
    with httpx.Client(
        base_url=f"http://localhost:{broker.http_port}/api/",
        auth=("guest", "guest"),
        trust_env=False,
    ) as client:
        client.put("users/twin", json={"password": "x", "tags": ""}).raise_for_status()
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        client.put("permissions/%2F/twin", json=everything).raise_for_status()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            channel.queue_declare("another", exclusive=True)
        client.delete("users/twin").raise_for_status()
    channel = connection.channel()
    channel.queue_declare("twins", exclusive=True)
    connection.close()


def test_a_token_that_ends_is_no_longer_let_in_although_it_is_remembered(broker, issuer):
    short = token(issuer, seconds=1)
    assert ask(broker, "whoami", short).status_code == 200
    until(lambda: ask(broker, "whoami", short).status_code == 401)
