"""How the exchanges and queues of one virtual host hang together, and where a message goes.

Responsible for bindings, for routing through exchange-to-exchange bindings and alternate
exchanges, and for telling the engine's route caches when they are out of date. Must not know
who may do what, what is durable, or when something is deleted by itself; `broker.vhost` does.

Routing is RabbitMQ's (`rabbit_exchange:route`): each exchange is visited at most once, so cycles
do no harm. An exchange whose own bindings meet nothing, not even another exchange, hands the
message to its alternate exchange, if there is one; what an exchange further down does not find is
that exchange's affair. The default exchange routes by queue name, but only for what is published
to it: as an alternate exchange it routes nothing.

A binding with a filter is met by the messages that pass it. Where that decides only whether a queue
gets a message, the cache keeps the filter with the route; where it decides more, whether another
exchange does, the exchange is asked for every message.

The words used below: an exchange is *above* another if messages can come from it, through a
binding or because the other is its alternate exchange.

Invariant: after every change, each cache whose routes may differ has been told (the exchange's
own and those of all exchanges above it), and a cache may keep routes (`cacheable`) exactly if no
exchange can be reached from its exchange that must be asked for every message, and none further
down that may keep a message for some time: whoever publishes to that one directly has looked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Final, NamedTuple, Protocol

from leporid.amqp.tables import Value
from leporid.broker.exchanges import DELAYED_MESSAGE, Binding, Message, Router, make_router
from leporid.broker.exchanges.filtering import BindingFilters
from leporid.broker.filters import MessageFilter
from leporid.broker.policies import NOT_GOVERNED, Governed
from leporid.engine.filter import Filter

DEFAULT_EXCHANGE: Final = ""
ALTERNATE_ARGUMENT: Final = "alternate-exchange"

PREDECLARED: Final = (
    (DEFAULT_EXCHANGE, "direct"),
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
)
"""Exchanges that are in every virtual host, and their types."""


class SourcePort(Protocol):
    """What is needed of the engine's route cache for one exchange."""

    cacheable: bool
    """False: routes depend on more than the routing key, so ask for every message."""

    make_delays: Callable[[], object] | None
    """Asked for what waits in the exchange when the first message is to wait."""

    delaying: bool
    """Whether x-delay counts here, and not only x-deliver-at."""

    check_key: Callable[[str], None] | None
    """Raises a fault for a key that may not be published with; None: there is no such."""

    def forget(self) -> None:
        """Drops all routes."""

    def forget_key(self, key: str, /) -> None:
        """Drops the route of one key."""

    def retire(self) -> None:
        """The exchange is gone."""


@dataclass(eq=False, slots=True)
class Exchange:
    """One exchange of a virtual host. Making it raises what `make_router` raises.

    Attributes:
        name: Its name; empty for the default exchange.
        type: One of `EXCHANGE_TYPES`.
        durable: Whether it survives a restart.
        auto_delete: Whether it goes with the last binding that leads from it.
        internal: Whether clients may not publish to it.
        arguments: The table it was declared with.
        source: The engine's cache of its routes.
        chance: Gives a random number of 64 bits; for making it only.
        router: Its bindings, arranged for its type.
        governed: Its policies.
        alternate: Name of the exchange that gets what its own bindings do not meet, if any.
        outgoing: The bindings that lead from it.
        incoming: The bindings that lead to it, from other exchanges or itself.
        above: The exchanges that messages can come from, and by how many ways.
        below: The exchanges that messages can go to, and by how many ways.
        filters: Those of its outgoing bindings.
        staged: Where messages wait for filter classes, for those of its bindings that ask one.
        per_message: Whether it is, or leads to, an exchange that must be asked for every message.
    """

    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, Value]
    source: SourcePort = field(repr=False)
    governed: Governed = NOT_GOVERNED
    chance: InitVar[Callable[[], int]] = int
    router: Router = field(init=False, repr=False)
    alternate: str | None = field(init=False)
    outgoing: dict[Binding, None] = field(init=False, repr=False, default_factory=dict)
    incoming: dict[Binding, None] = field(init=False, repr=False, default_factory=dict)
    above: "dict[Exchange, int]" = field(init=False, repr=False, default_factory=dict)
    below: "dict[Exchange, int]" = field(init=False, repr=False, default_factory=dict)
    filters: BindingFilters = field(init=False, repr=False, default_factory=BindingFilters)
    staged: dict[Binding, str] = field(init=False, repr=False, default_factory=dict)
    per_message: bool = field(init=False)

    def __post_init__(self, chance: Callable[[], int]) -> None:
        self.router = make_router(self.type, self.arguments, chance)
        self.alternate = self.wanted_alternate()
        self.per_message = self.router.per_message

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
        """Whether it must be asked for every message, wherever its bindings lead.

        A message that passes no filter goes to the alternate exchange: that is no route of a key.
        """
        decided_late = self.alternate is not None and bool(self.filters)
        return self.router.per_message or self.filters.ways > 0 or decided_late

    @property
    def in_use(self) -> bool:
        """Whether a binding leads from it: what `if-unused` and auto-delete ask."""
        return bool(self.outgoing)


