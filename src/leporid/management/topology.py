"""The topology of a virtual host over HTTP: exchanges, queues, and what leads from one to another.

Responsible for the route: which nodes are in an answer, and what is said of each. Edges are
bindings, and alternate and dead-letter exchanges as they are in force, policies included. Must not
know how it is drawn. Invariants: an answer has at most NODES_MAX nodes and EDGES_MAX bindings,
and says how many it left out; a turn looks at objects for a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from leporid.broker.access.permissions import DEFAULT_EXCHANGE_NAME
from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE
from leporid.broker.names import REPLY_PREFIX
from leporid.management import exchanges, queues
from leporid.management.admission import waited_for
from leporid.management.amqp_json import shown
from leporid.management.authorization import not_found, visitor
from leporid.management.bindings import default_binding, shown_binding
from leporid.management.listings import in_order
from leporid.management.paging import ABSENT, in_slices
from leporid.management.parameters import Parameters
from leporid.management.paths import takes
from leporid.management.refusals import bad

if TYPE_CHECKING:
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.types import Binding
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

NODES: Final = 1000
NODES_MAX: Final = 2000
EDGES_MAX: Final = 10_000
HOPS: Final = 2
HOPS_MAX: Final = 5
PARAMETERS: Final = ("around", "hops", "name", "limit")


class Node(NamedTuple):
    """An exchange or a queue, by its name."""

    kind: Literal["exchange", "queue"]
    name: str


class TopologyRoutes:
    """The handler.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    @takes(
        around={"type": "string", "description": "exchange:NAME or queue:NAME"},
        hops={"type": "integer", "maximum": HOPS_MAX},
        name={"type": "string"},
        limit={"type": "integer", "maximum": NODES_MAX},
    )
    async def show(self, request: Request) -> Response:
        """GET /api/topology/{vhost}: all of it, what is near one object, or what has a name."""
        user, vhost = await visitor(self._around, request)
        given = Parameters(request, PARAMETERS)
        limit = given.whole("limit", NODES, 1, NODES_MAX)
        hops = given.whole("hops", HOPS, 0, HOPS_MAX)
        start = _start(vhost, given.text("around"))
        name = given.text("name")
        if start is not None and name is not None:
            raise bad("name", "stands beside around; give one of them")
        count = vhost.queue_count + vhost.exchange_count
        share = self._around.admission.shares.list_items
        slot = await waited_for(share, user.name, max(1, count))
        try:
            graph = _Graph(vhost, limit)
            async for _ in in_slices(self._around, user, graph.look()):
                pass
            wanted = graph.near(start, hops) if start is not None else graph.named(name)
            async for _ in in_slices(self._around, user, wanted):
                pass
            return self._around.listing(user, self._value(graph), ended=slot.release)
        except BaseException:
            slot.release()
            raise

    def _value(self, graph: _Graph) -> dict[str, Any]:
        return {
            "exchanges": self._exchanges(graph),
            "queues": self._queues(graph),
            "bindings": graph.bindings(),
            "missing": graph.missing(),
            "left_out": graph.left_out,
        }

    def _exchanges(self, graph: _Graph) -> Iterator[dict[str, Any] | None]:
        for node in graph.nodes:
            found = graph.vhost.find_exchange(node.name) if node.kind == "exchange" else None
            yield None if found is None else _shown_exchange(self._around, found)

    def _queues(self, graph: _Graph) -> Iterator[dict[str, Any] | None]:
        for node in graph.nodes:
            found = graph.vhost.find_queue(node.name) if node.kind == "queue" else None
            yield None if found is None else _shown_queue(self._around, found)


