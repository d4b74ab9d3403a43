"""An import of definitions, from a document to what is in force.

Responsible for the order: everything is compared with what is there before anything is changed,
then recorded in one piece, then made in steps. Must not know what a definition means. Invariants:
after a crash all of a document is there, or nothing of it; a document that is refused changes
nothing; there is one import at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.errors import BeingDeleted, Fault
from leporid.broker.definitions import access, planned_topology, policies
from leporid.broker.definitions.document import NOUNS, Document
from leporid.broker.definitions.members import WrongDefinition
from leporid.broker.definitions.plan import DefinitionsRefused, Plan
from leporid.engine.bounds.jobs import AWAITS

if TYPE_CHECKING:
    from leporid.broker.broker import Broker
    from leporid.broker.registry import Steps, StepsTo

logger = logging.getLogger(__name__)

Planner = Callable[[Plan, Mapping[str, Any]], "Steps | None"]

PLANNERS: Final[Mapping[str, Planner]] = {
    "vhosts": access.plan_vhost,
    "users": access.plan_user,
    "permissions": access.plan_permissions,
    "topic_permissions": access.plan_topic_permissions,
    "parameters": policies.plan_parameter,
    "global_parameters": policies.plan_global_parameter,
    "policies": policies.plan_policy,
    "exchanges": planned_topology.plan_exchange,
    "queues": planned_topology.plan_queue,
    "bindings": planned_topology.plan_binding,
}
OF_VHOST: Final = ("parameters", "policies", "exchanges", "queues", "bindings")
"""What belongs to a virtual host; of others, a document that is imported into one has no effect."""

# What RabbitMQ's exports say of themselves.
ABOUT: Final = frozenset(
    {
        "rabbit_version",
        "rabbitmq_version",
        "product_name",
        "product_version",
        "rabbitmq_definition_format",
        "original_cluster_name",
        "original_vhost_name",
        "explanation",
        "leporid_version",
    }
)
OF_THE_VHOST: Final = frozenset(
    {"metadata", "description", "tags", "default_queue_type", "limits", "name"}
)
"""What an export of one virtual host says of that host; RabbitMQ does not read it either."""


def importing(
    broker: Broker, document: Document, by: str, *, scope: str | None = None, trial: bool = False
) -> StepsTo[Plan]:
    """Import a document, in steps; returns what was done, or would be.

    What the plan has kept is to be freed when what was recorded is on disk (`Plan.forgetting`).

    Args:
        broker: into which.
        document: its definitions are gone afterwards; no user has a password in clear.
        by: who imports, for the log.
        scope: the virtual host that the document belongs to; None: it says itself.
        trial: whether to find out only.

    Raises:
        DefinitionsRefused: something is wrong, and nothing was changed.
    """
    while broker.importing:
        yield AWAITS
    broker.importing = True
    plan = Plan(broker, by, scope)
    try:
        try:
            yield from _planning(plan, document)
            plan.check()
        except DefinitionsRefused:
            yield from plan.abandoning()
            raise
        if trial:
            yield from plan.abandoning()
        else:
            yield from plan.making()
            _tell(plan)
    finally:
        broker.importing = False
    return plan


def _planning(plan: Plan, document: Document) -> Steps:
    for name, fact in document.facts.items():
        yield None
        if name not in ABOUT and fact not in (None, "", [], {}):
            plan.difference.ignore(name[:80], _unread(plan, name))
    for noun in NOUNS:
        items: list[Any] = document.items.get(noun, [])
        if items and plan.scope is not None and noun not in OF_VHOST:
            plan.difference.ignore(noun, "they do not belong to a virtual host")
            continue
        for at, item in enumerate(items):
            try:
                yield from _planning_one(plan, noun, item)
            except WrongDefinition as error:
                plan.problem(f"{noun}[{at}]{_named(item)}: {error}")
            except Fault as fault:
                reason = fault.text.partition(" - ")[2] or fault.text
                plan.problem(f"{noun}[{at}]{_named(item)}: {reason}")
            items[at] = None  # what it took may go
            plan.broker.handled += 1
            yield None


def _unread(plan: Plan, fact: str) -> str:
    if plan.scope is not None and fact in OF_THE_VHOST:
        return f"vhost '{plan.scope}' keeps its own"
    return "nothing reads it"


def _planning_one(plan: Plan, noun: str, item: Mapping[str, Any]) -> Steps:
    """Plan one definition, once its name is free."""
    while True:
        try:
            steps = PLANNERS[noun](plan, item)
            if steps is not None:
                yield from steps
            return
        except BeingDeleted:
            yield AWAITS


def _named(item: Mapping[str, Any]) -> str:
    name = item.get("name")
    return f" {name[:80]!r}" if isinstance(name, str) else ""


def _tell(plan: Plan) -> None:
    logger.info("%s imported definitions: %s", plan.by, plan.difference.summary())
    for noun in NOUNS:
        for identity, reason in islice(plan.difference[noun].conflicting, _TOLD_MAX):
            logger.warning("%s %s stay as they are: %s", noun, identity, reason)
    for what, reason in plan.difference.ignored[:_TOLD_MAX]:
        logger.warning("definitions: %s is ignored: %s", what, reason)


_TOLD_MAX: Final = 10
"""Of each noun, in the log; the answer to the import has all."""
