# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of offset_index.pyx."""

class OffsetIndex:
    """The marks of one stream, which the engine keeps."""

    @property
    def summary_bytes(self) -> int:
        """Of what is kept about tags."""
