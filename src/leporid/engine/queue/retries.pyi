# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of retries.pyx."""

from typing import final

from leporid.engine.plane import Plane

@final
class Retries:
    """Everything that is held in the queues of one plane."""

    def __init__(self, plane: Plane) -> None: ...
    @property
    def count(self) -> int:
        """Entries that are held, in all queues."""