class Reached(NamedTuple):
    """What a message comes to.

    Attributes:
        queues: Names of the queues that it goes to, each once.
        filtered: Filters, and names of queues that it goes to if it passes them; none of these is
            among `queues`. Only where the message's properties are not known.
        keepers: Names of the exchanges that keep or remember it.
        delaying: Exchanges further down that keep it for some time before they route it.
    """

    queues: list[str]
    filtered: list[tuple[Filter, str]]
    keepers: list[str]
    delaying: list[Exchange]


class Topology:
    """The exchanges, the names of the queues, and the bindings of one virtual host.

    Names that are passed in must exist (or, for `add_…`, must not): the caller has looked, and
    has said so in RabbitMQ's words where not. A `KeyError` is therefore a defect.

    Attributes:
        exchanges: All exchanges by name, for reading; the default exchange is one of them.
    """

    def __init__(self) -> None:
        self.exchanges: dict[str, Exchange] = {}
        self._queues: dict[str, dict[Binding, None]] = {}
        # Who names an exchange as its alternate, whether or not that exchange is there.
        self._alternate_of: dict[str, dict[Exchange, None]] = {}

    # ------------------------------------------------------------------ exchanges and queues

    def add_exchange(self, exchange: Exchange) -> None:
        """Adds an exchange, which is from now on the alternate of those that name it so."""
        assert exchange.name not in self.exchanges
        self.exchanges[exchange.name] = exchange
        exchange.source.cacheable = not exchange.per_message
        for above in self._alternate_of.get(exchange.name, ()):
            _link(above, exchange)
        self._link_alternate(exchange)
        _forget([exchange])

    def remove_exchange(self, name: str) -> list[Binding]:
        """Removes an exchange and the bindings that lead from it and to it, which it returns."""
        exchange = self.exchanges[name]
        _forget([exchange])  # Now, as those above are soon no longer known.
        feeders = [above for above in exchange.above if above is not exchange]
        removed = list(exchange.outgoing | exchange.incoming)
        for binding in removed:
            self._detach(binding)
        self._forget_alternate(exchange)
        # The links that are left are those of alternate exchanges.
        for below in list(exchange.below):
            _unlink(exchange, below)
        for above in list(exchange.above):
            _unlink(above, exchange)
        _unmark(feeders)
        del self.exchanges[name]
        exchange.source.retire()
        return removed

    def set_alternate(self, exchange: Exchange, name: str | None) -> None:
        """Gives an exchange another alternate exchange, or none."""
        if name == exchange.alternate:
            return
        before = None if exchange.alternate is None else self.exchanges.get(exchange.alternate)
        self._forget_alternate(exchange)
        exchange.alternate = name
        self._link_alternate(exchange)
        if before is not None:
            _unlink(exchange, before)
        _look_again(exchange)
        _forget([exchange])

    def _link_alternate(self, exchange: Exchange) -> None:
        if exchange.alternate is not None:
            self._alternate_of.setdefault(exchange.alternate, {})[exchange] = None
            alternate = self.exchanges.get(exchange.alternate)
            if alternate is not None:
                _link(exchange, alternate)

    def _forget_alternate(self, exchange: Exchange) -> None:
        if exchange.alternate is not None:
            namers = self._alternate_of[exchange.alternate]
            del namers[exchange]
            if not namers:
                del self._alternate_of[exchange.alternate]

    def add_queue(self, name: str) -> None:
        """Adds a queue, which the default exchange routes to from now on."""
        assert name not in self._queues
        self._queues[name] = {}
        self._forget_queue(name)

    def remove_queue(self, name: str) -> list[Binding]:
        """Removes a queue and the bindings that lead to it, which it returns."""
        removed = list(self._queues[name])
        for binding in removed:
            self._detach(binding)
        for source in {each.source: None for each in removed}:
            _look_again(self.exchanges[source])
        self._forget_bindings(removed)
        del self._queues[name]
        self._forget_queue(name)
        return removed

    def forget_routes_to(self, name: str) -> None:
        """Tells all caches concerned that a queue has become another to publishers."""
        self._forget_bindings(list(self._queues[name]))
        self._forget_queue(name)

    def bindings_to_queue(self, name: str) -> Iterable[Binding]:
        """Returns the bindings that lead to a queue, oldest first."""
        return self._queues[name]

    # ------------------------------------------------------------------ bindings

    def bind(
        self, binding: Binding, wanted: MessageFilter | None = None, staged: str | None = None
    ) -> bool:
        """Adds a binding; returns whether it is new.

        Args:
            binding: What is bound to what, and how.
            wanted: The filter that its arguments ask for.
            staged: The name among queues that its messages go to instead, for a filter class.

        Raises:
            PreconditionFailed: The exchange takes no such binding.
        """
        exchange = self.exchanges[binding.source]
        exchange.router.validate(binding.key, binding.arguments)
        if binding in exchange.outgoing:
            return False
        if binding.destination_kind == "queue":
            self._queues[binding.destination][binding] = None
        else:
            below = self.exchanges[binding.destination]
            below.incoming[binding] = None
            _link(exchange, below)
        exchange.outgoing[binding] = None
        exchange.router.add(binding)
        if staged is not None:
            exchange.staged[binding] = staged
        if wanted is not None:
            exchange.filters.add(binding, wanted)
            _look_again(exchange)
        self._forget_bindings([binding])
        return True

    def unbind(self, binding: Binding) -> bool:
        """Removes a binding; returns whether it was there."""
        if binding not in self.exchanges[binding.source].outgoing:
            return False
        self._detach(binding)
        _look_again(self.exchanges[binding.source])
        self._forget_bindings([binding])
        return True

    def _detach(self, binding: Binding) -> None:
        """Takes a binding out of all that holds it. Caches and marks are left to the caller."""
        exchange = self.exchanges[binding.source]
        exchange.router.remove(binding)
        del exchange.outgoing[binding]
        exchange.staged.pop(binding, None)
        exchange.filters.remove(binding)
        if binding.destination_kind == "queue":
            del self._queues[binding.destination][binding]
        else:
            below = self.exchanges[binding.destination]
            del below.incoming[binding]
            _unlink(exchange, below)

    # ------------------------------------------------------------------ routing

    def resolve(self, exchange: Exchange, message: Message) -> Reached:
        """Returns what a message comes to that is published to an exchange.

        The order depends only on the order in which bindings were made, and on the message.

        Args:
            exchange: Where the message was published.
            message: Its keys; its properties may be missing unless the exchange is `per_message`.

        Raises:
            PreconditionFailed: The delay is too long, or the exchange has `x-strict-keys` and does
                not take a key. Only this exchange is asked for that, not those below: a publisher
                need not know them.
        """
        for key in message.keys:
            exchange.router.check_published(key)
        return self.reach(exchange, message)

    def reach(self, exchange: Exchange, message: Message) -> Reached:
        """Returns what a message comes to that comes to an exchange, published to it or not.

        What that exchange itself does about a delay was decided before.
        """
        if exchange.name == DEFAULT_EXCHANGE:
            return Reached([key for key in message.keys if key in self._queues], [], [], [])
        queues: dict[str, None] = {}
        filtered: list[tuple[Filter, str]] = []
        delaying: list[Exchange] = []
        keepers: list[str] = []
        visited = {exchange: None}
        pending = [exchange]
        while pending:
            visiting = pending.pop()
            router = visiting.router
            if (router.history_length or router.cache_size) and router.keeps(message):
                keepers.append(visiting.name)
            for below in _visit(visiting, message, queues, filtered):
                reached = self.exchanges.get(below)
                if reached is not None and reached not in visited:
                    visited[reached] = None
                    if reached.delaying and message.delay_ms:
                        delaying.append(reached)
                    else:
                        pending.append(reached)
        sometimes = [(wanted, name) for wanted, name in filtered if name not in queues]
        return Reached(list(queues), sometimes, keepers, delaying)

    # ------------------------------------------------------------------ caches

    def _forget_bindings(self, changed: Sequence[Binding]) -> None:
        """Tells all caches concerned that these bindings came or went."""
        exchanges = [self.exchanges[binding.source] for binding in changed]
        keys = {
            exchange.router.only_key(binding.key)
            for exchange, binding in zip(exchanges, changed, strict=True)
        }
        _forget(exchanges, keys.pop() if len(keys) == 1 else None)

    def _forget_queue(self, name: str) -> None:
        """Tells the default exchange's cache; nothing above it routes by queue name."""
        default = self.exchanges.get(DEFAULT_EXCHANGE)
        if default is not None:
            default.source.forget_key(name)


