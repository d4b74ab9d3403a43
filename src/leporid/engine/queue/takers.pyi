# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of takers.pyx."""

from typing import final

from leporid.engine.queue.ranks import Ranked

class Taker(Ranked):
    """A consumer of a queue, as the queue sees it."""

    @property
    def unacked_count(self) -> int:
        """Its unsettled deliveries."""

    @property
    def active(self) -> bool:
        """It was not cancelled."""

@final
class Level(Ranked):
    """The ring of the consumers of one priority; used by the engine only."""

class Takers:
    """All consumers of one queue; used by the engine only."""

class Selection:
    """Delivers messages to consumers with filters; used by the engine only."""

class SharedCredit:
    """A limit of unsettled deliveries that consumers share; used by the engine only."""
