# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of transaction.pyx."""

class Publish:
    """A message that waits for the commit."""

class Waiting:
    """What the messages of a transaction take that are going to one log."""

class Transaction:
    """What a channel has published and settled since the last commit or rollback."""
