"""Global parameters: values under names, which belong to no virtual host.

Responsible for keeping them, and for recording each change. Must not know what a value means but
that `cluster_name` is what the broker is called, and `internal_cluster_id` tells it from others.
Invariant: a value is JSON, and comes back as it was given.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.events.events import Events
from leporid.broker.stored import StoredGlobalParameter
from leporid.durable import Change, Drop, Put

CLUSTER_NAME: Final = "cluster_name"
CLUSTER_ID: Final = "internal_cluster_id"
"""RabbitMQ's tools read it; metrics have it as `rabbitmq_cluster_permanent_id`."""
PARAMETERS_MAX: Final = 1000
"""RabbitMQ has no limit. A handful is usual; a value may have as many bytes as a request's body."""


@dataclass(frozen=True, slots=True)
class GlobalParameter:
    """One parameter; its value is what JSON has."""

    name: str
    value: Any


class GlobalParameters:
    """Those of a broker.

    Args:
        record: is told of each durable change.
        events: are told of what somebody sets or drops.

    Attributes:
        events: as given.
    """

    def __init__(self, record: Callable[[Change], None], events: Events) -> None:
        self._record = record
        self.events = events
        self._found: dict[str, GlobalParameter] = {}

    def __repr__(self) -> str:
        return f"<GlobalParameters {len(self._found)}>"

    def __iter__(self) -> Iterator[GlobalParameter]:
        return iter(self._found.values())

    def get(self, name: str) -> GlobalParameter | None:
        """Return the one of a name; None without one."""
        return self._found.get(name)

    def check_room(self, more: int = 1) -> None:
        """Raise PreconditionFailed unless there may be so many more."""
        if len(self._found) + more > PARAMETERS_MAX:
            raise PreconditionFailed(f"there may be {PARAMETERS_MAX} global parameters at most")

    def put(self, parameter: GlobalParameter) -> bool:
        """Set a parameter; returns whether there was none of that name.

        Raises:
            PreconditionFailed: there are too many.
        """
        before = self._found.get(parameter.name)
        if before is None:
            self.check_room()
        if parameter != before:
            self._keep(parameter)
        self.events.parameter_set(parameter.name, parameter.value)
        return before is None

    def _keep(self, parameter: GlobalParameter) -> None:
        self._found[parameter.name] = parameter
        self._record(Put(StoredGlobalParameter(parameter.name, json.dumps(parameter.value))))

    def seed_cluster_id(self, random_bytes: Callable[[int], bytes]) -> None:
        """Have an id of the cluster, in RabbitMQ's form, if there is none."""
        if CLUSTER_ID not in self._found:
            drawn = base64.urlsafe_b64encode(random_bytes(16)).decode().rstrip("=")
            # Also beyond the limit, which an earlier version may have let be reached.
            self._keep(GlobalParameter(CLUSTER_ID, f"rabbitmq-cluster-id-{drawn}"))

    @property
    def cluster_id(self) -> str | None:
        """What tells this cluster from others; None if somebody has taken it away."""
        found = self._found.get(CLUSTER_ID)
        return found.value if found is not None and isinstance(found.value, str) else None

    def restore(self, name: str, text: str) -> None:
        """Have one that was recorded; raises ValueError if that is not JSON."""
        self._found[name] = GlobalParameter(name, json.loads(text))

    def drop(self, name: str) -> bool:
        """Forget a parameter; returns whether there was one."""
        if self._found.pop(name, None) is None:
            return False
        self._record(Drop(StoredGlobalParameter, (name,)))
        self.events.parameter_cleared(name)
        return True
