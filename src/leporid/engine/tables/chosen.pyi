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

    def messages(
        self, most: int, bytes_max: int, body_bytes_max: int = ...
    ) -> tuple[list[tuple[int, int, str, str, bytes, bytes, int, bool, bool]], int | None]:
        """Copy the first of them.

        Each is (offset, time in milliseconds, exchange, routing key, properties, body, bytes of the
        whole body, redelivered, unacked). The second value is the offset of the first one that was
        left out, None without one.

        Args:
            most: at most so many.
            bytes_max: of names, properties and copied bodies together, at most.
            body_bytes_max: copy so much of each body.
        """

    def __len__(self) -> int: ...
    @property
    def filtering(self) -> tuple[int, int, int, int]:
        """Counters of the filter.

        Batches skipped, messages evaluated, matched, and with a type error.
        """
