"""Delayed messages over HTTP: what waits in exchanges, and calling it off.

Responsible for these routes. Looking takes the right to read from the exchange. Cancelling takes
the right to configure it: whoever has that may delete the exchange, and all that waits in it; who
may only publish to it, or bind to it, must not take back what others published. Must not know how
messages wait. Invariant: an answer that something was cancelled leaves only when it is on disk.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.amqp.errors import AccessRefused
from leporid.amqp.properties import Properties, decode_properties
from leporid.amqp.tables import Value
from leporid.broker.delays import LIST_MAX, DelayedContent, DelayedMessage, DelayedMessages
from leporid.broker.permissions import DEFAULT_EXCHANGE_NAME, Right
from leporid.management.parameters import Parameters
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal, bad
from leporid.management.surroundings import Surroundings

LIMIT_DEFAULT: Final = 100


class DelayRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def exchanges(self, request: Request) -> Response:
        """GET /api/delays/{vhost}: the exchanges that have, or had, something that waits."""
        user, vhost = await self._around.enter(request)
        Parameters(request, ())
        found = []
        for delays in vhost.delay_stores:
            try:
                user.check("read", "exchange", delays.exchange, vhost.name)
            except AccessRefused:
                continue
            found.append(_counts(delays))
        return JSONResponse({"exchanges": found})

    async def listing(self, request: Request) -> Response:
        """GET …/{exchange}: what is due next."""
        delays = await self._find(request, "read")
        given = Parameters(request, ("limit", "after"))
        limit = given.whole("limit", LIMIT_DEFAULT, 1, LIST_MAX)
        try:
            messages = delays.list(limit, given.text("after"))
        except ValueError as error:
            raise bad("after", str(error)) from None
        return JSONResponse(_counts(delays) | {"messages": [_summary(each) for each in messages]})

    async def message(self, request: Request) -> Response:
        """GET …/{exchange}/{id}: one message, with its body."""
        delays = await self._find(request, "read")
        Parameters(request, ())
        message_id = name_of(request, "id")
        found, content = delays.peek(message_id), delays.content(message_id)
        if found is None or content is None:
            raise _unknown(message_id, delays.exchange)
        return JSONResponse(_summary(found) | _shown(content))

    async def cancel(self, request: Request) -> Response:
        """DELETE …/{exchange}/{id}."""
        delays = await self._find(request, "configure")
        Parameters(request, ())
        message_id = name_of(request, "id")
        if not delays.cancel(message_id):
            raise _unknown(message_id, delays.exchange)
        generation = self._around.plane.note_change()
        self._around.wake()
        await self._around.until_synced(generation)
        return Response(status_code=204)

    async def _find(self, request: Request, right: Right) -> DelayedMessages:
        user, vhost = await self._around.enter(request)
        name = name_of(request, "exchange")
        if name == DEFAULT_EXCHANGE_NAME:
            name = ""
        user.check(right, "exchange", name, vhost.name)
        return vhost.delays(name)


def _unknown(message_id: str, exchange: str) -> Refusal:
    reason = f"no delayed message '{message_id}' in exchange '{exchange}': it may have been fired"
    return Refusal(404, "not-found", reason)


def _counts(delays: DelayedMessages) -> dict[str, Any]:
    return {"exchange": delays.exchange or DEFAULT_EXCHANGE_NAME, **delays.statistics()._asdict()}


def _summary(message: DelayedMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "due_ms": message.due_ms,
        "came_ms": message.came_ms,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "body_bytes": message.body_bytes,
    }


def _shown(content: DelayedContent) -> dict[str, Any]:
    properties = decode_properties(content.properties)
    try:
        body, encoding = content.body.decode(), "utf-8"
    except UnicodeDecodeError:
        body, encoding = base64.b64encode(content.body).decode(), "base64"
    return {"properties": _named(properties), "body": body, "body_encoding": encoding}


def _named(properties: Properties) -> dict[str, Any]:
    values = {each.name: getattr(properties, each.name) for each in fields(properties)}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Value) -> Any:
    """A value as JSON has it; octets that are no text are approximated."""
    if isinstance(value, str):
        # Octets that are no UTF-8 are surrogates here, in names of headers, too.
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [_plain(each) for each in value]
    return value
