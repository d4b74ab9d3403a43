"""One table on its way from a request's body to queues and streams.

Responsible for having it counted, checked and encoded on a thread, for the memory that it has
meanwhile, and for publishing it in slices between the broker's other work, as long as the broker
may take messages. Must not know HTTP's parameters (`publishing`), Arrow (`incoming`), or how a
message is routed (`engine.tables.publisher`).

Invariants: of a table that is refused before its first row, nothing was published; of one that is
stopped later, the rows from the first on that the refusal counts, and those that are durable are
on disk. Nothing of a table is kept when its last row was published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.errors import Fault
from leporid.engine.tables.publisher import Publisher
from leporid.engine.tables.rows import EXCHANGES_MAX, BadRow, Rows, encode
from leporid.management.admission import waited_for
from leporid.management.authorization import answered
from leporid.management.refusals import Refusal, of_fault, too_large

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.access.remote_rights import PendingRight
    from leporid.engine.routing.route_cache import RouteCache
    from leporid.management.incoming import Plan
    from leporid.management.surroundings import Surroundings

IDS_LIMIT: Final = "http_ids"
# Rows of a table whose answer has the ids of what waits: some milliseconds, and 800 kB of JSON.
IDS_MAX: Final = 10_000
# Messages of one table for which memory and disk are looked at once more. Both are looked at each
# second anyway, in which a table may become a hundred times as much.
LOOK_BYTES: Final = 16 * 1024 * 1024


class Publication:
    """Publishes the table of one request.

    Args:
        around: the broker.
        user: who publishes.
        source: gives the route cache of an exchange, or raises a fault.
        publisher: publishes the rows.
        gone: is done when the client is gone.
        pending: the rights that `publisher` has to know before it goes on.
        checks_keys: whether the user may not use all routing keys with all exchanges.
    """

    def __init__(
        self,
        around: Surroundings,
        user: User,
        source: Callable[[str], RouteCache],
        publisher: Publisher,
        gone: asyncio.Future[Any],
        pending: list[PendingRight],
        *,
        checks_keys: bool = False,
    ) -> None:
        self._around = around
        self._admission = around.admission
        self._user = user
        self._source = source
        self._publisher = publisher
        self._gone = gone
        self._pending = pending
        self._checks_keys = checks_keys

    @property
    def rows(self) -> int:
        """How many rows were published, whatever became of them."""
        one = self._publisher
        return one.accepted + one.duplicates + one.unroutable + one.refused

    async def publish(self, data: bytes | bytearray, encoding: dict[str, Any]) -> None:
        """Publish an IPC stream; returns when everything durable of it is on disk.

        Args:
            data: the stream.
            encoding: what `rows.encode` is given beside columns.

        Raises:
            Refusal: it is not sound, too large, or was stopped: `facts` has the rows that were
                published, if there are any.
            Fault: an exchange is not there, or may not be written to.
        """
        refusal = None
        try:
            plan = await self._planned(data, len(encoding["exchange"]))
            memory = self._admission.shares.publishing_memory
            with await waited_for(memory, self._user.name, plan.bytes):
                await self._publish(await self._encoded(plan, encoding))
        except Refusal as stopped:
            if not self.rows:
                raise
            refusal = Refusal(
                stopped.status,
                stopped.word,
                f"{stopped.reason}; rows 0 to {self.rows - 1} were published, none of the others",
                headers=stopped.headers,
                **stopped.facts | {"rows": self.rows},
            )
        if self._publisher.generation:
            await self._around.synced(self._publisher.generation, self._user)
        if refusal is not None:
            raise refusal

    # ------------------------------------------------------------------ on a thread

    async def _planned(self, data: bytes | bytearray, exchange_bytes: int) -> Plan:
        def work() -> Plan:
            from leporid.management.incoming import plan_table  # it needs pyarrow

            return plan_table(data, exchange_bytes)

        plan: Plan = await self._on_thread(work)
        if self._publisher.waiting is not None and plan.rows > IDS_MAX:
            self._admission.refusals.count(IDS_LIMIT)
            reason = f"ids: a table of {IDS_MAX} rows at most; this one has {plan.rows}"
            raise too_large(IDS_LIMIT, IDS_MAX, reason)
        return plan

    async def _encoded(self, plan: Plan, encoding: dict[str, Any]) -> list[Rows]:
        def work() -> list[Rows]:
            from leporid.management.incoming import read_table

            batches: list[Rows] = []
            exchanges: set[bytes] = set()
            before = 0
            for rows, columns in read_table(plan):
                try:
                    batches.append(encode(rows, columns, **encoding))
                except BadRow as error:
                    raise BadRow(before + error.row, error.reason) from None
                exchanges |= batches[-1].exchanges
                if len(exchanges) > EXCHANGES_MAX:
                    raise BadRow(before, f"more than {EXCHANGES_MAX} exchanges in one request")
                before += rows
            return batches

        found: list[Rows] = await self._on_thread(work)
        return found

    async def _on_thread(self, work: Callable[[], Any]) -> Any:
        from leporid.management.arrow_ipc import TableTooLarge

        self._check_client()
        try:
            async with self._around.encoding(self._user.name) as encode_on:
                return await encode_on(work)
        except BadRow as error:
            raise Refusal(400, "bad-row", str(error), row=error.row) from None
        except TableTooLarge as error:
            self._admission.refusals.count(error.limit)
            raise too_large(error.limit, error.value, str(error)) from None
        except (ValueError, MemoryError) as error:
            raise Refusal(400, "bad-table", str(error) or type(error).__name__) from None

    # ------------------------------------------------------------------ on the broker's thread

    async def _publish(self, batches: list[Rows]) -> None:
        around, publisher, access = self._around, self._publisher, self._around.broker.access
        looked, seen = 0, access.version
        for raw in set().union(*(batch.exchanges for batch in batches)):
            await around.decided(partial(self._source, raw.decode()))
        if self._checks_keys:
            await self._check_keys(batches)
        try:
            for batch in batches:
                at = 0
                while at < len(batch):
                    await self._admission.turns.next(self._user.name)
                    self._check_client()
                    if publisher.stored_bytes - looked >= LOOK_BYTES:
                        looked = publisher.stored_bytes
                        around.look()
                    self._admission.check_growth()
                    if access.version != seen:
                        seen = access.version
                        publisher.forget_exchange()
                    around.set_clock()  # a time to live, or a delay, counts from now
                    at = publisher.publish(batch, at, len(batch))
                    around.wake()
                    await self._await_rights()
        except Fault as fault:
            # What was checked before has changed meanwhile.
            raise of_fault(fault) from None
        finally:
            around.wake()

    async def _check_keys(self, batches: list[Rows]) -> None:
        """Check all rows before the first one is published."""
        for batch in batches:
            at = 0
            while at < len(batch):
                await self._admission.turns.next(self._user.name)
                self._check_client()
                at = self._publisher.check(batch, at)
                await self._await_rights()
        self._publisher.forget_exchange()

    async def _await_rights(self) -> None:
        """Wait for the rights that the next row needs."""
        while self._pending:
            await answered(self._pending.pop())

    def _check_client(self) -> None:
        """Stop what nobody waits for any more; who has no answer sends it again or does not.

        And what is sent in the name of a token that has ended.
        """
        self._around.current(self._user)
        if self._gone.done():
            raise Refusal(400, "cut-off", "the client is gone")
