"""What there is to know about one virtual host at one moment.

Responsible for naming the figures only; who has them fills them in. Invariant: plain values, so
that they stay as they were counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leporid.broker.exchange.delays import DelayStatistics
from leporid.broker.queue.queue import QueueStatistics


@dataclass(frozen=True, slots=True)
class VirtualHostStatistics:
    """The figures of one virtual host.

    Attributes:
        delays: of each exchange that has, or had, delayed messages.
        delays_total: of all exchanges there were since the start.
        backlog: messages of the broker's own that wait for room in full queues.
        given_up: those that did and are dropped, since the start, by reason.
        remembered: messages that exchanges remember, to take none of them twice.
        retrying: messages that groups hold for another attempt.
        unknown_arguments: arguments that nothing reads, by where they were given.
    """

    name: str
    exchange_count: int
    binding_count: int
    queues: tuple[QueueStatistics, ...]
    delays: Mapping[str, DelayStatistics]
    delays_total: DelayStatistics
    backlog: int
    given_up: Mapping[str, int]
    remembered: int
    retrying: int
    unknown_arguments: Mapping[str, int]
