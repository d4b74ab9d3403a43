# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of timeouts.pyx."""

from typing import final

from leporid.engine.connection.connections import Connections
from leporid.engine.queue.timers import Timers

class Check:
    """A channel whose deliveries are being checked, which may take several turns."""

@final
class Timeouts:
    """Timeouts of unsettled deliveries; used by the engine only."""

    def __init__(self, connections: Connections) -> None: ...
    @property
    def timers(self) -> Timers:
        """Of channels; some have closed."""
