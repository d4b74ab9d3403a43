"""Rows of a table, encoded; and buffers that lie."""

from __future__ import annotations

import struct
import sys
from typing import Any

import pyarrow as pa
import pytest

from leporid.engine.tables.rows import REASONS, BadRow, Rows, encode

OK: dict[str, Any] = {"exchange": b"", "body_bytes_max": 1000}


def text(*rows: str | bytes | None) -> tuple[int, list[Any]]:
    array = pa.array(rows, pa.binary())
    return len(array), array.buffers()


def test_the_exchanges_are_collected():
    rows = encode(
        4,
        {"body": text("", "", "", ""), "exchange": text("a", None, "a", "b")},
        exchange=b"default",
        body_bytes_max=10,
    )
    assert isinstance(rows, Rows)
    assert len(rows) == rows.count == 4
    assert rows.exchanges == {b"a", b"default", b"b"}
    assert repr(rows) == "<Rows count=4>"


def test_too_many_exchanges():
    names = [f"e{at}" for at in range(300)]
    with pytest.raises(BadRow, match="row 256: more than 256 exchanges"):
        encode(300, {"body": text(*[""] * 300), "exchange": text(*names)}, **OK)


@pytest.mark.parametrize("rows", [2, 1 << 32, (1 << 60) + 1])
def test_more_rows_than_bodies_take_no_memory(rows):
    with pytest.raises(BadRow, match="row 1: body is null"):
        encode(rows, {"body": text("x")}, **OK)
    with pytest.raises(BadRow, match="row 0: body is null"):
        encode(rows, {}, **OK)


def test_a_bad_row_says_which_and_why():
    with pytest.raises(BadRow) as caught:
        encode(2, {"body": text("x", "y" * 1001)}, **OK)
    assert caught.value.row == 1
    assert caught.value.reason in REASONS.values()
    assert str(caught.value) == "row 1: body is larger than a message may be"


def test_as_many_exchanges_as_there_may_be_are_told_apart():
    """Whatever their order; each once."""
    names = [f"exchange number {at}" for at in range(256)]
    mixed = [*names, *reversed(names), *names[::3]]
    rows = encode(len(mixed), {"body": text(*[""] * len(mixed)), "exchange": text(*mixed)}, **OK)
    assert rows.exchanges == {name.encode() for name in names}


def test_only_bodies_are_held():
    """Names, headers and properties are copied, so that their columns can go."""
    body, key = text("body"), text("key")
    before = [sys.getrefcount(buffer) for buffer in (body[1][2], key[1][2])]
    rows = encode(1, {"body": body, "routing_key": key}, **OK)
    held = [sys.getrefcount(buffer) for buffer in (body[1][2], key[1][2])]
    assert [now - then for now, then in zip(held, before, strict=True)] == [1, 0]
    del rows
    assert [sys.getrefcount(buffer) for buffer in (body[1][2], key[1][2])] == before


def test_rows_that_share_their_texts_are_refused():
    """Offsets that go back, which sound columns do not have, would make much of little."""
    count = 1000
    texts = pa.py_buffer(b"x" * 200)
    offsets = pa.py_buffer(struct.pack("<ii", 0, 200) * (count // 2 + 1))
    columns = {"body": text(*[""] * count), "routing_key": (count, [None, offsets, texts])}
    with pytest.raises(BadRow, match="the column's offsets lead out of its buffer"):
        encode(count, columns, **OK)
    maps = (count, [None, pa.py_buffer(struct.pack("<ii", 0, 1) * (count // 2 + 1))])
    headers = {"headers": maps, "headers.key": text("k" * 200), "headers.value": text("v" * 9999)}
    with pytest.raises(BadRow, match="the column's offsets lead out of its buffer"):
        encode(count, {"body": text(*[""] * count), **headers}, **OK)


def test_what_rows_take_is_known():
    many = encode(1000, {"body": text(*["x" * 999] * 1000)}, **OK)
    assert 32_000 < many.bytes < 96_000
