"""Imports: all of a document or nothing, whoever does what meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.definitions.given import (
    all_of,
    binding,
    document,
    exchange,
    ordered,
    queue,
    read,
    recorded,
    restarted,
    run,
)
from tests.broker.peer import World

from leporid.amqp.methods import QueueDeclare, QueueDeclareOk
from leporid.broker.access.passwords import NoPassword
from leporid.broker.definitions.document import reading
from leporid.broker.definitions.exporting import exported_of
from leporid.broker.definitions.importing import importing
from leporid.broker.definitions.plan import DefinitionsRefused, Plan
from leporid.broker.registry import finished
from leporid.broker.stored import StoredBinding
from leporid.durable import Put, Together


@pytest.fixture
def world() -> World:
    return World()


def test_everything_is_recorded_in_one_piece(world: World):
    run(world, exchanges=[exchange("x")], queues=[queue("q")], bindings=[binding("x", "q", "a.#")])
    (change,) = world.changes
    assert isinstance(change, Together)
    kinds = [type(each.definition).__name__ for each in change.changes if isinstance(each, Put)]
    assert kinds == ["StoredExchange", "StoredQueue", "StoredBinding"]
    vhost = world.broker.vhosts["/"]
    assert vhost.queue("q").durable
    assert [each.key for each in vhost.exchange("x").outgoing] == ["a.#"]
    assert all_of(restarted(world)) == all_of(world)


def test_a_second_time_changes_nothing(world: World):
    nouns: Any = {
        "exchanges": [exchange("x", type="headers")],
        "queues": [queue("q", arguments={"x-max-length": 5})],
        "bindings": [binding("x", "q", arguments={"x-match": "any", "n": 1})],
    }
    run(world, **nouns)
    world.changes.clear()
    difference = run(world, **nouns).difference
    assert world.changes == []
    assert [difference[noun].unchanged for noun in nouns] == [1, 1, 1]


def test_what_people_leave_out_is_as_in_rabbitmq(world: World):
    """Since 4.0: durable, and not deleted by itself."""
    run(
        world,
        exchanges=[{"name": "x", "vhost": "/", "type": "topic"}],
        queues=[{"name": "q", "vhost": "/"}],
        bindings=[{"source": "x", "vhost": "/", "destination": "q", "destination_type": "queue"}],
    )
    found = all_of(restarted(world))
    assert found["queues"] == [queue("q")]
    assert [each["durable"] for each in found["exchanges"]] == [True]
    assert [each["routing_key"] for each in found["bindings"]] == [""]


def test_what_an_export_says_of_its_virtual_host_does_not_describe_another(world: World):
    document = finished(
        reading(
            json.dumps(
                {
                    "rabbitmq_version": "4.0.5",
                    "rabbitmq_definition_format": "single_virtual_host",
                    "original_vhost_name": "app",
                    "metadata": {"description": "d", "default_queue_type": "quorum"},
                    "description": "d",
                    "default_queue_type": "quorum",
                    "limits": [],
                    "queues": [{"name": "q", "durable": True, "auto_delete": False}],
                }
            ).encode()
        )
    )
    difference = finished(importing(world.broker, document, "a test", scope="/")).difference
    assert difference.ignored == [
        (name, "vhost '/' keeps its own")
        for name in ("metadata", "description", "default_queue_type")
    ]
    assert world.broker.vhosts["/"].queue("q").durable


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"queues": [queue("q", vhost="nope")]}, r"queues\[0\] 'q': there is no vhost 'nope'"),
    (
        {"queues": [{"name": "q"}]},
        "vhost is missing; definitions of one virtual host are imported into one",
    ),
    ({"queues": [queue("")]}, "name is empty"),
    ({"queues": [queue("x" * 256)]}, "name has 256 bytes"),
    ({"queues": [queue("q", durable="yes")]}, "durable should be true or false"),
    ({"queues": [queue("q", arguments={"x-max-length": -1})]}, "x-max-length"),
    ({"queues": [queue("q", arguments=[1])]}, "arguments: is not a JSON object"),
    ({"exchanges": [exchange("x", type="nope")]}, "unknown exchange type 'nope'"),
    ({"bindings": [binding("nope", "q")]}, "one of its ends is neither there nor in the"),
    ({"permissions": [{"user": "nope", "vhost": "/"}]}, "there is no user 'nope'"),
    (
        {
            "permissions": [
                {"user": "guest", "vhost": "/", "configure": "(", "write": "", "read": ""}
            ]
        },
        "configure",
    ),
    ({"users": [{"name": "u", "password_hash": "x"}]}, "password_hash must be"),
    ({"users": [{"name": "u", "hashing_algorithm": "x"}]}, "unknown hashing_algorithm"),
    ({"policies": [{"name": "p", "vhost": "/", "pattern": "("}]}, "definition is missing"),
    (
        {"policies": [{"name": "p", "vhost": "/", "pattern": "x", "definition": {"nope": 1}}]},
        "not recognised policy settings",
    ),
    (
        {"parameters": [{"name": "p", "vhost": "/", "component": "policy", "value": {}}]},
        "policies may not be set using this method",
    ),
    ({"global_parameters": [{"name": "g"}]}, "value is missing"),
]


@pytest.mark.parametrize(("wrong", "reason"), WRONG)
def test_what_is_wrong_changes_nothing(world: World, wrong: dict[str, Any], reason: str):
    before = all_of(world)
    good: dict[str, list[Any]] = {
        "vhosts": [{"name": "new"}],
        "users": [{"name": "ann", "tags": ""}],
        "exchanges": [exchange("good")],
        "queues": [queue("good"), queue("good", vhost="new")],
        "bindings": [binding("good", "good")],
    }
    for noun, items in wrong.items():
        good[noun] = [*items, *good.get(noun, [])]
    with pytest.raises(DefinitionsRefused, match=reason):
        run(world, **good)
    assert world.changes == []
    assert all_of(world) == before
    # Nothing is kept free any more.
    assert isinstance(world.peer().call(QueueDeclare("good")), QueueDeclareOk)
    world.broker.add_vhost("new")


# ------------------------------------------------------------- others meanwhile


def begin(world: World, **nouns: Any) -> list[Any]:
    """Begin an import that goes on by one step in each turn; its outcome comes into the list."""
    ended: list[Any] = []
    world.cut_everywhere()
    steps = importing(world.broker, document(**nouns), "a test")
    world.engine.jobs.start(steps, ended.append, ended.append)
    return ended


def go_on(world: World, ended: list[Any], turns: int = 10_000) -> None:
    for _ in range(turns):
        if ended:
            return
        world.turn()


@pytest.mark.parametrize("turns", range(0, 60, 3))
def test_whoever_declares_a_name_of_the_document_meanwhile_waits_for_it(world: World, turns: int):
    peer = world.peer()
    queues = [queue(f"q{count}", arguments={"x-max-length": 7}) for count in range(9)]
    ended = begin(world, queues=queues)
    go_on(world, ended, turns)
    peer.say(QueueDeclare("q4", durable=True, arguments={"x-max-length": 7}))
    go_on(world, ended)
    for _ in range(20):
        world.turn()
    assert isinstance(ended[0], Plan)
    assert len(peer.sent(QueueDeclareOk)) == 1
    assert world.broker.vhosts["/"].queue("q4").arguments == {"x-max-length": 7}
    assert all_of(restarted(world)) == all_of(world)


@pytest.mark.parametrize("turns", range(0, 40, 2))
@pytest.mark.parametrize("gone", ["vhost", "exchange", "queue", "user"])
def test_what_goes_meanwhile_is_gone_and_the_record_agrees(world: World, turns: int, gone: str):
    broker = world.broker
    broker.users.put("ann", NoPassword(), frozenset())
    run(world, exchanges=[exchange("x", vhost="other")], queues=[queue("old", vhost="other")])
    grant = {"user": "ann", "vhost": "other", "configure": "", "write": "", "read": ""}
    ended = begin(
        world,
        permissions=[grant],
        queues=[queue("q", vhost="other")],
        bindings=[binding("x", "old", vhost="other"), binding("x", "q", vhost="other")],
        policies=[{"name": "p", "vhost": "other", "pattern": "", "definition": {"max-length": 5}}],
    )
    go_on(world, ended, turns)
    other = broker.vhosts["other"]
    if gone == "vhost":
        world.engine.jobs.start(broker.dropping_vhost("other"))
    elif gone == "exchange":
        other.delete_exchange(other.exchange("x"), if_unused=False)
    elif gone == "queue":
        other.delete_queue(other.queue("old"))
    else:
        broker.users.drop("ann")
    go_on(world, ended)
    for _ in range(200):
        world.turn()
    assert isinstance(ended[0], Plan | DefinitionsRefused)
    assert all_of(restarted(world)) == all_of(world)
    # Nor is anything on disk of what is not there, which would come back with its ends.
    there = sum(each.binding_count for each in broker.vhosts.values())
    assert len(recorded(world).of(StoredBinding)) == there


def test_two_imports_take_turns(world: World):
    ended = begin(world, queues=[queue(f"q{count}") for count in range(5)])
    again = importing(world.broker, document(queues=[queue("q3"), queue("q9")]), "another")
    world.engine.jobs.start(again, ended.append, ended.append)
    for _ in range(200):
        world.turn()
    assert [type(each) for each in ended] == [Plan, Plan]
    assert ended[1].difference["queues"].unchanged == 1


# ------------------------------------------------------------- documents of RabbitMQ's


def test_what_rabbitmq_3_10_exports_comes_back_equal(world: World):
    given = read("rabbitmq-3.10.8")
    run(world, **given)
    found = all_of(world)
    # 3.10 says nothing else of virtual hosts, nor from where a user may come.
    assert ordered([{"name": each["name"]} for each in found["vhosts"]]) == ordered(given["vhosts"])
    for user in found["users"]:
        user.pop("loopback_only", None)
    given["parameters"] = [each for each in given["parameters"] if each["name"] != "foo"]
    for noun in found.keys() - {"vhosts"}:
        assert found[noun] == ordered(given[noun]), noun


def test_what_rabbitmq_exports_of_a_virtual_host_comes_back_equal(world: World):
    given = read("rabbitmq-3.10.8-vhost")
    run(world, scope="other", **given)
    found = exported_of(world.broker.vhosts["other"])
    given["parameters"] = [each for each in given["parameters"] if each["name"] != "foo"]
    for each in (*given["parameters"], *given["policies"]):
        del each["vhost"]  # RabbitMQ 4 leaves it out, 3.10 does not
    for noun, items in found.items():
        assert ordered(filter(None, items)) == ordered(given[noun]), noun


def test_a_document_of_rabbitmq_3_13(world: World):
    given = read("rabbitmq-3.13")
    plan = run(world, **given)
    shop = world.broker.vhosts["shop"]
    assert (shop.description, shop.tags, shop.default_queue_type) == (
        "orders",
        ("eu", "prod"),
        "quorum",
    )
    assert shop.limits == {"max-connections": 100}
    assert shop.queue("orders").governed.definition["delivery-limit"] == 5
    assert [what for what, _ in plan.difference.ignored] == [
        "parameter 'move' of component 'shovel' in vhost 'shop'",
        "parameter 'up' of component 'federation-upstream' in vhost 'shop'",
    ]
    found = all_of(world)
    for noun in ("users", "queues", "exchanges", "bindings", "policies", "global_parameters"):
        mine = (
            [each for each in found[noun] if each["name"] != "guest"]
            if noun == "users"
            else found[noun]
        )
        assert mine == ordered(given[noun]), noun
    assert all_of(restarted(world)) == found


def test_a_document_of_rabbitmq_4_1(world: World):
    plan = run(world, **read("rabbitmq-4.1"))
    shop = world.broker.vhosts["shop"]
    assert shop.protected
    assert world.broker.access.require("ops").limits == {"max-connections": 10}
    assert [what for what, _ in plan.difference.ignored] == [
        "metadata 'owner' of vhost 'shop'",
        "argument 'x-future-argument' of queue 'orders' in vhost 'shop'",
        "binding of queue 'orders' to exchange 'amq.rabbitmq.event' in vhost 'shop'",
    ]
    assert all_of(restarted(world)) == all_of(world)


# ------------------------------------------------------------- any document

NAMES = st.sampled_from(["a", "b", "ä", "c d", "e/f"])
VHOSTS = st.sampled_from(["/", "other", "new"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(["x-max-length", "x-message-ttl", "x-own"]), st.integers(1, 9), max_size=2
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """A document that makes sense: each name stands there once, and bindings have both ends."""

    def some(strategy: st.SearchStrategy[Any], most: int = 4) -> list[Any]:
        return draw(st.lists(strategy, max_size=most, unique=True))

    places = some(st.tuples(VHOSTS, NAMES))
    sources = some(st.tuples(VHOSTS, NAMES))
    queues = [
        queue(n, vhost=v, durable=draw(st.booleans()), arguments=draw(ARGUMENTS)) for v, n in places
    ]
    kinds = st.sampled_from(["direct", "fanout", "topic", "headers"])
    exchanges = [
        exchange(
            n, vhost=v, type=draw(kinds), durable=draw(st.booleans()), internal=draw(st.booleans())
        )
        for v, n in sources
    ]
    bindings = [
        binding(source, destination, draw(NAMES), vhost=vhost)
        for vhost, source in sources
        for at, destination in places
        if at == vhost and draw(st.booleans())
    ]
    users = some(NAMES)
    permissions = [
        {"user": user, "vhost": draw(VHOSTS), "configure": "", "write": ".*", "read": "x"}
        for user in users
    ]
    policies = [
        {
            "vhost": draw(VHOSTS),
            "name": name,
            "pattern": draw(st.sampled_from(["", "^a"])),
            "apply-to": "all",
            "definition": {"max-length": draw(st.integers(1, 9))},
            "priority": draw(st.integers(-2, 2)),
        }
        for name in some(NAMES)
    ]
    return {
        "vhosts": [{"name": "new", "description": draw(NAMES), "tags": []}],
        "users": [
            {"name": user, "password_hash": "", "tags": some(st.sampled_from(["management", "x"])),
             "limits": {"max-channels": 3} if draw(st.booleans()) else {}}
            for user in users
        ],
        "permissions": permissions,
        "policies": policies,
        "global_parameters": [{"name": name, "value": draw(VALUES)} for name in some(NAMES)],
        "exchanges": exchanges,
        "queues": queues,
        "bindings": bindings,
    }  # fmt: skip


VALUES = st.none() | st.integers(0, 9) | st.lists(NAMES) | st.dictionaries(NAMES, NAMES)


@settings(max_examples=60)
@given(documents())
def test_what_is_exported_comes_back_equal(given: dict[str, list[dict[str, Any]]]):
    first, second = World(), World()
    plan = run(first, **given)
    assert not plan.difference.has_conflicts
    found = all_of(first)
    assert len(found["queues"]) == len(given["queues"])
    run(second, **found)
    assert all_of(second) == found
    again = run(first, **found).difference
    assert all(not again[noun].added and not again[noun].changed for noun in found)
    # What lasts is there after a restart.
    after = all_of(restarted(first))
    for noun in ("queues", "exchanges"):
        assert after[noun] == [each for each in found[noun] if each["durable"]]
    assert after["users"] == found["users"]
    assert after["permissions"] == found["permissions"]
