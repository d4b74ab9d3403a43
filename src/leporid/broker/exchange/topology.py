"""Exchanges, queues and bindings of one virtual host as a graph, and where a message goes in it.

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

A route is found in steps, as a client chooses how many exchanges, keys and bindings there are. What
changes between two steps is taken into account or not; a binding that is gone is not followed.

Invariant: after every change, each cache that keeps routes which may differ has been told: the
exchange's own, and those above that a cached way leads to (`cached_ways`).
"""

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Final, NamedTuple

from leporid.broker.exchange.cached_ways import FORGOTTEN_ONE_BY_ONE_MAX, CachedWays
from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE, ExchangeState, link, unlink
from leporid.broker.exchange.types import Binding, RoutedMessage
from leporid.broker.filter.filter_arguments import MessageFilter
from leporid.broker.memory import binding_bytes
from leporid.broker.registry import StepsTo
from leporid.engine.bounds.accounts import Account
from leporid.engine.bounds.clock import Clock
from leporid.engine.bounds.sharded_dict import ShardedDict
from leporid.engine.selectors.filter import Conjunction, Filter

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

BINDINGS_A_STEP: Final = 256
"""Of those that a message meets; each takes a third of a microsecond."""

EXCHANGE_COST: Final = 64
"""What an exchange takes for a routing key, in bindings; with several keys it has steps itself."""


class _Search:
    """A search for what a message comes to, as far as it has come.

    Attributes:
        queues: Names of queues that the message goes to.
        filtered: Filters, and names of queues that it goes to if it passes them.
        visited: Exchanges that it has come to.
        pending: Those of them that are still to be visited.
        delaying: Those of them that keep the message for some time.
        work: What was done since the last step, in bindings.
    """

    __slots__ = ("delaying", "filtered", "pending", "queues", "visited", "work")

    def __init__(self, exchange: ExchangeState) -> None:
        self.queues: dict[str, None] = {}
        self.filtered: list[tuple[Filter, str]] = []
        self.visited = {exchange: None}
        self.pending = [exchange]
        self.delaying: list[ExchangeState] = []
        self.work = 0

    def fills_step(self, work: int) -> bool:
        """Count work that was done; say whether it is enough for one step."""
        self.work += work
        if self.work <= BINDINGS_A_STEP:
            return False
        self.work = 0
        return True


