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
exchange does, the cache keeps what came of it, by the filters that a message passed. Where a
message comes to an exchange that must be asked for every message, the cache keeps that.

Invariant: after every change, each cache that keeps routes which may differ has been told: the
exchange's own, and those above that a cached way leads to (`broker.exchange`).
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from leporid.broker.exchange.exchange import (
    ExchangeState,
    forget_routes,
    forget_routes_above,
    link,
    unlink,
)
from leporid.broker.exchange.types import Binding, RoutedMessage
from leporid.broker.filter.filter_arguments import MessageFilter
from leporid.engine.selectors.filter import Filter

DEFAULT_EXCHANGE: Final = ""

PREDECLARED: Final = (
    (DEFAULT_EXCHANGE, "direct"),
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
)
"""Exchanges that are in every virtual host, and their types."""


class Reached(NamedTuple):
    """What a message comes to.

    Attributes:
        queues: Names of the queues that it goes to, each once.
        filtered: Filters, and names of queues that it goes to if it passes them; none of these is
            among `queues`. Only where the message's properties are not known.
        keepers: Names of the exchanges that keep or remember it.
        delaying: Exchanges further down that keep it for some time before they route it.
        deciding: Filters that must be asked first: nothing of the rest is known. None: there are no
            such, or the message's properties are known.
        by_message: Whether each message with these keys must be resolved by itself: nothing of the
            rest is known. Only where the message's properties are not known.
    """

    queues: list[str]
    filtered: list[tuple[Filter, str]]
    keepers: list[str]
    delaying: list[ExchangeState]
    deciding: list[Filter] | None = None
    by_message: bool = False


BY_MESSAGE: Final = Reached([], [], [], [], by_message=True)


