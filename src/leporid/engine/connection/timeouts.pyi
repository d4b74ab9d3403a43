# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of timeouts.pyx."""

from typing import final

from leporid.engine.connection.connections import Connections

@final
class Timeouts:
    """Timeouts of unsettled deliveries; used by the engine only."""

    def __init__(self, connections: Connections) -> None: ...
