# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of large_body.pyx."""

class LargeBody:
    """A body and how much of its frames was sent; used by the engine only."""

    @property
    def left(self) -> int:
        """Bytes of its frames that were not sent."""
