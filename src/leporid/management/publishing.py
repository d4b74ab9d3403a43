"""Tables that clients publish.

Responsible for taking the body of a request, for having it checked and encoded on a thread, and for
publishing it in pieces between the broker's other work. Must not know Arrow (`incoming`) or how a
message is routed (`engine.publisher`).

Invariants: of a request that is refused nothing was published; the answer leaves when everything
durable of it is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from leporid.amqp.errors import AccessRefused, Fault
from leporid.broker.access.access import User
from leporid.broker.access.permissions import DEFAULT_EXCHANGE_NAME
from leporid.broker.connection.methods.connection import IMPERSONATOR
from leporid.broker.exchange.delays import id_of
from leporid.broker.names import exchange_in
from leporid.broker.vhost import VirtualHost
from leporid.engine.log.producers import REFERENCE_BYTES_MAX
from leporid.engine.tables.publisher import Publisher
from leporid.engine.tables.rows import BadRow, Rows, encode
from leporid.management.parameters import Parameters
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal, bad, busy, of_fault
from leporid.management.surroundings import Surroundings, need_arrow

if TYPE_CHECKING:
    from leporid.engine.routing.route_cache import RouteCache

# A body is in memory as a whole, since nothing of it is published before all of it was checked.
BODY_BYTES_MAX: Final = 32 * 1024 * 1024
# For a body to arrive: 1 MiB/s for the largest.
BODY_SECONDS: Final = 30
# Requests at a time: each has its body in memory, decoded and not.
REQUESTS_MAX: Final = 4
QUEUE_SECONDS: Final = 10
# Rows of a table whose answer has the ids of what waits: some milliseconds, and 800 kB of JSON.
IDS_MAX: Final = 10_000
# Rows given to the engine without looking at the clock, and for how long before others have a turn.
ROWS_AT_ONCE: Final = 256
TURN_SECONDS: Final = 0.001


class PublishRoutes:
    """The handler, and how many it serves at a time."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._places = asyncio.Semaphore(REQUESTS_MAX)

    async def publish(self, request: Request) -> Response:
        """POST /api/publish/{vhost}/{exchange}: a table of messages."""
        user, vhost = await self._around.enter(request)
        given = Parameters(request, ("producer", "sequence", "ids"))
        producer, sequence = _producer(given)
        with_ids = given.flag("ids")
        exchange = name_of(request, "exchange")
        if exchange == DEFAULT_EXCHANGE_NAME:
            exchange = ""
        _source(user, vhost, exchange)
        if self._around.broker.alarms:
            raise busy(f"publishing is blocked: {self._around.broker.alarm_text()}")
        await self._around.on_thread(need_arrow)
        try:
            async with asyncio.timeout(QUEUE_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            raise busy(f"{REQUESTS_MAX} tables are being published") from None
        try:
            batches = await self._read(request, user, exchange)

            def source(name: str) -> RouteCache:
                return _source(user, vhost, name)

            publisher = Publisher(self._around.engine.publishing, source, producer, sequence)
            if with_ids:
                rows = sum(map(len, batches))
                if rows > IDS_MAX:
                    reason = f"ids: a table of {IDS_MAX} rows at most; this one has {rows}"
                    raise Refusal(413, "too-large", reason, parameter="ids")
                publisher.waiting = []
            return JSONResponse(await self._publish(batches, publisher, source))
        finally:
            self._places.release()

    async def _read(self, request: Request, user: User, exchange: str) -> list[Rows]:
        data = await _body(request)
        user_id = None if IMPERSONATOR in user.tags else user.name.encode()
        limit = min(BODY_BYTES_MAX, self._around.engine.connections.message_bytes_max)
        self._around.set_clock()
        wall_ms = self._around.engine.clock.wall_ms

        def work() -> list[Rows]:
            from leporid.management.incoming import read_table  # it needs pyarrow

            batches = []
            before = 0
            for rows, columns in read_table(data):
                try:
                    batches.append(
                        encode(
                            rows,
                            columns,
                            exchange=exchange.encode(),
                            user_id=user_id,
                            body_bytes_max=limit,
                            wall_ms=wall_ms,
                        )
                    )
                except BadRow as error:
                    raise BadRow(before + error.row, error.reason) from None
                before += rows
            return batches

        try:
            batches: list[Rows] = await self._around.on_thread(work)
        except BadRow as error:
            raise Refusal(400, "bad-row", str(error), row=error.row) from None
        except (ValueError, MemoryError) as error:
            raise Refusal(400, "bad-table", str(error) or type(error).__name__) from None
        return batches

    async def _publish(
        self, batches: list[Rows], publisher: Publisher, source: Callable[[str], RouteCache]
    ) -> dict[str, Any]:
        for raw in set().union(*(batch.exchanges for batch in batches)):
            source(raw.decode())
        monotonic = self._around.monotonic
        try:
            for batch in batches:
                at = 0
                while at < len(batch):
                    until = monotonic() + TURN_SECONDS
                    self._around.set_clock()  # a time to live, or a delay, counts from now
                    while at < len(batch) and monotonic() < until:
                        at = publisher.publish(batch, at, ROWS_AT_ONCE)
                    self._around.wake()
                    await asyncio.sleep(0)
        except Fault as fault:
            # What was checked before has changed meanwhile.
            refusal = of_fault(fault)
            refusal.facts |= _counts(publisher)
            raise refusal from None
        finally:
            self._around.wake()
        if publisher.generation:
            await self._around.until_synced(publisher.generation)
        return {"rows": sum(len(batch) for batch in batches), **_counts(publisher)}


def _counts(publisher: Publisher) -> dict[str, Any]:
    return {
        "accepted": publisher.accepted,
        "duplicates": publisher.duplicates,
        "unroutable": publisher.unroutable,
        "refused": publisher.refused,
        **({} if publisher.waiting is None else {"delayed": _ids(publisher.waiting)}),
    }


def _ids(waiting: list[tuple[int, str, int, int]]) -> list[dict[str, Any]]:
    """What is to be given to /api/delays to see or cancel what waits now."""
    return [
        {
            "row": row,
            "exchange": exchange or DEFAULT_EXCHANGE_NAME,
            "id": id_of(due_ms, number),
            "due_ms": due_ms,
        }
        for row, exchange, due_ms, number in waiting
    ]


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


async def _body(request: Request) -> bytes:
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > BODY_BYTES_MAX:
                    raise Refusal(
                        413, "too-large", f"a table may have {BODY_BYTES_MAX} bytes; send several"
                    )
    except TimeoutError:
        raise Refusal(408, "too-slow", f"the body took more than {BODY_SECONDS} seconds") from None
    except ClientDisconnect:
        raise Refusal(400, "cut-off", "the body is not whole") from None
    return bytes(data)
