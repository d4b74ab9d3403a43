"""Connections over RabbitMQ's API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.engine.frames import publish
from tests.management.clients import Client, connected, consuming
from tests.management.conftest import SECRET, World

from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING

ROOT = "/api/connections"
NAME = "10.0.0.1:7 -> 10.0.0.2:5672"
URL = f"{ROOT}/{quote(NAME)}"


@pytest.fixture(autouse=True)
def users(world: World) -> None:
    for name in ("management", "monitoring"):
        password = salted_sha256("secret", SECRET)
        user = User(name, password, frozenset({name}), permissions={"/": EVERYTHING})
        world.broker.access.put_user(user)


async def got(client: httpx.AsyncClient, path: str, user: str | None = None) -> tuple[int, Any]:
    login = {} if user is None else {"auth": (user, "secret")}
    answer = await client.get(path, **login)  # type: ignore[arg-type]
    return answer.status_code, answer.json()


async def test_a_connection(world: World, client: httpx.AsyncClient):
    connected(world, 7, connection_name="me", product="test")
    status, found = await got(client, URL)
    assert status == 200
    assert found.pop("recv_oct") > 0
    assert found.pop("recv_oct_details") == found.pop("send_oct_details") == {"rate": 0.0}
    assert found.pop("send_oct") >= 0
    assert found.pop("send_pend") >= 0
    assert found == {
        "name": NAME,
        "user": "guest",
        "user_who_performed_action": "guest",
        "user_provided_name": "me",
        "vhost": "/",
        "node": "leporid@localhost",
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "state": "running",
        "host": "10.0.0.2",
        "port": 5672,
        "peer_host": "10.0.0.1",
        "peer_port": 7,
        "ssl": False,
        "ssl_protocol": None,
        "ssl_key_exchange": None,
        "ssl_cipher": None,
        "ssl_hash": None,
        "peer_cert_subject": None,
        "peer_cert_issuer": None,
        "peer_cert_validity": None,
        "auth_mechanism": "PLAIN",
        "connected_at": 1_700_000_000_000,
        "timeout": 30,
        "frame_max": 131072,
        "channel_max": 2047,
        "channels": 1,
        "client_properties": {"connection_name": "me", "product": "test"},
    }
    assert (await got(client, f"{ROOT}/none"))[0] == 404


async def test_lists(world: World, client: httpx.AsyncClient):
    connected(world, 8)
    connected(world, 7)
    Client(world, port=9)  # it has said nothing yet
    _, every = await got(client, f"{ROOT}?columns=name,peer_port")
    assert every == [
        {"name": NAME, "peer_port": 7},
        {"name": NAME.replace(":7", ":8"), "peer_port": 8},
    ]
    assert await got(client, "/api/vhosts/%2F/connections?columns=name,peer_port") == (200, every)
    world.broker.add_vhost("other")
    assert await got(client, "/api/vhosts/other/connections") == (200, [])
    _, paged = await got(client, f"{ROOT}?page=1&name=1:8&columns=peer_port")
    assert paged["items"] == [{"peer_port": 8}]
    _, of_user = await got(client, f"{ROOT}/username/guest")
    assert of_user[0] == {
        "name": NAME,
        "vhost": "/",
        "user": "guest",
        "node": "leporid@localhost",
    }
    assert await got(client, f"{ROOT}/username/nobody") == (200, [])


async def test_who_publishes_while_an_alarm_is_on_is_blocked(
    world: World, client: httpx.AsyncClient
):
    one = connected(world, 7)
    world.broker.set_alarm("disk", True)
    assert (await got(client, URL))[1]["state"] == "running"
    one.connection_engine.feed(publish(1, "q"))
    assert (await got(client, URL))[1]["state"] == "blocked"


async def test_closing(world: World, client: httpx.AsyncClient):
    consuming(world, 7, "q")
    connected(world, 8)
    answer = await client.delete(URL, headers={"x-reason": "because"})
    assert answer.status_code == 204
    world.engine.run()
    assert len(world.vhost.queue("q").subscriptions) == 0
    assert (await got(client, URL))[0] == 404
    assert (await client.delete(URL)).status_code == 404
    assert (await client.delete(f"{ROOT}/username/nobody")).status_code == 204
    assert len((await got(client, ROOT))[1]) == 1
    assert (await client.delete(f"{ROOT}/username/guest")).status_code == 204
    world.engine.run()
    assert (await got(client, ROOT))[1] == []


async def test_who_does_not_monitor_has_its_own_only(world: World, client: httpx.AsyncClient):
    connected(world, 7)
    assert await got(client, ROOT, "management") == (200, [])
    assert await got(client, f"{ROOT}/username/management", "management") == (200, [])
    for path in (URL, f"{ROOT}/username/guest", f"{URL}/channels"):
        status, refused = await got(client, path, "management")
        assert (status, refused["reason"]) == (401, "User not authorised to access object"), path
    for path in (URL, f"{ROOT}/username/guest"):
        answer = await client.delete(path, auth=("management", "secret"))
        assert answer.status_code == 401
    assert len((await got(client, ROOT, "monitoring"))[1]) == 1
