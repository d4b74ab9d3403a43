# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of sender.pyx."""

class Sender:
    """Whoever publishes: a channel, a table of rows."""
