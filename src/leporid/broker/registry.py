"""What a virtual host asks of the broker it is part of, as a protocol.

Must not know how the broker does it. Invariant: a virtual host reaches nothing of its broker but
what stands here, so that its tests need no broker.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from leporid.broker.connection.cancels import Cancels
    from leporid.broker.events.events import Events
    from leporid.broker.events.outbox import Outbox
    from leporid.broker.filter.filter_classes import FilterClasses
    from leporid.broker.group.handovers import Handovers
    from leporid.broker.memory import Memory
    from leporid.broker.policy.policies import Policy
    from leporid.broker.queue.dead_letters import DeadLetterCounts
    from leporid.broker.queue.unused import UnusedQueues
    from leporid.broker.settings.redeclaring import Redeclare
    from leporid.broker.settings.unknown_arguments import OnUnknown
    from leporid.broker.statistics import Churn
    from leporid.durable import Change
    from leporid.engine.engine import Engine


T = TypeVar("T")

Steps: TypeAlias = Generator[object, None, None]
"""Work that `engine.bounds.jobs` may interrupt at each yield, where everything is consistent."""
StepsTo: TypeAlias = Generator[object, None, T]
"""The same, with an outcome."""


def finished(steps: StepsTo[T]) -> T:
    """Do work in steps in one go, where nobody waits meanwhile; returns its outcome."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: T = end.value
            return outcome


class Registry(Protocol):
    """What a virtual host asks of the broker it is part of."""

    engine: Engine
    dead_letter_counts: DeadLetterCounts
    unused: UnusedQueues
    filter_classes: FilterClasses
    handovers: Handovers
    cancels: Cancels
    recorded_generation: int
    memory: Memory
    churn: Churn
    events: Events
    traces: Outbox

    def record(self, change: Change) -> None:
        """Make a durable change survive a restart."""

    def new_queue_id(self) -> int:
        """Return a number that no durable queue ever had."""

    def made_quorum_queue(self, title: str) -> None:
        """Say, once, what a quorum queue is here."""

    def redeclare_in(self, vhost: str) -> Redeclare:
        """Return what becomes of declarations that differ from what is there."""

    def unknown_arguments_in(self, vhost: str) -> OnUnknown:
        """Return what becomes of arguments that nothing reads."""

    def configured_policies(self, vhost: str) -> Iterable[Policy]:
        """Return those of the configuration file."""

    def random_number(self) -> int:
        """Return any number of 64 bits."""
