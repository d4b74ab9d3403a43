# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of large_memory.pyx."""

class LargeMemory:
    """A mapping of anonymous memory; used by the engine only."""
