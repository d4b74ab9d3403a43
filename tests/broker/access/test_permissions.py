"""Permissions: RabbitMQ's meaning of patterns, in linear time."""

import time

import pytest

from leporid.broker.access.permissions import (
    EVERYTHING,
    PATTERN_BYTES_MAX,
    Pattern,
    PatternError,
    Permissions,
)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (".*", ["", "a", "amq.direct", "mit Umläuten", "\n", "a\nb"], []),
        # Looked for anywhere, as RabbitMQ does.
        ("orders", ["orders", "my-orders-2"], ["order", ""]),
        ("^orders$", ["orders"], ["orders2", "my-orders", ""]),
        # Empty means nothing, which is the empty name only.
        ("", [""], ["a", " "]),
        ("^$", [""], ["a"]),
        # The pattern of RabbitMQ's own documentation.
        ("^(amq\\.gen.*|amq\\.default)$", ["amq.gen-xyz", "amq.default"], ["amq.topic"]),
        ("^[a-z]+\\.(in|out)$", ["a.in", "bc.out"], ["a.inn", "A.in", "a-in"]),
        ("^ü.*", ["über"], ["uber"]),
        # Stricter than PCRE, whose $ also stands before a last line break.
        ("^q$", ["q"], ["q\n"]),
        ("(?i)^QUEUE$", ["queue", "Queue"], ["queues"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], others: list[str]):
    compiled = Pattern(pattern)
    assert [name for name in matching if not compiled.matches(name)] == []
    assert [name for name in others if compiled.matches(name)] == []


@pytest.mark.parametrize(
    "pattern", ["(", "[a", "a++", "(?=x)y", "(a)\\1", "a{2000}", "*", "\udc80"]
)
def test_what_re2_does_not_know_is_refused_when_written_down(pattern: str):
    with pytest.raises(PatternError, match="is not a pattern RE2 accepts"):
        Pattern(pattern)


def test_a_pattern_has_a_bounded_length():
    Pattern("a" * PATTERN_BYTES_MAX)
    with pytest.raises(PatternError, match="is 4097 bytes long; at most 4096"):
        Pattern("a" * (PATTERN_BYTES_MAX + 1))


def test_no_pattern_makes_a_name_expensive():
    # Each of these takes a backtracking matcher longer than the universe has.
    name = "a" * 254 + "!"
    started = time.process_time()
    for text in ("^(a+)+$", "^(a|aa)+$", "^(a|a?)+$", "(.*a){50}$"):
        assert not Pattern(text).matches(name)
    assert time.process_time() - started < 1.0


def test_patterns_are_values():
    assert Pattern("a") == Pattern("a") != Pattern("b")
    assert len({Pattern("a"), Pattern("a")}) == 1
    assert repr(Pattern("^a")) == "Pattern('^a')"


def test_the_three_rights_are_three():
    permissions = Permissions.of(configure="^c", write="^w", read="^r")
    allowed = {
        (right, name)
        for right in ("configure", "write", "read")
        for name in ("c", "w", "r", "x")
        if permissions.allow(right, "queue", name)
    }
    assert allowed == {("configure", "c"), ("write", "w"), ("read", "r")}


def test_the_default_exchange_goes_by_its_long_name():
    permissions = Permissions.of(write="^amq\\.default$")
    assert permissions.allow("write", "exchange", "")
    assert not permissions.allow("write", "queue", "")
    assert EVERYTHING.allow("write", "exchange", "")
    # No permission at all does not include it, although the empty pattern matches the empty name.
    assert not Permissions.of().allow("write", "exchange", "")
