"""Dead letters over HTTP: how many, of which queue, for which reason, and where they were sent.

Responsible for these routes. Must not know how messages die. Invariant: the counts are running
totals since the broker started, so that no message is looked at; those of a queue go with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from leporid.broker.access.permissions import DEFAULT_EXCHANGE_NAME
from leporid.management.amqp_json import shown
from leporid.management.authorization import vhosts_listed
from leporid.management.paging import Lists, Table

if TYPE_CHECKING:
    from leporid.broker.queue.dead_letters import DeadLetterCount, DeadLetterKey
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class Row:
    """The dead letters of one queue, for one reason and one target."""

    queue: QueueState
    key: DeadLetterKey
    count: DeadLetterCount


FIELDS: dict[str, Any] = {
    "vhost": lambda row: row.queue.vhost,
    "queue": lambda row: shown(row.queue.name),
    "reason": lambda row: row.key.reason,
    "exchange": lambda row: shown(row.key.exchange) or DEFAULT_EXCHANGE_NAME,
    "routing_key": lambda row: None if row.key.key is None else shown(row.key.key),
    "messages": lambda row: row.count.letters,
    "dropped": lambda row: row.count.dropped,
}


def _order(row: Row) -> tuple[str, ...]:
    key, exchange = row.key, row.key.exchange or DEFAULT_EXCHANGE_NAME
    return row.queue.vhost, row.queue.name, key.reason, exchange, key.key or ""


class DeadLetterRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        table: Table[Row] = Table(FIELDS, _order)
        self._lists: Lists[Row] = Lists(around, table, lambda row: row.queue.name)

    async def listing(self, request: Request) -> Response:
        """GET /api/dead-letters, and /api/dead-letters/{vhost}."""
        user, vhosts = await vhosts_listed(self._around, request)
        count = sum(vhost.queue_count for vhost in vhosts)
        return await self._lists.answer(request, user, _rows(vhosts), count)


def _rows(vhosts: list[VirtualHost]) -> Iterator[Row | None]:
    """Go through what was counted; None for each queue that was looked at."""
    for vhost in vhosts:
        for queue in vhost.all_queues():
            yield None
            if not queue.deleted:
                for key, count in queue.dead_lettered.items():
                    yield Row(queue, key, count)
