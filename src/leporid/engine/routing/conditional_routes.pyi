# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of conditional_routes.pyx."""

from collections.abc import Iterable

from leporid.engine.queue.queue import Queue
from leporid.engine.selectors.filter import Filter, FilterCounters

class ConditionalRoute:
    """The route of one key if some of its bindings have filters."""

    def __init__(
        self,
        totals: FilterCounters,
        queues: Iterable[Queue],
        filtered: Iterable[tuple[Filter, Queue]],
    ) -> None: ...
    @property
    def amended(self) -> bool:
        """Whether its filters have changed since it was made."""

    def extend(self, filtered: Iterable[tuple[Filter, Queue]]) -> None:
        """Add more of what it is made of, before it is used; `filtered` as in the beginning."""

    def add(self, wanted: Filter, queue: Queue) -> int:
        """Add a filter of a queue."""

    def remove(self, wanted: Filter, queue: Queue) -> int:
        """Remove a filter of a queue."""

class FilterOutcomes:
    """The filters that decide about the route of a key; made by `Engine.filter_outcomes`."""

    def __init__(self, totals: FilterCounters, filters: Iterable[Filter]) -> None: ...
    def extend(self, filters: Iterable[Filter]) -> None:
        """Add more of them, before it is used."""

class UnfinishedRoute:
    """What is left of asking the filters of a conditional route; used by the engine only."""
