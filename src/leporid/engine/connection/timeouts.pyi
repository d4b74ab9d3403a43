# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of timeouts.pyx."""

from typing import final

from leporid.engine.plane import Plane

@final
class Timeouts:
    """The channels of one plane that have something to lose."""

    def __init__(self, plane: Plane) -> None: ...
