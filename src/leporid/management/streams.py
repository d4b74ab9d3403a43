"""Streams over HTTP: which there are, what is in them, making and deleting them.

Responsible for these routes' parameters and answers. Must not know how streams are kept, nor
anything of the rules that AMQP has as well: those are the broker's. Invariant: an answer that
something was made or deleted leaves only when that is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.amqp.tables import encode_table
from leporid.broker.access.access import User
from leporid.broker.access.permissions import Pattern, PatternError
from leporid.broker.access.remote_rights import decided
from leporid.broker.names import check_new_name
from leporid.broker.registry import StepsTo
from leporid.broker.settings.values import Arguments
from leporid.broker.stream import partitions
from leporid.broker.vhost import VirtualHost
from leporid.management.admission import taken
from leporid.management.listings import in_order
from leporid.management.paging import NAME_PATTERN_MEMORY_BYTES_MAX
from leporid.management.parameters import Parameters, body_of
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal, bad
from leporid.management.surroundings import Found, Surroundings
from leporid.management.waiting import Waiting

if TYPE_CHECKING:
    from leporid.engine.stream.stream import Stream

# HTTP clients and proxies give up after a minute; half of that leaves room for the way.
WAIT_MS_MAX: Final = 30_000
NAME_BYTES_MAX: Final = 255
ROUTINGS: Final = ("hash", "key")


class StreamRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._waiting = Waiting()

    # ------------------------------------------------------------- looking

    async def listing(self, request: Request) -> Response:
        """GET /api/streams/{vhost}: those that the user may read."""
        user, vhost = await self._around.enter(request)
        given = Parameters(request, ("pattern",))
        pattern = _pattern(given.text("pattern"))

        def wanted() -> Iterator[object]:
            for one in partitions.names(vhost):
                if one is None or not (pattern is None or pattern.matches(one[0])):
                    yield None
                    continue
                may = decided(partial(user.may, "read", "queue", one[0], vhost.name))
                yield one if (yield from may) else None

        found = (
            {"name": one[0], "partitions": one[1]} if isinstance(one, tuple) else one
            for one in in_order(wanted())
        )
        return self._around.listing(user, {"streams": found})

    async def info(self, request: Request) -> Response:
        """GET /api/streams/{vhost}/{stream}: its partitions, perhaps when there is more in them."""
        found = await self._around.find(request)
        given = Parameters(request, ("beyond", "wait_ms"))
        beyond = given.offsets("beyond")
        wait_ms = given.whole("wait_ms", 0, most=WAIT_MS_MAX)
        if wait_ms and not beyond:
            raise bad("wait_ms", "needs beyond: which offsets to wait for")
        watched = [found.partition(number) for number in beyond]
        if wait_ms and not any(
            stream.end > offset for stream, offset in zip(watched, beyond.values(), strict=True)
        ):
            with taken(self._around.admission.shares.long_polls, found.user.name):
                await self._wait(watched, list(beyond.values()), wait_ms)
            # All who waited for it are told at once.
            await self._around.admission.turns.next(found.user.name)
            found = await self._around.find_again(found)
        facts = (_facts(at, one) for at, one in enumerate(found.streams))
        return self._around.listing(found.user, {"stream": found.name, "partitions": facts})

    async def _wait(self, streams: list[Stream], offsets: list[int], wait_ms: int) -> None:
        monotonic = self._around.monotonic
        until = monotonic() + wait_ms / 1000
        while (left := until - monotonic()) > 0:
            if not await self._waiting.grown(streams, left):
                return
            if any(one.end > offset for one, offset in zip(streams, offsets, strict=True)):
                return

    async def offset_for(self, request: Request) -> Response:
        """GET …/offset-for: the first offset of each partition that is not older than a time."""
        found = await self._around.find(request)
        timestamp_ms = Parameters(request, ("timestamp_ms",)).needed("timestamp_ms")
        offsets = (
            {"partition": at, "offset": one.offset_for(timestamp_ms)}
            for at, one in enumerate(found.streams)
        )
        return self._around.listing(found.user, {"partitions": offsets})

    # ------------------------------------------------------------- making and deleting

    async def declare(self, request: Request) -> Response:
        """PUT /api/streams/{vhost}/{stream}: 201 when it was made, 204 when it is there."""
        user, vhost = await self._around.enter(request)
        Parameters(request, ())
        name = name_of(request, "stream")
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise bad("stream", f"a name has 1 to {NAME_BYTES_MAX} bytes")
        members = ("partitions", "routing", "keys", "arguments")
        body = await body_of(self._around.admission, request, user, members)
        arguments = _arguments(body.get("arguments"))

        def declaring() -> StepsTo[bool]:
            if (
                body.get("partitions") is None
                and body.get("keys") is None
                and "routing" not in body
            ):
                return _declaring_one(user, vhost, name, arguments)
            return _declaring_many(user, vhost, name, body, arguments)

        made = await self._around.job(declaring)
        await self._around.recorded(user)
        return Response(status_code=201 if made else 204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/streams/{vhost}/{stream}: with everything in it."""
        found = await self._around.find(request, "configure")
        Parameters(request, ())
        user, vhost = found.user, found.vhost.name
        for queue in tuple(partitions.of(found.vhost, found.name)):
            await self._around.decided(partial(user.check, "configure", "queue", queue.name, vhost))
        await self._around.job(lambda: partitions.deleting(found.vhost, found.name))
        await self._around.recorded(found.user)
        return Response(status_code=204)


