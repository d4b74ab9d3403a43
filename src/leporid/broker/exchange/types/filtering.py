"""The filters of one exchange's bindings, asked together where many of them are.

Must not know where bindings lead. Invariant: a binding without a filter is met by every message
that its exchange's type says it is; what is asked is noted with the message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leporid.broker.exchange.types.base import Binding
from leporid.broker.exchange.types.message import RoutedMessage
from leporid.broker.filter.filter_arguments import MessageFilter
from leporid.engine.selectors.selector_set import SelectorSet

ONE_BY_ONE: Final = 16
"""All filters of the exchange are asked together unless there are so many times more of them than
a message meets: one alone costs the time of so many among others."""


class BindingFilters:
    """Those of one exchange.

    Attributes:
        ways: how many of the bindings lead to exchanges.
    """

    def __init__(self) -> None:
        self.ways = 0
        self._filters: dict[Binding, tuple[MessageFilter, int]] = {}
        self._members = SelectorSet()
        self._bound: dict[int, Binding] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def add(self, binding: Binding, wanted: MessageFilter) -> None:
        """Adds the filter of a binding that has none here."""
        number = self._members.add(wanted.engine)
        self._filters[binding] = wanted, number
        self._bound[number] = binding
        self.ways += binding.destination_kind == "exchange"

    def remove(self, binding: Binding) -> None:
        """Removes the filter of a binding, if there is one."""
        found = self._filters.pop(binding, None)
        if found is not None:
            self._members.remove(found[1])
            del self._bound[found[1]]
            self.ways -= binding.destination_kind == "exchange"

    def of(self, binding: Binding) -> MessageFilter | None:
        """Returns the filter of a binding, if there is one."""
        found = self._filters.get(binding)
        return None if found is None else found[0]

    def split(
        self, bindings: Iterable[Binding]
    ) -> tuple[list[Binding], list[tuple[Binding, MessageFilter]]]:
        """Returns the bindings without a filter, and the others with theirs."""
        without, some = [], []
        for binding in bindings:
            found = self._filters.get(binding) if binding.filtered else None
            if found is None:
                without.append(binding)
            else:
                some.append((binding, found[0]))
        return without, some

    def met(self, bindings: Iterable[Binding], message: RoutedMessage) -> list[Binding]:
        """Returns those of the bindings that have no filter, or one that a message passes."""
        met, some = self.split(bindings)
        if len(some) * ONE_BY_ONE < len(self._filters):
            return met + [binding for binding, wanted in some if message.passes(wanted.engine)]
        failed = self._members.counts[3]
        numbers = self._members.matching(message.exchange, message.keys[0], message.encoded)
        failed = self._members.counts[3] - failed
        passing = dict.fromkeys(self._bound[number] for number in sorted(numbers))
        if len(some) == len(self._filters):
            found = list(passing)
        else:
            found = [binding for binding, _ in some if binding in passing]
        failed = min(failed, len(some) - len(found))
        message.outcomes += [1] * len(found) + [-1] * failed
        message.outcomes += [0] * (len(some) - len(found) - failed)
        return met + found
