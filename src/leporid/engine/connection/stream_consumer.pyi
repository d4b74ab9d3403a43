# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of stream_consumer.pyx."""

from leporid.engine.connection.consumer import Consumer
from leporid.engine.connection.group_retries import GroupRetries

class StreamConsumer(Consumer):
    """One consumer of a stream; made by `Channel.consume_stream`."""

    @property
    def offset(self) -> int:
        """The offset of the next message to be delivered."""

    @property
    def settled_offset(self) -> int:
        """All messages below it were settled, and none of them is to be read again."""

    @property
    def has_unsettled(self) -> bool:
        """Whether a delivery is not settled."""

    retries: GroupRetries | None
    """Of its group, for returned messages; None: there are none."""

    @property
    def kept_generation(self) -> int:
        """The generation of the newest message stored in `retries`; 0: there was none.

        `settled_offset` must not be on disk before that generation is.
        """

    @property
    def wanted(self) -> int:
        """The offset that it was started at."""

    @property
    def skipped(self) -> int:
        """Messages that it missed: retention dropped them first."""

    unreported: int
    """Of these, those that no delivery has reported yet; the next one does."""

    def note_skipped(self, count: int) -> None:
        """Note that retention dropped so many messages before they could be delivered."""

    def withdraw_rejects(self) -> None:
        """Leave recently rejected messages to the next consumer: they do not count as failed."""

    def keep_returned(self) -> None:
        """Store all returned messages now."""

    def start(self, offset: int) -> None:
        """Set the first offset, before it is attached."""
