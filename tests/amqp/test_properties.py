"""Message properties: each alone, all together, every cut."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.amqp import drawn

from leporid.amqp.errors import SyntaxFault
from leporid.amqp.properties import (
    Properties,
    decode_properties,
    encode_properties,
    split_properties,
)
from leporid.amqp.tables import Int32

EACH = [
    ("content_type", "a", b"\x80\x00\x01a"),
    ("content_encoding", "b", b"\x40\x00\x01b"),
    ("headers", {"k": Int32(1)}, b"\x20\x00\x00\x00\x00\x07\x01kI\x00\x00\x00\x01"),
    ("delivery_mode", 2, b"\x10\x00\x02"),
    ("priority", 9, b"\x08\x00\x09"),
    ("correlation_id", "c", b"\x04\x00\x01c"),
    ("reply_to", "d", b"\x02\x00\x01d"),
    ("expiration", "e", b"\x01\x00\x01e"),
    ("message_id", "f", b"\x00\x80\x01f"),
    ("timestamp", 1 << 40, b"\x00\x40\x00\x00\x01\x00\x00\x00\x00\x00"),
    ("type", "g", b"\x00\x20\x01g"),
    ("user_id", "h", b"\x00\x10\x01h"),
    ("app_id", "i", b"\x00\x08\x01i"),
    ("cluster_id", "j", b"\x00\x04\x01j"),
]
ALL = Properties(**{name: value for name, value, _ in EACH})  # type: ignore[arg-type]
ALL_OCTETS = b"\xff\xfc" + b"".join(octets[2:] for _, _, octets in EACH)

short_text = drawn.text(255)
any_properties = st.builds(
    Properties,
    **{
        name: st.none() | kind
        for name, kind in {
            **{field.name: short_text for field in dataclasses.fields(Properties)},
            "headers": drawn.tables,
            "delivery_mode": drawn.unsigned(8),
            "priority": drawn.unsigned(8),
            "timestamp": drawn.unsigned(64),
        }.items()
    },
)


@pytest.mark.parametrize(("name", "value", "octets"), EACH)
def test_each_property_alone(name: str, value: Any, octets: bytes):
    properties = dataclasses.replace(Properties(), **{name: value})
    assert encode_properties(properties) == octets
    assert decode_properties(octets) == properties


def test_all_properties():
    assert encode_properties(ALL) == ALL_OCTETS
    assert decode_properties(ALL_OCTETS) == ALL


def test_no_properties():
    assert encode_properties(Properties()) == b"\x00\x00"
    assert decode_properties(b"\x00\x00") == Properties()


def test_empty_is_not_absent():
    empty = Properties(content_type="", headers={}, priority=0, timestamp=0)
    assert decode_properties(encode_properties(empty)) == empty


@given(any_properties)
def test_round_trip(properties: Properties):
    raw = encode_properties(properties)
    assert decode_properties(raw) == properties
    assert encode_properties(decode_properties(raw)) == raw


def test_cut_at_every_byte():
    for end in range(len(ALL_OCTETS)):
        with pytest.raises(SyntaxFault, match="reaches past the end"):
            decode_properties(ALL_OCTETS[:end])


@pytest.mark.parametrize("raw", [b"\x00\x00", ALL_OCTETS])
def test_trailing_bytes(raw: bytes):
    with pytest.raises(SyntaxFault, match="1 bytes follow the last property"):
        decode_properties(raw + b"\x00")


@given(st.binary(max_size=100))
def test_any_octets_give_properties_or_a_fault(raw: bytes):
    try:
        decode_properties(raw)
    except SyntaxFault:
        pass


def test_there_is_no_second_word_of_flags():
    with pytest.raises(SyntaxFault, match="property flags"):
        decode_properties(b"\x80\x01\x00\x00\x01a")


def test_flag_that_nobody_uses_is_ignored():
    assert decode_properties(b"\x80\x02\x01a") == Properties(content_type="a")


def test_text_that_is_not_utf8_survives():
    raw = b"\x04\x00\x02\xff\x00"
    properties = decode_properties(raw)
    assert properties.correlation_id == "\udcff\x00"
    assert encode_properties(properties) == raw


@pytest.mark.parametrize(
    "properties",
    [Properties(type="x" * 256), Properties(priority=256), Properties(timestamp=-1)],
)
def test_what_does_not_fit_is_our_mistake(properties: Properties):
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are for the log only
        encode_properties(properties)


@given(any_properties)
def test_properties_are_split_into_what_was_sent(properties: Properties):
    found = split_properties(encode_properties(properties))
    wanted = [each.name for each in dataclasses.fields(Properties)
              if getattr(properties, each.name) is not None]  # fmt: skip
    assert list(found) == wanted
    for name, octets in found.items():
        alone = encode_properties(Properties(**{name: getattr(properties, name)}))
        assert octets == alone[2:]


def test_properties_that_are_cut_short_are_not_split():
    for end in range(2, len(ALL_OCTETS)):
        with pytest.raises(SyntaxFault):
            split_properties(ALL_OCTETS[:end])
