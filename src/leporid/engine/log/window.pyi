# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of window.pyx."""

from typing import Self

class Window:
    """Some messages as raw bytes; to be closed."""

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
        """Batches of a stream that were skipped because of their summaries."""

    def close(self) -> None:
        """Release the bytes; on the broker's thread, when no thread reads them any more."""
