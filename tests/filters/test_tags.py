"""Lists of tags, and the hash of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.filters.errors import FilterError
from leporid.filters.limits import CHARACTERS_MAX, TAGS_MAX
from leporid.filters.tags import java_hash, parse_tags


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("", None),
        ("  ", None),
        ("*", None),
        (" * ", None),
        ("A", ("A",)),
        ("A || B", ("A", "B")),
        ("A||B||C", ("A", "B", "C")),
        ("  A  ||  B  ", ("A", "B")),
        ("B || A || B", ("B", "A")),
        ("A || || B ||", ("A", "B")),
        ("a tag || Ä|B", ("a tag", "Ä|B")),
        ("A*", ("A*",)),
    ],
)
def test_lists(text, tags):
    assert parse_tags(text) == tags


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("||", 0, "no tag"),
        (" || || ", 0, "no tag"),
        ("A || *", 5, "stands alone"),
        ("*||A", 0, "stands alone"),
        ("A || \ud800", 5, "not a character"),
        ("a" * (CHARACTERS_MAX + 1), CHARACTERS_MAX, "4097 characters; at most 4096"),
        ("||".join(f"{n:03}" for n in range(TAGS_MAX + 1)), 1000, "more than 200 tags"),
    ],
)
def test_bad_lists(text, position, reason):
    with pytest.raises(FilterError, match=reason) as caught:
        parse_tags(text)
    assert caught.value.position == position


@given(st.text())
def test_any_text_is_a_list_or_a_filter_error(text):
    try:
        tags = parse_tags(text)
    except FilterError as error:
        tags = None
        text[: error.position].encode()
    assert tags is None or all(tag in text for tag in tags)


# By the definition in Java's documentation; the long word is known for its hash.
@pytest.mark.parametrize(
    ("tag", "number"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -2147483648),
        ("é", 233),
        ("€", 8364),
        ("𝄞", 0xD834 * 31 + 0xDD1E),
    ],
)
def test_hashes_are_javas(tag, number):
    assert java_hash(tag) == number
