# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of window.pyx."""

from leporid.engine.log.window import Window
from leporid.engine.stream.choice import Choice
from leporid.engine.stream.stream import Stream

class StreamWindow(Window):
    """A range of a stream as raw bytes; made by `Stream.window`, and to be closed."""

    def __init__(
        self,
        stream: Stream,
        first: int,
        end: int,
        rows_max: int,
        bytes_max: int,
        choice: Choice | None = ...,
    ) -> None: ...
    @property
    def lost(self) -> list[tuple[int, int]]:
        """Offsets in it whose messages were damaged: (from, to)."""

    def miss(self, upto: int) -> None:
        """Note that the messages between the last one and an offset are damaged."""
