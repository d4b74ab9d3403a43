"""Logging in: secrets, mechanisms and certificates."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator

import pytest
from tests.client.steps import got
from tests.server.certificates import (
    NAME,
    Files,
    client_context,
    configured,
    make_files,
    running,
)

from leporid.client import ConnectFailed, LocalProtocolError, connect
from leporid.client.opening import Opening, Server, secret_of
from leporid.client.settings import Settings, Token
from leporid.testing import BrokerProcess

pytestmark = pytest.mark.slow

RIGHTS = 'permissions."/" = {configure = ".*", write = ".*", read = ".*"}'


def token(**claims):
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{part}.signature"


async def test_how_long_a_token_is_valid():
    async def later():
        return token(exp=time.time() + 60)

    lifetimes = {
        later: 60,
        lambda: token(exp=time.time() + 10): 10,
        lambda: Token("opaque", expires_in_s=5): 5,
        lambda: "opaque": None,
        lambda: token(sub="me"): None,
        lambda: "a.b.c": None,
    }
    for provider, expected in lifetimes.items():
        secret = await secret_of(Settings(token=provider))
        assert secret.expires_in_s == (None if expected is None else pytest.approx(expected, abs=1))
    assert "opaque" not in repr(await secret_of(Settings(token=lambda: "opaque")))
    assert (await secret_of(Settings(password="p"))).text == "p"
    with pytest.raises(LocalProtocolError, match="token provider"):
        await secret_of(Settings(token=lambda: 5))  # type: ignore[arg-type,return-value]


async def test_a_provider_that_gives_no_token_holds_nothing_up():
    async def hangs() -> str:
        await asyncio.Event().wait()
        return ""

    async def fails() -> str:
        raise TimeoutError("its own")

    with pytest.raises(ConnectFailed, match=r"no token within 0\.01 s"):
        await secret_of(Settings(token=hangs, connect_timeout_s=0.01))
    with pytest.raises(ConnectFailed, match="its own"):
        await secret_of(Settings(token=fails))


def test_servers_tell_what_they_have():
    server = Server("Leporid", "1", {"capabilities": {"basic.nack": True, "x": False}})
    assert server.has("basic.nack")
    assert not server.has("x")
    assert server.is_leporid
    assert not Server("RabbitMQ", "4", {}).has("basic.nack")


async def test_an_opening_is_awaited_or_entered():
    closed = []

    class Thing:
        async def close(self):
            closed.append(self)

    async def opens():
        return Thing()

    opening = Opening(opens)
    assert "not awaited" in repr(opening)
    assert isinstance(await opening, Thing)
    async with opening as thing:
        assert not closed
    assert closed == [thing]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_broker(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config = configured(
        files.issue(NAME, "server"),
        f'client_ca = "{files.trusted}"',
        'client_certificates = "optional"',
        'login_from = "common_name"',
        *(f'[users.{name}]\npassword = "{name}"\n{RIGHTS}' for name in ("guest", "till")),
    )
    with running(tmp_path_factory.mktemp("tls"), config) as broker:
        yield broker


async def test_tls_with_a_password_and_by_certificate(tls_broker, files):
    url = f"amqps://guest:guest@127.0.0.1:{tls_broker.amqps_port}"
    url += f"?cacertfile={files.trusted}&server_name_indication={NAME}"
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        body = bytes(1_000_000)
        await channel.default_exchange.publish(body, queue.name)
        assert (await got(queue)).body == body
    mine = client_context(files, own=files.issue("till", "till"))
    async with (
        connect(url, tls=mine, mechanism="EXTERNAL") as connection,
        connection.channel() as channel,
    ):
        queue = await channel.queue(exclusive=True)
        await channel.default_exchange.publish(b"x", queue.name, user_id="till")


async def test_what_goes_wrong_with_tls_is_told(tls_broker, files):
    url = f"amqps://guest:guest@127.0.0.1:{tls_broker.amqps_port}"
    with pytest.raises(ConnectFailed, match="certificate verify failed"):
        await connect(url)
    with pytest.raises(ConnectFailed, match="mechanism EXTERNAL"):
        await connect(url, tls=client_context(files), tls_name=NAME, mechanism="EXTERNAL")
    with pytest.raises(ConnectFailed, match=r"SSL|closed"):
        # TLS is spoken to a port without it.
        await connect(
            f"amqps://127.0.0.1:{tls_broker.amqp_port}?cacertfile={files.trusted}",
            connect_timeout_s=5,
        )
