"""Which policy governs a name, and what it means together with arguments."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.amqp.tables import Value
from leporid.broker.policy.policies import (
    NOT_GOVERNED,
    POLICIES_MAX,
    Policies,
    Policy,
    PolicyError,
    make_policy,
)
from leporid.broker.queue.queue_types import CLASSIC, QUORUM, STREAM

TTL = {"message-ttl": 1000}


def policies(*each: Policy) -> Policies:
    made = Policies()
    for policy in each:
        made.put(policy)
    return made


def governor(made: Policies, name: str) -> str | None:
    policy = made.of_queue(name, CLASSIC).policy
    return None if policy is None else policy.name


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"pattern": "^a(b"}, "pattern should be regular expression but is not a"),
        ({"pattern": "(?=a)"}, "pattern should be regular expression but is not a"),
        ({"pattern": 5}, "pattern should be a binary but was 5"),
        ({"priority": "5"}, 'priority should be a number, actually was <<"5">>'),
        ({"priority": True}, "priority should be a number, actually was true"),
        ({"priority": 2**64}, "priority should be a number, actually was 18446744"),
        ({"apply_to": "foo"}, "apply-to 'foo' unrecognised; should be one of: 'queues', 'c"),
        ({"apply_to": ["queues"]}, 'apply-to \'[<<"queues">>]\' unrecognised'),
        ({"name": ""}, "a name has 1 to 255 bytes"),
        ({"name": "ü" * 128}, "a name has 1 to 255 bytes"),
        ({"definition": {}}, "no policy provided"),
    ],
)  # fmt: skip
def test_what_is_no_policy(given: dict[str, Any], text: str):
    with pytest.raises(PolicyError) as caught:
        make_policy(**({"name": "p", "pattern": "", "definition": TTL} | given))
    assert str(caught.value).startswith(text)


def test_a_pattern_is_looked_for_anywhere_and_the_empty_one_is_everywhere():
    made = policies(make_policy("p", "order", TTL))
    assert [governor(made, name) for name in ("my-orders", "order", "ord")] == ["p", "p", None]
    made = policies(make_policy("p", "", TTL))
    assert [governor(made, name) for name in ("", "a")] == ["p", "p"]


def test_the_highest_priority_counts_and_then_the_first_name():
    made = policies(
        make_policy("b", "q", TTL, priority=1),
        make_policy("a", "q", TTL, priority=0),
        make_policy("d", "q2", TTL, priority=7),
        make_policy("c", "q2", TTL, priority=7),
    )
    assert [governor(made, name) for name in ("q1", "q2", "x")] == ["b", "c", None]
    made.drop("b", operator=False)
    assert governor(made, "q1") == "a"


@pytest.mark.parametrize(
    ("apply_to", "classic", "quorum", "stream", "exchange"),
    [
        ("all", True, True, True, True),
        ("queues", True, True, True, False),
        ("classic_queues", True, False, False, False),
        ("quorum_queues", False, True, False, False),
        ("streams", False, False, True, False),
        ("exchanges", False, False, False, True),
    ],
)
def test_what_a_policy_is_for(
    apply_to: str, classic: bool, quorum: bool, stream: bool, exchange: bool
):
    policy = make_policy("p", "", {"max-length-bytes": 1}, apply_to=apply_to)
    made = policies(policy)
    for kind, expected in ((CLASSIC, classic), (QUORUM, quorum), (STREAM, stream)):
        assert made.of_queue("q", kind).policy == (policy if expected else None)
    assert made.of_exchange("e").policy == (policy if exchange else None)


def test_a_policy_that_is_not_for_a_type_of_queue_leaves_it_to_the_next():
    made = policies(
        make_policy("high", "", {"message-ttl": 1, "max-length-bytes": 1}, priority=1),
        make_policy("low", "", {"max-length-bytes": 2}),
    )
    assert made.of_queue("s", STREAM).effective("max-length-bytes", {}, STREAM) == 2
    assert made.of_queue("q", CLASSIC).effective("max-length-bytes", {}, CLASSIC) == 1


def test_arguments_policy_and_operator_policy_together():
    made = policies(
        make_policy("p", "", {"max-length": 10, "dead-letter-exchange": "x", "message-ttl": 7}),
        make_policy("o", "", {"max-length": 8, "expires": 5}, operator=True),
    )
    governed = made.of_queue("q", CLASSIC)
    arguments: dict[str, Value] = {
        "x-max-length": 9,
        "x-dead-letter-exchange": "y",
        "x-max-priority": 3,
    }
    keys = ("max-length", "dead-letter-exchange", "message-ttl", "expires", "max-priority", "foo")
    found = {key: governed.effective(key, arguments, CLASSIC) for key in keys}
    assert found == {
        "max-length": 8,
        "dead-letter-exchange": "y",
        "message-ttl": 7,
        "expires": 5,
        "max-priority": 3,
        "foo": None,
    }
    assert governed.effective("max-length", {"x-max-length": 2}, CLASSIC) == 2


def test_without_policies_there_are_the_arguments():
    assert Policies().of_queue("q", CLASSIC) is NOT_GOVERNED
    assert NOT_GOVERNED.effective("max-length", {"x-max-length": 4}, CLASSIC) == 4
    assert NOT_GOVERNED.effective("max-length", {}, CLASSIC) is None


def test_policies_of_the_configuration_hide_recorded_ones():
    configured = make_policy("p", "configured", TTL)
    made = Policies([configured])
    made.put(make_policy("p", "recorded", TTL))
    made.put(make_policy("p", "operators", TTL, operator=True))
    assert [each.pattern for each in made] == ["configured", "operators"]
    assert made.find("p", operator=False) is configured
    assert made.is_configured("p", operator=False)
    assert not made.is_configured("p", operator=True)
    assert governor(made, "recorded") is None


def test_other_policies_of_the_configuration_take_their_place():
    made = Policies([make_policy("p", "^a$", TTL)])
    made.put(make_policy("p", "^b$", TTL))
    assert (governor(made, "a"), governor(made, "b")) == ("p", None)
    made.configure([make_policy("other", "^c$", TTL)])
    assert [governor(made, name) for name in "abc"] == [None, "p", "other"]


def test_there_is_room_for_so_many_of_each_kind():
    made = policies(*(make_policy(f"p{number}", "", TTL) for number in range(POLICIES_MAX)))
    assert not made.has_room(make_policy("new", "", TTL))
    assert made.has_room(make_policy("p7", "other", TTL))
    assert made.has_room(make_policy("new", "", TTL, operator=True))


def test_patterns_that_are_too_much_together_are_matched_one_by_one():
    """RE2 gives up on a set whose automaton gets too large; no match must be lost."""
    heavy = "(" + "|".join(f"[a-z]{{{length}}}x.*y{length}" for length in range(60, 100)) + ")"
    made = policies(
        *(make_policy(f"p{at:03}", f"{heavy}|^only-{at}$", TTL) for at in range(100)),
    )
    for at in (0, 50, 99):
        assert governor(made, f"only-{at}") == f"p{at:03}"
    assert governor(made, "nothing") is None


ALPHABET = st.text("abc", max_size=4)


@given(
    st.lists(st.tuples(ALPHABET, st.integers(0, 2), st.booleans()), max_size=6),
    st.lists(ALPHABET, max_size=6),
)
def test_as_a_search_one_by_one(drawn: list[tuple[str, int, bool]], names: list[str]):
    made = [
        make_policy(f"p{at}", f"^{text}" if anchored else text, TTL, priority=priority)
        for at, (text, priority, anchored) in enumerate(drawn)
    ]
    together = policies(*made)
    for name in names:
        matching = [each for each in made if re.search(each.pattern, name)]
        best = max(matching, key=lambda each: each.priority, default=None)
        assert governor(together, name) == (None if best is None else best.name)


def test_what_governs_is_one_object_for_many_names():
    made = policies(make_policy("p", "^a", TTL), make_policy("o", "^a", TTL, operator=True))
    found = [made.of_queue(name, CLASSIC) for name in ("a1", "a2", "a3", "b")]
    assert found[3] is NOT_GOVERNED
    assert all(one is other for one, other in itertools.pairwise(found[:3]))
