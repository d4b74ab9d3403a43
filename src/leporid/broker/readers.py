"""Named readers of streams: up to where each has read, kept for when it comes back.

Responsible for following the consumers that were started with x-reader and for saying when their
offsets are to be stored. Must not know where they are stored, nor when it is time to look.
Invariant: a stored offset is that of a message that was acknowledged, as were all before it that
its consumer was sent; what is not stored yet when a broker is killed is delivered again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.dataplane import Reader
from leporid.broker.queues import QueueState

READERS_MAX: Final = 10_000
"""Stored offsets of one stream. They stay until somebody drops them, so a client that makes up a
new name each time would fill the disk; whoever means it has fewer."""


@dataclass(eq=False, slots=True)
class Bookmark:
    """Where one consumer is."""

    queue: QueueState
    reader: str
    consumer: Reader
    settled: int = field(init=False)
    """As `consumer.settled_offset` was when it was stored last, or when the consumer began."""
    ended: bool = False
    """Whether the consumer was cancelled; it may still settle what it was sent."""

    def __post_init__(self) -> None:
        self.settled = self.consumer.settled_offset

    @property
    def settles_no_more(self) -> bool:
        """Whether it has ended, and what it was sent is settled or has nowhere to be stored."""
        if not self.ended:
            return False
        return self.queue.deleted or self.consumer.settled_offset == self.consumer.offset


class Bookmarks:
    """The consumers of one virtual host that are named readers.

    Args:
        store: told of a queue, a reader, and the offset of the last message it has read.
    """

    def __init__(self, store: Callable[[QueueState, str, int], None]) -> None:
        self._store = store
        self._open: dict[Bookmark, None] = {}

    def __repr__(self) -> str:
        return f"<Bookmarks open={len(self._open)}>"

    def open(self, queue: QueueState, reader: str, consumer: Reader) -> Bookmark:
        """Follow a consumer that has just begun."""
        bookmark = Bookmark(queue, reader, consumer)
        self._open[bookmark] = None
        return bookmark

    def save(self, bookmark: Bookmark) -> None:
        """Store where a consumer is, if it went on."""
        settled = bookmark.consumer.settled_offset
        if settled > bookmark.settled and not bookmark.queue.deleted:
            bookmark.settled = settled
            self._store(bookmark.queue, bookmark.reader, settled - 1)

    def save_all(self) -> None:
        """Store where all of them are."""
        for bookmark in self._open:
            self.save(bookmark)

    def close(self, bookmark: Bookmark) -> None:
        """Store it and follow it no more: what it has not settled, it will not settle now."""
        if bookmark in self._open:
            self.save(bookmark)
            del self._open[bookmark]


def check_room(queue: QueueState, reader: str) -> None:
    """Check that a stream may have one more reader.

    Raises:
        PreconditionFailed: it has too many, and this is not one of them.
    """
    known = queue.reader_offsets
    if reader not in known and len(known) >= READERS_MAX:
        raise PreconditionFailed(
            f"{queue.title} has {READERS_MAX} stored offsets of readers; drop some, or use a name "
            "that is among them"
        )
