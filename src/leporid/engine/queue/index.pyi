# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of index.pyx."""

from typing import final

@final
class BlockPool:
    """Freed blocks, for queues that grow; used by the engine only."""

@final
class Index:
    """Entries by sequence number; used by the engine only."""
