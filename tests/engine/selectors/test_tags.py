"""Messages chosen by tag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.filters.trees import messages

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import ByteArray, LongString, Value
from leporid.engine.selectors.tags import Tags, java_hash
from leporid.filters import tags as reference


def passes(filter_: Tags, **headers: Value) -> bool:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return filter_.matches_message("", "", encode_properties(Properties(headers=named)))


def test_a_tag_is_one_of_the_list():
    filter_ = Tags([b"A", "Ä".encode()])
    assert passes(filter_, x_tag="A")
    assert passes(filter_, x_tag="Ä")
    assert passes(filter_, x_tag=ByteArray(b"A"))
    assert not passes(filter_, x_tag="B")
    assert not passes(filter_, x_tag="AA")
    assert not passes(filter_, x_tag="")
    assert not passes(filter_, other="A")


def test_the_tag_of_streams_counts_where_there_is_no_other():
    filter_ = Tags([b"A"])
    assert passes(filter_, x_stream_filter_value="A")
    assert passes(filter_, x_stream_filter_value="A", x_tag=5)
    assert not passes(filter_, x_stream_filter_value="A", x_tag="B")
    assert not passes(filter_, x_tag="B", x_stream_filter_value="A")


def test_a_message_without_a_tag_does_not_pass():
    filter_ = Tags([b"A", b""])
    assert not filter_.matches_message("", "A", encode_properties(Properties(type="A")))
    assert not filter_.matches_message("", "", encode_properties(Properties()))
    assert not passes(filter_, x_tag=None)
    assert passes(filter_, x_tag="")


def test_tags_of_the_same_hash_are_told_apart():
    assert java_hash(b"Aa") == java_hash(b"BB")
    filter_ = Tags([b"Aa"])
    assert filter_.may_have(java_hash(b"BB"))
    assert not passes(filter_, x_tag="BB")
    assert passes(filter_, x_tag="Aa")


def test_many_tags():
    filter_ = Tags([b"tag%d" % number for number in range(200)])
    for number in range(0, 400, 7):
        assert passes(filter_, x_tag=f"tag{number}") is (number < 200)
        assert filter_.may_have(java_hash(b"tag%d" % number)) is (number < 200)


def test_no_tags_let_nothing_pass():
    assert not passes(Tags([]), x_tag="A")
    assert not Tags([]).may_have(0)


@given(st.text())
def test_the_hash_is_that_of_java(text):
    assert java_hash(text.encode()) == reference.java_hash(text)


@given(st.binary(max_size=12))
def test_what_is_no_utf8_counts_as_replaced(octets):
    # Python replaces as Java does: each maximal part of a broken sequence once.
    assert java_hash(octets) == reference.java_hash(octets.decode("utf-8", "replace"))


@given(messages, st.lists(st.sampled_from([b"a", b"ab", b"5", b"", b"true"]), max_size=3))
def test_a_message_passes_when_its_tag_is_listed(message, wanted):
    tag = message.tag()
    encoded = encode_properties(message.properties)
    assert Tags(wanted).matches_message("", "", encoded) is (tag is not None and tag in wanted)


@given(st.binary(max_size=200))
def test_random_properties_do_no_harm(raw):
    filter_ = Tags([b"A"])
    for flags in (b"", b"\x20\x00", b"\xe0\x00"):
        assert filter_.outcome("", "", flags + raw) in (0, 1)


def test_tags_are_bytes():
    with pytest.raises(TypeError):
        Tags(["A"])  # type: ignore[list-item]
    assert not passes(Tags([b"A"]), x_tag=LongString(b"\xff"))
