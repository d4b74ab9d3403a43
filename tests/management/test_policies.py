"""Policies over HTTP: paths, answers and refusals are those of RabbitMQ 3.10.8."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.broker.recording import puts, summary
from tests.management.conftest import SECRET, World

from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.broker import Broker
from leporid.broker.policy.policies import make_policy
from leporid.broker.stored import StoredPolicy
from leporid.broker.vhost import VirtualHost
from leporid.durable import Drop, Put

ROOT = "/api/policies"
OPERATORS = "/api/operator-policies"
PARAMETER = "/api/parameters/operator_policy/%2F/p"
TTL = {"pattern": "^q", "definition": {"message-ttl": 1000}}
NOT_FOUND = (404, {"error": "Object Not Found", "reason": "Not Found"})

APPLY_TO_NULL = (
    "apply-to 'null' unrecognised; should be one of: 'queues', 'classic_queues', "
    "'quorum_queues', 'streams', 'exchanges', or 'all'"
)


@pytest.fixture(autouse=True)
def users(world: World) -> None:
    """One user for each tag, all of "/" only."""
    world.broker.add_vhost("other")
    for tag in ("administrator", "policymaker", "management", "monitoring", "none"):
        password = salted_sha256("secret", SECRET)
        user = User(tag, password, frozenset({tag}), permissions={"/": EVERYTHING})
        world.broker.access.put_user(user)


async def put(client: httpx.AsyncClient, path: str, **given: Any) -> tuple[int, Any]:
    answer = await client.put(path, json=TTL | given)
    return answer.status_code, answer.json() if answer.content else None


async def got(client: httpx.AsyncClient, path: str, user: str | None = None) -> tuple[int, Any]:
    login = {} if user is None else {"auth": (user, "secret")}
    answer = await client.get(path, **login)  # type: ignore[arg-type]
    return answer.status_code, answer.json()


def shown(name: str = "p", **changed: Any) -> dict[str, Any]:
    whole = {"vhost": "/", "name": name, **TTL, "apply-to": "all", "priority": 0}
    return whole | {key.replace("_", "-"): value for key, value in changed.items()}


async def test_a_policys_life(world: World, client: httpx.AsyncClient):
    queue = world.vhost.make_queue("q")
    assert await put(client, f"{ROOT}/%2F/p") == (201, None)
    assert queue.effective("message-ttl") == 1000
    assert await got(client, f"{ROOT}/%2F/p") == (200, shown())
    assert await put(client, f"{ROOT}/%2F/p", priority=3, **{"apply-to": "queues"}) == (204, None)
    assert await got(client, f"{ROOT}/%2F") == (200, [shown(priority=3, apply_to="queues")])
    assert (await client.delete(f"{ROOT}/%2F/p")).status_code == 204
    assert queue.effective("message-ttl") is None
    assert await got(client, f"{ROOT}/%2F/p") == NOT_FOUND
    assert await got(client, ROOT) == (200, [])
    assert summary(world.changes[2:]) == [
        (Put, StoredPolicy),
        (Put, StoredPolicy),
        (Drop, StoredPolicy),
    ]


async def test_the_members_stand_in_rabbitmqs_order(client: httpx.AsyncClient):
    definition = {"message-ttl": 1, "max-length": 2}
    await put(client, f"{ROOT}/%2F/p", definition=definition, vhost="/", name="p", more=[1])
    assert (await client.get(f"{ROOT}/%2F/p")).text.replace(" ", "") == (
        '{"vhost":"/","name":"p","pattern":"^q","apply-to":"all",'
        '"definition":{"max-length":2,"message-ttl":1},"priority":0}\n'
    )


async def test_the_two_kinds_have_nothing_to_do_with_each_other(client: httpx.AsyncClient):
    assert await put(client, f"{OPERATORS}/%2F/p") == (201, None)
    assert await got(client, f"{ROOT}/%2F/p") == NOT_FOUND
    assert await got(client, f"{OPERATORS}/%2F/p") == (200, shown())
    assert await got(client, f"{OPERATORS}/%2F") == (200, [shown()])
    assert await got(client, OPERATORS) == (200, [shown()])
    assert await got(client, ROOT) == (200, [])
    assert (await client.delete(f"{ROOT}/%2F/p")).status_code == 404
    assert (await client.delete(f"{OPERATORS}/%2F/p")).status_code == 204


async def test_lists_are_by_priority(client: httpx.AsyncClient):
    for name, priority, vhost in (("b", 2, "%2F"), ("a", 2, "%2F"), ("c", 1, "other")):
        assert await put(client, f"{ROOT}/{vhost}/{name}", priority=priority) == (201, None)
    _, found = await got(client, ROOT)
    assert [each["name"] for each in found] == ["c", "a", "b"]
    _, found = await got(client, f"{ROOT}/%2F")
    assert [each["name"] for each in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"definition": {"foo": "1"}}, '[{<<"foo">>,<<"1">>}] are not recognised policy settings'),
        ({"definition": {}}, "no policy provided"),
        ({"definition": None}, "definition must be a dictionary: null"),
        ({"pattern": None}, "pattern should be a binary but was null"),
        ({"priority": None}, "priority should be a number, actually was null"),
        ({"priority": "5"}, 'priority should be a number, actually was <<"5">>'),
        (
            {"apply-to": None},
            APPLY_TO_NULL,
        ),
    ],
)
async def test_what_is_no_policy(client: httpx.AsyncClient, given: dict[str, Any], text: str):
    reason = f"Validation failed\n\n{text}\n"
    refusal = (400, {"error": "bad_request", "reason": reason})
    assert await put(client, f"{ROOT}/%2F/p", **given) == refusal


async def test_operator_policies_know_fewer_keys(client: httpx.AsyncClient):
    status, refusal = await put(client, f"{OPERATORS}/%2F/p", definition={"queue-mode": "lazy"})
    assert (status, refusal["reason"].splitlines()[2]) == (
        400,
        '[{<<"queue-mode">>,<<"lazy">>}] are not recognised policy settings',
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{}", "[{key_missing,pattern},{key_missing,definition}]"),
        (b"", "[{key_missing,pattern},{key_missing,definition}]"),
        (b'{"pattern":"a"}', "[{key_missing,definition}]"),
        (b"x{", "not_json"),
        (b"[]", "not_json"),
        (b"[" * 9_000, "not_json"),
        (b"\xff", "not_json"),
        (
            b'{"pattern":"","definition":{"expires":' + b"[" * 900 + b"]" * 900 + b"}}",
            "Validation failed\n\n[[[[[[[[…]]]]]]]] is not a valid queue expiry\n",
        ),
    ],
)
async def test_what_is_no_body(client: httpx.AsyncClient, body: bytes, reason: str):
    answer = await client.put(f"{ROOT}/%2F/p", content=body)
    assert answer.status_code == 400
    assert answer.json() == {"error": "bad_request", "reason": reason}


async def test_virtual_hosts_that_are_not_there(client: httpx.AsyncClient):
    for root in (ROOT, OPERATORS):
        assert await got(client, f"{root}/nope") == NOT_FOUND
        assert await got(client, f"{root}/nope/p") == NOT_FOUND
        assert (await client.delete(f"{root}/nope/p")).status_code == 404
        refusal = {"error": "not_found", "reason": "vhost_not_found"}
        assert await put(client, f"{root}/nope/p") == (404, refusal)


MANAGEMENT = "Not management user"
OBJECT = "User not authorised to access object"
VHOST = "User not authorised to access virtual host"
ADMINISTRATOR = "Not administrator user"


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        (ROOT, {"none": MANAGEMENT}),
        (OPERATORS, {"none": MANAGEMENT}),
        (f"{ROOT}/%2F", {"none": MANAGEMENT}),
        (
            f"{ROOT}/other",
            {"none": MANAGEMENT, "policymaker": VHOST, "management": VHOST, "monitoring": VHOST},
        ),
        (f"{ROOT}/%2F/p", {"none": MANAGEMENT, "management": OBJECT, "monitoring": OBJECT}),
        (
            f"{ROOT}/other/p",
            {"none": MANAGEMENT, "management": OBJECT, "monitoring": OBJECT, "policymaker": OBJECT},
        ),
        (
            f"{OPERATORS}/%2F/p",
            {
                "none": MANAGEMENT,
                "management": ADMINISTRATOR,
                "monitoring": ADMINISTRATOR,
                "policymaker": ADMINISTRATOR,
            },
        ),
    ],
)
async def test_who_may_look(client: httpx.AsyncClient, path: str, refused: dict[str, str]):
    for root in (ROOT, OPERATORS):
        for vhost in ("%2F", "other"):
            assert await put(client, f"{root}/{vhost}/p") == (201, None)
    found = {}
    for user in ("administrator", "policymaker", "management", "monitoring", "none"):
        status, answer = await got(client, path, user)
        if status != 200:
            assert (status, answer["error"]) == (401, "not_authorised")
            found[user] = answer["reason"]
        elif path in (ROOT, OPERATORS):
            count = 2 if user == "administrator" else 1
            assert len(answer) == count, user
    assert found == refused


async def test_who_may_change(client: httpx.AsyncClient):
    for user, root, status in (
        ("policymaker", ROOT, 201),
        ("administrator", ROOT, 204),
        ("management", ROOT, 401),
        ("policymaker", OPERATORS, 401),
        ("administrator", OPERATORS, 201),
    ):
        answer = await client.put(f"{root}/%2F/p", json=TTL, auth=(user, "secret"))
        assert answer.status_code == status, (user, root)
        answer = await client.delete(f"{root}/%2F/nope", auth=(user, "secret"))
        assert answer.status_code == (401 if status == 401 else 404)
    assert (await client.get(ROOT, auth=("administrator", "wrong"))).status_code == 401


async def test_who_loses_the_virtual_host_meanwhile_changes_nothing(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    world.broker.users.permit("policymaker", "other", EVERYTHING)
    lost = "other"

    async def slow_body(*_: object) -> bytes:
        world.broker.users.forbid("policymaker", lost)
        return b'{"pattern": "x", "definition": {"max-length": 1}}'

    monkeypatch.setattr("leporid.management.policies.policy_body_of", slow_body)
    auth = ("policymaker", "secret")
    assert (await client.put("/api/policies/%2F/p", auth=auth)).status_code == 201
    lost = "/"
    assert (await client.put("/api/policies/%2F/q", auth=auth)).status_code == 401


async def test_an_answer_waits_for_the_disk(world: World, client: httpx.AsyncClient):
    world.syncing = False
    setting = asyncio.ensure_future(put(client, f"{ROOT}/%2F/p"))
    while not world.changes or not puts([world.changes[-1]], StoredPolicy):
        await asyncio.sleep(0)
    await got(client, ROOT)  # a round trip later
    assert not setting.done()
    world.syncing = True
    assert await setting == (201, None)


async def test_those_of_the_configuration_file_are_changed_there(
    world: World, client: httpx.AsyncClient
):
    configured = make_policy("p", "", {"message-ttl": 5})
    broker = Broker(
        world.engine,
        world.broker.access,
        record=world.changes.append,
        random_bytes=bytes,
        policies={"configured": [configured]},
    )
    world.broker.vhosts["configured"] = VirtualHost("configured", broker)
    _, found = await got(client, f"{ROOT}/configured")
    assert [each["name"] for each in found] == ["p"]
    reason = "policy 'p' in vhost 'configured' is the configuration file's: change it there"
    refusal = {"error": "bad_request", "reason": reason}
    assert await put(client, f"{ROOT}/configured/p") == (400, refusal)
    answer = await client.delete(f"{ROOT}/configured/p")
    assert (answer.status_code, answer.json()) == (400, refusal)


async def test_pages_order_and_columns(client: httpx.AsyncClient):
    for name in "abc":
        await client.put(
            f"/api/policies/%2F/{name}", json={"pattern": "", "definition": {"max-length": 1}}
        )
    found = (await client.get("/api/policies?page=2&page_size=2&columns=name")).json()
    assert (found["items"], found["page_count"]) == ([{"name": "c"}], 2)
    found = (await client.get("/api/policies/%2F?sort=name&sort_reverse=true&columns=name")).json()
    assert [each["name"] for each in found] == ["c", "b", "a"]


@pytest.mark.parametrize("path", [f"{ROOT}/%2F/p", f"{OPERATORS}/%2F/p", PARAMETER])
async def test_a_policy_or_parameter_has_a_limited_size(
    world: World, client: httpx.AsyncClient, path: str
):
    definition = {"ha-mode": "nodes", "ha-params": ["n" * 255] * 255}
    status, found = await put(client, path, definition=definition, value={})
    assert (status, found["error"]) == (413, "too-large")
    assert (found["limit"], found["value"]) == ("http_policy_bytes", 65536)
    assert world.broker.refusals.by_kind["http_policy_bytes"] == 1
    assert not list(world.vhost.policies)
