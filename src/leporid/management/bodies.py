"""Bodies of requests: read as a whole, while they come and as far as there is room for them.

Responsible for what a body may have in bytes, of one request and of all together, and for ending
those that do not come. Must not know what is in them. Invariant: bytes are counted before they are
read, by what the request says of its length, or piece by piece if it does not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from typing import Final

from starlette.requests import ClientDisconnect, Request

from leporid.limits.shares import NoSlot, Slot
from leporid.management.admission import Admission, holding, taken
from leporid.management.refusals import Refusal, of_no_slot, too_large

# For a body to arrive: 1 MiB/s for the largest.
BODY_SECONDS: Final = 30
# In such a time, so many bytes of it, or its end; who sends less would hold room for nothing.
PROGRESS_SECONDS: Final = 5
PROGRESS_BYTES_MIN: Final = 64 * 1024
SLOW: Final = "http_body_time"
"""The kind of refusal for bodies that do not come."""


@contextlib.asynccontextmanager
async def body_in(
    admission: Admission, request: Request, user: Hashable, limit: str, bytes_max: int
) -> AsyncIterator[bytearray]:
    """Give the body, whose bytes are counted until the block is left.

    Args:
        admission: has the shares.
        request: whose body it is.
        user: who sends it.
        limit: the name of the limit of one body, for the refusal.
        bytes_max: its value.

    Raises:
        Refusal: it is too large (413), there is no room for it (429, 503), it did not come in time
            (408), or it is not whole (400).
    """
    declared = _declared(request)
    if declared > bytes_max:
        raise _larger(admission, limit, bytes_max)
    room = _Room(admission, user, declared)
    try:
        async with holding(admission.shares.uploads, user):
            data = await _read(admission, request, room, limit, bytes_max)
        yield data
    finally:
        room.release()


class _Room:
    """What is counted for one body."""

    def __init__(self, admission: Admission, user: Hashable, declared: int) -> None:
        self._share = admission.shares.body_bytes
        self._user = user
        self._slot: Slot | None = taken(self._share, user, declared) if declared else None

    def need(self, count: int) -> None:
        """So many bytes are there; raises Refusal if there is no room for them."""
        if self._slot is None:
            self._slot = taken(self._share, self._user, count)
        elif count > self._slot.count:
            try:
                self._slot.add(count - self._slot.count)
            except NoSlot as none:
                raise of_no_slot(none) from None

    def release(self) -> None:
        if self._slot is not None:
            self._slot.release()


async def _read(
    admission: Admission, request: Request, room: _Room, limit: str, bytes_max: int
) -> bytearray:
    data = bytearray()
    now = asyncio.get_running_loop().time
    until = now() + BODY_SECONDS
    seen = 0
    try:
        async with asyncio.timeout_at(min(until, now() + PROGRESS_SECONDS)) as patience:
            async for chunk in request.stream():
                if len(data) + len(chunk) > bytes_max:
                    raise _larger(admission, limit, bytes_max)
                if chunk:
                    room.need(len(data) + len(chunk))
                data += chunk
                if len(data) - seen >= PROGRESS_BYTES_MIN:
                    seen = len(data)
                    patience.reschedule(min(until, now() + PROGRESS_SECONDS))
    except TimeoutError:
        admission.refusals.count(SLOW)
        raise Refusal(
            408,
            "too-slow",
            f"the body took more than {BODY_SECONDS} seconds, or less than {PROGRESS_BYTES_MIN} "
            f"bytes of it came in {PROGRESS_SECONDS} seconds",
            limit=SLOW,
            value=BODY_SECONDS,
        ) from None
    except ClientDisconnect:
        raise Refusal(400, "cut-off", "the body is not whole") from None
    return data


def _declared(request: Request) -> int:
    """What the request says of its length; 0 without that. The server has checked the number."""
    return int(request.headers.get("content-length") or 0)


def _larger(admission: Admission, limit: str, bytes_max: int) -> Refusal:
    admission.refusals.count(limit)
    return too_large(limit, bytes_max, f"the body has more than {bytes_max} bytes ({limit})")
