# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of confirms.pyx."""

from typing import final

@final
class Confirms:
    """Unconfirmed publishes; made by the engine."""

    @property
    def published(self) -> int:
        """How many publishes there were."""

    @property
    def settled(self) -> int:
        """How many of them were confirmed or refused."""
