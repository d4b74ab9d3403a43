# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of late_acks.pyx."""

class LateAcks:
    """The tags of one channel."""
