# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of confirms.pyx."""

from typing import final

@final
class Confirms:
    """Unconfirmed publishes; used by the engine only."""