def _visit(
    exchange: Exchange,
    message: Message,
    queues: dict[str, None],
    filtered: list[tuple[Filter, str]],
) -> list[str]:
    """Adds the queues that one exchange routes to; returns the exchanges to visit next."""
    exchanges: list[str] = []
    routed = False
    met = exchange.router.match(message)
    if exchange.filters and message.known:
        met = exchange.filters.met(met, message)
    elif exchange.filters:
        assert not exchange.asks
        met, some = exchange.filters.split(met)
        goals = exchange.staged
        filtered += [(wanted.engine, goals.get(one, one.destination)) for one, wanted in some]
    for binding in met:
        goal = exchange.staged.get(binding, binding.destination)
        routed = True
        if binding.destination_kind == "queue" or binding in exchange.staged:
            queues[goal] = None
        else:
            exchanges.append(goal)
    if not routed and exchange.alternate is not None:
        exchanges.append(exchange.alternate)
    return exchanges


def _with_all_above(exchanges: Iterable[Exchange]) -> dict[Exchange, None]:
    """Returns the exchanges and all that messages can come from to them."""
    found = dict.fromkeys(exchanges)
    pending = list(found)
    while pending:
        for above in pending.pop().above:
            if above not in found:
                found[above] = None
                pending.append(above)
    return found


