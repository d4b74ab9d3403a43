# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of stream.pyx."""

from collections.abc import Callable

from typing_extensions import Buffer

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
    """Called when `end` moved; while it is set, appends do not wait to be synced."""

    title: str
    """Its name as reply texts have it."""

    @property
    def first(self) -> int:
        """Offset of the oldest message."""

    @property
    def end(self) -> int:
        """Messages below are on disk, and may be read."""

    @property
    def last_chunk(self) -> int:
        """First offset of the newest sync that brought something."""

    @property
    def next_offset(self) -> int:
        """The offset of the next message that comes."""

    @property
    def producers(self) -> Producers:
        """Those that say who they are."""

    @property
    def log(self) -> Log: ...
    @property
    def bytes(self) -> int:
        """Bytes of the log."""

    @property
    def incarnation(self) -> str:
        """Tells this stream from every other that had or will have its name."""

    @property
    def first_timestamp_ms(self) -> int | None:
        """When the oldest message came."""

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
        """What may go: whole segments beyond a size or an age, never the newest."""

    @property
    def offsets(self) -> OffsetIndex: ...
    @property
    def filtering(self) -> tuple[int, int, int, int]:
        """What filters made of it, over AMQP and HTTP.

        Batches skipped, messages evaluated and matched, and those with a type error.
        """

    def offset_for(self, timestamp_ms: int) -> int:
        """The first offset that came at that time or later; `end` if none did yet."""

    def count_filtering(self, counts: tuple[int, int, int, int]) -> None:
        """Add what filters made of a window, as `filtering` has it."""

    def window(
        self,
        first: int,
        end: int,
        rows_max: int,
        bytes_max: int,
        choice: Choice | None = None,
    ) -> StreamWindow:
        """Messages from `first` on; raises ValueError where there are none.

        Batches that have nothing of a choice are left out.
        """

    def drop_before(self, number: int) -> None:
        """Forget the segments below that number."""

class Streams:
    """What all streams share; made by `Engine`."""

    map_segment: Callable[[int, int], Buffer] | None
    """The file of a stream's segment: stream id, segment number."""
    incarnation_prefix: str
    """Of this data directory; a part of every stream's incarnation."""

    def __init__(self, queues: Queues, incarnation_prefix: str) -> None: ...
    @property
    def by_id(self) -> dict[int, Stream]:
        """Those that there are."""

    @property
    def filtering(self) -> tuple[int, int, int, int]:
        """What filters made of all streams there were, as each of them has it."""
