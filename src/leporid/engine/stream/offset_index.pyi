# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of offset_index.pyx."""

class OffsetIndex:
    """The offset index of one stream."""

    @property
    def summary_bytes(self) -> int:
        """The memory of all summaries of tags."""