def _forget(changed: Iterable[Exchange], key: str | None = None) -> None:
    """Tells the caches of these exchanges and of all above to drop one key, or everything."""
    for exchange in _with_all_above(changed):
        if key is None:
            exchange.source.forget()
        else:
            exchange.source.forget_key(key)


def _link(above: Exchange, below: Exchange) -> None:
    ways = above.below.get(below, 0)
    above.below[below] = below.above[above] = ways + 1
    if not ways and (below.per_message or below.delaying):
        _mark([above])


def _unlink(above: Exchange, below: Exchange) -> None:
    """Takes one way away; `_unmark` is left to the caller, who may have more of them."""
    ways = above.below[below] - 1
    if ways:
        above.below[below] = below.above[above] = ways
    else:
        del above.below[below], below.above[above]


def _mark(exchanges: Iterable[Exchange]) -> None:
    """Notes that these exchanges, and so all above, lead to an exchange that must be asked."""
    pending = list(exchanges)
    while pending:
        exchange = pending.pop()
        if not exchange.per_message:
            _set_per_message(exchange, True)
            pending.extend(exchange.above)


def _look_again(exchange: Exchange) -> None:
    """Finds out whether an exchange whose own bindings have changed must be asked."""
    if exchange.asks:
        _mark([exchange])
    elif exchange.per_message:
        _unmark([exchange])


def _unmark(exchanges: Iterable[Exchange]) -> None:
    """Looks again at exchanges that have lost a way down, and at all above."""
    doubtful = [
        exchange
        for exchange in _with_all_above(exchanges)
        if exchange.per_message and not exchange.asks
    ]
    # All are cleared before one is marked again, else two in a cycle would keep each other marked.
    for exchange in doubtful:
        _set_per_message(exchange, False)
    for exchange in doubtful:
        if any(below.per_message or below.delaying for below in exchange.below):
            _mark([exchange])


def _set_per_message(exchange: Exchange, per_message: bool) -> None:
    exchange.per_message = per_message
    exchange.source.cacheable = not per_message
    exchange.source.forget()
