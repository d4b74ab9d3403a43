# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of consumer.pyx."""

from leporid.engine.connection.channel import Channel
from leporid.engine.queue.queue import Queue
from leporid.engine.queue.takers import Taker

class Consumer(Taker):
    """One consumer; made by `Channel.consume`."""

    def __init__(
        self,
        channel: Channel,
        queue: Queue,
        tag: str,
        no_ack: bool,
        priority: int,
        prefetch: int,
    ) -> None: ...
    @property
    def tag(self) -> str: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def channel(self) -> Channel: ...
    @property
    def no_ack(self) -> bool: ...
    @property
    def prefetch(self) -> int:
        """Its limit of unsettled deliveries; 0: none."""

    @property
    def judging(self) -> int:
        """Messages that wait for its filter class, as far as it has searched."""
