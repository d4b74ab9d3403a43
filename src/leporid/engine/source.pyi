# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of source.pyx."""

from collections.abc import Callable, Sequence
from typing import final

@final
class Route:
    """Where one key leads; used by the engine only."""

class Source:
    """One exchange as publishers see it; made by `Plane.source`."""

    cacheable: bool
    """False: asked for every message, with its properties."""

    def __init__(
        self, name: str, resolver: Callable[[str, bytes | None], Sequence[object]], cacheable: bool
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def retired(self) -> bool:
        """The exchange was deleted."""

    @property
    def epoch(self) -> int:
        """Moves when a route given out may be wrong."""

    def forget(self) -> None:
        """Bindings changed here or further down."""

    def forget_key(self, key: str) -> None:
        """What one key leads to changed."""

    def retire(self) -> None:
        """The exchange was deleted."""