class Topology:
    """The exchanges, the names of the queues, and the bindings of one virtual host.

    Names that are passed in must exist (or, for `add_…`, must not): the caller has looked, and
    has said so in RabbitMQ's words where not. A `KeyError` is therefore a defect.

    Attributes:
        exchanges: All exchanges by name, for reading; the default exchange is one of them.
        binding_count: How many bindings there are.
        cached_as: Gives what caches have for the name of a queue, if there are such caches.
    """

    def __init__(self) -> None:
        self.exchanges: dict[str, ExchangeState] = {}
        self.binding_count = 0
        self.cached_as: Callable[[str], object] | None = None
        self._queues: dict[str, dict[Binding, None]] = {}
        # Who names an exchange as its alternate, whether or not that exchange is there.
        self._alternate_of: dict[str, dict[ExchangeState, None]] = {}

    # ------------------------------------------------------------------ exchanges and queues

    def add_exchange(self, exchange: ExchangeState) -> None:
        """Adds an exchange, which is from now on the alternate of those that name it so."""
        assert exchange.name not in self.exchanges
        self.exchanges[exchange.name] = exchange
        for above in self._alternate_of.get(exchange.name, ()):
            link(above, exchange)
            forget_routes(above)
        self._link_alternate(exchange)

    def remove_exchange(self, name: str) -> Iterator[Binding]:
        """Removes an exchange, and one by one the bindings from it and to it, which it yields.

        Nobody may publish to it from the first one on. Meanwhile those above keep no routes through
        it, as these change with each binding.
        """
        exchange = self.exchanges[name]
        exchange.deleted = True
        exchange.routes.retire()
        forget_routes_above(exchange)
        for binding in (*exchange.outgoing, *exchange.incoming):
            source = self.exchanges.get(binding.source)
            if source is None or binding not in source.outgoing:
                continue
            self._detach(binding)
            if not source.deleted:
                self._forget_binding(binding)
            yield binding
        forget_routes_above(exchange)
        self._forget_alternate(exchange)
        # The links that are left are those of alternate exchanges.
        for below in list(exchange.below):
            unlink(exchange, below)
        for above in list(exchange.above):
            unlink(above, exchange)
        del self.exchanges[name]

    def set_alternate(self, exchange: ExchangeState, name: str | None) -> None:
        """Gives an exchange another alternate exchange, or none."""
        if name == exchange.alternate:
            return
        before = None if exchange.alternate is None else self.exchanges.get(exchange.alternate)
        self._forget_alternate(exchange)
        exchange.alternate = name
        self._link_alternate(exchange)
        if before is not None:
            unlink(exchange, before)
        forget_routes(exchange)

    def _link_alternate(self, exchange: ExchangeState) -> None:
        if exchange.alternate is not None:
            self._alternate_of.setdefault(exchange.alternate, {})[exchange] = None
            alternate = self.exchanges.get(exchange.alternate)
            if alternate is not None:
                link(exchange, alternate)

    def _forget_alternate(self, exchange: ExchangeState) -> None:
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

    def remove_queue(self, name: str) -> Iterator[Binding]:
        """Removes a queue, and one by one the bindings that lead to it, which it yields."""
        for binding in list(self._queues[name]):
            if self.unbind(binding):
                yield binding
        del self._queues[name]
        self._forget_queue(name)

    def forget_routes_to(self, name: str) -> None:
        """Tells all caches concerned that a queue has become another to publishers."""
        for binding in self._queues[name]:
            self._forget_binding(binding)
        self._forget_queue(name)

    # ------------------------------------------------------------------ bindings

    def bind(
        self,
        binding: Binding,
        wanted: MessageFilter | None = None,
        verdict_queue: str | None = None,
    ) -> bool:
        """Adds a binding; returns whether it is new.

        Args:
            binding: What is bound to what, and how.
            wanted: The filter that its arguments ask for.
            verdict_queue: The name of the queue that its messages wait in for a filter class.

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
            link(exchange, below)
        exchange.outgoing[binding] = None
        self.binding_count += 1
        exchange.router.add(binding)
        if verdict_queue is not None:
            exchange.verdict_queues[binding] = verdict_queue
        if wanted is not None:
            exchange.filters.add(binding, wanted)
        self._tell_filtered(binding, wanted, verdict_queue, comes=True)
        return True

    def unbind(self, binding: Binding) -> bool:
        """Removes a binding; returns whether it was there."""
        exchange = self.exchanges[binding.source]
        if binding not in exchange.outgoing:
            return False
        wanted, verdict_queue = exchange.filters.of(binding), exchange.verdict_queues.get(binding)
        self._detach(binding)
        self._tell_filtered(binding, wanted, verdict_queue, comes=False)
        return True

    def _detach(self, binding: Binding) -> None:
        """Takes a binding out of all that holds it. Caches are left to the caller."""
        exchange = self.exchanges[binding.source]
        exchange.router.remove(binding)
        del exchange.outgoing[binding]
        self.binding_count -= 1
        exchange.verdict_queues.pop(binding, None)
        exchange.filters.remove(binding)
        if binding.destination_kind == "queue":
            del self._queues[binding.destination][binding]
        else:
            below = self.exchanges[binding.destination]
            del below.incoming[binding]
            unlink(exchange, below)

    # ------------------------------------------------------------------ routing

    def resolve(self, exchange: ExchangeState, message: RoutedMessage) -> Reached:
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

    def reach(self, exchange: ExchangeState, message: RoutedMessage) -> Reached:
        """Returns what a message comes to that comes to an exchange, published to it or not.

        What that exchange itself does about a delay was decided before.
        """
        if exchange.name == DEFAULT_EXCHANGE:
            return Reached([key for key in message.keys if key in self._queues], [], [], [])
        queues: dict[str, None] = {}
        filtered: list[tuple[Filter, str]] = []
        delaying: list[ExchangeState] = []
        keepers: list[str] = []
        visited = {exchange: None}
        pending = [exchange]
        while pending:
            visiting = pending.pop()
            if not message.known and (visiting.asks or visiting.decides):
                return BY_MESSAGE if visiting.asks else self._decided(exchange, message)
            router = visiting.router
            if (router.history_length or router.cache_size) and router.keeps(message):
                keepers.append(visiting.name)
            for below in _visit(visiting, message, queues, filtered):
                reached = self.exchanges.get(below)
                if reached is None:
                    continue
                if not message.known:
                    reached.cached_ways[visiting] = None
                    if reached.delaying:
                        return BY_MESSAGE
                if reached not in visited:
                    visited[reached] = None
                    if reached.delaying and message.delay_ms:
                        delaying.append(reached)
                    else:
                        pending.append(reached)
        sometimes = [(wanted, name) for wanted, name in filtered if name not in queues]
        return Reached(list(queues), sometimes, keepers, delaying)

    def _decided(self, exchange: ExchangeState, message: RoutedMessage) -> Reached:
        """Returns all filters that may matter to messages with these keys, wherever they come."""
        filters: list[Filter] = []
        visited = {exchange: None}
        pending = [exchange]
        while pending:
            visiting = pending.pop()
            if visiting.asks:
                return BY_MESSAGE
            without, some = visiting.filters.split(visiting.router.match(message))
            filters += [wanted.engine for _, wanted in some]
            ways = [*without, *(binding for binding, _ in some)]
            names = [
                way.destination
                for way in ways
                if way.destination_kind == "exchange" and way not in visiting.verdict_queues
            ]
            if not without and visiting.alternate is not None:
                names.append(visiting.alternate)
            for name in names:
                below = self.exchanges.get(name)
                if below is None:
                    continue
                below.cached_ways[visiting] = None
                if below.delaying:
                    return BY_MESSAGE
                if below not in visited:
                    visited[below] = None
                    pending.append(below)
        return Reached([], [], [], [], filters)

    # ------------------------------------------------------------------ caches

    def _forget_binding(self, binding: Binding) -> None:
        """Tells all caches concerned that this binding came or went."""
        exchange = self.exchanges[binding.source]
        forget_routes(exchange, exchange.router.only_key(binding.key))

    def _tell_filtered(
        self,
        binding: Binding,
        wanted: MessageFilter | None,
        verdict_queue: str | None,
        *,
        comes: bool,
    ) -> None:
        """Tells all caches concerned that this binding came or went.

        One with a filter, of which there may be thousands, does not make the exchange's own cache
        forget routes: making one anew costs as much as there are filters.
        """
        exchange = self.exchanges[binding.source]
        to_queue = binding.destination_kind == "queue" or verdict_queue is not None
        meets = None if wanted is None else exchange.router.keys_of(binding)
        if wanted is None or meets is None or not to_queue or self.cached_as is None:
            self._forget_binding(binding)
            return
        queue = self.cached_as(verdict_queue or binding.destination)
        exchange.routes.amend(meets, wanted.engine, queue, comes)
        forget_routes_above(exchange)

    def _forget_queue(self, name: str) -> None:
        """Tells the default exchange's cache; nothing above it routes by queue name."""
        default = self.exchanges.get(DEFAULT_EXCHANGE)
        if default is not None:
            default.routes.forget_key(name)


def _visit(
    exchange: ExchangeState,
    message: RoutedMessage,
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
        assert not exchange.decides
        met, some = exchange.filters.split(met)
        goals = exchange.verdict_queues
        filtered += [(wanted.engine, goals.get(one, one.destination)) for one, wanted in some]
    for binding in met:
        goal = exchange.verdict_queues.get(binding, binding.destination)
        routed = True
        if binding.destination_kind == "queue" or binding in exchange.verdict_queues:
            queues[goal] = None
        else:
            exchanges.append(goal)
    if not routed and exchange.alternate is not None:
        exchanges.append(exchange.alternate)
    return exchanges
