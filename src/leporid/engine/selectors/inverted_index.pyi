# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of inverted_index.pyx."""

class InvertedIndex:
    """Posting lists in a hash table."""

    def __len__(self) -> int: ...
