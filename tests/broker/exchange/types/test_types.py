import random

import pytest
from tests.broker.exchange.types.bindings import binding, message, queues

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Int32, Value
from leporid.broker.exchange.types import EXCHANGE_TYPES, Binding, Router, make_router

# What a type cannot do without.
NEEDED: dict[str, dict[str, Value]] = {"x-message-deduplication": {"x-cache-size": 1}}
PER_MESSAGE = (
    "x-local-random",
    "x-message-deduplication",
    "x-random",
    "x-recent-history",
)


@pytest.mark.parametrize("exchange_type", sorted(EXCHANGE_TYPES))
def test_makes_a_router_of_each_type(exchange_type: str):
    router = make_router(exchange_type, NEEDED.get(exchange_type, {}), int)
    assert type(router) is EXCHANGE_TYPES[exchange_type]
    assert not router.strict_keys
    assert router.per_message is (exchange_type in PER_MESSAGE)


@pytest.mark.parametrize("exchange_type", sorted(EXCHANGE_TYPES))
def test_every_type_may_have_strict_keys(exchange_type: str):
    needed = NEEDED.get(exchange_type, {})
    assert make_router(exchange_type, {**needed, "x-strict-keys": True}, int).strict_keys
    assert not make_router(exchange_type, {**needed, "x-strict-keys": False}, int).strict_keys


@pytest.mark.parametrize(
    ("value", "name"), [(Int32(1), "signedint"), ("true", "longstr"), (None, "void")]
)
def test_strict_keys_is_a_boolean(value: Value, name: str):
    with pytest.raises(PreconditionFailed) as refused:
        make_router("topic", {"x-strict-keys": value}, int)
    assert refused.value.text == (
        f"PRECONDITION_FAILED - invalid type '{name}' for arg 'x-strict-keys'"
    )


@pytest.mark.parametrize("exchange_type", ["direct", "fanout", "headers"])
def test_many_bindings_of_one_queue_are_met_as_one(exchange_type: str):
    """So a route costs as much as there are queues, however often one is bound."""
    router = make_router(exchange_type, {}, int)
    many = [binding("k", {"x-ignored": number}) for number in range(50)]
    for each in many:
        router.add(each)
    router.add(binding("k", {"x-filter-sql": "a = 1"}))
    router.add(binding("k", queue="other"))
    assert queues(router, "k") == ["q", "q", "other"]
    for each in many[:-1]:
        router.remove(each)
        assert queues(router, "k") == ["q", "q", "other"]
    router.remove(many[-1])
    assert queues(router, "k") == ["q", "other"]


@pytest.mark.parametrize("exchange_type", sorted(EXCHANGE_TYPES))
def test_what_a_key_meets_in_a_moment_is_what_its_messages_meet(exchange_type: str):
    router = make_router(exchange_type, NEEDED.get(exchange_type, {}), int)
    if type(router).met_by is Router.met_by:
        assert router.met_by("k") is None
        return
    choose = random.Random(1)
    keys = [".".join(choose.choices("abc", k=choose.randrange(3))) for _ in range(30)]
    numbers = exchange_type in ("x-consistent-hash", "x-super-stream")
    patterns = ["1", "2", "3"] if numbers else [*keys, "#", "a.*"]
    bound = [binding(choose.choice(patterns), queue=f"q{choose.randrange(9)}") for _ in range(30)]
    there: list[Binding] = []
    said = 0
    for one in [*dict.fromkeys(bound), *bound[:20]]:
        if one in there:
            router.remove(one)
            there.remove(one)
        else:
            router.add(one)
            there.append(one)
        for key in keys:
            met = router.met_by(key)
            if met is not None:
                said += 1
                assert list(map(id, met)) == [id(each) for each in router.match(message(key))]
    assert said > 100
