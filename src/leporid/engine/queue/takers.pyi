# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of takers.pyx."""

from typing import final

class Taker:
    """Somebody who takes entries from a queue."""

    @property
    def priority(self) -> int:
        """Those of a higher one are served first."""

    @property
    def unacked_count(self) -> int:
        """Unsettled deliveries that it has."""

    @property
    def active(self) -> bool:
        """It was not cancelled."""

@final
class Level:
    """The takers of one priority; used by the engine only."""

class Takers:
    """All takers of one queue; used by the engine only."""

class Selection:
    """Chooses messages for consumers that have filters; used by the engine only."""

class SharedCredit:
    """Credit that several consumers wait for; used by the engine only."""
