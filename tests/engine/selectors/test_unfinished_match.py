"""Asking many filters about one message, cut into slices of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.selectors.test_selector_set import encoded, made_of, selector

from leporid.engine.bounds.clock import Clock
from leporid.engine.selectors.filter import Conjunction, Filter
from leporid.engine.selectors.selector_set import SelectorSet
from leporid.engine.selectors.tags import Tags

MS = 1_000_000
LONG = "x" * 100_000
"""Each pattern that is looked for in it takes more steps than go by between two readings."""


@pytest.fixture
def clock() -> Clock:
    """A clock by which every slice is over at the second reading."""
    made = Clock()
    made.monotonic_ns = count(0, MS).__next__
    return made


def slices(
    members: SelectorSet, clock: Clock, properties: bytes, numbers: list[int] | None = None
) -> Iterator[list[int]]:
    """The numbers that are found in each slice."""
    found, rest = members.ask("e", "k", properties, clock, numbers)
    yield found
    while rest is not None:
        found, rest = members.ask_rest(rest, "e", "k", properties, clock)
        yield found


def all_of(found: Iterable[list[int]]) -> list[int]:
    return sorted(chain.from_iterable(found))


def like(text: str) -> Filter:
    return selector(f"text LIKE '%{text}%'")


def test_many_filters_over_a_long_text_take_many_slices(clock: Clock) -> None:
    members = made_of(*(like(f"x{at % 2}") for at in range(20)))
    found = list(slices(members, clock, encoded(text=LONG + "x1")))
    assert 5 <= len(found) <= 21
    assert all_of(found) == list(range(1, 20, 2))


def test_a_filter_of_many_patterns_is_cut_between_them(clock: Clock) -> None:
    none = " OR ".join(f"text LIKE '%y{at}%'" for at in range(12))
    members = made_of(selector(f"NOT ({none})"))
    found = list(slices(members, clock, encoded(text=LONG)))
    assert len(found) >= 6
    assert all_of(found) == [0]


def test_few_filters_over_a_short_message_are_never_cut(clock: Clock) -> None:
    readings: list[int] = []

    def read() -> int:
        readings.append(1)
        return 0

    clock.monotonic_ns = read
    members = made_of(*(like(str(at)) for at in range(500)))
    raw = encoded(text="some 99 words, and the rest of them")
    assert [sorted(found) for found in slices(members, clock, raw)] == [[9, 99]]
    assert not readings


def test_what_is_counted_is_the_same_as_without_cuts(clock: Clock) -> None:
    filters = [like("x"), like("y"), selector("text > 5"), selector("text = 'x'"), Tags([b"t"])]
    filters.append(Conjunction(Tags([b"u"]), like("x")))
    raw = encoded(text=LONG, **{"x-tag": "u"})
    whole, cut = made_of(*filters), made_of(*filters)
    whole.matching("e", "k", raw)
    assert all_of(slices(cut, clock, raw)) == [0, 5]
    assert cut.counts == whole.counts


def test_only_some_may_be_asked(clock: Clock) -> None:
    members = made_of(*(like("x") for _ in range(6)))
    found = list(slices(members, clock, encoded(text=LONG + "y"), [1, 4, 5]))
    assert all_of(found) == [1, 4, 5]
    assert members.counts[:3] == (3, 3, 3)


def test_other_messages_are_asked_about_between_two_slices(clock: Clock) -> None:
    members = made_of(*(like(f"x{at}y") for at in range(9)))
    first = slices(members, clock, encoded(text=LONG + "x3y"))
    second = slices(members, clock, encoded(text=LONG + "x5yx6y"))
    found: tuple[list[int], list[int]] = ([], [])
    nothing: list[int] = []
    for one, other in zip_longest(first, second, fillvalue=nothing):
        found[0].extend(one)
        found[1].extend(other)
        assert members.matching("e", "k", encoded(text="x1y")) == [1]
    assert found == ([3], [5, 6])


def test_who_goes_is_not_asked_and_who_comes_under_its_number_neither(clock: Clock) -> None:
    members = made_of(*(like("x") for _ in range(9)))
    found = slices(members, clock, encoded(text="y" * 100_000 + "x"))
    seen = next(found)
    assert 8 not in seen
    members.remove(8)
    assert members.add(like("x")) == 8
    assert all_of([seen, *found]) == list(range(8))
    assert 8 in members.matching("e", "k", encoded(text="x"))


def test_malformed_properties_match_nobody(clock: Clock) -> None:
    members = made_of(like("x"))
    assert list(slices(members, clock, b"\x20\x00\xff\xff\xff\xff", [0])) == [[]]
    assert list(slices(members, clock, b"\x20\x00\xff\xff\xff\xff")) == [[]]


MAKERS: list[Callable[[int], Filter]] = [
    lambda at: like(f"x{at % 3}"),
    lambda at: selector(f"text LIKE 'x%' AND n = {at % 2}"),
    lambda at: selector(f"n IN (0, {at % 4}) OR text LIKE '%z'"),
    lambda at: selector(f"NOT (text LIKE '%y%' OR text LIKE '%x{at % 3}%')"),
    lambda at: Conjunction(Tags([b"t", b"%d" % (at % 2)]), like("x1")),
    lambda _at: Filter(),
]
MANY = ", ".join(f"'{at}'" for at in range(40))
MAKERS.append(lambda at: selector(f"text NOT IN ({MANY}) AND n <> {at % 2}"))


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(MAKERS), min_size=1, max_size=25),
    st.sampled_from(["", "x1", "x1y", "x2z"]),
    st.integers(0, 2),
    st.data(),
)
def test_members_that_stay_are_found_wherever_it_is_cut(
    makers: list[Callable[[int], Filter]], text: str, n: int, data: st.DataObject
) -> None:
    clock = Clock()
    clock.monotonic_ns = count(0, MS).__next__
    members = SelectorSet()
    made = {members.add(maker(at)): maker(at) for at, maker in enumerate(makers)}
    raw = encoded(text="x" * 30_000 + text, n=n, **{"x-tag": "1"})
    passing = {number for number, one in made.items() if one.matches_message("e", "k", raw)}
    stayed = set(made)
    found: list[int] = []
    for some in slices(members, clock, raw):
        found += some
        for _ in range(data.draw(st.integers(0, 2))):
            if stayed and data.draw(st.sampled_from([True, False])):
                gone = data.draw(st.sampled_from(sorted(stayed)))
                members.remove(gone)
                stayed.discard(gone)
            else:
                members.add(like("x"))
    assert len(found) == len(set(found))
    assert passing & stayed <= set(found) <= passing
