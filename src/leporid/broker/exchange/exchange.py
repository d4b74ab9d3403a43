"""One exchange of a virtual host, and its place among the others.

Responsible for what an exchange is made of, for which others messages can come from and go to, and
for knowing whether routes of it may be kept. Must not know names of what is not linked to it, nor
where a message goes; `broker.topology` does.

The words used below: an exchange is *above* another if messages can come from it, through a
binding or because the other is its alternate exchange.

Invariant: a cache may keep routes (`cacheable`) exactly if no exchange can be reached from its
exchange that must be asked for every message, and none further down that may keep a message for
some time: whoever publishes to that one directly has looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Final

from leporid.amqp.tables import Value
from leporid.broker.exchange.types import DELAYED_MESSAGE, Binding, Router, make_router
from leporid.broker.exchange.types.filtering import BindingFilters
from leporid.broker.policy.policies import NOT_GOVERNED, Governed

if TYPE_CHECKING:
    from leporid.engine.routing.route_cache import RouteCache

ALTERNATE_ARGUMENT: Final = "alternate-exchange"


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
        outgoing: The bindings that lead from it.
        incoming: The bindings that lead to it, from other exchanges or itself.
        above: The exchanges that messages can come from, and by how many ways.
        below: The exchanges that messages can go to, and by how many ways.
        filters: Those of its outgoing bindings.
        verdict_queues: Where messages wait for filter classes, by the bindings that ask one.
        per_message: Whether it is, or leads to, an exchange that must be asked for every message.
        deleted: Whether it is being deleted; what leads to it may still be there.
        kept_bytes: That its definition was charged.
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
    outgoing: dict[Binding, None] = field(init=False, repr=False, default_factory=dict)
    incoming: dict[Binding, None] = field(init=False, repr=False, default_factory=dict)
    above: dict[ExchangeState, int] = field(init=False, repr=False, default_factory=dict)
    below: dict[ExchangeState, int] = field(init=False, repr=False, default_factory=dict)
    filters: BindingFilters = field(init=False, repr=False, default_factory=BindingFilters)
    verdict_queues: dict[Binding, str] = field(init=False, repr=False, default_factory=dict)
    per_message: bool = field(init=False)
    deleted: bool = False
    kept_bytes: int = 0

    def __post_init__(self, chance: Callable[[], int]) -> None:
        self.router = make_router(self.type, self.arguments, chance)
        self.alternate = self.wanted_alternate()
        self.per_message = self.router.per_message
        self.routes.spread_keys = self.router.spread_keys

    def wanted_alternate(self) -> str | None:
        """What its arguments and policies say; the argument has the last word."""
        alternate = self.arguments.get(ALTERNATE_ARGUMENT)
        if alternate is None:
            alternate = self.governed.definition.get(ALTERNATE_ARGUMENT)
        return alternate if isinstance(alternate, str) else None

    @property
    def delaying(self) -> bool:
        """Whether it keeps messages with x-delay until they are due."""
        return self.type == DELAYED_MESSAGE

    @property
    def asks(self) -> bool:
        """Whether it must be asked for every message, wherever its bindings lead."""
        return self.router.per_message or self.deleted

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


def with_all_above(exchanges: Iterable[ExchangeState]) -> dict[ExchangeState, None]:
    """Returns the exchanges and all that messages can come from to them."""
    found = dict.fromkeys(exchanges)
    pending = list(found)
    while pending:
        for above in pending.pop().above:
            if above not in found:
                found[above] = None
                pending.append(above)
    return found


def forget_routes(changed: Iterable[ExchangeState], key: str | None = None) -> None:
    """Tells the caches of these exchanges and of all above to drop one key, or everything."""
    for exchange in with_all_above(changed):
        if key is None:
            exchange.routes.forget()
        else:
            exchange.routes.forget_key(key)


def link(above: ExchangeState, below: ExchangeState) -> None:
    """Adds one way for messages from an exchange to another."""
    ways = above.below.get(below, 0)
    above.below[below] = below.above[above] = ways + 1
    if not ways and (below.per_message or below.delaying):
        mark([above])


def unlink(above: ExchangeState, below: ExchangeState) -> None:
    """Takes one way away; `_unmark` is left to the caller, who may have more of them."""
    ways = above.below[below] - 1
    if ways:
        above.below[below] = below.above[above] = ways
    else:
        del above.below[below], below.above[above]


def mark(exchanges: Iterable[ExchangeState]) -> None:
    """Notes that these exchanges, and so all above, lead to an exchange that must be asked."""
    pending = list(exchanges)
    while pending:
        exchange = pending.pop()
        if not exchange.per_message:
            _set_per_message(exchange, True)
            pending.extend(exchange.above)


def look_again(exchange: ExchangeState) -> None:
    """Finds out whether an exchange whose own bindings have changed must be asked."""
    if exchange.asks:
        mark([exchange])
    elif exchange.per_message:
        unmark([exchange])


def unmark(exchanges: Iterable[ExchangeState]) -> None:
    """Looks again at exchanges that have lost a way down, and at all above."""
    doubtful = [
        exchange
        for exchange in with_all_above(exchanges)
        if exchange.per_message and not exchange.asks
    ]
    # All are cleared before one is marked again, else two in a cycle would keep each other marked.
    for exchange in doubtful:
        _set_per_message(exchange, False)
    for exchange in doubtful:
        if any(below.per_message or below.delaying for below in exchange.below):
            mark([exchange])


def _set_per_message(exchange: ExchangeState, per_message: bool) -> None:
    exchange.per_message = per_message
    exchange.routes.cacheable = not per_message
    exchange.routes.forget()
