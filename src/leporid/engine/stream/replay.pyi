# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of stream_replay.pyx."""

from leporid.engine.log.replay import Replay
from leporid.engine.stream.stream import Stream

class StreamReplay(Replay):
    """The same for the log of one stream."""

    def __init__(self, stream: Stream) -> None: ...
