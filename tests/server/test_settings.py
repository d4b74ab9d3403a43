"""Settings: what is taken, and the sentence that refuses the rest."""

from dataclasses import dataclass
from typing import Any

import pytest

from leporid.server.settings import (
    Check,
    Choice,
    ConfigError,
    flag,
    many,
    name,
    named,
    nearest,
    read,
    section,
    setting,
    size,
    whole,
)


@dataclass(frozen=True)
class Inner:
    """A nested section."""

    level: int = setting(whole(1, 9), 5)


@dataclass(frozen=True)
class Outer:
    """A section with something of everything."""

    needed: str = setting(name)
    hidden: str = setting(name, "x", secret=True)
    inner: Inner = setting(section(Inner), Inner())  # noqa: RUF009


def test_a_table_becomes_a_dataclass():
    assert read(Outer, {"needed": "n"}) == Outer("n", "x", Inner(5))
    assert read(Outer, {"needed": "n", "inner": {"level": 9}}).inner.level == 9
    assert "hidden" not in repr(Outer("n"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "needed: missing; it has no default"),
        ({"needed": "n", "hiden": 1}, 'hiden: unknown setting; did you mean "hidden"?'),
        ({"needed": "n", "zzz": 1}, "zzz: unknown setting"),
        ({"needed": "n", "in ner": 1}, '"in ner": unknown setting; did you mean "inner"?'),
        (
            {"needed": "n", "inner": {"levle": 1}},
            'inner.levle: unknown setting; did you mean "level"?',
        ),
        ({"needed": "n", "inner": 3}, "inner: must be a table of settings"),
        (
            {"needed": "n", "inner": {"level": 10}},
            "inner.level = 10: must be a whole number from 1 to 9",
        ),
    ],
)
def test_a_refusal_names_key_value_and_what_is_allowed(values: dict[str, Any], message: str):
    with pytest.raises(ConfigError) as refused:
        read(Outer, values)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (whole(0, 65535), 0, 0),
        (whole(0, 65535), 65535, 65535),
        (size(1, 2**40), 12, 12),
        (size(1, 2**40), "64 MiB", 64 * 2**20),
        (size(1, 2**40), "64MB", 64 * 10**6),
        (size(1, 2**40), "3 gib", 3 * 2**30),
        (size(0, 2**40), "0 B", 0),
        (Choice("a", "b"), "a", "a"),
        (name, "ä" * 127, "ä" * 127),
        (flag, True, True),
        (many(flag), [True, False], (True, False)),
        (many(flag), [], ()),
        (named(flag), {"a b": True}, {"a b": True}),
    ],
)
def test_allowed(check: Check[Any], value: Any, expected: Any):
    assert check("key", value) == expected


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (whole(0, 9), -1, "key = -1: must be a whole number from 0 to 9"),
        (whole(0, 9), 1.0, "key = 1.0: must be a whole number from 0 to 9"),
        (whole(0, 9), True, "key = true: must be a whole number from 0 to 9"),
        (whole(0, 9), "1", 'key = "1": must be a whole number from 0 to 9'),
        (
            size(1, 100),
            "1 KB",
            'key = "1 KB": must be a number of bytes from 1 to 100, or a text like "64 MiB"',
        ),
        (size(0, 100), "", 'key = "": must be'),
        (size(0, 100), "5", 'key = "5": must be'),
        (size(0, 100), "5 XB", 'key = "5 XB": must be'),
        (size(0, 100), "-5 B", 'key = "-5 B": must be'),
        (size(0, 100), "٣ B", 'key = "\\u0663 B": must be'),
        (size(0, 100), True, "key = true: must be"),
        (size(0, 100), 1.5, "key = 1.5: must be"),
        (
            Choice("synced", "written"),
            "snyced",
            'key = "snyced": must be one of "synced", "written"; did you mean "synced"?',
        ),
        (Choice("a"), 3, 'key = 3: must be one of "a"'),
        (name, "", 'key = "": must be a text of 1 to 255 bytes'),
        (name, "ä" * 128, "must be a text of 1 to 255 bytes"),
        (name, 5, "key = 5: must be a text"),
        (flag, 1, "key = 1: must be true or false"),
        (many(flag), "x", 'key = "x": must be a list, in square brackets'),
        (many(flag), [True, 2], "key[1] = 2: must be true or false"),
        (named(flag), [], "key: must be a table of settings"),
        (named(flag), {"a b": 2}, 'key."a b" = 2: must be true or false'),
        (named(flag), {"": True}, 'key = "": must be a text of 1 to 255 bytes'),
    ],
)
def test_refused(check: Check[Any], value: Any, message: str):
    with pytest.raises(ConfigError) as refused:
        check("key", value)
    assert message in str(refused.value)


def test_a_quoted_value_is_short_and_printable():
    with pytest.raises(ConfigError) as refused:
        whole(0, 9)("key", "\x1b[2J\n" + "x" * 1000)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200


def test_only_near_words_are_suggested():
    assert nearest("heartbeet", ["heartbeat", "bind"]) == '; did you mean "heartbeat"?'
    assert nearest("xyz", ["heartbeat", "bind"]) == ""
