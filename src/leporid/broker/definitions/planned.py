"""Exchanges, queues and bindings that an import is going to make.

Responsible for being found by the bindings of the same document, and by what stands there twice.
Must not know how they are made. Invariant: what stands here is not there yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leporid.broker.exchange.types import Binding, Router

Properties = dict[str, Any]
"""Of an exchange or a queue, as JSON has them."""


@dataclass(slots=True)
class End:
    """One end of bindings that a plan makes: an exchange or a queue."""

    durable: bool
    properties: Properties
    router: Router | None = None


@dataclass(slots=True)
class PlannedTopology:
    """What a plan is going to make.

    Attributes:
        exchanges: by virtual host and name.
        queues: likewise.
        bindings: by virtual host.
        bound: keys and arguments, as JSON has them, of bindings that are there and have arguments,
            by virtual host, exchange, kind and name of the destination.
    """

    exchanges: dict[tuple[str, str], End] = field(default_factory=dict)
    queues: dict[tuple[str, str], End] = field(default_factory=dict)
    bindings: set[tuple[str, Binding]] = field(default_factory=set)
    bound: dict[tuple[str, str], set[tuple[str, str, str, str]]] = field(default_factory=dict)
