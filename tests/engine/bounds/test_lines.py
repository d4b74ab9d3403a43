"""Lines: parties take turns, and so does what waits in the line of each."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from leporid.engine.bounds.clock import Party
from leporid.engine.bounds.lines import Lines

PARTIES = (None, Party(), Party(), Party())


def test_who_has_most_to_do_keeps_nobody_waiting() -> None:
    lines: Lines[str] = Lines()
    for at in range(3):
        lines.add(PARTIES[1], f"many{at}")
    lines.add(PARTIES[2], "one")
    lines.add(None, "nobody's")
    order = ["many0", "one", "nobody's", "many1", "many2"]
    assert [lines.take() for _ in range(lines.count)] == order


@given(st.lists(st.none() | st.integers(0, len(PARTIES) - 1), max_size=60))
def test_what_waits_comes_in_the_order_of_its_line_and_after_one_of_each_other(
    steps: list[int | None],
) -> None:
    """None takes; a number adds to the line of that party."""
    lines: Lines[tuple[int, int]] = Lines()
    model: dict[int, deque[tuple[int, int]]] = {}
    for number, step in enumerate(steps):
        if step is not None:
            lines.add(PARTIES[step], (step, number))
            model.setdefault(step, deque()).append((step, number))
        elif model:
            party = next(iter(model))
            line = model.pop(party)
            assert lines.take() == line.popleft()
            if line:
                model[party] = line
        assert lines.count == sum(map(len, model.values()))
