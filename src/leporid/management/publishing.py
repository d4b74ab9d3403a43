"""Tables that clients publish.

Responsible for the parameters and the body of a request, and for its answer. Must not know how a
table is read and published (`publication`). Invariant: the answer leaves when everything durable of
the table is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import User
from leporid.broker.access.permissions import DEFAULT_EXCHANGE_NAME
from leporid.broker.access.remote_rights import RightPending
from leporid.broker.access.tags import may_impersonate
from leporid.broker.connection.publishing import allowed_keys
from leporid.broker.exchange.delays import id_of
from leporid.broker.names import exchange_in
from leporid.broker.vhost import VirtualHost
from leporid.engine.log.producers import REFERENCE_BYTES_MAX
from leporid.engine.tables.publisher import Publisher
from leporid.management.admission import holding
from leporid.management.answers import disconnected
from leporid.management.bodies import body_in
from leporid.management.parameters import Parameters
from leporid.management.paths import name_of
from leporid.management.publication import Publication
from leporid.management.refusals import Refusal, bad
from leporid.management.surroundings import Surroundings

if TYPE_CHECKING:
    from leporid.broker.access.remote_rights import PendingRight
    from leporid.broker.access.topics import AllowedKeys
    from leporid.engine.routing.route_cache import RouteCache

# A body is in memory as a whole, since nothing of it is published before all of it was checked.
BODY_BYTES_MAX: Final = 32 * 1024 * 1024
BODY_LIMIT: Final = "http_table_bytes"


class PublishRoutes:
    """The handler."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def publish(self, request: Request) -> Response:
        """POST /api/publish/{vhost}/{exchange}: a table of messages."""
        user, vhost = await self._around.enter(request)
        given = Parameters(request, ("producer", "sequence", "ids"))
        producer, sequence = _producer(given)
        with_ids = given.flag("ids")
        exchange = name_of(request, "exchange")
        if exchange == DEFAULT_EXCHANGE_NAME:
            exchange = ""
        await self._around.decided(lambda: _source(user, vhost, exchange))
        await self._around.need_arrow(user)
        admission = self._around.admission

        pending: list[PendingRight] = []

        def current() -> User:
            found = self._around.broker.access.current(user)
            if found is None:
                raise AccessRefused(f"there is no user '{user.name}' any more")
            return found

        def source(name: str) -> RouteCache:
            return _source(current(), vhost, name)

        def routes_of(name: str) -> RouteCache | None:
            try:
                return source(name)
            except RightPending as unknown:
                pending.append(unknown.pending)
                return None

        def check_of(name: str) -> AllowedKeys | None:
            return allowed_keys(current, vhost, name, pending.append)

        engine = self._around.engine.publishing
        publisher = Publisher(engine, routes_of, producer, sequence, check_of)
        async with (
            body_in(admission, request, user.name, BODY_LIMIT, BODY_BYTES_MAX) as data,
            holding(admission.shares.publishes, user.name),
        ):
            admission.check_growth()  # much may have come meanwhile
            gone = asyncio.create_task(disconnected(request.receive))
            checks_keys = vhost.name in user.topics
            publication = Publication(
                self._around, user, source, publisher, gone, pending, checks_keys=checks_keys
            )
            if with_ids:
                publisher.waiting = []
            try:
                await publication.publish(data, self._encoding(user, exchange))
            except Refusal as refusal:
                if publication.rows:
                    refusal.facts |= _counts(publisher)
                raise
            finally:
                gone.cancel()
        return self._around.listing(user, {"rows": publication.rows, **_counts(publisher)})

    def _encoding(self, user: User, exchange: str) -> dict[str, Any]:
        """What `rows.encode` is given beside columns."""
        engine = self._around.engine
        self._around.set_clock()
        return {
            "exchange": exchange.encode(),
            "user_id": None if may_impersonate(user) else user.name.encode(),
            "body_bytes_max": min(BODY_BYTES_MAX, engine.connections.message_bytes_max),
            "wall_ms": engine.clock.wall_ms,
        }


def _counts(publisher: Publisher) -> dict[str, Any]:
    return {
        "accepted": publisher.accepted,
        "duplicates": publisher.duplicates,
        "unroutable": publisher.unroutable,
        "refused": publisher.refused,
        **({} if publisher.waiting is None else {"delayed": _ids(publisher.waiting)}),
    }


def _ids(waiting: list[tuple[int, str, int, int]]) -> Iterator[dict[str, Any]]:
    """What is to be given to /api/delays to see or cancel what waits now."""
    return (
        {
            "row": row,
            "exchange": exchange or DEFAULT_EXCHANGE_NAME,
            "id": id_of(due_ms, number),
            "due_ms": due_ms,
        }
        for row, exchange, due_ms, number in waiting
    )


def _producer(given: Parameters) -> tuple[bytes | None, int]:
    """Who publishes, and the number of the first row."""
    producer = given.text("producer")
    if producer is None:
        if "sequence" in given:
            raise bad("sequence", "needs producer: whose numbers these are")
        return None, 0
    reference = producer.encode()
    if not 0 < len(reference) <= REFERENCE_BYTES_MAX:
        raise bad("producer", f"a reference has 1 to {REFERENCE_BYTES_MAX} bytes")
    return reference, given.needed("sequence")


def _source(user: User, vhost: VirtualHost, exchange: str) -> RouteCache:
    """The engine's half of an exchange that the user may publish to; as over AMQP."""
    user.check("write", "exchange", exchange, vhost.name)
    found = vhost.exchange(exchange)
    if found.internal:
        raise AccessRefused(f"cannot publish to internal {exchange_in(vhost.name, exchange)}")
    return found.routes
