"""Groups of readers over HTTP: who is in them, how far they are, and forgetting them.

Responsible for these routes. Looking at a group takes the right to read its stream, as being in it
does; forgetting one that nobody is in takes what moving its offsets does (`readers.check_own`).
Must not know how partitions are shared out. Invariant: an answer that a group was forgotten leaves
only when that is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from leporid.broker.group.group_retries import RETRY_ARGUMENTS
from leporid.broker.group.groups import FILTERING
from leporid.broker.stream.readers import skipped_messages
from leporid.management.listings import Written, in_order
from leporid.management.parameters import Parameters
from leporid.management.paths import name_of
from leporid.management.readers import check_own
from leporid.management.surroundings import Found, Surroundings

if TYPE_CHECKING:
    from leporid.broker.group.members import Group, Member


class GroupRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def listing(self, request: Request) -> Response:
        """GET /api/groups/{vhost}/{stream}: all of a stream, or of a partitioned one."""
        found = await self._around.find(request)
        Parameters(request, ())
        return self._around.listing(found.user, {"groups": _all(found)})

    async def info(self, request: Request) -> Response:
        """GET …/{group}: one of them."""
        found = await self._around.find(request)
        Parameters(request, ())
        group = found.vhost.groups.find(found.name, name_of(request, "group"))
        return self._around.listing(found.user, _facts(found, group))

    async def forget(self, request: Request) -> Response:
        """DELETE …/{group}: its filter and its offsets, if nobody is in it."""
        found = await self._around.find(request)
        Parameters(request, ())
        name = name_of(request, "group")
        await check_own(self._around, found, name)
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(_: object) -> None:
            if not gone.done():  # whoever asked may have gone meanwhile
                gone.set_result(None)

        found.vhost.groups.drop(found.name, name, done)
        await gone
        await self._around.recorded(found.user)
        return Response(status_code=204)


def _all(found: Found) -> Iterator[dict[str, Any] | None]:
    """The groups of a stream by name; None for what was looked at only."""
    groups = found.vhost.groups
    for group in in_order(groups.of(found.name), key=lambda each: each.name):
        yield None if group is None or group not in groups else _facts(found, group)


def _facts(found: Found, group: Group) -> dict[str, Any]:
    """What is to be said of a group; its members and partitions are looked at when they are shown.

    How far it is behind is the sum of what is said of its partitions.
    """
    found.vhost.groups.look(group)
    partitions = _Partitions(found, group)
    return {
        "stream": group.stream,
        "group": group.name,
        "version": group.version,
        "filter": {key: group.agreed[key] for key in FILTERING if key in group.agreed},
        "retries": _retries(group),
        "used_ms": group.used_ms,
        "lag": Written(partitions.lag()),
        "members": partitions.members(),
        "partitions": iter(partitions.facts),
    }


class _Partitions:
    """The partitions of a group, each looked at once."""

    def __init__(self, found: Found, group: Group) -> None:
        self.facts: list[dict[str, Any]] = []
        self._found = found
        self._group = group
        self._numbers: dict[Member, list[int]] = {}

    def lag(self) -> Iterator[str]:
        """Look at them all; gives the sum of their lags, after nothing for each."""
        group = self._group
        for at, partition in enumerate(list(group.partitions)):
            stream = partition.stream
            assert stream is not None
            self._found.vhost.offset_tracking.save_of(partition, group.name)
            committed = partition.reader_offsets.get(group.name)
            begins = stream.first if committed is None else max(stream.first, committed + 1)
            self.facts.append(
                {
                    "partition": at,
                    "queue": partition.name,
                    "committed": committed,
                    "end": stream.end,
                    "lag": max(0, stream.end - begins),
                    "skipped_messages": skipped_messages(partition, group.name),
                }
            )
            member = group.member_at(partition)
            if member is not None:
                self._numbers.setdefault(member, []).append(at)
            yield ""
        yield str(sum(each["lag"] for each in self.facts))

    def members(self) -> Iterator[dict[str, Any]]:
        """Each member with the numbers of its partitions; after `lag`."""
        for member in list(self._group.members):
            yield {
                "connection": member.channel.session.name,
                "user": member.channel.session.user.name,
                "channel": member.channel.number,
                "consumer_tag": member.tag,
                "partitions": self._numbers.get(member, []),
            }


def _retries(group: Group) -> dict[str, Any] | None:
    if group.retries is None:
        return None
    engine = group.retries.engine
    return {
        "arguments": {key: group.agreed[key] for key in RETRY_ARGUMENTS if key in group.agreed},
        "waiting": engine.waiting,
        "unacknowledged": engine.unacked_count,
        "retried": engine.retried,
        "dead_lettered": group.retries.dead_lettered,
        "dropped": engine.dropped,
        "filtered": engine.filtered,
        "missed": engine.missed,
    }
