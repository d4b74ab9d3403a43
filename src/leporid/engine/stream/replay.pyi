# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of replay.pyx."""

from leporid.engine.log.replay import Replay
from leporid.engine.stream.stream import Stream

class StreamReplay(Replay):
    """Applies a stream's segments, oldest first; `finish` opens the stream for readers."""

    def __init__(self, stream: Stream) -> None: ...
