"""Named readers of streams over HTTP: where each is, and putting it elsewhere.

Responsible for these routes. `offset` here is that of the last message that was read, as readers
over AMQP store it, and `next_offset` the one after it. Must not know where they are kept.
Invariants: an answer that an offset was stored leaves only when it is on disk; what a group's
members store, nobody else does meanwhile; who may only read a stream moves and drops nobody else's
offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.broker.stream.readers import Standing, skipped_messages
from leporid.management.listings import in_order
from leporid.management.parameters import NUMBER_MAX, Parameters, body_of
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal, bad
from leporid.management.streams import check_incarnation, check_partition
from leporid.management.surroundings import Found, Surroundings

NAME_MAX: Final = 255
"""Characters of a user's name, at most as many as it has bytes."""


class ReaderRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def listing(self, request: Request) -> Response:
        """GET …/readers: of all partitions, or of one."""
        found = await self._around.find(request)
        given = Parameters(request, ("partition",))
        wanted = (
            [check_partition(found, given)] if "partition" in given else range(len(found.streams))
        )
        return self._around.listing(found.user, {"readers": _readers(found, wanted)})

    async def offset(self, request: Request) -> Response:
        """GET …/readers/{reader}."""
        found = await self._around.find(request)
        number = check_partition(found, Parameters(request, ("partition",)))
        reader = name_of(request, "reader")
        offset = found.vhost.reader_offset(found.streams[number].name, reader)
        if offset is None:
            raise _unknown(reader, found.name)
        return JSONResponse(_reader(found, number, reader, offset))

    async def store(self, request: Request) -> Response:
        """PUT …/readers/{reader}."""
        found = await self._around.find(request)
        given = Parameters(request, ("partition", "incarnation"))
        number = check_partition(found, given)
        check_incarnation(found, number, given)
        reader = name_of(request, "reader")
        await check_own(self._around, found, reader)
        admission = self._around.admission
        body = await body_of(admission, request, found.user, ("offset", "next_offset"))
        offset = _read_last(body)
        stream = found.streams[number].name
        found.vhost.groups.check_offset(stream, reader)
        found.vhost.set_reader_offset(stream, reader, offset, found.user.name)
        await self._around.recorded(found.user)
        return Response(status_code=204)

    async def forget(self, request: Request) -> Response:
        """DELETE …/readers/{reader}."""
        found = await self._around.find(request)
        number = check_partition(found, Parameters(request, ("partition",)))
        reader = name_of(request, "reader")
        await check_own(self._around, found, reader)
        found.vhost.groups.check_offset(found.streams[number].name, reader)
        if not found.vhost.drop_reader_offset(found.streams[number].name, reader):
            raise _unknown(reader, found.name)
        await self._around.recorded(found.user)
        return Response(status_code=204)


def _readers(found: Found, partitions: Iterable[int]) -> Iterator[dict[str, Any] | None]:
    """The readers of these partitions, by name."""
    for number in partitions:
        stream = found.streams[number]
        if stream.retired:
            continue  # deleted meanwhile
        queue = found.vhost.stream(stream.name)
        for _ in found.vhost.offset_tracking.saving_of(queue):
            yield None
        for one in in_order(tuple(queue.reader_offsets.items())):
            yield one and _reader(found, number, *one)


def _reader(found: Found, partition: int, reader: str, offset: int) -> dict[str, Any]:
    queue = found.vhost.stream(found.streams[partition].name)
    standing = Standing(queue, found.streams[partition], reader, offset, found.name, partition)
    return {
        "reader": reader,
        "partition": partition,
        "offset": offset,
        "next_offset": standing.next_offset,
        "end": standing.stream.end,
        "lag": standing.lag,
        "lag_ms": standing.lag_ms(found.vhost.engine.clock.wall_ms),
        "user": standing.user,
        "since_ms": standing.since_ms,
        "moved_ms": standing.moved_ms,
        "skipped_messages": skipped_messages(queue, reader),
    }


def _read_last(body: Mapping[str, Any]) -> int:
    """Return the offset of the last message read, as one of two fields says it.

    Raises:
        Refusal: 400 if none does, both do, or it is no offset.
    """
    name = "next_offset" if "next_offset" in body else "offset"
    offset = body.get(name)
    if len(body) != 1 or not isinstance(offset, int) or isinstance(offset, bool):
        raise bad(name, "is missing, not a whole number, or given as offset and next_offset")
    if not 0 <= offset <= NUMBER_MAX:
        raise bad(name, f"is not from 0 to {NUMBER_MAX}")
    return offset if name == "offset" else offset - 1


async def check_own(around: Surroundings, found: Found, name: str) -> None:
    """Refuse to move or drop the offsets of a reader, or group, that may be somebody else's.

    Whose it is, its name says: it is that of the user after whom it is called, by the name alone or
    with a dot and more behind it. Of several such users it is the one with the longest name.

    Raises:
        AccessRefused: it is not this user's, who has not the right to configure the stream either.
    """
    # A longer one is no user's: to look for 40,000 dots in a path took half a second.
    owner = name if len(name) <= NAME_MAX else name[: NAME_MAX + 1].rpartition(".")[0]
    while around.broker.access.user(owner) is None and "." in owner:
        owner = owner.rpartition(".")[0]
    if owner != found.user.name:
        user, vhost = found.user, found.vhost.name
        await around.decided(lambda: user.check("configure", "queue", found.name, vhost))


def _unknown(reader: str, stream: str) -> Refusal:
    return Refusal(404, "not-found", f"stream '{stream}' has no reader '{reader}'")
