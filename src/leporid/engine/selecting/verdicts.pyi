# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of verdicts.pyx."""

from leporid.engine.connection.judged_stream_consumer import JudgedStreamConsumer
from leporid.engine.internal.verdict_queue import VerdictQueue
from leporid.engine.selecting.consumer_verdicts import ConsumerVerdicts

class Verdicts:
    """Everybody who has something to ask a filter class; made by `Engine`."""

    def take(self) -> list[VerdictQueue | JudgedStreamConsumer | ConsumerVerdicts]:
        """Who has something to ask since the last call; some may be gone."""

class VerdictBatch:
    """Messages that are asked about together; used by the engine only."""

    def __init__(self, most: int, bytes_max: int) -> None: ...
    @property
    def count(self) -> int: ...
