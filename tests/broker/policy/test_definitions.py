"""Definitions of policies; the texts are those of RabbitMQ 3.10.8, where it knows the key."""

from __future__ import annotations

from typing import Any

import pytest

from leporid.amqp.tables import Int8, decode_table, encode_table
from leporid.broker.policy.definitions import (
    Definition,
    PolicyError,
    check_definition,
    counting,
    makes_sense,
    merged,
)
from leporid.broker.queue.queue_types import CLASSIC, QUORUM, STREAM, QueueType
from leporid.broker.settings.table import KEYS

RIGHT: dict[str, Any] = {
    "alternate-exchange": "unrouted",
    "consumer-disconnected-timeout": 0,
    "consumer-timeout": 1000,
    "consumer-timeout-action": "requeue",
    "dead-letter-exchange": "",
    "dead-letter-routing-key": "k",
    "dead-letter-strategy": "at-least-once",
    "delayed-retry-type": "failed",
    "delayed-retry-min": 1,
    "delayed-retry-max": 315_360_000_000,
    "delivery-limit": 0,
    "expires": 1,
    "initial-cluster-size": 3,
    "max-age": "7D",
    "max-in-memory-bytes": 0,
    "max-in-memory-length": 2**63 - 1,
    "max-length": 0,
    "max-length-bytes": 2**40,
    "member-placement-tag": "region",
    "message-ttl": 0,
    "overflow": "reject-publish-dlx",
    "queue-leader-locator": "balanced",
    "queue-master-locator": "min-masters",
    "queue-mode": "lazy",
    "queue-version": 2,
    "stream-filter-size-bytes": 32,
    "stream-max-segment-size-bytes": 3_000_000_000,
    "target-group-size": 3,
    "ha-mode": "nodes",
    "ha-params": ["a", "b"],
    "ha-sync-mode": "automatic",
    "ha-sync-batch-size": 5,
    "ha-promote-on-shutdown": "when-synced",
    "ha-promote-on-failure": "always",
}


MODE_MISSING = (
    "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
)


def wrong(definition: Any, *, operator: bool = False) -> str:
    with pytest.raises(PolicyError) as caught:
        check_definition(definition, operator=operator)
    return str(caught.value)


