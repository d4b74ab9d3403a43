"""Requests that were not meant for this broker, and those that only seem to be of this machine."""

from __future__ import annotations

import re

import httpx
import pytest
from starlette.requests import Request
from tests.management.conftest import World

from leporid.management.application import routes
from leporid.management.hosts import check, is_of_this_machine
from leporid.management.refusals import Refusal
from leporid.server.addresses import is_loopback

API = "/api/streams/%2F"
NAMES = frozenset({"mq.example.org"})


BROWSER = {"accept-language": "en"}


def asked(peer: str = "127.0.0.1", **headers: str) -> Request:
    named = {"host": "localhost:15672", **headers}
    raw = [(name.replace("_", "-").encode(), text.encode()) for name, text in named.items()]
    return Request({"type": "http", "headers": raw, "client": (peer, 40000)})


# ------------------------------------------------------------- Host


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:15672",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:80",
        "192.0.2.7:15672",
        "[::1]",
        "[2001:db8::1]:15672",
        "[fe80::1%eth0]:15672",
        "mq.example.org",
        "MQ.example.org.:443",
    ],
)
def test_our_own_hosts(host: str):
    check(asked(host=host, **BROWSER), NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":15672",
        "evil.example",
        "evil.example:15672",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "mq.example.org.evil.example",
        "evil.example@localhost",
        "localhost:15672:15672",
        "localhost, evil.example",
        "[localhost]x",
        "2130706433",
        "0x7f.1",
        "x" * 10_000,
    ],
)
def test_a_browser_is_refused_other_hosts_with_what_to_do(host: str):
    with pytest.raises(Refusal) as refused:
        check(asked(host=host, **BROWSER), NAMES)
    assert (refused.value.status, refused.value.word) == (421, "unknown-host")
    assert "http.hosts" in refused.value.reason
    assert len(refused.value.reason) < 500


@pytest.mark.parametrize(
    "header",
    [
        {"referer": "http://evil.example/"},
        {"cookie": "a=b"},
        {"sec-fetch-site": "same-origin"},
        {"user-agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0"},
        {"origin": "http://evil.example"},
    ],
    ids=lambda header: next(iter(header)),
)
def test_a_browser_is_known_by_any_of_its_headers(header: dict[str, str]):
    with pytest.raises(Refusal) as refused:
        check(asked(host="evil.example", **header), NAMES)
    assert refused.value.status == 421


@pytest.mark.parametrize(
    "agent", ["curl/8.14.1", "python-requests/2.32", "Prometheus/3.5", "Go-http-client/1.1"]
)
def test_programs_may_ask_for_any_name(agent: str):
    """For a container's, for one."""
    check(asked(host="leporid:15672", user_agent=agent, accept="*/*"), NAMES)
    with pytest.raises(Refusal):
        check(asked(host="", user_agent=agent), NAMES)


# ------------------------------------------------------------- Origin


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:15672", "http://localhost:15672"),
        ("LOCALHOST:15672", "http://localhost:15672"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("[::1]:15672", "http://[::1]:15672"),
        # What the browser sees is TLS, and the proxy keeps the name.
        ("mq.example.org", "https://mq.example.org"),
        ("mq.example.org:8443", "https://mq.example.org:8443"),
    ],
)
def test_the_same_place(host: str, origin: str):
    check(asked(host=host, origin=origin), NAMES)


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "http://evil.example:15672",
        "http://localhost",
        "http://localhost:8000",
        "http://127.0.0.1:15672",
        "ftp://localhost:15672",
        "http://localhost:15672/",
        "http://localhost:15672.evil.example",
        "http://mq.example.org:15672",
    ],
)
def test_another_place_is_refused(origin: str):
    with pytest.raises(Refusal) as refused:
        check(asked(host="localhost:15672", origin=origin), NAMES)
    assert (refused.value.status, refused.value.word) == (403, "other-origin")
    assert "another place" in refused.value.reason


# ------------------------------------------------------------- this machine


@pytest.mark.parametrize(
    ("peer", "host"),
    [("127.0.0.1", "localhost"), ("127.0.0.1", "127.0.0.1:15672"), ("::1", "[::1]:15672")],
)
def test_of_this_machine(peer: str, host: str):
    assert is_of_this_machine(asked(peer, host=host), is_loopback)


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-For", "x-forwarded-proto", "Forwarded", "Via", "X-Real-IP", "CF-Connecting-IP"],
)
def test_what_went_through_a_proxy_is_not(header: str):
    headers = {header.lower(): "127.0.0.1"}
    assert not is_of_this_machine(asked("127.0.0.1", **headers), is_loopback)


@pytest.mark.parametrize("host", ["mq.example.org", "192.0.2.7", ""])
def test_who_asks_for_another_name_comes_through_a_proxy(host: str):
    assert not is_of_this_machine(asked("127.0.0.1", host=host), is_loopback)


def test_a_peer_of_another_machine_is_not():
    assert not is_of_this_machine(asked("192.0.2.9"), is_loopback)
    nobody = Request({"type": "http", "headers": [(b"host", b"localhost")], "client": None})
    assert not is_of_this_machine(nobody, is_loopback)


# ------------------------------------------------------------- over HTTP


async def test_every_route_refuses_what_was_not_meant_for_it(
    world: World, client: httpx.AsyncClient
):
    """Before anybody logs in, and whatever the request is."""
    asked_for = 0
    for route in routes(world.around):
        path = re.sub(r"\{\w+\}", "x", route.path)
        assert "{" not in path
        for method in route.methods - {"HEAD"}:
            for header, status in [
                ({"host": "evil.example", **BROWSER}, 421),
                ({"origin": "http://evil.example"}, 403),
            ]:
                answer = await client.request(method, path, headers=header)
                assert answer.status_code == status, (method, path)
            asked_for += 1
    assert asked_for > 40


async def test_guest_behind_a_proxy_is_not_of_this_machine(client: httpx.AsyncClient):
    assert (await client.get(API)).status_code == 200
    for headers in ({"x-forwarded-for": "203.0.113.5"}, {"forwarded": "for=203.0.113.5"}):
        answer = await client.get(API, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (401, "not_authorized")


async def test_a_name_of_the_configuration_is_ours(world: World, client: httpx.AsyncClient):
    object.__setattr__(world.around, "http_hosts", NAMES)
    answer = await client.get(API, auth=("reader", "secret"), headers={"host": "mq.example.org"})
    assert answer.status_code == 200
    # But guest is asked for by its address.
    answer = await client.get(API, headers={"host": "mq.example.org"})
    assert answer.status_code == 401


async def test_health_and_metrics_have_any_name(client: httpx.AsyncClient):
    for page in ("/health", "/metrics"):
        answer = await client.get(page, headers={"host": "leporid-0.example.svc"})
        assert answer.status_code == 200
