"""Filters of one exchange's bindings, asked one by one or together."""

from __future__ import annotations

import pytest
from tests.broker.exchange.types.bindings import message

from leporid.amqp.tables import Value
from leporid.broker.exchange.types import Binding
from leporid.broker.exchange.types.filtering import ONE_BY_ONE, BindingFilters
from leporid.broker.filter.filter_arguments import filter_of
from leporid.broker.registry import finished
from leporid.engine.bounds.clock import Clock


def binding(sql: str, queue: str = "q", kind: str = "queue") -> Binding:
    arguments: dict[str, Value] = {"x-filter-sql": sql} if sql else {}
    return Binding("x", queue, kind, "k", arguments)  # type: ignore[arg-type]


def made_of(*bindings: Binding) -> BindingFilters:
    filters = BindingFilters()
    for one in bindings:
        wanted = filter_of(one.arguments)
        if wanted is not None:
            filters.add(one, wanted.engine)
    return filters


PLAIN, ONE, TWO = binding(""), binding("n = 1"), binding("n > 1", kind="exchange")


@pytest.mark.parametrize("others", [0, 10 * ONE_BY_ONE])
def test_what_a_message_meets_is_what_passes(others):
    """Beside many others it is asked for one by one, else together."""
    filters = made_of(ONE, TWO, *(binding(f"n > {n}", "other") for n in range(others)))
    bound = [PLAIN, ONE, TWO]
    for n, met, outcomes in ((1, [PLAIN, ONE], [0, 1]), (5, [PLAIN, TWO], [0, 1])):
        asked = message("k", headers={"n": n})
        assert finished(filters.met(bound, asked, Clock(), bound)) == met
        assert sorted(asked.outcomes) == outcomes
    asked = message("k", headers={"n": "text"})
    assert finished(filters.met(bound, asked, Clock(), bound)) == [PLAIN]
    assert asked.outcomes.count(-1) == 2
    assert filters.split(bound)[0] == [PLAIN]
    assert [each for each, _ in filters.split(bound)[1]] == [ONE, TWO]


def test_some_of_few_filters():
    filters = made_of(ONE, TWO, binding("n < 3"))
    asked = message("k", headers={"n": 1})
    assert finished(filters.met([TWO, ONE], asked, Clock(), ())) == [ONE]
    assert sorted(asked.outcomes) == [0, 1]


def test_what_is_removed_is_not_asked():
    filters = made_of(ONE, TWO)
    assert (len(filters), filters.ways) == (2, 1)
    filters.remove(TWO)
    filters.remove(PLAIN)
    assert (len(filters), filters.ways) == (1, 0)
    asked = message("k", headers={"n": 5})
    # Without a filter here, it is met whatever its arguments are.
    assert finished(filters.met([ONE, TWO], asked, Clock(), ())) == [TWO]


def test_a_filter_for_every_message_is_none():
    everything = Binding("x", "q", "queue", "k", {"x-filter-tags": "*"})
    assert everything.filtered
    filters = made_of(everything, ONE)
    assert finished(filters.met([everything, ONE], message("k"), Clock(), ())) == [everything]


def test_the_order_is_that_of_the_bindings():
    bound = [binding(f"n > {n}", f"q{n}") for n in range(40)]
    filters = made_of(*bound)
    assert (
        finished(filters.met(bound, message("k", headers={"n": 30}), Clock(), bound)) == bound[:30]
    )
