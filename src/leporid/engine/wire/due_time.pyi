# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of due_time.pyx."""

def due_ms_of(properties: bytes, came_ms: int, delaying: bool = True) -> int | None:
    """When a message with these encoded properties is due; None: at once.

    ValueError when the properties or the moment are malformed, or the moment is too far away.
    """

def past_of(properties: bytes, of_delay: bool) -> bytes:
    """Properties with the x-delay, else the x-deliver-at, negated: what a delivery shows of it."""