class _Graph:
    """The nodes of one answer.

    Attributes:
        nodes: in the order in which they were found.
        left_out: how many more there would be.
    """

    def __init__(self, vhost: VirtualHost, limit: int) -> None:
        self.vhost = vhost
        self.nodes: dict[Node, None] = {}
        self.left_out = {"nodes": 0, "bindings": 0}
        self._limit = limit
        # Several edges may lead to the same one.
        self._nodes_left: set[Node] = set()
        self._to_exchange: dict[str, list[Node]] = {}

    def look(self) -> Iterator[None]:
        """Find what leads to an exchange without a binding: alternates and dead letters."""
        for exchange in self.vhost.all_exchanges():
            yield None
            if exchange.alternate is not None and not exchange.deleted:
                node = Node("exchange", exchange.name)
                self._to_exchange.setdefault(exchange.alternate, []).append(node)
        for queue in self.vhost.all_queues():
            yield None
            target = None if queue.deleted else dead_letter_exchange(queue)
            if target is not None:
                self._to_exchange.setdefault(target, []).append(Node("queue", queue.name))

    def named(self, name: str | None) -> Iterator[None]:
        """Take all exchanges and queues; with a name, those that contain it and their neighbours.

        Exchanges that every virtual host has are left out unless something is bound to them.
        """
        wanted = None if name is None else name.casefold()
        for exchange in in_order(self.vhost.all_exchanges(), key=lambda each: each.name):
            yield None
            if exchange is None or exchange.deleted:
                continue
            if wanted is None and (exchange.name == DEFAULT_EXCHANGE or _is_idle(exchange)):
                continue
            if wanted is None or (exchange.name and wanted in exchange.name.casefold()):
                self._add(Node("exchange", exchange.name))
        for queue in self.vhost.all_queues():
            yield None
            if queue.deleted or queue.name.startswith(REPLY_PREFIX):
                continue
            if wanted is None or wanted in queue.name.casefold():
                self._add(Node("queue", queue.name))
        if wanted is not None:
            for node in list(self.nodes):
                yield from self._step(node)

    def near(self, start: Node, hops: int) -> Iterator[None]:
        """Take what can be reached from a node by so many edges, whichever way they point."""
        self._add(start)
        rim = [start]
        for _ in range(hops):
            before = len(self.nodes)
            for node in rim:
                yield from self._step(node)
            rim = list(self.nodes)[before:]

    def _step(self, node: Node) -> Iterator[None]:
        for neighbour in self._neighbours(node):
            yield None
            if neighbour is not None:
                self._add(neighbour)

    def _neighbours(self, node: Node) -> Iterator[Node | None]:
        if node.kind == "queue":
            queue = self.vhost.find_queue(node.name)
            return iter(()) if queue is None else self._of_queue(queue)
        exchange = self.vhost.find_exchange(node.name)
        return iter(()) if exchange is None else self._of_exchange(exchange)

    def _of_queue(self, queue: QueueState) -> Iterator[Node | None]:
        for binding in self.vhost.bindings_to(queue):
            yield Node("exchange", binding.source)
        target = dead_letter_exchange(queue)
        if target:
            yield self._existing(Node("exchange", target))
        elif target == DEFAULT_EXCHANGE:
            key = dead_letter_key(queue)
            yield None if key is None else self._existing(Node("queue", key))

    def _of_exchange(self, exchange: ExchangeState) -> Iterator[Node | None]:
        for binding in exchange.outgoing:
            yield Node(binding.destination_kind, binding.destination)
        for binding in exchange.incoming:
            yield Node("exchange", binding.source)
        if exchange.alternate is not None:
            yield self._existing(Node("exchange", exchange.alternate))
        if exchange.name != DEFAULT_EXCHANGE:
            yield from self._to_exchange.get(exchange.name, ())
            return
        for queue in self.vhost.all_queues():
            yield None if queue.deleted else Node("queue", queue.name)

    def _existing(self, node: Node) -> Node | None:
        find = self.vhost.find_exchange if node.kind == "exchange" else self.vhost.find_queue
        return None if find(node.name) is None else node

    def _add(self, node: Node) -> None:
        if node in self.nodes:
            return
        if len(self.nodes) < self._limit:
            self.nodes[node] = None
        else:
            self._nodes_left.add(node)
            self.left_out["nodes"] = len(self._nodes_left)

    def bindings(self) -> Iterator[dict[str, Any] | None]:
        """Go through the bindings between the nodes."""
        found = 0
        for node in list(self.nodes):
            yield None
            exchange = self.vhost.find_exchange(node.name) if node.kind == "exchange" else None
            if exchange is None:
                continue
            for binding in self._outgoing(exchange):
                if Node(binding.destination_kind, binding.destination) not in self.nodes:
                    yield None
                    continue
                found += 1
                if found > EDGES_MAX:
                    self.left_out["bindings"] += 1
                    yield None
                else:
                    yield shown_binding(self.vhost.name, binding)

    def missing(self) -> Iterator[str | None]:
        """Go through the names of exchanges that a node leads to, and that are not there."""
        told: set[str] = set()
        for node in list(self.nodes):
            if node.kind == "exchange":
                exchange = self.vhost.find_exchange(node.name)
                target = None if exchange is None else exchange.alternate
            else:
                queue = self.vhost.find_queue(node.name)
                target = None if queue is None else dead_letter_exchange(queue)
            if target is None or target in told or self.vhost.find_exchange(target) is not None:
                yield None
            else:
                told.add(target)
                yield target

    def _outgoing(self, exchange: ExchangeState) -> Iterator[Binding]:
        if exchange.name != DEFAULT_EXCHANGE:
            return iter(exchange.outgoing)
        queues_here = (node.name for node in list(self.nodes) if node.kind == "queue")
        return chain(exchange.outgoing, map(default_binding, queues_here))