def test_every_key_has_values_that_are_right_and_last():
    assert RIGHT.keys() == KEYS.keys()
    checked = check_definition(RIGHT, operator=False)
    assert checked == RIGHT
    assert decode_table(encode_table(checked))[0] == RIGHT


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("message-ttl", -1, "-1 is not a valid message TTL"),
        ("message-ttl", "1", '<<"1">> is not a valid message TTL'),
        ("message-ttl", True, "true is not a valid message TTL"),
        ("message-ttl", None, "null is not a valid message TTL"),
        ("message-ttl", 315_360_000_001, "315360000001 is not a valid message TTL"),
        ("max-age", "1x", '<<"1x">> is not a valid max age'),
        ("max-age", 5, "5 is not a valid max age"),
        ("alternate-exchange", 5, "5 is not a valid alternate exchange name"),
        ("alternate-exchange", ["a"], '[<<"a">>] is not a valid alternate exchange name'),
        ("dead-letter-exchange", 5, "5 is not a valid dead letter exchange name"),
        ("dead-letter-routing-key", 5, "5 is not a valid dead letter routing key"),
        ("dead-letter-strategy", "x", '<<"x">> is not a valid dead letter strategy'),
        ("expires", 0, "0 is not a valid queue expiry"),
        ("max-length", -1, "-1 is not a valid maximum length"),
        ("max-length", 2**63, "9223372036854775808 is not a valid maximum length"),
        ("max-length-bytes", 1.5, "1.5 is not a valid maximum length in bytes"),
        ("max-in-memory-length", -1, "-1 is not a valid maximum memory in bytes"),
        ("initial-cluster-size", -1, "-1 is not a valid cluster size"),
        ("queue-mode", "x", '<<"x">> is not a valid queue-mode value'),
        ("queue-version", 3, "3 is not a valid queue-version value"),
        ("delivery-limit", -1, "-1 is not a valid delivery limit"),
        ("overflow", {"a": 1}, '#{<<"a">> => 1} is not a valid overflow value'),
        ("stream-max-segment-size-bytes", -1, "-1 is not a valid segment size"),
        ("queue-master-locator", "x", '<<"x">> invalid queue-master-locator value'),
        ("queue-leader-locator", "x", '<<"x">> is not a valid queue leader locator value'),
        ("target-group-size", 0, "0 is not a valid qq target count value"),
        ("stream-filter-size-bytes", 15, "15 is not a valid filter size. Valid range is 16-255"),
        ("consumer-disconnected-timeout", -1, "-1 is not a valid consumer disconnected timeout"),
        (
            "member-placement-tag",
            "",
            "<<>> is not a valid member-placement-tag value. Must be a non-empty string",
        ),
        ("consumer-timeout", -1, "-1 is not a valid consumer timeout"),
        ("consumer-timeout-action", 1, "1 is not a valid consumer timeout action"),
        ("ha-mode", "x", '<<"x">> is not a valid ha-mode value'),
        ("ha-mode", "exactly", 'ha-mode="exactly" takes an integer, none given'),
        ("max-segment-size", 5, '[{<<"max-segment-size">>,5}] are not recognised policy settings'),
        ("dead-letter-exchange", "\ud800", '<<"?">> is not a valid dead letter exchange name'),
    ],
)
def test_wrong_values(key: str, value: Any, text: str):
    assert wrong({key: value}) == text


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({}, "no policy provided"),
        (5, "definition must be a dictionary: 5"),
        ([], "definition must be a dictionary: []"),
        ({"foo": "1", "message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"foo": 1, "b": 2}, '[{<<"b">>,2},{<<"foo">>,1}] are not recognised policy settings'),
        ({"ha-params": 5}, MODE_MISSING),
        ({"ha-mode": "all", "ha-params": 1}, 'ha-mode="all" does not take parameters'),
        ({"ha-mode": "exactly", "ha-params": 0}, 'ha-mode="exactly" takes an integer, 0 given'),
        ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode="nodes" takes a list, [] given'),
        ({"ha-mode": "nodes", "ha-params": ["a"] * 256},
         'ha-mode="nodes" takes a list of at most 255 names'),
        ({"ha-mode": "all", "ha-sync-mode": "x"},
         'ha-sync-mode must be "manual" or "automatic", got <<"x">>'),
        ({"ha-mode": "all", "ha-sync-batch-size": 0},
         "ha-sync-batch-size takes an integer greater than 0, 0 given"),
        ({"ha-mode": "all", "ha-promote-on-failure": 1},
         'ha-promote-on-failure must be "always" or "when-synced", got 1'),
        ({"delayed-retry-type": "all"},
         "delayed-retry-min is required when delayed-retry-type is all"),
        ({"delayed-retry-min": 5, "delayed-retry-max": 4},
         "delayed-retry-max (4) must not be smaller than delayed-retry-min (5)"),
    ],
)  # fmt: skip
def test_wrong_definitions(definition: Any, text: str):
    assert wrong(definition) == text


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        ("\x07" * 100_000, "<<7,7,7,"),
        (["\x07" * 100_000] * 10, "[<<7,7,7,"),
        ([1.5] * 100_000, "[1.5,1.5,"),
        ([[[1.5] * 100]] * 1000, "[[[1.5,1.5,"),
        ({str(number): number for number in range(100_000)}, '#{<<"0">> => 0,<<"1">> => 1,'),
    ],
    ids=["text", "texts", "list", "lists", "table"],
)
def test_of_a_long_value_that_is_wrong_the_beginning_is_shown(wrong: Any, shown: str):
    for definition in ({"message-ttl": wrong}, {"no-such": wrong}, {"ha-mode": wrong}):
        with pytest.raises(PolicyError) as refused:
            check_definition(definition, operator=False)
        assert shown in str(refused.value)
        assert "…" in str(refused.value)
        assert len(str(refused.value)) < 1200


