# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of judged_stream_consumer.pyx."""

from leporid.engine.connection.stream_consumer import StreamConsumer

class JudgedStreamConsumer(StreamConsumer):
    """A consumer of a stream with a filter class; made by `Channel.consume_stream`."""

    @property
    def name(self) -> str:
        """The filter class."""

    def batch(self, most: int, bytes_max: int) -> tuple[bytes, int] | None:
        """The next messages as a frame for the filter server, and their number; None: none."""

    def judged(self, verdicts: bytes) -> None:
        """The verdicts of the batch: messages with a 1 are delivered, in order, others skipped."""

    def give_back(self) -> None:
        """There are no verdicts: the batch will be asked about again."""
