"""Which arguments of a queue reach the engine."""

from __future__ import annotations

import pytest
from tests.broker.engine_fake import FakeQueue, fake_of
from tests.broker.peer import World

from leporid.amqp.tables import Int8, Value
from leporid.broker.queue.dead_letters import DeadLetters
from leporid.broker.queue.queue_types import queue_type
from leporid.broker.settings import effects


def make(arguments: dict[str, Value]) -> FakeQueue:
    queue = World().broker.vhosts["/"].make_queue("q", arguments=arguments)
    return fake_of(queue.engine, FakeQueue)


@pytest.mark.parametrize(
    "arguments", [{}, {"x-made-up": 1}, {"x-single-active-consumer": False}, {"x-expires": 1000}]
)
def test_without_an_argument_the_engine_is_not_asked(arguments: dict[str, Value]):
    queue = make(arguments)
    assert queue.limits == {}
    assert queue.dead_letters is None


@pytest.mark.parametrize(
    ("arguments", "length", "size", "overflow"),
    [
        ({"x-max-length": 3}, 3, None, "drop-head"),
        ({"x-max-length": 0}, 0, None, "drop-head"),
        ({"x-max-length": Int8(7)}, 7, None, "drop-head"),
        ({"x-max-length-bytes": 2**40}, None, 2**40, "drop-head"),
        ({"x-max-length": 1, "x-max-length-bytes": 2}, 1, 2, "drop-head"),
        ({"x-max-length": 1, "x-overflow": "reject-publish"}, 1, None, "reject-publish"),
        ({"x-overflow": "reject-publish-dlx"}, None, None, "reject-publish-dlx"),
    ],
)
def test_bounds(arguments: dict[str, Value], length: int, size: int, overflow: str):
    limits = {"max_length": length, "max_bytes": size, "overflow": overflow}
    assert make(arguments).limits == limits


@pytest.mark.parametrize(
    ("argument", "value", "limits"),
    [
        ("x-message-ttl", 0, {"ttl_ms": 0}),
        ("x-message-ttl", 60_000, {"ttl_ms": 60_000}),
        ("x-max-priority", 0, {"priorities": 0}),
        ("x-max-priority", 255, {"priorities": 255}),
        ("x-single-active-consumer", True, {"single": True}),
        ("x-message-deduplication", True, {"unique": True}),
        ("x-message-deduplication", False, {}),
    ],
)
def test_each_argument(argument: str, value: Value, limits: dict[str, object]):
    assert make({argument: value}).limits == limits


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"x-delivery-limit": 0}, {"returns": (0, True)}),
        ({"x-delivery-limit": 32_766}, {"returns": (32_766, True)}),
        ({"x-delivery-limit": -1}, {}),
        ({"x-queue-type": "quorum"}, {"returns": (20, True)}),
        ({"x-queue-type": "quorum", "x-delivery-limit": 3}, {"returns": (3, True)}),
        ({"x-queue-type": "quorum", "x-delivery-limit": -1}, {"returns": (None, True)}),
        ({"x-consumer-timeout": 5}, {"timeout": (5, False)}),
        ({"x-consumer-timeout-action": "requeue"}, {"timeout": (None, True)}),
        ({"x-consumer-timeout-action": "close"}, {}),
        (
            {"x-delayed-retry-type": "all", "x-delayed-retry-min": 5},
            {"returns": (None, True), "retries": ("all", 5, 5)},
        ),
        (
            {
                "x-delayed-retry-type": "failed",
                "x-delayed-retry-min": 5,
                "x-delayed-retry-max": 60,
            },
            {"returns": (None, True), "retries": ("failed", 5, 60)},
        ),
        ({"x-delayed-retry-type": "all"}, {}),
        ({"x-delayed-retry-type": "disabled", "x-delayed-retry-min": 5}, {}),
        ({"x-delayed-retry-min": 5}, {}),
    ],
)
def test_what_comes_back(arguments: dict[str, Value], told: dict[str, object]):
    kind = queue_type(arguments)
    vhost = World().broker.vhosts["/"]
    queue = vhost.make_queue("q", arguments=arguments, kind=kind).engine
    assert fake_of(queue, FakeQueue).limits == told


def test_a_limit_that_an_older_version_recorded_is_none():
    """It was not looked at when it was declared, and counting ends below it."""
    queue = World().broker.vhosts["/"].make_queue("q")
    queue.arguments = {"x-delivery-limit": 2**40}
    assert effects.RETURNS.wanted(queue) == (None, False)


def test_all_at_once():
    arguments: dict[str, Value] = {
        "x-max-length": 1,
        "x-message-ttl": 2,
        "x-max-priority": 3,
        "x-single-active-consumer": True,
        "x-dead-letter-exchange": "dlx",
    }
    queue = make(arguments)
    assert queue.limits == {
        "max_length": 1,
        "max_bytes": None,
        "overflow": "drop-head",
        "ttl_ms": 2,
        "priorities": 3,
        "single": True,
    }
    assert isinstance(queue.dead_letters, DeadLetters)


@pytest.mark.parametrize("exchange", ["", "dlx"])
def test_dead_letters_of_any_exchange(exchange: str):
    assert isinstance(make({"x-dead-letter-exchange": exchange}).dead_letters, DeadLetters)
