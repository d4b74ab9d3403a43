import datetime as dt
from decimal import Decimal

import pytest

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.columns import struct_of
from leporid.spark.pipelines.bodies.plain_text import TEXT, CsvDecoder, TextDecoder


def test_text_is_a_column():
    found, bad = TextDecoder(struct_of(TEXT)).decode(["ä".encode(), b"\xff", b""])
    assert (found.to_pylist(), bad) == (
        [{"text": "ä"}, None, {"text": ""}],
        {1: "not text in UTF-8"},
    )
    with pytest.raises(OptionError, match="have the column"):
        TextDecoder(struct_of("a string"))


def decoded(columns, *bodies, delimiter=","):
    found, bad = CsvDecoder(struct_of(columns), delimiter).decode(bodies)
    return found.to_pylist(), bad


def test_fields_of_csv_are_cast_and_empty_ones_are_null():
    columns = "id bigint, name string, price decimal(9,2), ok boolean, at timestamp, day date"
    rows, bad = decoded(
        columns,
        b'1,"a, ""b""\nc",1.50,true,2026-01-01T00:00:00Z,2026-01-01\r\n',
        b"2,,,,2026-01-01 01:00:00+01:00,",
        b"3,,,,2026-01-01 00:00:00,",
    )
    noon = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert bad == {}
    assert list(rows[0].values()) == [
        1, 'a, "b"\nc', Decimal("1.50"), True, noon, dt.date(2026, 1, 1),
    ]  # fmt: skip
    assert [row["at"] for row in rows] == [noon] * 3
    assert rows[1] | {"at": None} == dict.fromkeys(rows[0]) | {"id": 2}


def test_what_does_not_fit_is_bad_with_the_column():
    rows, bad = decoded("a int, b string", b"1,x", b"1", b"1,2,3", b"x,y", b"1,a\n2,b", b'"', b"")
    assert rows == [{"a": 1, "b": "x"}, *[None] * 6]
    assert bad[1] == "not CSV of 2 columns: 1 fields"
    assert bad[2] == "not CSV of 2 columns: 3 fields"
    assert bad[3].startswith("column a: ")
    assert bad[4] == bad[5] == bad[6] == "not CSV of 2 columns: not one record"


def test_a_decimal_of_any_exponent_is_read_or_bad():
    numbers = ["1e-999999999", "1e-77", "1e999999999", "0.001", "1_0", "NaN", "0e-999999999", "1E1"]
    rows, bad = decoded("a decimal(9,2), b string", *(f"{each},".encode() for each in numbers))
    assert sorted(bad) == list(range(6))
    assert [row["a"] for row in rows[6:]] == [Decimal(0), Decimal(10)]


def test_a_record_ends_where_csv_says_and_a_field_may_be_long():
    long = "x" * 200_000
    inner = ["a\u2028b", "a\x0bb", "a\x85b", "a\x1cb", long]
    rows, bad = decoded("a int, b string", *(f"1,{each}\r\n".encode() for each in inner))
    assert ([row["b"] for row in rows], bad) == (inner, {})


def test_another_character_divides_and_what_csv_cannot_have_is_refused():
    assert decoded("a int, b int", b"1;2", delimiter=";") == ([{"a": 1, "b": 2}], {})
    with pytest.raises(OptionError, match="cannot divide"):
        CsvDecoder(struct_of("a int"), "--")
    with pytest.raises(OptionError, match="CSV has no list"):
        CsvDecoder(struct_of("a array<int>"))
