"""Bindings as RabbitMQ's API has them: lists, one binding, binding and unbinding.

Responsible for these routes, for what a binding looks like in JSON, and for the key that names one
of several between the same ends. What binds and unbinds are AMQP's own methods (`acting`). Must not
know how a message is routed.

That the default exchange is bound to each queue is a rule, and no binding of ours: lists show such
bindings as RabbitMQ does. Invariant: a binding's `properties_key` is RabbitMQ's, so that a key kept
by a client of either names the same binding.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, unquote_plus

from starlette.requests import Request
from starlette.responses import Response

from leporid.amqp.methods import ExchangeBind, ExchangeUnbind, QueueBind, QueueUnbind
from leporid.amqp.tables import octets_of
from leporid.broker.access.permissions import DEFAULT_EXCHANGE_NAME
from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE
from leporid.broker.exchange.types import Binding
from leporid.broker.exchange.types.phash2 import phash2_of_table
from leporid.broker.names import REPLY_PREFIX, exchange_in, queue_in
from leporid.management import amqp_json
from leporid.management.acting import Acting
from leporid.management.authorization import not_found, vhosts_listed, visitor
from leporid.management.listings import in_order
from leporid.management.paging import Lists, Table, columns_in, first_of
from leporid.management.parameters import object_in
from leporid.management.paths import name_of, takes
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.types import DestinationKind
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

KINDS: Final[dict[str, DestinationKind]] = {"q": "queue", "e": "exchange"}


class BindingRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        table: Table[tuple[str, Binding]] = Table({}, whole=lambda each: shown_binding(*each))
        self._table = table
        # Of the bindings from one exchange, a name that is searched for is that of the other end.
        self._lists = Lists(around, table, lambda each: each[1].source)
        self._outgoing = Lists(around, table, lambda each: each[1].destination)

    # ------------------------------------------------------------- lists

    async def listing(self, request: Request) -> Response:
        """GET /api/bindings, and /api/bindings/{vhost}."""
        user, vhosts = await vhosts_listed(self._around, request)
        found = (each for vhost in vhosts for each in all_bindings(vhost))
        return await self._list(request, user, found, sum(map(_count, vhosts)))

    async def of_queue(self, request: Request) -> Response:
        """GET /api/queues/{vhost}/{queue}/bindings: none of a queue that is not there.

        Tools ask whether there is something to delete, and RabbitMQ answers a list.
        """
        user, vhost = await visitor(self._around, request)
        queue = vhost.find_queue(name_of(request, "queue"))
        if queue is None:
            return await self._list(request, user, (), 0)
        bound = vhost.bindings_to(queue)
        found = chain((default_binding(queue.name),), bound)
        return await self._list(request, user, _in(vhost, found), 1 + len(bound))

    async def from_exchange(self, request: Request) -> Response:
        """GET /api/exchanges/{vhost}/{exchange}/bindings/source."""
        user, vhost, exchange = await self._exchange(request)
        if exchange is None:
            return await self._outgoing.answer(request, user, (), 0)
        if exchange.name == DEFAULT_EXCHANGE:
            default = default_bindings(vhost)
            return await self._outgoing.answer(request, user, default, vhost.queue_count)
        found = exchange.outgoing
        return await self._outgoing.answer(request, user, _in(vhost, found), len(found))

    async def to_exchange(self, request: Request) -> Response:
        """GET /api/exchanges/{vhost}/{exchange}/bindings/destination."""
        user, vhost, exchange = await self._exchange(request)
        if exchange is None:
            return await self._list(request, user, (), 0)
        found = exchange.incoming
        return await self._list(request, user, _in(vhost, found), len(found))

    async def _exchange(self, request: Request) -> tuple[User, VirtualHost, ExchangeState | None]:
        user, vhost = await visitor(self._around, request)
        return user, vhost, vhost.find_exchange(exchange_name(request, "exchange"))

    async def between(self, request: Request) -> Response:
        """GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}."""
        user, vhost = await visitor(self._around, request)
        found = _between(vhost, *_ends(request))
        return await self._list(request, user, _in(vhost, found), vhost.binding_count)

    async def _list(
        self,
        request: Request,
        user: User,
        found: Iterable[tuple[str, Binding] | None],
        count: int,
    ) -> Response:
        return await self._lists.answer(request, user, found, count)

    # ------------------------------------------------------------- one binding

    async def show(self, request: Request) -> Response:
        """GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}."""
        user, vhost = await visitor(self._around, request)
        binding = await self._find(request, user, vhost)
        return self._around.listing(
            user, self._table.show((vhost.name, binding), columns_in(request))
        )

    async def _find(self, request: Request, user: User, vhost: VirtualHost) -> Binding:
        wanted = _parts(name_of(request, "key"))
        bindings = _between(vhost, *_ends(request))
        found = await first_of(
            self._around, user, bindings, lambda each: (each.key, _digest(each)) == wanted
        )
        if found is None:
            raise not_found()
        return found

    @takes({"routing_key": {"type": "string"}, "arguments": {"type": "object"}})
    async def post(self, request: Request) -> Response:
        """POST /api/bindings/{vhost}/e/{source}/{kind}/{destination}: 201 with its place."""
        user, vhost = await visitor(self._around, request)
        source, kind, destination = _ends(request)
        given = await object_in(self._around.admission, request, user)
        key = given.get("routing_key", "")
        if not isinstance(key, str):
            raise Refusal(400, "bad_request", "routing_key is a string")
        arguments = amqp_json.table_in(given.get("arguments"), "arguments")
        find = vhost.find_queue if kind == "queue" else vhost.find_exchange
        if source != DEFAULT_EXCHANGE and vhost.find_exchange(source) is None:
            raise Refusal(404, "not_found", f"no {exchange_in(vhost.name, source)}")
        if find(destination) is None:
            named = queue_in if kind == "queue" else exchange_in
            raise Refusal(404, "not_found", f"no {named(vhost.name, destination)}")
        with Acting(self._around, user, vhost, f"HTTP user '{user.name}'") as acting:
            if kind == "queue":
                await acting.act(
                    QueueBind(destination, source, key, no_wait=False, arguments=arguments)
                )
            else:
                await acting.act(
                    ExchangeBind(destination, source, key, no_wait=False, arguments=arguments)
                )
        made = Binding(source, destination, kind, key, arguments)
        place = f"{quote_plus(destination, safe='')}/{quote_plus(properties_key(made), safe='')}"
        return Response(status_code=201, headers={"location": place})

    async def delete(self, request: Request) -> Response:
        """DELETE /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}."""
        user, vhost = await visitor(self._around, request)
        binding = await self._find(request, user, vhost)
        source, destination = binding.source, binding.destination
        arguments = dict(binding.arguments)
        with Acting(self._around, user, vhost, f"HTTP user '{user.name}'") as acting:
            if binding.destination_kind == "queue":
                await acting.act(QueueUnbind(destination, source, binding.key, arguments))
            else:
                await acting.act(
                    ExchangeUnbind(
                        destination, source, binding.key, no_wait=False, arguments=arguments
                    )
                )
        return Response(status_code=204)


# ------------------------------------------------------------- what there is


def exchange_name(request: Request, parameter: str) -> str:
    """Return the name of an exchange in a path, in which the default one is `amq.default`."""
    name = name_of(request, parameter)
    return DEFAULT_EXCHANGE if name == DEFAULT_EXCHANGE_NAME else name


def _ends(request: Request) -> tuple[str, DestinationKind, str]:
    kind = KINDS.get(request.path_params["kind"])
    if kind is None:
        raise not_found()
    read = name_of if kind == "queue" else exchange_name
    return exchange_name(request, "source"), kind, read(request, "destination")


def _count(vhost: VirtualHost) -> int:
    return vhost.binding_count + vhost.queue_count


def default_binding(queue: str) -> Binding:
    """Return the binding that each queue has without anybody having made it."""
    return Binding(DEFAULT_EXCHANGE, queue, "queue", queue, {})


def default_bindings(vhost: VirtualHost) -> Iterator[tuple[str, Binding] | None]:
    """Go through those of the default exchange."""
    for queue in vhost.all_queues():
        gone = queue.deleted or queue.name.startswith(REPLY_PREFIX)
        yield None if gone else (vhost.name, default_binding(queue.name))


def all_bindings(vhost: VirtualHost) -> Iterator[tuple[str, Binding] | None]:
    """Go through the bindings of a virtual host; None for what was only looked at."""
    yield from default_bindings(vhost)
    for exchange in in_order(vhost.all_exchanges(), key=lambda each: each.name):
        yield None
        if exchange is not None and not exchange.deleted:
            yield from _in(vhost, exchange.outgoing)


def _in(vhost: VirtualHost, found: Iterable[Binding | None]) -> Iterator[Any]:
    return (None if each is None else (vhost.name, each) for each in found)


def _between(
    vhost: VirtualHost, source: str, kind: DestinationKind, destination: str
) -> Iterator[Binding | None]:
    """Go through the bindings between two ends; None for each other one of the destination."""
    if kind == "queue":
        queue = vhost.find_queue(destination)
        if queue is None:
            return
        if source == DEFAULT_EXCHANGE:
            yield default_binding(queue.name)
        found: Iterable[Binding] = vhost.bindings_to(queue)
    else:
        exchange = vhost.find_exchange(destination)
        found = () if exchange is None else exchange.incoming
    for binding in found:
        yield binding if binding.source == source else None


# ------------------------------------------------------------- how it looks


def shown_binding(vhost: str, binding: Binding) -> dict[str, Any]:
    """Return what a binding looks like."""
    return {
        "source": binding.source,
        "vhost": vhost,
        "destination": binding.destination,
        "destination_type": binding.destination_kind,
        "routing_key": amqp_json.shown(binding.key),
        "arguments": amqp_json.shown(dict(binding.arguments)),
        "properties_key": properties_key(binding),
    }


def properties_key(binding: Binding) -> str:
    """Return what tells a binding from others between the same ends; RabbitMQ's."""
    if not binding.arguments:
        return quoted(binding.key) or "~"
    return f"{quoted(binding.key)}~{_digest(binding)}"


def _digest(binding: Binding) -> str:
    """What stands for the arguments in such a key; nothing if there are none."""
    if not binding.arguments:
        return ""
    digest = phash2_of_table(binding.arguments).to_bytes(4)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _parts(key: str) -> tuple[str, str]:
    """Take a key apart: the routing key, which may be quoted or not, and the digest."""
    routing_key, _, digest = key.partition("~")
    return unquote_plus(routing_key), digest


def quoted(text: str) -> str:
    """Quote as RabbitMQ does in keys of bindings: a tilde, too, as that stands before the hash."""
    octets = octets_of(text)
    return quote_plus(octets, safe="").replace("~", "%7E")
