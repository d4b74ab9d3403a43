"""When a message is due by its headers, as encoded, and what becomes of cut or changed headers."""

import contextlib
import random
import struct

import pytest
from tests.engine.frames import longstr, properties, table

from leporid.engine.wire.due_time import due_ms_of, past_of

NOW_MS = 1_700_000_000_000

# A delay as encoded, the milliseconds it means (None: no delay), and its negative.
DELAYS = [
    (b"b\x05", 5, b"b\xfb"),
    (b"B\x80", 128, b"b\x80"),
    (b"B\xff", 255, b"l" + struct.pack(">q", -255)),
    (b"s\x7f\xff", 32767, b"s\x80\x01"),
    (b"u\xff\xff", 65535, b"l" + struct.pack(">q", -65535)),
    (b"I\x7f\xff\xff\xff", 2**31 - 1, b"I\x80\0\0\1"),
    (b"i\x80\0\0\0", 2**31, b"I\x80\0\0\0"),
    (b"l" + struct.pack(">q", 60_000), 60_000, b"l" + struct.pack(">q", -60_000)),
    (b"L" + struct.pack(">q", 60_000), 60_000, b"L" + struct.pack(">q", -60_000)),
    (b"d" + struct.pack(">d", 7.9), 7, b"l" + struct.pack(">q", -7)),
    (b"f" + struct.pack(">f", 7.5), 7, b"l" + struct.pack(">q", -7)),
    (longstr("+90"), 90, b"l" + struct.pack(">q", -90)),
    (longstr("-90"), None, longstr("-90")),
    (longstr(""), None, longstr("")),
    (longstr("5s"), None, longstr("5s")),
    (b"b\xfb", None, b"b\xfb"),
    (b"T" + struct.pack(">Q", 5), None, b"T" + struct.pack(">Q", 5)),
    (b"V", None, b"V"),
]


def headers(**fields: bytes) -> bytes:
    return properties(headers=table(a=b"V", **fields, z=b"t\1"), message_id="m")


@pytest.mark.parametrize(("encoded", "delay_ms", "negative"), DELAYS)
def test_a_delay_and_its_negative(encoded, delay_ms, negative):
    raw = headers(**{"x-delay": encoded})
    assert due_ms_of(raw, NOW_MS) == (None if delay_ms is None else NOW_MS + delay_ms)
    assert due_ms_of(raw, NOW_MS, False) is None
    assert past_of(raw, True) == headers(**{"x-delay": negative})


def test_a_moment_takes_precedence_unless_it_has_passed():
    delay = {"x-delay": b"b\x05"}
    later = b"T" + struct.pack(">Q", NOW_MS // 1000 + 60)
    assert due_ms_of(headers(**delay, **{"x-deliver-at": later}), NOW_MS) == NOW_MS + 60_000
    for past in (b"T" + bytes(8), b"l" + struct.pack(">q", -NOW_MS - 1)):
        assert due_ms_of(headers(**delay, **{"x-deliver-at": past}), NOW_MS) == NOW_MS + 5
    millis = longstr(str(NOW_MS + 1))
    assert due_ms_of(headers(**{"x-deliver-at": millis}), NOW_MS) == NOW_MS + 1
    assert past_of(headers(**{"x-deliver-at": millis}), False) == headers(
        **{"x-deliver-at": b"l" + struct.pack(">q", -NOW_MS - 1)}
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"x-deliver-at": b"V"}, "invalid"),
        ({"x-deliver-at": b"l" + struct.pack(">q", NOW_MS // 1000)}, "invalid"),
        ({"x-deliver-at": b"T" + b"\xff" * 8}, "too far"),
        ({"x-delay": longstr("9" * 40)}, "too far"),
        ({"x-delay": b"d" + struct.pack(">d", 1e300)}, "too far"),
    ],
)
def test_moments_that_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        due_ms_of(headers(**fields), NOW_MS)


def test_cut_or_changed_properties_do_no_harm():
    chance = random.Random(3)
    for encoded, _, _ in DELAYS:
        for name in ("x-delay", "x-deliver-at"):
            raw = bytearray(headers(**{name: encoded}))
            for cut in range(len(raw)):
                with pytest.raises(ValueError, match="malformed"):
                    due_ms_of(bytes(raw[:cut]), NOW_MS)
            for _ in range(40):
                changed = bytearray(raw)
                changed[chance.randrange(len(raw))] = chance.randrange(256)
                for call in (lambda p: due_ms_of(p, NOW_MS), lambda p: past_of(p, False)):
                    with contextlib.suppress(ValueError):
                        call(bytes(changed))
