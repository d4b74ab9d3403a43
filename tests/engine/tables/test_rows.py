"""Rows of a table, encoded; and buffers that lie."""

from __future__ import annotations

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


def test_a_bad_row_says_which_and_why():
    with pytest.raises(BadRow) as caught:
        encode(2, {"body": text("x", "y" * 1001)}, **OK)
    assert caught.value.row == 1
    assert caught.value.reason in REASONS.values()
    assert str(caught.value) == "row 1: body is larger than a message may be"
