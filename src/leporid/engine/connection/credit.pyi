# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of credit.pyx."""

from typing import final

from leporid.engine.connection.channel import Channel
from leporid.engine.queue.takers import SharedCredit, Taker

class Credit(SharedCredit):
    """So many unsettled deliveries; made by `Channel.credit`."""

    def __init__(self, channel: Channel, limit: int = 0) -> None: ...
    @property
    def limit(self) -> int: ...
    @property
    def used(self) -> int: ...
    @property
    def asked(self) -> int:
        """How often anybody was asked whether it takes; what a turn of this credit costs."""

@final
class ChannelCredit(Credit):
    """The limit of a whole channel (basic.qos with global = true), which keeps the count itself."""

@final
class WaitingQueue(Taker):
    """Consumers of one queue that wait for a credit."""

@final
class WaitingConsumers(Taker):
    """Consumers of one credit, queue, filter and priority, of which some wait for the credit."""
