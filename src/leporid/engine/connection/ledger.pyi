# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of ledger.pyx."""

from typing import final

@final
class Ledger:
    """Unsettled deliveries, found by tag; used by the engine only."""
