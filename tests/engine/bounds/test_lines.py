"""Lines: parties take turns, and so does what waits in the line of each."""

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.engine.bounds.clock import Party
from leporid.engine.bounds.lines import Lines

GROUP = Party()
PARTIES = (None, Party(), Party(), Party(), Party(GROUP), Party(GROUP), Party(GROUP))


def test_who_has_most_to_do_keeps_nobody_waiting() -> None:
    lines: Lines[str] = Lines()
    for at in range(3):
        lines.add(PARTIES[1], f"many{at}")
    lines.add(PARTIES[2], "one")
    lines.add(None, "nobody's")
    order = ["many0", "one", "nobody's", "many1", "many2"]
    assert [lines.take() for _ in range(lines.count)] == order


def test_parties_of_one_group_take_the_turns_of_one() -> None:
    lines: Lines[str] = Lines()
    for at in range(3):
        lines.add(PARTIES[4], f"first{at}")
        lines.add(PARTIES[5], f"second{at}")
        lines.add(PARTIES[1], f"alone{at}")
    order = ["first0", "alone0", "second0", "alone1", "first1", "alone2", "second1"]
    assert [lines.take() for _ in range(len(order))] == order
    assert [lines.take() for _ in range(lines.count)] == ["first2", "second2"]


def test_a_group_does_not_wait_in_its_own_line() -> None:
    lines: Lines[str] = Lines()
    lines.add(GROUP, "the group")
    with pytest.raises(TypeError):
        lines.add(PARTIES[4], "one of it")


def turn_of(model: dict[int, Any]) -> tuple[int, int]:
    """Take what is next: of the first line, or of the first line of a group, which is a model."""
    key = next(iter(model))
    line = model.pop(key)
    taken = turn_of(line) if isinstance(line, dict) else line.popleft()
    if line:
        model[key] = line
    return taken


@given(st.lists(st.none() | st.integers(0, len(PARTIES) - 1), max_size=60))
def test_what_waits_comes_in_the_order_of_its_line_and_after_one_of_each_other(
    steps: list[int | None],
) -> None:
    """None takes; a number adds to the line of that party."""
    lines: Lines[tuple[int, int]] = Lines()
    model: dict[int, Any] = {}
    count = 0
    for number, step in enumerate(steps):
        if step is not None:
            lines.add(PARTIES[step], (step, number))
            party = PARTIES[step]
            grouped = party is not None and party.group is not None
            within = model.setdefault(-1, {}) if grouped else model
            within.setdefault(step, deque()).append((step, number))
            count += 1
        elif model:
            assert lines.take() == turn_of(model)
            count -= 1
        assert lines.count == count
