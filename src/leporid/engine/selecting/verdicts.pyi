# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of verdicts.pyx."""

from leporid.engine.connection.judged_stream_consumer import JudgedStreamConsumer
from leporid.engine.internal.verdict_queue import VerdictQueue
from leporid.engine.selecting.consumer_verdicts import ConsumerVerdicts

class Verdicts:
    """The objects that have messages to be judged; made by `Engine`."""

    def take(self) -> list[VerdictQueue | JudgedStreamConsumer | ConsumerVerdicts]:
        """The objects that have messages to be judged since the last call; some may be closed."""

class VerdictBatch:
    """Messages that are judged together; used by the engine only."""

    def __init__(self, most: int, bytes_max: int) -> None: ...
    @property
    def count(self) -> int: ...
