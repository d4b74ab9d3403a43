# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of transaction.pyx."""

from typing import Any

def tag_of(entry: tuple[Any, ...]) -> Any:
    """The delivery tag of an unsettled delivery."""
