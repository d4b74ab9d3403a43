# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of unacked.pyx."""

from typing import final

@final
class UnackedDeliveries:
    """Unsettled deliveries, found by tag; used by the engine only."""

@final
class LateAcks:
    """Deliveries that were requeued and may be settled late; used by the engine only."""