class Topology:
    """The exchanges, the names of the queues, and the bindings of one virtual host.

    Names that are passed in must exist (or, for `add_…`, must not): the caller has looked, and
    has said so in RabbitMQ's words where not. A `KeyError` is therefore a defect.

    Attributes:
        exchanges: All exchanges by name, for reading; the default exchange is one of them.
        binding_count: How many bindings there are.
        cached_as: Gives what caches have for the name of a queue, if there are such caches.
        clock: Says when filters have been asked for long enough.
        changes: How often a binding, an exchange or a queue has come or gone.
        ways: Which exchanges cached routes lead through.
    """

    def __init__(self) -> None:
        self.exchanges: ShardedDict[str, ExchangeState] = ShardedDict()
        self.binding_count = 0
        self.cached_as: Callable[[str], object] | None = None
        self.clock = Clock()
        self.changes = 0
        self.ways = CachedWays()
        self._queues: ShardedDict[str, ShardedDict[Binding, None]] = ShardedDict()

    # ------------------------------------------------------------------ exchanges and queues

    def add_exchange(self, exchange: ExchangeState) -> None:
        """Adds an exchange, which is from now on the alternate of those that name it so."""
        assert exchange.name not in self.exchanges
        self.exchanges[exchange.name] = exchange
        self.ways.forget_above(exchange.name)

    def remove_exchange(self, name: str) -> Iterator[Binding]:
        """Removes an exchange, and one by one the bindings from it and to it, which it yields.

        Nobody may publish to it from the first one on. Meanwhile those above keep no routes through
        it, as these change with each binding.
        """
        exchange = self.exchanges[name]
        exchange.deleted = True
        exchange.routes.retire()
        self.ways.forget_above(exchange.name)
        for binding in chain(exchange.outgoing, exchange.incoming):
            source = self.exchanges.get(binding.source)
            if source is None or binding not in source.outgoing:
                continue
            self._detach(binding)
            if not source.deleted:
                self._forget_binding(binding)
            yield binding
        self.ways.forget_above(exchange.name)
        self.ways.end(exchange)
        del self.exchanges[name]
        self.changes += 1

    def set_alternate(self, exchange: ExchangeState, name: str | None) -> None:
        """Gives an exchange another alternate exchange, or none."""
        if name == exchange.alternate:
            return
        self.ways.forget(exchange)
        if exchange.alternate is not None:
            self.ways.drop(exchange, exchange.alternate)
        exchange.alternate = name
        exchange.look_at_keys()

    def add_queue(self, name: str) -> None:
        """Adds a queue, which the default exchange routes to from now on."""
        assert name not in self._queues
        self._queues[name] = ShardedDict()
        self._forget_queue(name)

    def bindings_to(self, name: str) -> Collection[Binding]:
        """Returns the bindings that lead to a queue, for reading; none without such a queue."""
        return self._queues.get(name) or ()

    def remove_queue(self, name: str) -> Iterator[Binding]:
        """Removes a queue, and one by one the bindings that lead to it, which it yields."""
        for binding in self._queues[name]:
            if self.unbind(binding):
                yield binding
        del self._queues[name]
        self.changes += 1
        self._forget_queue(name)

    def forget_routes_to(self, name: str) -> None:
        """Tells all caches concerned that a queue has become another to publishers.

        All caches are told if that is less than the queue's bindings.
        """
        bindings = self._queues[name]
        if len(bindings) > max(len(self.exchanges), FORGOTTEN_ONE_BY_ONE_MAX):
            for exchange in self.exchanges.values():
                exchange.routes.forget()
        else:
            for binding in bindings:
                self._forget_binding(binding)
        self._forget_queue(name)

    # ------------------------------------------------------------------ bindings

    def bind(
        self,
        binding: Binding,
        wanted: MessageFilter | None = None,
        verdict_queue: str | None = None,
        account: Account | None = None,
    ) -> bool:
        """Adds a binding; returns whether it is new.

        Args:
            binding: What is bound to what, and how.
            wanted: The filter that its arguments ask for.
            verdict_queue: The name of the queue that its messages wait in for a filter class.
            account: Is charged for it as long as it is there; None: nobody is.

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
        exchange.outgoing[binding] = account
        if account is not None:
            account.add(binding_bytes(binding))
        self.binding_count += 1
        self.changes += 1
        exchange.router.add(binding)
        if verdict_queue is not None:
            exchange.verdict_queues[binding] = verdict_queue
        asked = _together(exchange.router.condition(binding), wanted)
        if asked is not None:
            exchange.filters.add(binding, asked)
        self._tell_filtered(binding, asked, verdict_queue, comes=True)
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
        account = exchange.outgoing.pop(binding)
        if account is not None:
            account.release(binding_bytes(binding))
        self.binding_count -= 1
        self.changes += 1
        exchange.verdict_queues.pop(binding, None)
        exchange.filters.remove(binding)
        if binding.destination_kind == "queue":
            del self._queues[binding.destination][binding]
        else:
            below = self.exchanges[binding.destination]
            del below.incoming[binding]
            if unlink(exchange, below):
                self.ways.drop(exchange, below.name)

    # ------------------------------------------------------------------ routing

    def resolving(self, exchange: ExchangeState, message: RoutedMessage) -> StepsTo[Reached]:
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
        keys, router = message.keys, exchange.router
        if len(keys) > BINDINGS_A_STEP:
            return self._resolving_many(exchange, message)
        for key in keys:
            router.check_published(key)
        return self.reaching(exchange, message)

    def _resolving_many(self, exchange: ExchangeState, message: RoutedMessage) -> StepsTo[Reached]:
        """The same for a message with so many keys that they are checked in steps."""
        keys, router = message.keys, exchange.router
        for at in range(0, len(keys), BINDINGS_A_STEP):
            for key in keys[at : at + BINDINGS_A_STEP]:
                router.check_published(key)
            yield None
        return (yield from self.reaching(exchange, message))

    def reaching(self, exchange: ExchangeState, message: RoutedMessage) -> StepsTo[Reached]:
        """Returns what a message comes to that comes to an exchange, published to it or not.

        What that exchange itself does about a delay was decided before.
        """
        if exchange.name == DEFAULT_EXCHANGE:
            return Reached([key for key in message.keys if key in self._queues], [], [], [])
        keepers: list[str] = []
        search = _Search(exchange)
        while search.pending:
            visiting = search.pending.pop()
            if not message.known:
                if visiting.asks_beside(exchange):
                    return BY_MESSAGE
                if visiting.decides:
                    return (yield from self._deciding(exchange, message))
            router = visiting.router
            if (router.history_length or router.cache_size) and router.keeps(message):
                keepers.append(visiting.name)
            names = yield from self._visiting(search, visiting, message)
            if names and not (yield from self._following(search, visiting, names, message)):
                return BY_MESSAGE
            if search.fills_step(EXCHANGE_COST * min(len(message.keys), 4)):
                yield None
        sometimes = [each for each in search.filtered if each[1] not in search.queues]
        return Reached(list(search.queues), sometimes, keepers, search.delaying)

    def _visiting(
        self, search: _Search, exchange: ExchangeState, message: RoutedMessage
    ) -> StepsTo[list[str]]:
        """Adds the queues that one exchange routes to; returns the exchanges to visit next."""
        exchanges: list[str] = []
        changes = self.changes
        bound = exchange.outgoing
        met = [*(yield from exchange.router.matching(message))]
        if changes != self.changes:
            met = yield from _still_bound(met, exchange)
        if exchange.filters and message.known:
            met = yield from exchange.filters.met(met, message, self.clock, bound)
        elif exchange.filters:
            assert not exchange.decides
            met, some = yield from exchange.filters.splitting(met, bound)
            goals = exchange.verdict_queues
            search.filtered += [
                (wanted, goals.get(each, each.destination)) for each, wanted in some
            ]
        ways = met
        routed = bool(ways)
        for at in range(0, len(ways), BINDINGS_A_STEP):
            if at:
                yield None
            part = ways[at : at + BINDINGS_A_STEP]
            if changes != self.changes:
                part = [binding for binding in part if binding in exchange.outgoing]
            for binding in part:
                goal = exchange.verdict_queues.get(binding, binding.destination)
                if binding.destination_kind == "queue" or binding in exchange.verdict_queues:
                    search.queues[goal] = None
                else:
                    exchanges.append(goal)
        search.work += len(ways)
        if not routed and exchange.alternate is not None:
            exchanges.append(exchange.alternate)
        return exchanges

    def _following(
        self,
        search: _Search,
        visiting: ExchangeState,
        names: list[str],
        message: RoutedMessage,
    ) -> StepsTo[bool]:
        """Adds exchanges to those to visit; False if the message must be resolved by itself."""
        for name in names:
            if search.fills_step(1):
                yield None
            reached = self.exchanges.get(name)
            if not message.known and not visiting.deleted:
                self.ways.add(visiting, name)
            if reached is None:
                continue
            if not message.known and reached.delaying:
                return False
            if reached not in search.visited:
                search.visited[reached] = None
                if reached.delaying and message.delay_ms:
                    search.delaying.append(reached)
                else:
                    search.pending.append(reached)
        return True

    def _deciding(self, exchange: ExchangeState, message: RoutedMessage) -> StepsTo[Reached]:
        """Returns all filters that may matter to messages with these keys, wherever they come."""
        filters: list[Filter] = []
        search = _Search(exchange)
        while search.pending:
            visiting = search.pending.pop()
            if visiting.asks_beside(exchange):
                return BY_MESSAGE
            met = yield from visiting.router.matching(message)
            without, some = yield from visiting.filters.splitting(met, visiting.outgoing)
            filters += [wanted for _, wanted in some]
            ways = [*without, *(binding for binding, _ in some)]
            names = [
                way.destination
                for way in ways
                if way.destination_kind == "exchange" and way not in visiting.verdict_queues
            ]
            if not without and visiting.alternate is not None:
                names.append(visiting.alternate)
            if names and not (yield from self._following(search, visiting, names, message)):
                return BY_MESSAGE
            if search.fills_step(EXCHANGE_COST * min(len(message.keys), 4)):
                yield None
        return Reached([], [], [], [], filters)

    # ------------------------------------------------------------------ caches

    def _forget_binding(self, binding: Binding) -> None:
        """Tells all caches concerned that this binding came or went."""
        exchange = self.exchanges[binding.source]
        self.ways.forget(exchange, exchange.router.only_key(binding.key))

    def _tell_filtered(
        self,
        binding: Binding,
        wanted: Filter | None,
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
        # With an exchange below, a filter may decide more than whether its queue gets a message.
        alone = to_queue and not exchange.leads_on
        if wanted is None or meets is None or not alone or self.cached_as is None:
            self._forget_binding(binding)
            return
        queue = self.cached_as(verdict_queue or binding.destination)
        exchange.routes.amend(meets, wanted, queue, comes)
        self.ways.forget_above(exchange.name)

    def _forget_queue(self, name: str) -> None:
        """Tells the default exchange's cache; nothing above it routes by queue name."""
        default = self.exchanges.get(DEFAULT_EXCHANGE)
        if default is not None:
            default.routes.forget_key(name)


def _together(condition: Filter | None, wanted: MessageFilter | None) -> Filter | None:
    """Returns what lets those messages pass that both let pass; None: all."""
    if condition is None or wanted is None:
        return condition if wanted is None else wanted.engine
    return Conjunction(condition, wanted.engine)


def _still_bound(met: list[Binding], exchange: ExchangeState) -> StepsTo[list[Binding]]:
    """Returns those that are bindings of an exchange still."""
    found: list[Binding] = []
    for at in range(0, len(met), BINDINGS_A_STEP):
        if at:
            yield None
        found += [each for each in met[at : at + BINDINGS_A_STEP] if each in exchange.outgoing]
    return found
