"""Exchanges as RabbitMQ's API has them: lists, one exchange, making and deleting.

Responsible for these routes and for what an exchange looks like in JSON. What is done to an
exchange, AMQP's own methods do (`acting`). Must not know how lists are made (`paging`), nor how a
message is routed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.amqp.methods import ExchangeDeclare, ExchangeDelete
from leporid.broker.exchange.types import exchange_types, is_exchange_type
from leporid.management import amqp_json
from leporid.management.acting import Acting, creator
from leporid.management.authorization import not_found, vhosts_listed, visitor
from leporid.management.bindings import exchange_name
from leporid.management.paging import ABSENT, Lists, Table, columns_in
from leporid.management.parameters import flag_in, object_in
from leporid.management.paths import takes
from leporid.management.rates import rates_of, with_rates
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

STATS: Final = ("publish_in", "publish_out")


class ExchangeRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._table: Table[tuple[str, ExchangeState]] = Table(
            {
                "name": lambda each: each[1].name,
                "vhost": lambda each: each[0],
                "type": lambda each: each[1].type,
                "durable": lambda each: each[1].durable,
                "auto_delete": lambda each: each[1].auto_delete,
                "internal": lambda each: each[1].internal,
                "arguments": lambda each: amqp_json.shown(dict(each[1].arguments)),
                "policy": lambda each: _policy(each[1]),
                "message_stats": lambda each: stats_of(around, each[1]),
            },
            lambda each: (each[0], each[1].name),
        )
        self._lists = Lists(around, self._table, lambda each: each[1].name)

    # ------------------------------------------------------------- looking

    async def listing(self, request: Request) -> Response:
        """GET /api/exchanges, and /api/exchanges/{vhost}."""
        user, vhosts = await vhosts_listed(self._around, request)
        count = sum(vhost.exchange_count for vhost in vhosts)
        return await self._lists.answer(request, user, _exchanges(vhosts), count)

    async def show(self, request: Request) -> Response:
        """GET /api/exchanges/{vhost}/{exchange}."""
        user, vhost = await visitor(self._around, request)
        exchange = vhost.find_exchange(exchange_name(request, "exchange"))
        if exchange is None:
            raise not_found()
        columns = columns_in(request)
        shown = self._table.show((vhost.name, exchange), columns)
        if columns is None:
            shown |= {"incoming": [], "outgoing": []}
        return self._around.listing(user, shown)

    # ------------------------------------------------------------- changing

    @takes(
        {
            "type": {"type": "string"},
            "durable": {"type": "boolean"},
            "auto_delete": {"type": "boolean"},
            "internal": {"type": "boolean"},
            "arguments": {"type": "object"},
        }
    )
    async def put(self, request: Request) -> Response:
        """PUT /api/exchanges/{vhost}/{exchange}: 201 when it was made, 204 when it is there."""
        user, vhost = await creator(self._around, request)
        name = exchange_name(request, "exchange")
        given = await object_in(self._around.admission, request, user)
        kind = given.get("type", "direct")
        if not isinstance(kind, str):
            raise Refusal(400, "bad_request", "type is a string")
        if not is_exchange_type(kind):
            there = ", ".join(exchange_types())
            raise Refusal(400, "bad_request", f"invalid exchange type '{kind}'; there are {there}")
        new = vhost.find_exchange(name) is None
        declare = ExchangeDeclare(
            exchange=name,
            type=kind,
            durable=flag_in(given, "durable"),
            auto_delete=flag_in(given, "auto_delete"),
            internal=flag_in(given, "internal"),
            arguments=amqp_json.table_in(given.get("arguments"), "arguments"),
        )
        await self._act(user, vhost, declare)
        return Response(status_code=201 if new else 204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/exchanges/{vhost}/{exchange}."""
        user, vhost = await visitor(self._around, request)
        name = exchange_name(request, "exchange")
        if vhost.find_exchange(name) is None:
            raise not_found()
        if_unused = request.query_params.get("if-unused") == "true"
        await self._act(user, vhost, ExchangeDelete(exchange=name, if_unused=if_unused))
        return Response(status_code=204)

    async def _act(self, user: User, vhost: VirtualHost, method: Any) -> None:
        with Acting(self._around, user, vhost, f"HTTP user '{user.name}'") as acting:
            await acting.act(method)


def _exchanges(vhosts: list[VirtualHost]) -> Iterator[Any]:
    """Go through the exchanges that there are, as of now in each virtual host."""
    for vhost in vhosts:
        for exchange in vhost.all_exchanges():
            yield None if exchange.deleted else (vhost.name, exchange)


def stats_of(around: Surroundings, exchange: ExchangeState) -> Any:
    """Return how many messages came and went, with rates; ABSENT before the first."""
    values = (exchange.routes.published, exchange.routes.routed)
    rates = rates_of(exchange, values, around.monotonic())
    return with_rates(STATS, values, rates) if any(values) else ABSENT


def _policy(exchange: ExchangeState) -> Any:
    policy = exchange.governed.policy
    return ABSENT if policy is None else policy.name
