"""Figures of one virtual host at one moment, and counts of what came and went.

Responsible only for their names. They are filled in from running totals: no loop over queues,
bindings or consumers is needed. Invariant: plain values, which do not change after they were
counted; those of `Churn` only grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leporid.broker.exchange.delays import DelayStatistics


@dataclass(slots=True)
class Churn:
    """What came and went since the start, as RabbitMQ counts it.

    Attributes:
        connections_opened: those whose handshake was completed.
        queues_declared: by queue.declare that is not passive, whether they were there already.
        queues_created: those that were not there, but for those that a start finds on disk.
    """

    connections_opened: int = 0
    connections_closed: int = 0
    channels_opened: int = 0
    channels_closed: int = 0
    queues_declared: int = 0
    queues_created: int = 0
    queues_deleted: int = 0


@dataclass(frozen=True, slots=True)
class VirtualHostStatistics:
    """The figures of one virtual host.

    Attributes:
        queue_count: without those of direct reply-to, as all counts of queues and their messages.
        paused_count: queues that deliver nothing, as somebody has paused them.
        held_count: messages that came back, and are not ready again yet.
        delays: of all exchanges there were since the start.
        backlog: messages of the broker's own that wait for room in full queues.
        given_up: those that did and are dropped, since the start, by reason.
        remembered: messages that exchanges remember, to take none of them twice.
        retrying: messages that groups hold for another attempt.
        unknown_arguments: arguments that nothing reads, by where they were given.
    """

    name: str
    exchange_count: int
    binding_count: int
    queue_count: int
    paused_count: int
    consumer_count: int
    ready_count: int
    unacked_count: int
    held_count: int
    delays: DelayStatistics
    backlog: int
    given_up: Mapping[str, int]
    remembered: int
    retrying: int
    unknown_arguments: Mapping[str, int]
