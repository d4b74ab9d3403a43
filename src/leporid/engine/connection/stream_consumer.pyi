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

    def withdraw_rejects(self) -> None:
        """Leave recently rejected messages to the next consumer: they do not count as failed."""

    def keep_returned(self) -> None:
        """Store all returned messages now."""

    def start(self, offset: int) -> None:
        """Set the first offset, before it is attached."""
