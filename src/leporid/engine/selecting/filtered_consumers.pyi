# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of filtered_consumers.pyx."""

from leporid.engine.queue.queue import Queue
from leporid.engine.queue.takers import Selection, Taker, Takers
from leporid.engine.selecting.verdicts import Verdicts
from leporid.engine.selectors.filter import FilterCounters

class Searches:
    """What the searches of all queues share; made by `Engine`."""

    work: int
    """The budget of all searches in one turn, in units of one to three nanoseconds."""

    def __init__(self, verdicts: Verdicts) -> None: ...
    @property
    def filters(self) -> FilterCounters:
        """Of all consumers' filters: each distinct one for each message."""

    def renew_filter_class(self, name: str) -> None:
        """A filter class has a new version: judge all messages of each queue again."""

    def waiting_for(self, name: str) -> int:
        """How many messages wait for a filter class, as far as consumers have searched."""

    def note_browsed(self, queue: Queue, counts: tuple[int, int, int, int]) -> None:
        """Count messages of a queue that a browse has filtered, as in `Chosen.filtering`."""

class SelectorGroup(Taker):
    """Consumers with the same filter; used by the engine only."""

class GroupConsumers(Takers):
    """The consumers of one selector group; used by the engine only."""

class FilteredConsumers(Selection):
    """The consumers of one queue, once one has a filter; used by the engine only."""

    def __init__(self, queue: Queue, searches: Searches) -> None: ...
