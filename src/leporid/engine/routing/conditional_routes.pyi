# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of forks.pyx."""

from collections.abc import Iterable

from leporid.engine.queue.queue import Queue
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.filter_counters import FilterCounters

class ConditionalRoute:
    """Where one key leads, if some of its bindings have filters."""

    def __init__(
        self,
        totals: FilterCounters,
        queues: Iterable[Queue],
        filtered: Iterable[tuple[Filter, Queue]],
    ) -> None: ...
    @property
    def amended(self) -> bool:
        """Whether it has other filters than it was made of."""

    def add(self, wanted: Filter, queue: Queue) -> int:
        """A queue takes what passes a filter, too."""

    def remove(self, wanted: Filter, queue: Queue) -> int:
        """A queue does not, any more, for this filter's sake."""

class FilterOutcomes:
    """Filters that decide where the messages of a key go; made by `Engine.filter_outcomes`."""

    def __init__(self, totals: FilterCounters, filters: Iterable[Filter]) -> None: ...
