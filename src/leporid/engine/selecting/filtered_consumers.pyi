# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of filtered_consumers.pyx."""

from leporid.engine.queue.queue import Queue
from leporid.engine.queue.takers import Selection, Taker, Takers
from leporid.engine.selecting.verdicts import Verdicts
from leporid.engine.selectors.filter_counters import FilterCounters

class Searches:
    """What the filters of all queues' consumers share; made by `Engine`."""

    work: int
    """What they may do in one turn, in units of one to three nanoseconds."""

    def __init__(self, verdicts: Verdicts) -> None: ...
    @property
    def filters(self) -> FilterCounters:
        """What they were asked: each distinct one about each message."""

    def renew_filter_class(self, name: str) -> None:
        """Another version counts: consumers of queues have it look at everything that is there."""

    def waiting_for(self, name: str) -> int:
        """How many messages of queues wait for a filter class, as far as consumers have looked."""

    def note_browsed(self, queue: Queue, counts: tuple[int, int, int, int]) -> None:
        """A request for a table filtered some of a queue's messages, as `Chosen.filtering` says."""

class SelectorGroup(Taker):
    """What some consumers want; used by the engine only."""

class GroupConsumers(Takers):
    """The consumers of one group; used by the engine only."""

class FilteredConsumers(Selection):
    """The consumers of one queue, once one has a filter; used by the engine only."""

    def __init__(self, queue: Queue, searches: Searches) -> None: ...
