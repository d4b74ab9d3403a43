"""What the arguments of a stream and of its consumers mean: retention, and where to begin.

Responsible for turning x-max-age, x-max-length-bytes and x-stream-max-segment-size-bytes into
what the engine keeps, and x-stream-offset into the offset of a message. Must not know who asks,
nor how messages are kept. Invariant: everything here was checked by `settings.values` before, so
only what one value alone cannot say (the size of a segment comes last in RabbitMQ) is refused here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leporid.amqp.errors import NotImplementedFault, PreconditionFailed
from leporid.amqp.tables import Timestamp, Value
from leporid.broker.settings.values import Arguments, duration_ms

if TYPE_CHECKING:
    from leporid.engine.stream.stream import Stream

OFFSET: Final = "x-stream-offset"
SEGMENT_BYTES: Final = "x-stream-max-segment-size-bytes"

SEGMENT_BYTES_LIMIT: Final = 3_000_000_000
"""RabbitMQ's largest x-stream-max-segment-size-bytes."""

NUMBER_MAX: Final = 2**63 - 1
"""No offset, and no time in milliseconds, is beyond; the engine's numbers have 64 bits."""


def check_segment_size(arguments: Arguments) -> None:
    """Check the last thing that RabbitMQ checks of a new stream.

    Raises:
        PreconditionFailed: its segments would be too large.
    """
    size = arguments.get(SEGMENT_BYTES)
    if isinstance(size, int) and size > SEGMENT_BYTES_LIMIT:
        raise PreconditionFailed(f"Exceeded max value for {SEGMENT_BYTES}")


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a stream is kept."""

    max_bytes: int | None = None
    max_age_ms: int | None = None
    segment_bytes: int | None = None


def retention(effective: Callable[[str], Value]) -> Retention:
    """Return what arguments and policies say about it; asked by the keys of policies."""
    age_ms = duration_ms(str(effective("max-age") or ""))
    return Retention(
        max_bytes=_whole(effective("max-length-bytes")),
        # A stream that keeps what is older than the clock keeps everything.
        max_age_ms=None if age_ms is None or age_ms > NUMBER_MAX else age_ms,
        segment_bytes=_whole(effective("stream-max-segment-size-bytes")),
    )


def retain(stream: Stream, kept: Retention) -> None:
    """Tell the engine; segments that there are keep their size."""
    stream.set_retention(
        max_bytes=kept.max_bytes, max_age_ms=kept.max_age_ms, segment_bytes=kept.segment_bytes
    )


def start_offset(stream: Stream, value: Value, now_ms: int) -> int:
    """Return the offset that an x-stream-offset stands for.

    One that is not there yet is waited for; one that is not there any more is the first.
    """
    if isinstance(value, Timestamp):
        return stream.offset_for(min(NUMBER_MAX, max(0, int(value)) * 1000))
    if isinstance(value, int):
        return min(NUMBER_MAX, max(0, value))
    if value == "first":
        return stream.first
    if value == "last":
        return stream.last_chunk
    age_ms = duration_ms(str(value))
    if age_ms is None:
        return stream.next_offset
    return stream.offset_for(max(0, now_ms - age_ms))


def unsupported(what: str, title: str) -> NotImplementedFault:
    """Make the fault for what a stream cannot do, in RabbitMQ's words."""
    return NotImplementedFault(f"{what} not supported by stream queues {title}")


def _whole(value: Value) -> int | None:
    return int(value) if isinstance(value, int) else None
