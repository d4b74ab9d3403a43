# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of arrays.pyx."""

class Buffer:
    """Memory of one column, read only."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
