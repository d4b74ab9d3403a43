"""Values of fields as text, also those that are cut off or changed; a reader of JSON agrees."""

import json
import random
import struct

import pytest
from tests.engine.frames import array, longstr, table

from leporid.engine.wire.text import text_of

VALUES: list[tuple[bytes, object]] = [
    (b"V", None),
    (b"t\2", True),
    (b"b\x80", -128),
    (b"B\xff", 255),
    (b"s\x80\0", -32768),
    (b"u\xff\xff", 65535),
    (b"I\x80\0\0\0", -(2**31)),
    (b"i\xff\xff\xff\xff", 2**32 - 1),
    (b"l\x80" + bytes(7), -(2**63)),
    (b"L\x7f" + b"\xff" * 7, 2**63 - 1),
    (b"f" + struct.pack(">f", 0.1), 0.1),
    (b"f" + struct.pack(">f", 16777216), 16777216.0),
    (b"d" + struct.pack(">d", 0.1 + 0.2), 0.1 + 0.2),
    (b"d" + struct.pack(">d", 1e300), 1e300),
    (b"T" + bytes(8), "1970-01-01T00:00:00Z"),
    (b"T" + struct.pack(">Q", 951827696), "2000-02-29T12:34:56Z"),
    (b"T" + struct.pack(">Q", 253402300799), "9999-12-31T23:59:59Z"),
    (longstr('"\\\b\t\n\f\r\0\x0b\x1fä€😀'), '"\\\b\t\n\f\r\0\x0b\x1fä€😀'),
    (array(b"V", array(), longstr("a")), [None, [], "a"]),
    (b"F" + table(a=b"b\1", b=b"F" + table()), {"a": 1, "b": {}}),
]


@pytest.mark.parametrize(("value", "meant"), VALUES)
def test_a_value_as_json(value, meant):
    assert json.loads(text_of(value, json=True)) == meant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (longstr('a"b'), 'a"b'),
        (b"D\0\xff\xff\xff\xf9", "-7"),
        (b"D\2\0\0\0\7", "0.07"),
        (b"D\2\x80\0\0\0", "-21474836.48"),
        (b"D\x0a\x7f\xff\xff\xff", "0.2147483647"),
        (b"D\x0d\x7f\xff\xff\xff", "0.0002147483647"),
        (b"D\x14\0\0\0\1", f"0.{'0' * 19}1"),
        (b"D\x15\x80\0\0\0", "-2147483648e-21"),
        (b"D\xff\0\0\0\1", "1e-255"),
        (b"T" + struct.pack(">Q", 253402300800), "253402300800"),
        (b"T" + bytes(8), "1970-01-01T00:00:00Z"),
        (b"d" + struct.pack(">d", 1), "1.0"),
        (array(longstr("a")), '["a"]'),
    ],
)
def test_a_value_as_text(value, text):
    assert text_of(value) == text


@pytest.mark.parametrize(
    "value",
    [
        *(value for value, _ in VALUES),
        *(b"D%c\x80\0\0\0" % scale for scale in range(256)),
        b"f" + struct.pack(">f", -1.17549435e-38),
        b"d" + struct.pack(">d", -2.2250738585072014e-308),
        b"t\0",
        longstr("\0" * 100),
        longstr(b"\xff" * 100),
        longstr(""),
        b"F" + table(**{"": b"V"}),
    ],
)
def test_a_small_value_does_not_become_a_large_text(value: bytes):
    """Memory for tables is counted by this bound."""
    many = array(*[value] * 1000)
    assert len(text_of(many)) <= 6 * len(many)


def test_broken_utf8_is_replaced_as_in_python():
    chance = random.Random(5)
    letters = ["a", "ä", "€", "😀", "\ud800"]
    for _ in range(500):
        text = "".join(chance.choices(letters, k=8)).encode("utf-8", "surrogatepass")
        raw = bytearray(text[chance.randrange(4) : chance.randrange(len(text))])
        for _ in range(chance.randrange(3)):
            raw.insert(chance.randint(0, len(raw)), chance.randrange(256))
        encoded = b"S" + struct.pack(">I", len(raw)) + raw
        expected = bytes(raw).decode("utf-8", "replace")
        assert text_of(encoded) == expected
        assert json.loads(text_of(encoded, json=True)) == expected


def test_what_is_cut_off_or_too_deep_is_malformed():
    for value, _ in VALUES:
        for length in range(len(value)):
            with pytest.raises(ValueError, match="malformed"):
                text_of(value[:length], json=True)
        with pytest.raises(ValueError, match="malformed"):
            text_of(value + b"V")
    deep = b"V"
    for _ in range(40):
        deep = b"A" + struct.pack(">I", len(deep)) + deep
    with pytest.raises(ValueError, match="malformed"):
        text_of(deep)


def as_json(value: bytes) -> str:
    """Empty when the value is malformed."""
    try:
        return text_of(value, json=True)
    except ValueError:
        return ""


def test_changed_bytes_are_text_or_malformed():
    chance = random.Random(7)
    for value, _ in VALUES * 30:
        raw = bytearray(value)
        raw[chance.randrange(len(raw))] = chance.randrange(256)
        if text := as_json(bytes(raw)):
            json.loads(text)
