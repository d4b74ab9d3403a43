"""Named readers of streams over HTTP: where each is, and putting it elsewhere.

Responsible for these routes. Offsets here are those of the last message that was read, as readers
over AMQP store them. Must not know where they are kept. Invariants: an answer that an offset was
stored leaves only when it is on disk; what a group's members store, nobody else does meanwhile.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.management.parameters import NUMBER_MAX, Parameters, body_of
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal, bad
from leporid.management.streams import check_incarnation, check_partition
from leporid.management.surroundings import Surroundings


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
        readers = [
            {"reader": reader, "partition": number, "offset": offset}
            for number in wanted
            for reader, offset in sorted(
                found.vhost.reader_offsets(found.streams[number].name).items()
            )
        ]
        return JSONResponse({"readers": readers})

    async def offset(self, request: Request) -> Response:
        """GET …/readers/{reader}."""
        found = await self._around.find(request)
        number = check_partition(found, Parameters(request, ("partition",)))
        reader = name_of(request, "reader")
        offsets = found.vhost.reader_offsets(found.streams[number].name)
        if reader not in offsets:
            raise _unknown(reader, found.name)
        return JSONResponse({"reader": reader, "partition": number, "offset": offsets[reader]})

    async def store(self, request: Request) -> Response:
        """PUT …/readers/{reader}."""
        found = await self._around.find(request)
        given = Parameters(request, ("partition", "incarnation"))
        number = check_partition(found, given)
        check_incarnation(found, number, given)
        reader = name_of(request, "reader")
        offset = (await body_of(request, ("offset",))).get("offset")
        if not isinstance(offset, int) or isinstance(offset, bool):
            raise bad("offset", "is missing, or not a whole number")
        if not 0 <= offset <= NUMBER_MAX:
            raise bad("offset", f"is not from 0 to {NUMBER_MAX}")
        found.vhost.groups.check_offset(found.streams[number].name, reader)
        found.vhost.set_reader_offset(found.streams[number].name, reader, offset)
        await self._around.recorded()
        return Response(status_code=204)

    async def forget(self, request: Request) -> Response:
        """DELETE …/readers/{reader}."""
        found = await self._around.find(request)
        number = check_partition(found, Parameters(request, ("partition",)))
        reader = name_of(request, "reader")
        found.vhost.groups.check_offset(found.streams[number].name, reader)
        if not found.vhost.drop_reader_offset(found.streams[number].name, reader):
            raise _unknown(reader, found.name)
        await self._around.recorded()
        return Response(status_code=204)


def _unknown(reader: str, stream: str) -> Refusal:
    return Refusal(404, "not-found", f"stream '{stream}' has no reader '{reader}'")
