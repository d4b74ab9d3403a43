"""Unknown arguments over HTTP: given there, listed there, to whom, and refused."""

from __future__ import annotations

from typing import Any

import httpx
from tests.management.conftest import World, serving

LIST = "/api/unknown-arguments/%2F"


async def listed(client: httpx.AsyncClient, **login: Any) -> list[dict[str, Any]]:
    answer = await client.get(LIST, **login)
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["unknown_arguments"]
    return found


async def test_what_is_given_over_http_is_listed(world: World, client: httpx.AsyncClient):
    body: dict[str, Any] = {"arguments": {"x-max-agee": "1D"}}
    assert (await client.put("/api/streams/%2F/orders", json=body)).status_code == 201
    assert (await client.put("/api/streams/%2F/orders", json=body)).status_code == 204
    body["partitions"] = 2
    assert (await client.put("/api/streams/%2F/parts", json=body)).status_code == 201
    policy = {"pattern": "^a", "apply_to": "queues", "vhost": "/", "definition": {"expires": 9}}
    assert (await client.put("/api/policies/%2F/p", json=policy)).status_code == 201
    policies, parts, orders = await listed(client)
    assert orders == {
        "place": "queue",
        "kind": "queue",
        "name": "orders",
        "argument": "x-max-agee",
        "suggestion": "x-max-age",
        "reason": "did you mean x-max-age?",
        "count": 2,
        "last_ms": world.engine.clock.wall_ms,
        "by": "user 'guest'",
    }
    assert (parts["name"], parts["count"]) == ("parts", 1)
    assert (policies["place"], policies["name"], policies["suggestion"]) == (
        "policy",
        "p",
        "apply-to",
    )
    # Who may do nothing with a stream, or with policies, sees nothing of their mistakes.
    assert await listed(client, auth=("reader", "secret")) == [orders]
    answer = await client.get(LIST, auth=("stranger", "secret"))
    assert answer.status_code == 403
    assert (await client.get(LIST, params={"all": 1})).status_code == 400


async def test_a_name_that_is_no_text_does_not_spoil_the_list(
    world: World, client: httpx.AsyncClient
):
    unknown = world.vhost.unknown_arguments
    unknown.check_queue("q", {b"x-max-\xff".decode(errors="surrogateescape"): 1}, "test")
    body = b'{"pattern": "", "definition": {"expires": 9}, "apply-to\\ud800": "queues"}'
    assert (await client.put("/api/policies/%2F/p", content=body)).status_code == 201
    assert [one["argument"] for one in await listed(client)] == ["apply-to?", "x-max-?"]


async def test_refused_where_they_are_refused():
    world = World(unknown_arguments="refuse")
    wrong: list[tuple[str, dict[str, Any], int, str]] = [
        (
            "streams/%2F/s",
            {"arguments": {"x-max-agee": "1D"}},
            409,
            "unknown arg 'x-max-agee' (did you mean x-max-age?) for queue 's' in vhost '/'",
        ),
        (
            "streams/%2F/s",
            {"partitions": 2, "arguments": {"max-age": "1D"}},
            409,
            "unknown arg 'max-age' (did you mean x-max-age?) for queue 's' in vhost '/'",
        ),
        (
            "policies/%2F/p",
            {"pattern": "^a", "aply-to": "queues", "definition": {"expires": 9}},
            400,
            "unknown arg 'aply-to' (did you mean apply-to?) for policy 'p' in vhost '/'",
        ),
    ]
    world.stream("orders")
    async with serving(world) as client:
        answer = await client.get("/api/streams/%2F/orders/records", params={"tags": "a|b"})
        assert (answer.status_code, answer.json()["reason"]) == (
            400,
            (
                "doubtful arg 'tags' (a|b is one tag; || stands between tags) for a table of queue "
                "'orders' in vhost '/'"
            ),
        )
        for path, body, status, reason in wrong:
            answer = await client.put(f"/api/{path}", json=body)
            assert (answer.status_code, answer.json()["reason"]) == (status, reason)
            assert (await client.get(f"/api/{path}")).status_code == 404
    world.around.stop()


async def test_filters_of_tables_that_match_nothing(world: World, client: httpx.AsyncClient):
    world.stream("orders")
    world.vhost.create_queue("jobs", durable=True, auto_delete=False, arguments={}, owner=None)
    tags, expression = {"tags": "a | b"}, {"filter": "TAGS = 'a'"}
    right = {"tags": "a || b", "filter": "TAGS = 'a'", "dialect": "rocketmq"}
    for parameters in (tags, tags, expression, right):
        url = "/api/streams/%2F/orders/records"
        assert (await client.get(url, params=parameters)).status_code == 200
    assert (await client.get("/api/queues/%2F/jobs/messages", params=tags)).status_code == 200
    answer = await client.post("/api/queues/%2F/jobs/leases", params=tags)
    assert answer.status_code in (200, 201)
    assert [
        (one["name"], one["argument"], one["reason"], one["count"]) for one in await listed(client)
    ] == [
        ("jobs", "tags", "a | b is one tag; || stands between tags", 2),
        (
            "orders",
            "filter",
            (
                "TAGS is a header in the dialect jms; did you mean tags, or the "
                'dialect rocketmq? The header is "TAGS" in double quotes'
            ),
            1,
        ),
        ("orders", "tags", "a | b is one tag; || stands between tags", 2),
    ]


async def test_a_misspelt_setting_says_what_may_be_meant(client: httpx.AsyncClient):
    policy = {"pattern": "", "definition": {"max-lenght": 1, "x-expires": 5}}
    answer = await client.put("/api/policies/%2F/p", json=policy)
    assert answer.json()["reason"] == (
        'Validation failed\n\n[{<<"max-lenght">>,1},{<<"x-expires">>,5}] are not recognised policy '
        "settings; did you mean max-length?\n"
    )
