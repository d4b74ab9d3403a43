# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of window.pyx."""

from typing import Self

from leporid.engine.streams.choice import Choice
from leporid.engine.streams.stream import Stream

class Window:
    """A range of a stream as raw bytes; made by `Stream.window`, and to be closed."""

    def __init__(
        self,
        stream: Stream | None = ...,
        first: int = ...,
        end: int = ...,
        rows_max: int = ...,
        bytes_max: int = ...,
        choice: Choice | None = ...,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int:
        """Where the next window begins."""

    @property
    def rows(self) -> int:
        """Messages in it."""

    @property
    def bytes(self) -> int:
        """Of their records."""

    @property
    def batches_skipped(self) -> int:
        """In which nothing was wanted, by their summaries."""

    @property
    def lost(self) -> list[tuple[int, int]]:
        """Offsets in it whose messages were damaged: (from, to)."""

    def miss(self, upto: int) -> None:
        """Note that what is between the last message and that offset is not there."""

    def close(self) -> None:
        """Let the bytes go; on the broker's thread, when nobody reads them any more."""
