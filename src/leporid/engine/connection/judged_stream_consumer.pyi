# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of asking_reader.pyx."""

from leporid.engine.connection.stream_consumer import StreamConsumer

class JudgedStreamConsumer(StreamConsumer):
    """Made by `Channel.consume_stream`."""

    @property
    def name(self) -> str:
        """The filter class."""

    def batch(self, most: int, bytes_max: int) -> tuple[bytes, int] | None:
        """The next messages as a frame for the filter server, and how many; None without any."""

    def judged(self, verdicts: bytes) -> None:
        """The batch is judged: what has a 1 is delivered, in order, the rest passed over."""

    def give_back(self) -> None:
        """Nobody judged the batch: it is asked about again."""
