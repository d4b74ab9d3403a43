"""One exchange of a virtual host, and its place among the others.

Responsible for what an exchange is made of, for which others messages can go to, and for knowing
whether routes of it may be kept. Must not know where a message goes; `broker.exchange.topology`
does. Its alternate exchange is a name: nothing changes here when one of that name comes or goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Final

from leporid.amqp.tables import Value
from leporid.broker.exchange.types import DELAYED_MESSAGE, Binding, Router, make_router
from leporid.broker.exchange.types.delayed import routed_as
from leporid.broker.exchange.types.filtering import BindingFilters
from leporid.broker.policy.policies import NOT_GOVERNED, Governed
from leporid.engine.bounds.sharded_dict import ShardedDict

if TYPE_CHECKING:
    from leporid.engine.bounds.accounts import Account
    from leporid.engine.routing.route_cache import RouteCache

DEFAULT_EXCHANGE: Final = ""
ALTERNATE_ARGUMENT: Final = "alternate-exchange"
TOPIC: Final = "topic"

LOOKED_AT_MAX: Final = 64
"""Bindings of a headers exchange that are looked at for each routing key: some microseconds."""

LOOKED_AT_ONCE_MAX: Final = 4096
"""The same for all keys together. Such a route is made anew when a binding without terms comes or
goes, and the old one is freed in one piece: some milliseconds."""


@dataclass(eq=False, slots=True)
class ExchangeState:
    """One exchange of a virtual host. Making it raises what `make_router` raises.

    Attributes:
        name: Its name; empty for the default exchange.
        type: One of `EXCHANGE_TYPES`.
        durable: Whether it survives a restart.
        auto_delete: Whether it goes with the last binding that leads from it.
        internal: Whether clients may not publish to it.
        arguments: The table it was declared with.
        routes: The engine's cache of its routes.
        chance: Gives a random number of 64 bits; for making it only.
        router: Its bindings, arranged for its type.
        governed: Its policies.
        alternate: Name of the exchange that gets what its own bindings do not meet, if any.
        outgoing: The bindings that lead from it, with the accounts that were charged for them.
        incoming: The bindings that lead to it, from other exchanges or itself.
        below: The exchanges that messages can go to through bindings, and by how many.
        filters: Those of its outgoing bindings.
        verdict_queues: Where messages wait for filter classes, by the bindings that ask one.
        deleted: Whether it is being deleted; what leads to it may still be there.
        kept_bytes: That its definition takes.
        kept_by: The account that was charged for it: of whoever declared it.
        recent: Samples of its counters for the rates that management shows; a matter of that alone.
    """

    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, Value]
    routes: RouteCache = field(repr=False)
    governed: Governed = NOT_GOVERNED
    chance: InitVar[Callable[[], int]] = int
    router: Router = field(init=False, repr=False)
    alternate: str | None = field(init=False)
    outgoing: ShardedDict[Binding, Account | None] = field(
        init=False, repr=False, default_factory=ShardedDict
    )
    incoming: ShardedDict[Binding, None] = field(
        init=False, repr=False, default_factory=ShardedDict
    )
    below: dict[ExchangeState, int] = field(init=False, repr=False, default_factory=dict)
    filters: BindingFilters = field(init=False, repr=False, default_factory=BindingFilters)
    verdict_queues: dict[Binding, str] = field(init=False, repr=False, default_factory=dict)
    deleted: bool = False
    kept_bytes: int = 0
    kept_by: Account | None = field(repr=False, default=None)
    recent: object = field(repr=False, default=None)

    def __post_init__(self, chance: Callable[[], int]) -> None:
        self.router = make_router(self.type, self.arguments, chance)
        self.alternate = self.wanted_alternate()
        self.routes.cacheable = not self.router.per_message
        self.routes.spread_keys = self.router.spread_keys
        self.look_at_keys()

    def wanted_alternate(self) -> str | None:
        """What its arguments and policies say; the argument has the last word."""
        alternate = self.arguments.get(ALTERNATE_ARGUMENT)
        if alternate is None:
            alternate = self.governed.definition.get(ALTERNATE_ARGUMENT)
        return alternate if isinstance(alternate, str) else None

    def look_at_keys(self) -> None:
        """Tells its cache whether routing keys matter; to call when `leads_on` may change."""
        router = self.router
        alone = not (router.strict_keys or self.leads_on)
        self.routes.keyless = alone and router.ignores_keys
        if self.name != DEFAULT_EXCHANGE:  # whose messages go where names of queues say
            plain = alone and not (router.per_message or router.history_length or router.cache_size)
            self.routes.met_by = router.met_by if plain else None

    @property
    def leads_on(self) -> bool:
        """Whether messages may go on from it to another exchange, as far as it knows."""
        return bool(self.below) or self.alternate is not None

    @property
    def delaying(self) -> bool:
        """Whether it keeps messages with x-delay until they are due."""
        return self.type == DELAYED_MESSAGE

    @property
    def has_topics(self) -> bool:
        """Whether topic permissions count here: its routing keys are compared with patterns."""
        return routed_as(self.type, self.arguments) == TOPIC

    @property
    def asks(self) -> bool:
        """Whether it must be asked for every message, wherever its bindings lead."""
        return self.router.per_message or self.deleted

    def asks_beside(self, published_to: ExchangeState) -> bool:
        """Says whether it must be asked for every message that is published to an exchange.

        Making a route for a key takes a look at all bindings of a headers exchange, and publishers
        who never repeat a key would have one made for each message.
        """
        most = LOOKED_AT_ONCE_MAX if published_to.routes.keyless else LOOKED_AT_MAX
        return self.asks or (self.router.looks_up and len(self.filters) > most)

    @property
    def decides(self) -> bool:
        """Whether its filters decide more than which queues take a message.

        A message that passes no filter goes to the alternate exchange, if there is one.
        """
        decided_late = self.alternate is not None and bool(self.filters)
        return self.filters.ways > 0 or decided_late

    @property
    def in_use(self) -> bool:
        """Whether a binding leads from it: what `if-unused` and auto-delete ask."""
        return bool(self.outgoing)


def link(above: ExchangeState, below: ExchangeState) -> None:
    """Counts a binding from an exchange to another."""
    above.below[below] = above.below.get(below, 0) + 1
    above.look_at_keys()


def unlink(above: ExchangeState, below: ExchangeState) -> bool:
    """Counts one binding less; returns whether no way leads from one to the other any more."""
    left = above.below[below] - 1
    if left:
        above.below[below] = left
        return False
    del above.below[below]
    above.look_at_keys()
    return above.alternate != below.name
