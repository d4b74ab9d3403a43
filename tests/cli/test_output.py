"""Tables, JSON, names; and what reaches a terminal."""

import io
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.cli.outcomes import WrongUse
from leporid.cli.output import Output, columns_of, sorted_rows, text_of, value_at

ROWS: list[dict[str, Any]] = [
    {"name": "a", "n": 2, "in": {"x": 1}},
    {"name": "b\x1b[2J\tc", "n": None},
]


def written(terminal=False, **how) -> tuple[Output, io.StringIO]:
    stream = io.StringIO()
    return Output(stream=stream, terminal=terminal, **how), stream


def test_into_a_pipe_rows_are_lines_with_tabs():
    out, stream = written()
    out.rows(ROWS, ("name", "n", "in.x"))
    assert stream.getvalue() == "name\tn\tin.x\na\t2\t1\nb\\x1b[2J\\tc\t\t\n"


def test_on_a_terminal_it_is_a_table_without_escapes_of_others():
    out, stream = written(terminal=True)
    out.rows([*ROWS, {"name": "[red]x[/red]", "n": 1}], ("name", "n"))
    said = stream.getvalue()
    assert "\x1b[2J" not in said
    assert "[red]x[/red]" in said, "brackets are no markup"
    out.facts({"name": "\x1b]0;x"})
    assert "\x1b]0" not in stream.getvalue()


def test_times_are_the_clocks_for_people_and_numbers_for_programs():
    rows = [{"name": "a", "reported_ms": 1_700_000_000_123, "lag_ms": 250}]
    columns = ("name", "reported_ms", "lag_ms")
    out, stream = written(terminal=True)
    out.rows(rows, columns)
    assert "2023-11-14 22:13:20Z" in stream.getvalue()
    assert "250" in stream.getvalue()
    out, stream = written()
    out.rows(rows, columns)
    assert stream.getvalue().splitlines()[1] == "a\t1700000000123\t250"


def test_without_rich_a_terminal_has_columns_side_by_side(monkeypatch):
    for name in ("rich", "rich.box", "rich.table"):
        monkeypatch.setitem(sys.modules, name, None)
    out, stream = written(terminal=True)
    out.rows([{"name": "long", "n": 1}, {"name": "s\x1b", "n": None}], ("name", "n"))
    out.facts({"a": 1, "bcd": "x"})
    assert stream.getvalue() == "name   n\nlong   1\ns\\x1b\na    1\nbcd  x\n"


def test_json_and_names():
    out, stream = written(as_json=True)
    out.rows(ROWS, ("name",))
    assert json.loads(stream.getvalue()) == ROWS
    out, stream = written(quiet=True)
    out.rows(ROWS, ("name",))
    out.say("done")
    assert stream.getvalue() == "a\nb\\x1b[2J\\tc\n"


def test_json_on_a_terminal_stays_json_and_moves_no_cursor():
    value = {"a\x1b": "\x9b2J\u202e\x7f\U000e0001", "b": "Grüße"}
    out, stream = written(terminal=True, as_json=True)
    out.json(value)
    said = stream.getvalue()
    assert json.loads(said) == value
    assert said.replace("\n", "").isprintable()
    assert "Grüße" in said


def test_facts():
    out, stream = written()
    out.facts({"a": [1, "x"], "b": {"c": True}, "d": None})
    assert stream.getvalue() == "a\t1,x\nb\tc=true\nd\t\n"


def test_values():
    assert value_at({"a": {"b": 1}, "a.c": 2}, "a.b") == 1
    assert value_at({"a.c": 2}, "a.c") == 2
    assert value_at({"a": 1}, "a.b") is None
    assert text_of(1.25) == "1.2"
    assert len(text_of(["x" * 500])) == 200


@given(st.text())
def test_no_text_has_more_than_a_line(text):
    assert text_of(text).isprintable() or text_of(text) == ""


@given(st.lists(st.dictionaries(st.just("n"), st.none() | st.integers() | st.text())))
def test_any_rows_can_be_sorted_and_none_is_lost(rows):
    for reverse in (False, True):
        found = sorted_rows(rows, "n", reverse)
        assert sorted(map(repr, found)) == sorted(map(repr, rows))
        lacking = [row.get("n") is None for row in found]
        assert lacking == sorted(lacking), "what has no value is last"


def test_columns():
    assert columns_of(None, ("a", "b")) == ["a", "b"]
    assert columns_of("b, a", ("a",)) == ["b", "a"]
    with pytest.raises(WrongUse, match="a name is missing"):
        columns_of("a,,b", ())
