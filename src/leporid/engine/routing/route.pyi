# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of route.pyx."""

from typing import final

@final
class Route:
    """The queues that a message goes to; used by the engine only."""