def _pattern(text: str | None) -> Pattern | None:
    """A pattern for whole names."""
    if text is None:
        return None
    bounds = {"memory_bytes_max": NAME_PATTERN_MEMORY_BYTES_MAX}
    try:
        Pattern(text, **bounds)  # alone, so that a stray bracket is not closed by ours
        return Pattern(f"^(?:{text})$", **bounds)
    except PatternError as error:
        raise bad("pattern", str(error)) from None


def _facts(partition: int, stream: Stream) -> dict[str, Any]:
    skipped, evaluated, matched, type_errors = stream.filtering
    return {
        "partition": partition,
        "queue": stream.name,
        "first": stream.first,
        "end": stream.end,
        "incarnation": stream.incarnation,
        "bytes": stream.bytes,
        "first_timestamp_ms": stream.first_timestamp_ms,
        "last_timestamp_ms": stream.last_timestamp_ms,
        "filtering": {
            "batches_skipped": skipped,
            "evaluated": evaluated,
            "matched": matched,
            "type_errors": type_errors,
        },
    }


def _arguments(given: Any) -> Arguments:
    """Arguments of a queue, of the types that JSON has."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise bad("arguments", "is not an object")
    for name, value in given.items():
        if not isinstance(value, str | int):
            raise bad("arguments", f"{name!r} must be a text, a whole number, true or false")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise bad("arguments", f"{name!r} has more than 64 bits")
    try:
        # It is recorded so. JSON has longer names than AMQP, and texts that no octets stand for.
        encode_table(given)
    except ValueError as error:
        raise bad("arguments", f"cannot be recorded: {_shown(error)}") from None
    return given


def _has_octets(text: str) -> bool:
    """A lone surrogate, which JSON may hold, has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(error: ValueError) -> str:
    # The error of an encoding quotes what cannot be shown.
    return error.reason if isinstance(error, UnicodeEncodeError) else str(error)


def _declaring_one(
    user: User, vhost: VirtualHost, name: str, arguments: Arguments
) -> StepsTo[bool]:
    yield from ()
    check_new_name("queue", name)
    user.check("configure", "queue", name, vhost.name)
    vhost.unknown_arguments.check_queue(name, arguments, f"user '{user.name}'")
    arguments = {**arguments, "x-queue-type": "stream"}
    if partitions.is_partitioned(vhost, name):
        raise Refusal(409, "conflict", f"stream '{name}' is there already, with partitions")
    queue = vhost.find_queue(name)
    if queue is not None:
        queue.check_same(durable=True, auto_delete=False, arguments=arguments, owner=None)
        return False
    vhost.create_queue(name, durable=True, auto_delete=False, arguments=arguments, owner=None)
    return True


def _declaring_many(
    user: User, vhost: VirtualHost, name: str, body: Any, arguments: Arguments
) -> StepsTo[bool]:
    count, keys = body.get("partitions"), body.get("keys")
    routing = body.get("routing", "hash")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
        raise bad("partitions", "is not a whole number")
    if routing not in ROUTINGS:
        raise bad("routing", "must be 'hash' or 'key'")
    if keys is not None and (
        not isinstance(keys, list) or not all(isinstance(key, str) for key in keys)
    ):
        raise bad("keys", "is not a list of texts")
    if keys is not None and not all(map(_has_octets, keys)):
        raise bad("keys", "has a text that no octets stand for")
    plan = partitions.plan(name, count, routing=routing, keys=keys, arguments=arguments)
    yield from decided(lambda: user.check("configure", "exchange", name, vhost.name))
    for stream in plan.streams:
        yield from decided(partial(user.check, "configure", "queue", stream, vhost.name))
        yield None
    vhost.unknown_arguments.check_queue(name, arguments, f"user '{user.name}'")
    return (yield from partitions.declaring(vhost, plan))


def check_partition(found: Found, given: Parameters) -> int:
    """Return the partition that a request names, 0 if none; raises Refusal without it."""
    number = given.whole("partition", 0)
    found.partition(number)
    return number


def check_incarnation(found: Found, partition: int, given: Parameters) -> None:
    """Check that a partition is the one that a request means; raises Refusal if it is not."""
    wanted, there = given.text("incarnation"), found.streams[partition].incarnation
    if wanted is not None and wanted != there:
        raise Refusal(
            409,
            "incarnation",
            f"stream '{found.name}' is not the one that was read before: it was deleted and made "
            "anew, so its offsets mean other messages",
            incarnation=there,
        )
