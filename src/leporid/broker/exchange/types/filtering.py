"""The filters of one exchange's bindings, asked together where many of them are.

Must not know where bindings lead. Invariant: a binding without a filter is met by every message
that its exchange's type says it is; what is asked is noted with the message.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from leporid.broker.exchange.types.base import Binding
from leporid.broker.exchange.types.message import RoutedMessage
from leporid.broker.registry import StepsTo
from leporid.engine.bounds.clock import Clock
from leporid.engine.bounds.sharded_dict import ShardedDict
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.selector_set import SelectorSet

ONE_BY_ONE: Final = 16
"""All filters of the exchange are asked together unless there are so many times more of them than
a message meets: one alone costs the time of so many among others."""

SPLIT_AT_ONCE: Final = 512
"""Bindings whose filters are looked up; each takes 0.1 microseconds."""

ASKED_AT_ONCE: Final = 2
"""Filters that are asked without a look at the clock; one with LIKE takes up to 0.2 ms."""


class BindingFilters:
    """Those of one exchange.

    Attributes:
        ways: how many of the bindings lead to exchanges.
        asked_for: how many have a filter that their arguments ask for, and not their exchange only.
    """

    def __init__(self) -> None:
        self.ways = self.asked_for = 0
        self._filters: ShardedDict[Binding, tuple[Filter, int]] = ShardedDict()
        self._members = SelectorSet()
        self._bound: ShardedDict[int, Binding] = ShardedDict()

    def __len__(self) -> int:
        return len(self._filters)

    def add(self, binding: Binding, wanted: Filter) -> None:
        """Adds the filter of a binding that has none here."""
        number = self._members.add(wanted)
        self._filters[binding] = wanted, number
        self._bound[number] = binding
        self.ways += binding.destination_kind == "exchange"
        self.asked_for += binding.filtered

    def remove(self, binding: Binding) -> None:
        """Removes the filter of a binding, if there is one."""
        found = self._filters.pop(binding)
        if found is not None:
            self._members.remove(found[1])
            del self._bound[found[1]]
            self.ways -= binding.destination_kind == "exchange"
            self.asked_for -= binding.filtered

    def of(self, binding: Binding) -> Filter | None:
        """Returns the filter of a binding, if there is one."""
        found = self._filters.get(binding)
        return None if found is None else found[0]

    def split(
        self, bindings: Iterable[Binding]
    ) -> tuple[list[Binding], list[tuple[Binding, Filter]]]:
        """Returns the bindings without a filter, and the others with theirs."""
        without, some = [], []
        for binding in bindings:
            found = self._filters.get(binding)
            if found is None:
                without.append(binding)
            else:
                some.append((binding, found[0]))
        return without, some

    def splitting(
        self, bindings: Iterable[Binding], bound: Container[Binding]
    ) -> StepsTo[tuple[list[Binding], list[tuple[Binding, Filter]]]]:
        """The same in steps, but for bindings that are not `bound` any more when it is their turn.

        They have no filter then, and may be bound again afterwards.
        """
        bindings = [*bindings]
        without, some = self.split(bindings[:SPLIT_AT_ONCE])
        for at in range(SPLIT_AT_ONCE, len(bindings), SPLIT_AT_ONCE):
            yield None
            part = bindings[at : at + SPLIT_AT_ONCE]
            more_without, more = self.split([each for each in part if each in bound])
            without += more_without
            some += more
        return without, some

    def met(
        self,
        bindings: Sequence[Binding],
        message: RoutedMessage,
        clock: Clock,
        bound: Container[Binding],
    ) -> StepsTo[list[Binding]]:
        """Returns those of the bindings that have no filter, or one that a message passes.

        In steps; of bindings that go in between, some may be among them. `bound` are those that are
        there, now and later.
        """
        cut = len(bindings) > SPLIT_AT_ONCE
        met, some = yield from self.splitting(bindings, bound)
        if len(some) <= ASKED_AT_ONCE and len(some) * ONE_BY_ONE < len(self._filters):
            return met + [binding for binding, wanted in some if message.passes(wanted)]
        asked = None
        if len(some) * ONE_BY_ONE < len(self._filters):
            asked = [self._filters[each][1] for each, _ in some if each in self._filters]
        names = message.exchange, message.keys[0], message.encoded
        failed = -self._members.counts[3]
        numbers, rest = self._members.ask(*names, clock, asked)
        passed = [self._bound[number] for number in sorted(numbers)]
        failed += self._members.counts[3]
        while rest is not None:
            cut = True
            yield None
            failed -= self._members.counts[3]
            numbers, rest = self._members.ask_rest(rest, *names, clock)
            # Now: a number may be another binding's in the next step.
            passed += [self._bound[number] for number in sorted(numbers)]
            failed += self._members.counts[3]
        passing = dict.fromkeys(passed)
        if len(some) == len(self._filters) and not cut:
            found = list(passing)
        else:
            found = [binding for binding, _ in some if binding in passing]
        failed = min(failed, len(some) - len(found))
        message.outcomes += [1] * len(found) + [-1] * failed
        message.outcomes += [0] * (len(some) - len(found) - failed)
        return met + found
