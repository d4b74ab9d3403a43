# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of ranks.pyx."""

class Ranked:
    """Something with a rank; it is in one heap at most."""

    @property
    def priority(self) -> int:
        """The higher, the earlier: a consumer's, as its client has set it."""
