"""Topic permissions: variables are literals, and what is allowed is asked once."""

from __future__ import annotations

import pytest

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.permissions import PATTERN_BYTES_MAX, PatternError
from leporid.broker.access.topics import KEYS_MAX, AllowedKeys, TopicPermission


def allows(pattern: str, key: str, *, username: str = "ann", vhost: str = "/") -> bool:
    given = TopicPermission.of(pattern, "", username=username, vhost=vhost)
    assert (given.write, given.read) == (pattern, "")
    return given.allows("write", key)


@pytest.mark.parametrize(
    ("pattern", "username", "allowed", "refused"),
    [
        (r"^a\.", "ann", "a.b", "b.a"),
        (r"^{username}\.", "ann", "ann.x", "ben.x"),
        (r"^{username}$", ".*", ".*", "anything"),
        (r"^{username}$", "a|b", "a|b", "a"),
        (r"^{username}$", "[x", "[x", "x"),
        (r"^{username}-{username}$", "a.c", "a.c-a.c", "abc-abc"),
        (r"^{vhost}", "ann", "/here", "here"),
        ("", "ann", "", "a"),
        ("^x|{client_id}", "ann", "x", "{client_id}"),
        ("^{somebody}$", "ann", "{somebody}", "ann"),
    ],
)
def test_patterns(pattern: str, username: str, allowed: str, refused: str):
    assert allows(pattern, allowed, username=username)
    assert not allows(pattern, refused, username=username)


def test_the_rights_have_a_pattern_each():
    both = TopicPermission.of("^w", "^r", username="ann", vhost="/")
    assert both.allows("write", "w")
    assert not both.allows("write", "r")
    assert both.allows("read", "r")
    assert not both.allows("read", "w")


def test_a_key_that_is_not_utf8_is_not_allowed():
    assert not allows(".*", b"\xff".decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("pattern", ["[", "(?=a)", "a" * (PATTERN_BYTES_MAX + 1)])
def test_what_is_no_pattern_is_refused(pattern: str):
    for write, read in ((pattern, ""), ("", pattern)):
        with pytest.raises(PatternError):
            TopicPermission.of(write, read, username="ann", vhost="/")


def test_the_names_count_for_the_length():
    long = "x" * 255
    TopicPermission.of("{username}" * 16, "", username=long, vhost="/")
    with pytest.raises(PatternError, match="at most 4096"):
        TopicPermission.of("{username}" * 17, "", username=long, vhost="/")


def test_a_key_is_asked_about_once_and_few_are_remembered():
    asked: list[str] = []

    def check(key: str) -> bool:
        asked.append(key)
        if key == "no":
            raise AccessRefused("no")
        return False

    keys = AllowedKeys(check)
    for _ in range(3):
        keys("yes")
    assert asked == ["yes"]
    for _ in range(2):
        with pytest.raises(AccessRefused):
            keys("no")
    assert asked == ["yes", "no", "no"]
    for number in range(KEYS_MAX):
        keys(f"k{number}")
    keys("yes")
    assert asked.count("yes") == 2
