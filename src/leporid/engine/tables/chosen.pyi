# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of chosen.pyx."""

from leporid.engine.log.window import Window
from leporid.engine.stream.choice import Choice

class Chosen:
    """Messages of one window, which must stay open as long as they are used."""

    def __init__(
        self,
        window: Window,
        *,
        routing_key: bytes | None = ...,
        routing_key_prefix: bytes | None = ...,
        exchange: bytes | None = ...,
        since_ms: int = ...,
        until_ms: int = ...,
        choice: Choice | None = ...,
    ) -> None:
        """Find them; other threads run meanwhile."""

    @property
    def rows(self) -> int: ...
    @property
    def numbers(self) -> list[int]:
        """Sequence numbers of these messages, which must be those of a queue."""

    def __len__(self) -> int: ...
    @property
    def filtering(self) -> tuple[int, int, int, int]:
        """Counters of the filter.

        Batches skipped, messages evaluated, matched, and with a type error.
        """
