"""The audit log: a line for each administrative act, and no secret in any."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from tests.management.conftest import World, serving

from leporid.broker.access.access import User
from leporid.broker.access.backends import Answer, Leave, LoginRequest
from leporid.broker.access.passwords import NoPassword
from leporid.broker.access.permissions import EVERYTHING, RIGHTS
from leporid.limits.log_lines import CONNECTION, LogLines
from leporid.management.audit import AuditLog


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "leporid.audit")
    return caplog


def audited(log: pytest.LogCaptureFixture) -> list[str]:
    return [line.getMessage() for line in log.records if line.name == "leporid.audit"]


async def test_what_was_only_tried_is_no_act(
    world: World, client: httpx.AsyncClient, log: pytest.LogCaptureFixture
):
    tried = {"dry_run": "true"}
    policy = {"pattern": "x", "definition": {"expires": 1}}
    one = "/api/policies/%2F/p"
    assert (await client.put(one, json=policy, params=tried)).status_code == 200
    imported = await client.post("/api/definitions", json={"queues": []}, params=tried)
    assert imported.status_code == 200
    assert audited(log) == []
    # What is refused is told, and what only looks like a dry run is an act.
    await client.put(one, auth=("reader", "secret"), json=policy, params=tried)
    await client.put("/api/users/ann", json={"password": "s", "tags": ""}, params=tried)
    await client.put(one, json=policy, params={"dry_run": "false"})
    assert [line.rsplit(": ")[-1] for line in audited(log)] == [
        "401 (Not management user)", "201", "201",
    ]  # fmt: skip


async def test_acts_and_their_outcomes(
    world: World, client: httpx.AsyncClient, log: pytest.LogCaptureFixture
):
    await client.put("/api/users/a%2Fb", json={"password": "s3cret", "tags": ""})
    await client.put("/api/users/ann", json={"password": "s3cret"})
    await client.delete("/api/vhosts/none")
    await client.put("/api/users/ann", auth=("reader", "secret"), json={"tags": ""})
    await client.put("/api/users/ann", auth=("guest", "wr0ng"), json={"tags": ""})
    await client.put("/api/policies/%2F/p", json={"pattern": "x", "definition": {"expires": 1}})
    await client.delete("/api/streams/%2F/none")
    found = audited(log)
    expected = [
        ("PUT /api/users/a%2Fb by 'guest'", ": 201"),
        ("PUT /api/users/ann by 'guest'", ": 400 (tags_not_present)"),
        ("DELETE /api/vhosts/none by 'guest'", ": 404 (Not Found)"),
        ("PUT /api/users/ann by 'reader'", ": 401 (Not management user)"),
        ("PUT /api/users/ann by nobody", ": 401 (Login failed)"),
        ("PUT /api/policies/%2F/p by 'guest'", ": 201"),
        ("DELETE /api/streams/%2F/none by 'guest'", ": 404 (no stream 'none' in vhost '/')"),
    ]
    assert len(found) == len(expected), found
    for line, (begin, end) in zip(found, expected, strict=True):
        assert line.startswith(begin + " from 127.0.0.1:"), line
        assert line.endswith(end), line
    whole = "".join(line.getMessage() for line in log.records)
    for secret in ("s3cret", "wr0ng"):
        assert secret not in whole


async def test_reads_and_the_work_of_applications_are_none(
    world: World, client: httpx.AsyncClient, log: pytest.LogCaptureFixture
):
    world.stream()
    for path in ("/api/users", "/api/auth/hash_password/s3cret", "/api/whoami", "/api/vhosts"):
        await client.get(path)
    await client.post("/api/publish/%2F/amq.default", content=b"x")
    await client.post("/api/queues/%2F/none/leases?max=1")
    await client.put("/api/streams/%2F/orders/readers/guest", json={"offset": 0})
    assert audited(log) == []
    assert "s3cret" not in "".join(line.getMessage() for line in log.records)


async def test_what_peers_send_stays_one_line_of_ascii(
    world: World, client: httpx.AsyncClient, log: pytest.LogCaptureFixture
):
    name = "x\n2026 ERROR forged \x1b[31m'"
    await client.put("/api/users/ann", auth=(name, "x"), json={"tags": ""})
    await client.delete("/api/users/a%0Ab'%1b")
    world.broker.users.put("käthe\n", world.broker.access.require("guest").password, frozenset())
    await client.delete("/api/users/x", auth=("käthe\n", "guest"))
    first, second, third = audited(log)
    assert "by nobody" in first
    assert second.startswith("DELETE /api/users/a%0Ab")
    assert r"by 'k\xe4the\n'" in third
    for line in (first, second, third):
        assert line.isascii()
        assert line.isprintable()


async def test_acts_are_never_left_out_and_refusals_may_be(
    world: World, client: httpx.AsyncClient, log: pytest.LogCaptureFixture
):
    budgets = LogLines(lambda: 0.0)
    count = CONNECTION.at_once + 5
    for number in range(count):
        await client.put(f"/api/users/u{number}", json={"tags": ""})
        await client.put("/api/users/ann", json={})
    written = [
        line for line in log.records if line.name == "leporid.audit" and budgets.filter(line)
    ]
    outcomes = [line.getMessage().rpartition(": ")[2] for line in written]
    assert outcomes.count("201") == count
    assert outcomes.count("400 (tags_not_present)") == CONNECTION.at_once


async def test_who_is_no_administrator_cannot_fill_the_log(
    world: World, client: httpx.AsyncClient, log: pytest.LogCaptureFixture
):
    world.broker.users.permit("reader", "/", EVERYTHING)
    budgets = LogLines(lambda: 0.0)
    for _ in range(CONNECTION.at_once + 5):
        answer = await client.put("/api/streams/%2F/s", auth=("reader", "secret"), json={})
        assert answer.is_success
    lines = [line for line in log.records if line.name == "leporid.audit"]
    assert len(lines) == CONNECTION.at_once + 5
    assert sum(map(budgets.filter, lines)) == CONNECTION.at_once


@pytest.fixture
async def stepping(
    world: World, request: pytest.FixtureRequest
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a broker whose entries are a second apart, from 1,001 s on."""
    log = AuditLog(itertools.count(1001).__next__, getattr(request, "param", 100))
    world.around = replace(world.around, audit=log)
    async with serving(world) as client:
        yield client


