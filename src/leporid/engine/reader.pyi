# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of reader.pyx."""

from leporid.engine.consumer import Consumer

class Reader(Consumer):
    """One consumer of a stream; made by `Channel.consume_stream`."""

    @property
    def offset(self) -> int:
        """Of the message that is next to be delivered."""

    @property
    def settled_offset(self) -> int:
        """Everything below was delivered and settled."""

    def start(self, offset: int) -> None:
        """Where to begin; before it is attached."""
