"""The elementary types: whole, cut short, out of range."""

from typing import Any

import pytest

from leporid.amqp import fields
from leporid.amqp.errors import SyntaxFault
from leporid.amqp.fields import FieldType

WRITTEN: list[tuple[FieldType, Any, bytes]] = [
    (fields.OCTET, 0xAB, b"\xab"),
    (fields.SHORT, 0xABCD, b"\xab\xcd"),
    (fields.LONG, 0xABCDEF01, b"\xab\xcd\xef\x01"),
    (fields.LONGLONG, 1 << 63, b"\x80\0\0\0\0\0\0\0"),
    (fields.SHORTSTR, "", b"\0"),
    (fields.SHORTSTR, "é", b"\x02\xc3\xa9"),
    (fields.SHORTSTR, "x" * 255, b"\xff" + b"x" * 255),
    (fields.LONGSTR, b"\xff\0", b"\0\0\0\x02\xff\0"),
    (fields.TABLE, {}, b"\0\0\0\0"),
    (fields.TABLE, {"k": True}, b"\0\0\0\x04\x01kt\x01"),
    (fields.ARGUMENTS, {}, b"\0\0\0\0"),
    (fields.ARGUMENTS, {"k": True}, b"\0\0\0\x04\x01kt\x01"),
]


@pytest.mark.parametrize(("kind", "value", "octets"), WRITTEN)
def test_octets(kind: FieldType, value: Any, octets: bytes):
    assert kind.write(value) == octets
    assert kind.read(octets, 0) == (value, len(octets))
    assert kind.read(b"before" + octets + b"after", 6) == (value, 6 + len(octets))


@pytest.mark.parametrize(("kind", "value", "octets"), WRITTEN)
def test_cut_at_every_byte(kind: FieldType, value: Any, octets: bytes):
    for end in range(len(octets)):
        with pytest.raises(fields.CutShort, match="reaches past the end"):
            kind.read(octets[:end], 0)


@pytest.mark.parametrize("kind", [fields.LONGSTR, fields.TABLE, fields.ARGUMENTS])
def test_announced_size_is_not_believed(kind: FieldType):
    with pytest.raises(SyntaxFault):
        kind.read(b"\xff\xff\xff\xff" + b"x", 0)


def test_values_of_arguments_are_limited():
    limit = fields.ARGUMENT_VALUES_MAX
    for values in ({"k": [None] * (limit - 1)}, {f"{at}": None for at in range(limit)}):
        octets = fields.ARGUMENTS.write(values)
        assert fields.ARGUMENTS.read(octets, 0) == (values, len(octets))
    many = {"k": [None] * limit}
    octets = fields.ARGUMENTS.write(many)
    with pytest.raises(SyntaxFault, match=f"more values than the limit of {limit}"):
        fields.ARGUMENTS.read(octets, 0)
    assert fields.TABLE.read(octets, 0) == (many, len(octets)), "headers have as many as they like"
    for end in (limit, len(octets) - 1):
        with pytest.raises(fields.CutShort):
            fields.ARGUMENTS.read(octets[:end], 0)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (fields.OCTET, 256),
        (fields.OCTET, -1),
        (fields.SHORT, 1 << 16),
        (fields.LONG, 1 << 32),
        (fields.LONGLONG, 1 << 64),
        (fields.SHORTSTR, "x" * 256),
        (fields.SHORTSTR, "é" * 128),
        (fields.SHORTSTR, "\udcff"),
    ],
)
def test_what_does_not_fit_is_our_mistake(kind: FieldType, value: Any):
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are for the log only
        kind.write(value)


def test_short_string_must_be_utf8():
    with pytest.raises(SyntaxFault, match="Malformed UTF-8 in shortstr"):
        fields.SHORTSTR.read(b"\x01\xff", 0)


def test_reserved_fields_are_zero():
    for kind in {kind for kind, _, _ in WRITTEN}:
        value, end = kind.read(kind.zero, 0)
        assert not value
        assert end == len(kind.zero)


def test_bits_are_not_written_alone():
    with pytest.raises(AssertionError):
        fields.BIT.write(True)