def dead_letter_exchange(queue: QueueState) -> str | None:
    """Return the exchange that gets a queue's dead letters, as arguments and policies say."""
    found = queue.effective("dead-letter-exchange")
    return found if isinstance(found, str) else None


def dead_letter_key(queue: QueueState) -> str | None:
    """Return the routing key of a queue's dead letters; None: they keep their own."""
    found = queue.effective("dead-letter-routing-key")
    return found if isinstance(found, str) else None


def _is_idle(exchange: ExchangeState) -> bool:
    """Whether it is one that every virtual host has, and nothing is bound to it."""
    return exchange.name.startswith("amq.") and not exchange.outgoing and not exchange.incoming


def _shown_exchange(around: Surroundings, exchange: ExchangeState) -> dict[str, Any]:
    stats = exchanges.stats_of(around, exchange)
    return {
        "name": shown(exchange.name) or DEFAULT_EXCHANGE_NAME,
        "type": exchange.type,
        "internal": exchange.internal,
        "alternate_exchange": exchange.alternate,
        "rate_in": _rate(stats, "publish_in"),
        "rate_out": _rate(stats, "publish_out"),
    }


def _shown_queue(around: Surroundings, queue: QueueState) -> dict[str, Any]:
    stats = queues.sampled(around, queue).get("message_stats", ABSENT)
    return {
        "name": shown(queue.name),
        "type": queue.type.name,
        "state": "paused" if queue.engine.paused else "running",
        "messages": queues.counts_of(queue)[0],
        "consumers": len(queue.subscriptions),
        "dead_letter_exchange": dead_letter_exchange(queue),
        "dead_letter_routing_key": dead_letter_key(queue),
        "rate_in": _rate(stats, "publish"),
        "rate_out": _rate(stats, "deliver_get"),
    }


def _rate(stats: Any, name: str) -> float:
    """How many a second, as lists have it; 0 before the first."""
    return 0.0 if stats is ABSENT else float(stats[f"{name}_details"]["rate"])


def _start(vhost: VirtualHost, text: str | None) -> Node | None:
    """Return the node that `around` names.

    Raises:
        Refusal: it is not of that form, or there is no such object.
    """
    if text is None:
        return None
    kind, colon, name = text.partition(":")
    if not colon or kind not in ("exchange", "queue"):
        raise bad("around", "is exchange:NAME or queue:NAME")
    if kind == "exchange":
        name = DEFAULT_EXCHANGE if name == DEFAULT_EXCHANGE_NAME else name
        if vhost.find_exchange(name) is None:
            raise not_found()
        return Node("exchange", name)
    if vhost.find_queue(name) is None:
        raise not_found()
    return Node("queue", name)
