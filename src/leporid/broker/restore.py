"""Rebuilding virtual hosts from the definitions that were recorded.

Responsible for making them in an order in which each finds what it needs. Must not know where
they were recorded, nor any kind but policies. Invariant: nothing is recorded again, and a
definition that makes no sense is reported and left out instead of keeping the broker from starting.
"""

from __future__ import annotations

import logging
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from leporid.amqp.errors import Fault
from leporid.broker.policy.policies import PolicyError
from leporid.broker.registry import finished
from leporid.broker.stored import KINDS, StoredPolicy

if TYPE_CHECKING:
    from leporid.broker.broker import Broker
    from leporid.durable import DefinitionsSnapshot

logger = logging.getLogger(__name__)


def restore(snapshot: DefinitionsSnapshot, broker: Broker) -> None:
    """Fill a broker with what was recorded."""
    for kind in TopologicalSorter({kind: kind.NEEDS for kind in KINDS}).static_order():
        for stored in snapshot.of(kind):
            try:
                stored.restore(broker)
            except (Fault, LookupError, ValueError, PolicyError) as error:
                logger.error("recorded %s %r is left out: %s", kind.TITLE, stored, error)
        if kind is StoredPolicy:
            for vhost in broker.vhosts.values():
                finished(vhost.governor.following())  # the predeclared exchanges are there already