async def test_it_is_listed_for_administrators_the_newest_first(stepping: httpx.AsyncClient):
    client = stepping
    await client.put("/api/vhosts/a%2Fb", json={})
    await client.put("/api/users/ann", json={"password": "s3cret", "tags": "monitoring"})
    await client.put("/api/permissions/a%2Fb/ann", json=dict.fromkeys(RIGHTS, ".*"))
    await client.delete("/api/queues/%2F/none", auth=("ann", "s3cret"))
    await client.delete("/api/queues/a%2Fb/none", auth=("ann", "wr0ng"))
    found = (await client.get("/api/audit")).json()
    assert [(each["user"], each["vhost"], each["outcome"]) for each in found] == [
        (None, "a/b", "refused"),
        ("ann", "/", "refused"),
        ("guest", "a/b", "done"),
        ("guest", None, "done"),
        ("guest", "a/b", "done"),
    ]
    address = found[-1].pop("address")
    assert address.startswith("127.0.0.1:")
    assert found[-1] == {
        "id": 1,
        "at_ms": 1_001_000,
        "user": "guest",
        "backend": "internal",
        "method": "PUT",
        "path": "/api/vhosts/a%2Fb",
        "vhost": "a/b",
        "status": 201,
        "reason": "",
        "outcome": "done",
    }
    for query, ids in {
        "user=ann": [4],
        "vhost=a%2Fb": [5, 3, 1],
        "outcome=refused": [5, 4],
        "outcome=failed": [],
        "user=guest&vhost=a%2Fb&outcome=done": [3, 1],
        "since_ms=1002000&until_ms=1004000": [3, 2],
    }.items():
        shown = (await client.get(f"/api/audit?{query}&columns=id")).json()
        assert [each["id"] for each in shown] == ids, query
    page = (await client.get("/api/audit?page=2&page_size=2&name=API")).json()
    assert [each["id"] for each in page["items"]] == [3, 2]
    assert (page["total_count"], page["page_count"]) == (5, 3)
    assert "s3cret" not in str(found)
    assert (await client.get("/api/audit", auth=("ann", "s3cret"))).status_code == 401
    for query in ("usr=ann", "outcome=fine", "since_ms=x", "until_ms=-1"):
        assert (await client.get(f"/api/audit?{query}")).status_code == 400, query


@pytest.mark.parametrize("stepping", [2], indirect=True)
async def test_what_others_cause_takes_no_place_of_administrators_acts(
    stepping: httpx.AsyncClient,
):
    client = stepping
    for path in ("/api/users/a", "/api/users/b", "/api/users/c"):
        await client.put(path, json={"tags": ""})
    for _ in range(3):
        await client.put("/api/users/d", json={"tags": ""}, auth=("reader", "secret"))
    found = (await client.get("/api/audit?columns=id,status")).json()
    assert [(each["id"], each["status"]) for each in found] == [
        (6, 401), (5, 401), (3, 201), (2, 201),
    ]  # fmt: skip


THERE = User("", NoPassword(), permissions={"/": EVERYTHING}, backend="elsewhere")


class Elsewhere:
    """Another back end, which knows a user of an administrator's name."""

    name = "elsewhere"

    def log_in(self, login: LoginRequest, answer: Answer) -> Leave:
        answer(replace(THERE, name=login.credentials.username))
        return lambda: None

    def renew(self, user: User, secret: bytes, answer: Answer) -> Leave:
        answer(user)
        return lambda: None


async def test_a_name_that_is_an_administrators_elsewhere_fills_no_log(
    world: World, client: httpx.AsyncClient, log: pytest.LogCaptureFixture
):
    world.broker.backends.use([Elsewhere()])
    budgets = LogLines(lambda: 0.0)
    for _ in range(CONNECTION.at_once + 5):
        answer = await client.put("/api/streams/%2F/s", auth=("guest", "any"), json={})
        assert answer.is_success
    lines = [line for line in log.records if line.name == "leporid.audit"]
    assert sum(map(budgets.filter, lines)) == CONNECTION.at_once
