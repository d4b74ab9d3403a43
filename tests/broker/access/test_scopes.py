"""Scopes grant what RabbitMQ 3.10.8's rabbit_oauth2_scope and wildcard grant."""

import re
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import User
from leporid.broker.access.passwords import NoPassword
from leporid.broker.access.permissions import Pattern
from leporid.broker.access.scopes import (
    SCOPES_MAX,
    ScopedPermissions,
    ScopedTopics,
    Wildcard,
    tags_of,
)


def user(*scopes: str) -> User:
    permissions = ScopedPermissions(scopes)
    topics = ScopedTopics(permissions)
    return User("jo", NoPassword(), tags_of(scopes), permissions, topics=topics)


@pytest.mark.parametrize(
    ("scope", "right", "vhost", "name", "granted"),
    [
        ("read:v/q", "read", "v", "q", True),
        ("read:v/q", "write", "v", "q", False),
        ("read:v/q", "read", "w", "q", False),
        ("read:v/q", "read", "v", "qq", False),
        ("read:v/q", "read", "v", "q\n", False),
        ("read:v/*", "read", "v", "a\nb", True),
        ("configure:*/*", "configure", "any", "thing", True),
        ("write:v*/a*c", "write", "vvv", "abc", True),
        ("write:v*/a*c", "write", "vvv", "abd", False),
        ("write:v/x/k*", "write", "v", "x", True),
        ("read:%2F/a%2Fb%2A", "read", "/", "a/b*", True),
        ("read:%2F/a%2Fb%2A", "read", "/", "a/bc", False),
        ("read:v/a+b", "read", "v", "a b", True),
        ("read:v/.", "read", "v", "x", False),
        ("read:%2F/a%zz", "read", "/", "a%zz", False),
        ("read:v/%FF", "read", "v", "\ufffd", False),
        ("read:v", "read", "v", "q", False),
        ("read:v/q/k/more", "read", "v", "q", False),
        ("delete:v/q", "read", "v", "q", False),
        ("read", "read", "v", "q", False),
    ],
)
def test_a_scope(scope, right, vhost, name, granted):
    assert user(scope).may(right, "queue", name, vhost) is granted


def test_several_scopes_add_up():
    found = user("read:v/a", "read:v/b", "write:w/*", "tag:administrator", "openid")
    assert found.may("read", "queue", "a", "v")
    assert found.may("read", "queue", "b", "v")
    assert not found.may("read", "queue", "a", "w")
    assert found.may("write", "exchange", "", "w")
    assert found.tags == ("administrator",)
    assert "v" in found.permissions
    assert "x" not in found.permissions
    with pytest.raises(KeyError):
        found.permissions["x"]


def test_users_of_different_scopes_differ():
    assert user("read:v/a") != user("read:v/b")
    assert ScopedPermissions(["read:v/a"]) != {}


def test_the_default_exchange_has_rabbitmqs_name():
    assert user("write:v/amq.default").may("write", "exchange", "", "v")
    assert not user("write:v/amq.d").may("write", "exchange", "", "v")


def test_routing_keys_are_granted_by_scopes_with_a_third_part():
    found = user("write:v/x/a.*", "write:v/x/b", "read:v/y/c", "write:v/z")
    found.check_key("write", "x", "a.1", "v")
    found.check_key("write", "x", "b", "v")
    found.check_key("read", "y", "c", "v")
    for exchange, key in (("x", "c"), ("y", "c"), ("z", "k")):
        with pytest.raises(AccessRefused):
            found.check_key("write", exchange, key, "v")


def test_what_many_virtual_hosts_ask_is_not_kept_for_ever():
    found = user("read:*/q/k")
    for number in range(200):
        assert found.may("read", "queue", "q", f"v{number}")
        found.check_key("read", "q", "k", f"v{number}")
    topics = found.topics["v"]
    for number in range(200):
        topics.get(f"x{number}")


def test_scopes_of_any_size_are_asked():
    """Aliases of the configuration may be longer than a token."""
    scopes = [f"read:v/{'x' * 400}{number}" for number in range(SCOPES_MAX - 1)]
    found = user(*scopes, "read:v/*q/*k")
    assert found.may("read", "queue", "x" * 400 + "7", "v")
    assert not found.may("read", "queue", "x" * 400, "v")
    found.check_key("read", "aq", "ak", "v")


def test_no_scope_is_a_pattern_that_matches_nothing():
    none = ScopedPermissions(["read:v/q"])["v"].write
    assert not any(none.matches(name) for name in ("", "q"))


TEXTS = st.text("ab*", max_size=8)


@given(TEXTS, st.text("ab", max_size=8))
def test_a_wildcard_is_that_of_a_shell(wildcard, text):
    found = Wildcard.of(wildcard)
    assert found.matches(text) == bool(re.fullmatch(translate(wildcard), text))
    permissions = ScopedPermissions([f"read:v/{wildcard}"])
    assert permissions["v"].allow("read", "queue", text) == found.matches(text)
    assert Pattern(permissions["v"].read.text).matches(text) == found.matches(text), "as is shown"
