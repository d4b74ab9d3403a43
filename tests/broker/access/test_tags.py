"""What tags allow in the management interface, as RabbitMQ's own table has it."""

from __future__ import annotations

import pytest

from leporid.broker.access import tags
from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING, Permissions

RULES = (
    tags.may_manage,
    tags.may_monitor,
    tags.may_make_policies,
    tags.is_administrator,
    tags.may_impersonate,
)


def user(*own: str) -> User:
    permissions = {"own": EVERYTHING, "empty": Permissions.of()}
    return User("u", salted_sha256("p", b"s" * 32), frozenset(own), permissions)


@pytest.mark.parametrize(
    ("own", "allowed"),
    [
        ((), ""),
        (("something",), ""),
        (("impersonator",), "may_impersonate"),
        (("management",), "may_manage"),
        (("monitoring",), "may_manage may_monitor"),
        (("policymaker",), "may_manage may_make_policies"),
        (("management", "impersonator"), "may_manage may_impersonate"),
        (("administrator",), "may_manage may_monitor may_make_policies is_administrator"),
    ],
)
def test_what_a_tag_allows(own: tuple[str, ...], allowed: str):
    asked = user(*own)
    assert {rule.__name__ for rule in RULES if rule(asked)} == set(allowed.split())


@pytest.mark.parametrize(
    ("tag", "visible", "entered"),
    [
        ("management", "own empty", "own empty"),
        ("policymaker", "own empty", "own empty"),
        ("monitoring", "own empty other", "own empty"),
        ("administrator", "own empty other", "own empty other"),
    ],
)
def test_which_virtual_hosts_a_user_sees(tag: str, visible: str, entered: str):
    asked, vhosts = user(tag), ("own", "empty", "other")
    assert [vhost for vhost in vhosts if tags.may_see(asked, vhost)] == visible.split()
    assert [vhost for vhost in vhosts if tags.may_enter(asked, vhost)] == entered.split()
