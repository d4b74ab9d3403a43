"""Groups of readers over HTTP: who is in them, how far they are, and forgetting them.

Responsible for these routes. Looking at a group, and forgetting one that nobody is in, takes the
right to read its stream, as being in it does. Must not know how partitions are shared out.
Invariant: an answer that a group was forgotten leaves only when that is on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.broker.group.group_retries import RETRY_ARGUMENTS
from leporid.broker.group.groups import FILTERING
from leporid.management.parameters import Parameters
from leporid.management.paths import name_of
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
        groups = found.vhost.groups.of(found.name)
        return JSONResponse({"groups": [_facts(found, group) for group in groups]})

    async def info(self, request: Request) -> Response:
        """GET …/{group}: one of them."""
        found = await self._around.find(request)
        Parameters(request, ())
        group = found.vhost.groups.find(found.name, name_of(request, "group"))
        return JSONResponse(_facts(found, group))

    async def forget(self, request: Request) -> Response:
        """DELETE …/{group}: its filter and its offsets, if nobody is in it."""
        found = await self._around.find(request)
        Parameters(request, ())
        found.vhost.groups.drop(found.name, name_of(request, "group"))
        await self._around.recorded()
        return Response(status_code=204)


def _facts(found: Found, group: Group) -> dict[str, Any]:
    found.vhost.groups.look(group)
    found.vhost.bookmarks.save_all()
    numbers = {partition: at for at, partition in enumerate(group.partitions)}
    partitions = []
    for partition, at in numbers.items():
        stream, committed = partition.stream, partition.reader_offsets.get(group.name)
        assert stream is not None
        begins = stream.first if committed is None else max(stream.first, committed + 1)
        partitions.append(
            {
                "partition": at,
                "queue": partition.name,
                "committed": committed,
                "end": stream.end,
                "lag": max(0, stream.end - begins),
            }
        )
    return {
        "stream": group.stream,
        "group": group.name,
        "version": group.version,
        "filter": {key: group.agreed[key] for key in FILTERING if key in group.agreed},
        "retries": _retries(group),
        "used_ms": group.used_ms,
        "lag": sum(each["lag"] for each in partitions),
        "members": [_member(group, member, numbers) for member in group.members],
        "partitions": partitions,
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


def _member(group: Group, member: Member, numbers: dict[Any, int]) -> dict[str, Any]:
    return {
        "connection": member.channel.session.name,
        "user": member.channel.session.user.name,
        "channel": member.channel.number,
        "consumer_tag": member.tag,
        "partitions": [at for each, at in numbers.items() if group.member_at(each) is member],
    }
