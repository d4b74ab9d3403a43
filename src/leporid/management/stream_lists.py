"""Streams, their named readers and their groups, as lists like those of RabbitMQ's API.

Responsible for these lists, with pages, order and columns, over one virtual host or all that a user
sees. What is in one stream, and changing it, are `streams`, `readers` and `groups`. Must not know
how lists are made (`paging`). Invariants: of a reader that is not shown nothing is looked up but
what the list is sorted by; lag is counted from the message after the one that was read last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from leporid.broker.stream.partitions import standings
from leporid.broker.stream.readers import Standing, skipped_messages
from leporid.management.amqp_json import shown
from leporid.management.authorization import vhosts_listed
from leporid.management.paging import Lists, Table

if TYPE_CHECKING:
    from leporid.broker.group.members import Group
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OwnGroup:
    """A group and where it is."""

    vhost: VirtualHost
    group: Group


STREAM_FIELDS: dict[str, Any] = {
    "name": lambda queue: shown(queue.name),
    "vhost": lambda queue: queue.vhost,
    "state": lambda queue: "paused" if queue.engine.paused else "running",
    "first": lambda queue: queue.stream.first,
    "end": lambda queue: queue.stream.end,
    "messages": lambda queue: queue.stream.end - queue.stream.first,
    "bytes": lambda queue: queue.stream.bytes,
    "first_timestamp_ms": lambda queue: queue.stream.first_timestamp_ms,
    "last_timestamp_ms": lambda queue: queue.stream.last_timestamp_ms,
    "consumers": lambda queue: len(queue.subscriptions),
    "readers": lambda queue: len(queue.reader_offsets),
}

GROUP_FIELDS: dict[str, Any] = {
    "group": lambda row: shown(row.group.name),
    "stream": lambda row: shown(row.group.stream),
    "vhost": lambda row: row.vhost.name,
    "version": lambda row: row.group.version,
    "members": lambda row: row.group.member_count,
    "partitions": lambda row: len(row.group.partitions),
    "used_ms": lambda row: row.group.used_ms,
    "retrying": lambda row: 0 if row.group.retries is None else row.group.retries.engine.waiting,
}


class StreamListRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        readers: dict[str, Any] = {
            "reader": lambda reader: shown(reader.name),
            "stream": lambda reader: shown(reader.stream_name),
            "partition": lambda reader: reader.partition,
            "vhost": lambda reader: reader.queue.vhost,
            "offset": lambda reader: reader.offset,
            "next_offset": lambda reader: reader.next_offset,
            "end": lambda reader: reader.stream.end,
            "lag": lambda reader: reader.lag,
            "lag_ms": lambda reader: reader.lag_ms(around.engine.clock.wall_ms),
            "user": lambda reader: reader.user,
            "since_ms": lambda reader: reader.since_ms,
            "moved_ms": lambda reader: reader.moved_ms,
            "skipped_messages": lambda reader: skipped_messages(reader.queue, reader.name),
        }
        self._streams: Lists[QueueState] = Lists(
            around, Table(STREAM_FIELDS, attrgetter("vhost", "name")), lambda queue: queue.name
        )
        self._readers: Lists[Standing] = Lists(
            around,
            Table(readers, attrgetter("queue.vhost", "stream_name", "partition", "name")),
            lambda reader: reader.name,
        )
        self._groups: Lists[OwnGroup] = Lists(
            around,
            Table(GROUP_FIELDS, attrgetter("vhost.name", "group.stream", "group.name")),
            lambda row: row.group.name,
        )

    async def streams(self, request: Request) -> Response:
        """GET /api/streams: each partition of a partitioned stream is one."""
        return await self._list(request, self._streams, _streams)

    async def readers(self, request: Request) -> Response:
        """GET /api/readers, and /api/readers/{vhost}."""
        return await self._list(request, self._readers, standings)

    async def groups(self, request: Request) -> Response:
        """GET /api/groups, and /api/groups/{vhost}."""
        return await self._list(request, self._groups, _groups)

    async def _list(
        self, request: Request, lists: Lists[T], found: Callable[[VirtualHost], Iterator[T | None]]
    ) -> Response:
        user, vhosts = await vhosts_listed(self._around, request)
        count = sum(vhost.queue_count for vhost in vhosts)
        items = (each for vhost in vhosts for each in found(vhost))
        return await lists.answer(request, user, items, count)


def _streams(vhost: VirtualHost) -> Iterator[QueueState | None]:
    """Go through the streams; None for each other queue."""
    for queue in vhost.all_queues():
        yield queue if queue.stream is not None and not queue.deleted else None


def _groups(vhost: VirtualHost) -> Iterator[OwnGroup | None]:
    for group in list(vhost.groups):
        yield OwnGroup(vhost, group) if group in vhost.groups else None
