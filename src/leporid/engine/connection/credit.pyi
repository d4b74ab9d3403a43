# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of credit.pyx."""

from typing import final

from leporid.engine.connection.channel import Channel
from leporid.engine.queue.takers import SharedCredit, Taker

class Credit(SharedCredit):
    """A limit of unsettled deliveries; made by `Channel.credit`."""

    def __init__(self, channel: Channel, limit: int = 0) -> None: ...
    @property
    def limit(self) -> int: ...
    @property
    def used(self) -> int: ...
    @property
    def asked(self) -> int:
        """How often a consumer was asked whether it takes: the cost of this credit's turns."""

@final
class ChannelCredit(Credit):
    """The limit of a whole channel (basic.qos with global = true); the channel keeps the count."""

@final
class WaitingQueue(Taker):
    """Consumers of one queue that wait for a credit."""

@final
class WaitingConsumers(Taker):
    """Consumers with the same credit, queue, filter and priority, some of which wait."""
