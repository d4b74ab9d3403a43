"""What a change of a policy would govern is what it then governs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.at_once import set_policy
from tests.broker.peer import World

from leporid.broker.policy.policies import Policy, make_policy
from leporid.broker.policy.preview import Preview
from leporid.broker.vhost import VirtualHost

LIMIT = {"max-length": 3}
TTL = {"message-ttl": 7}


@pytest.fixture
def vhost() -> VirtualHost:
    return World().broker.vhosts["/"]


def policy(name: str, pattern: str, definition: dict[str, Any] = TTL, **how: Any) -> Policy:
    return make_policy(name, pattern, definition, **how)


def effects(vhost: VirtualHost, changed: Policy) -> dict[str, tuple[str, str | None, str | None]]:
    preview = Preview(vhost, changed.name, operator=changed.operator, policy=changed)
    return by_name(preview)


def by_name(preview: Preview) -> dict[str, tuple[str, str | None, str | None]]:
    found = [one for one in preview.effects() if one is not None]
    assert len({(one.kind, one.name) for one in found}) == len(found)
    return {one.name: (one.effect, one.before, one.after) for one in found}


def governing(vhost: VirtualHost, *names: str) -> dict[str, str | None]:
    found = {name: vhost.queue(name).governed.policy for name in names}
    return {name: None if one is None else one.name for name, one in found.items()}


def test_each_effect_is_what_the_change_then_has(vhost: VirtualHost):
    names = "new", "other", "mine", "left", "above", "apart"
    for name in names:
        vhost.make_queue(name)
    set_policy(vhost, policy("p", "^(mine|left)$", priority=1))
    set_policy(vhost, policy("low", "^other$"))
    set_policy(vhost, policy("high", "^above$", priority=9))
    changed = policy("p", "^(new|other|mine|above)$", LIMIT, priority=1)
    found = effects(vhost, changed)
    assert found == {
        "new": ("added", None, "p"),
        "other": ("replaced", "low", "p"),
        "mine": ("kept", "p", "p"),
        "left": ("released", "p", None),
        "above": ("outranked", "high", "high"),
    }
    set_policy(vhost, changed)
    after = governing(vhost, *names)
    assert {name: after[name] for name in found} == {name: one[2] for name, one in found.items()}


def test_a_preview_changes_nothing(vhost: VirtualHost):
    vhost.make_queue("q")
    assert effects(vhost, policy("p", "^q$")) == {"q": ("added", None, "p")}
    assert not vhost.policies
    assert governing(vhost, "q") == {"q": None}


def test_a_deletion_says_who_comes_next(vhost: VirtualHost):
    vhost.make_queue("q")
    vhost.make_queue("r")
    set_policy(vhost, policy("p", "^[qr]$", priority=1))
    set_policy(vhost, policy("next", "^q$"))
    found = by_name(Preview(vhost, "p", operator=False, policy=None))
    assert found == {"q": ("released", "p", "next"), "r": ("released", "p", None)}


def test_exchanges_are_told_of_but_for_the_default_one(vhost: VirtualHost):
    found = effects(vhost, policy("p", "", {"alternate-exchange": "x"}, apply_to="exchanges"))
    assert "amq.topic" in found
    assert "" not in found


def test_the_kinds_of_policies_have_nothing_to_do_with_each_other(vhost: VirtualHost):
    vhost.make_queue("q")
    set_policy(vhost, policy("p", "^q", priority=9))
    assert effects(vhost, policy("p", "^q", operator=True)) == {"q": ("added", None, "p")}


def test_a_setting_that_a_type_has_not_concerns_no_queue_of_it(vhost: VirtualHost):
    vhost.make_queue("q")
    assert effects(vhost, policy("p", "^q", {"max-age": "1D"})) == {}
