# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of forgiven.pyx."""

class Forgiven:
    """The tags of one channel."""
