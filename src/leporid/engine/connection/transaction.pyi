# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of transaction.pyx."""

class Transaction:
    """What a channel has published and settled since the last commit or rollback."""
