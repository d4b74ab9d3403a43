# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of stream.pyx."""

from collections.abc import Callable

from typing_extensions import Buffer

from leporid.engine.connection.stream_consumer import StreamConsumer
from leporid.engine.log.log import Log
from leporid.engine.log.producers import Producers
from leporid.engine.queue.queue import Queue
from leporid.engine.queue.queues import Queues
from leporid.engine.stream.choice import Choice
from leporid.engine.stream.offset_index import OffsetIndex
from leporid.engine.stream.window import StreamWindow

class Stream(Queue):
    """A stream: a queue that keeps its messages; made by `Engine.stream`."""

    on_synced: Callable[[], None] | None
    """Called when `end` has moved; while it is set, appends are synced at once."""

    on_skipped: Callable[[list[tuple[StreamConsumer, int, int]]], object] | None
    """Called when retention did not wait for consumers: each with its offset before and after."""

    title: str
    """Its name in reply texts."""

    @property
    def first(self) -> int:
        """Offset of the oldest message."""

    @property
    def end(self) -> int:
        """Messages below are on disk, and may be read."""

    @property
    def last_chunk(self) -> int:
        """First offset of the newest sync that had messages."""

    @property
    def next_offset(self) -> int:
        """The offset of the next message to be appended."""

    @property
    def producers(self) -> Producers:
        """Of its messages."""

    @property
    def log(self) -> Log: ...
    @property
    def bytes(self) -> int:
        """Bytes of the log."""

    @property
    def incarnation(self) -> str:
        """Differs from that of every other stream that had or will have its name."""

    @property
    def first_timestamp_ms(self) -> int | None:
        """When the oldest message came."""

    def timestamp_of(self, offset: int) -> int | None:
        """When the first readable message from an offset on came; None if there is none."""

    @property
    def last_timestamp_ms(self) -> int | None:
        """When the newest readable message came."""

    def set_retention(
        self,
        *,
        max_bytes: int | None = None,
        max_age_ms: int | None = None,
        segment_bytes: int | None = None,
    ) -> None:
        """Set what retention drops: whole segments beyond a size or an age, never the newest."""

    @property
    def offsets(self) -> OffsetIndex: ...
    @property
    def filtering(self) -> tuple[int, int, int, int]:
        """Counters of its readers' filters, over AMQP and HTTP.

        Batches skipped, messages evaluated, matched, and with a type error.
        """

    def offset_for(self, timestamp_ms: int) -> int:
        """The offset of the first message that came at a time or later; `end` without one."""

    def count_filtering(self, counts: tuple[int, int, int, int]) -> None:
        """Add the counters of a window's filter, as in `filtering`."""

    def window(
        self,
        first: int,
        end: int,
        rows_max: int,
        bytes_max: int,
        choice: Choice | None = None,
    ) -> StreamWindow:
        """Messages from `first` to below `end`; raises ValueError if it does not have them.

        With a choice, batches that cannot have a match are skipped.
        """

    def drop_before(self, number: int) -> None:
        """Drop the segments below a number."""

class Streams:
    """What all streams share; made by `Engine`."""

    map_segment: Callable[[int, int], Buffer] | None
    """The file of a stream's segment: stream id, segment number."""
    incarnation_prefix: str
    """Of this data directory; a part of every stream's incarnation."""

    def __init__(self, queues: Queues, incarnation_prefix: str) -> None: ...
    @property
    def by_id(self) -> dict[int, Stream]:
        """All streams."""

    @property
    def filtering(self) -> tuple[int, int, int, int]:
        """Counters of filters for all streams since the start, as in `Stream.filtering`."""

    @property
    def skipped_messages(self) -> int:
        """Messages that consumers missed because retention dropped them first."""

    def set_hold(self, percent: int) -> None:
        """Set by how much of its limit a stream may be over it because a consumer is slow.

        0: by any size and age.
        """
