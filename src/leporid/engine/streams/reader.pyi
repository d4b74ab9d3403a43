# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of reader.pyx."""

from leporid.engine.queues.consumer import Consumer

class Reader(Consumer):
    """One consumer of a stream; made by `Channel.consume_stream`."""

    @property
    def offset(self) -> int:
        """Of the message that is next to be delivered."""

    @property
    def settled_offset(self) -> int:
        """Everything below was delivered and settled, and nothing of it is to be read again."""

    @property
    def has_unsettled(self) -> bool:
        """Whether something that was delivered is not settled."""

    def start(self, offset: int) -> None:
        """Where to begin; before it is attached."""
