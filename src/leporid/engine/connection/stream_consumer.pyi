# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of reader.pyx."""

from typing import Any, TypeAlias

from leporid.engine.connection.consumer import Consumer

# Modules that stand above this one.
_GroupRetries: TypeAlias = Any

class StreamConsumer(Consumer):
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

    retries: _GroupRetries | None
    """Of its group, for what comes back; None: it has none."""

    @property
    def kept_generation(self) -> int:
        """That of the newest message that came back and was kept; 0: there was none.

        `settled_offset` must not be on disk before that generation is.
        """

    def withdraw_rejects(self) -> None:
        """What was rejected a moment ago was not handled: it is for who reads next."""

    def keep_returned(self) -> None:
        """Have all that came back kept now."""

    def start(self, offset: int) -> None:
        """Where to begin; before it is attached."""
