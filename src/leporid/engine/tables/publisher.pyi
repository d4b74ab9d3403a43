# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of publisher.pyx."""

from collections.abc import Callable

from leporid.engine.publishing.publishing import Publishing
from leporid.engine.tables.rows import Rows

class Publisher:
    """Publishes the rows of one request; used on the broker's thread."""

    def __init__(
        self,
        publishing: Publishing,
        routes_of: Callable[[str], object],
        producer: bytes | None = ...,
        sequence: int = ...,
        check_of: Callable[[str], Callable[[str], bool | None] | None] | None = ...,
    ) -> None: ...
    waiting: list[tuple[int, str, int, int]] | None
    """(row, exchange, due_ms, number) of each delayed row, if it is a list before publishing."""

    @property
    def accepted(self) -> int: ...
    @property
    def duplicates(self) -> int:
        """Published before, by the same producer."""

    @property
    def unroutable(self) -> int: ...
    @property
    def refused(self) -> int:
        """By a full queue."""

    @property
    def generation(self) -> int:
        """To wait for; 0: none."""

    @property
    def stored_bytes(self) -> int:
        """What the messages published so far take, with their entries in queues."""

    def publish(self, rows: Rows, start: int, count: int) -> int:
        """Publish rows of a batch, `count` at most, until the slice is over.

        Returns the index of the next row, which is the first one again if its route was not found.
        """

    def check(self, rows: Rows, start: int) -> int:
        """Check exchanges and keys of rows, publishing none, until the slice is over.

        Returns the index of the next row.
        """

    def forget_exchange(self) -> None:
        """Ask again at the next row: the user's permissions have changed."""