def test_of_very_many_unknown_settings_the_first_are_shown():
    with pytest.raises(PolicyError) as refused:
        check_definition({f"k{number:05}": number for number in range(10_000)}, operator=False)
    assert str(refused.value).startswith('[{<<"k00000">>,0},{<<"k00001">>,1},')
    assert len(str(refused.value)) < 1200


def test_operator_policies_know_fewer_keys():
    definition = {"message-ttl": 1, "max-length": 2, "expires": 3, "overflow": "drop-head"}
    assert check_definition(definition, operator=True) == definition
    text = '[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings'
    assert wrong({"dead-letter-exchange": "x"}, operator=True) == text


def test_an_operator_policy_is_put_over_a_policy():
    own: Definition = {
        "message-ttl": 5,
        "max-length": 5,
        "overflow": "drop-head",
        "queue-mode": "lazy",
    }
    operators: Definition = {
        "message-ttl": 4,
        "max-length": 6,
        "overflow": "reject-publish",
        "expires": 1,
    }
    assert merged(own, operators) == {
        "message-ttl": 4,
        "max-length": 5,
        "overflow": "reject-publish",
        "queue-mode": "lazy",
        "expires": 1,
    }
    assert merged({"delayed-retry-min": 1}, {"delayed-retry-min": 2}) == {"delayed-retry-min": 2}


@pytest.mark.parametrize(
    ("key", "argument", "by_policy", "kind", "counts"),
    [
        ("message-ttl", 5, 6, CLASSIC, 5),
        ("message-ttl", 7, 6, CLASSIC, 6),
        ("expires", 5, 6, CLASSIC, 5),
        ("expires", 5, 6, QUORUM, 6),
        ("max-length", Int8(5), 6, QUORUM, 5),
        ("delivery-limit", 3, 2, CLASSIC, 2),
        ("delivery-limit", -1, 2, QUORUM, 2),
        ("overflow", "drop-head", "reject-publish", CLASSIC, "drop-head"),
        ("overflow", "drop-head", "reject-publish", QUORUM, "reject-publish"),
        ("dead-letter-exchange", "a", "b", CLASSIC, "a"),
        ("dead-letter-exchange", "a", "b", QUORUM, "a"),
        ("max-length-bytes", 5, 6, STREAM, 6),
        ("max-age", "1D", "2D", STREAM, "2D"),
    ],
)
def test_of_argument_and_policy_the_one_that_counts_in_rabbitmq(
    key: str, argument: Any, by_policy: Any, kind: QueueType, counts: Any
):
    assert counting(key, argument, by_policy, kind) == counts


@pytest.mark.parametrize(
    ("argument", "by_policy", "counts"), [(0, 500, 500), (500, 0, 500), (0, 0, 0), (600, 500, 500)]
)
def test_a_consumer_timeout_of_0_is_no_limit_and_so_not_the_smaller_one(
    argument: int, by_policy: int, counts: int
):
    assert counting("consumer-timeout", argument, by_policy, CLASSIC) == counts


def test_a_policy_with_a_strange_key_is_not_for_that_type_of_queue():
    cases = {
        "max-age": (False, False, True),
        "queue-mode": (True, False, False),
        "message-ttl": (True, True, False),
        "max-length-bytes": (True, True, True),
        "delivery-limit": (True, True, False),
        "queue-leader-locator": (False, True, True),
        "ha-mode": (True, False, False),
        "target-group-size": (False, True, False),
        "stream-filter-size-bytes": (False, False, True),
    }
    for key, expected in cases.items():
        definition = ["max-length-bytes", key]
        found = tuple(makes_sense(definition, kind) for kind in (CLASSIC, QUORUM, STREAM))
        assert found == expected, key


def test_a_refusal_shows_so_much_of_what_is_deep():
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(
        PolicyError, match=r"^\[\[\[\[\[\[\[\[…\]\]\]\]\]\]\]\] is not a valid message TTL$"
    ):
        check_definition({"message-ttl": deep}, operator=False)
    with pytest.raises(PolicyError, match=r"\[…\]"):
        check_definition({"none-of-ours": {"a": deep}}, operator=False)
