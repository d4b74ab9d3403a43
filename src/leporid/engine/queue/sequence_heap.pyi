# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of sequence_heap.pyx."""

from typing import final

@final
class SequenceHeap:
    """Sequence numbers, lowest first; used by the engine only."""

    @property
    def count(self) -> int:
        """How many numbers it has, of entries that are gone, too."""
