"""Columns whose buffers do not hold what they say, as a publisher over HTTP could send them."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.engine.tables.rows import BadRow, encode

OK: dict[str, Any] = {"exchange": b"", "body_bytes_max": 1000}


def text(*rows: str | bytes | None) -> tuple[int, list[Any]]:
    array = pa.array(rows, pa.binary())
    return len(array), array.buffers()


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=4, max_size=4), st.binary(max_size=9))
def test_offsets_that_lead_elsewhere_are_refused(offsets, data):
    columns = {"body": (3, [None, struct.pack("<4i", *offsets), data])}
    sound = all(0 <= a <= b <= len(data) for a, b in pairwise(offsets))
    if sound:
        assert len(encode(3, columns, **OK)) == 3
    else:
        with pytest.raises(BadRow, match="offsets lead out"):
            encode(3, columns, **OK)


@given(st.lists(st.integers(-5, 5), min_size=3, max_size=3))
def test_a_map_s_offsets_are_checked_as_well(offsets):
    columns = {
        "body": text("x", "y"),
        "headers": (2, [None, struct.pack("<3i", *offsets)]),
        "headers.key": text("a", "b"),
        "headers.value": text("1", "2"),
    }
    if all(0 <= a <= b <= 2 for a, b in pairwise(offsets)):
        assert len(encode(2, columns, **OK)) == 2
    else:
        with pytest.raises(BadRow, match="offsets lead out"):
            encode(2, columns, **OK)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("body", (2, [None, b"\0" * 8, b""])),
        ("body", (9, [b"\xff", b"\0" * 40, b""])),
        ("body", (2, [None, None, b""])),
        ("body", (2, [None, b"\0" * 12])),
        ("headers", (2, [None])),
        ("properties", (2, [None, b"\0" * 12])),
        ("properties.priority", (2, [None, b"\0" * 7])),
        ("properties.timestamp", (2, [None, b"\0" * 15])),
        ("properties.timestamp", (2, [None, None])),
    ],
)
def test_buffers_that_are_too_short_are_refused(name: str, column: tuple[int, list[Any]]):
    with pytest.raises(ValueError, match="a column has"):
        encode(2, {"body": text("x", "y"), name: column}, **OK)
