"""What all storage shares: the transient and the durable log, and sync generations.

Responsible for finding a record by its position, and for what belongs to the next sync. It must not
open files or read a clock: the server sets the time, writes what `begin_sync` returns and calls
`end_sync`. It must not know queues: `Entries` is the interface to theirs.

Every durable change belongs to the current `generation`. `begin_sync` closes it and opens the
next; when it is on disk, `end_sync` makes it `synced`. Invariant: `synced` is below `generation`,
and everything of the generations up to `synced` is on disk.
"""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.log.log cimport Log, Segment
from leporid.engine.log.producers cimport Producers
from leporid.engine.wire.record cimport Range, Record


cdef class Entries:
    """The entries that refer to records, as the logs know them; implemented by `Queues`."""

    cdef bint has_queue(self, uint32_t queue) except -1:
        """Whether there is a queue of that id."""
        raise NotImplementedError

    cdef bint refers(self, uint32_t queue, uint64_t seq, uint64_t position) except -1:
        """Whether an entry of a queue still refers to the record at a position."""
        raise NotImplementedError

    cdef bint needs_body(self, uint32_t queue) except -1:
        """Whether a queue delivers its messages; a deduplication cache needs no bodies."""
        raise NotImplementedError

    cdef int move(self, uint32_t queue, uint64_t seq, uint64_t position,
                  uint32_t share, uint32_t body_lost) except -1:
        """An entry's record was copied to a new position, without `body_lost` bytes of body.

        `share` is what the entry has of the copy's bytes.
        """
        raise NotImplementedError

    cdef int restore_entry(self, uint32_t queue, uint64_t seq, uint64_t position) except -1:
        """Replay found the record of an entry."""
        raise NotImplementedError

    cdef int restore_settled(self, uint32_t queue, const Range *which) except -1:
        """Replay found that these entries were settled."""
        raise NotImplementedError

    cdef int restore_delivered(self, uint32_t queue, const Range *which) except -1:
        """Replay found how often these entries were delivered."""
        raise NotImplementedError

    cdef int end_replay(self, bint redelivered) except -1:
        """All facts were read; `redelivered`: after a crash any entry may have been delivered."""
        raise NotImplementedError


cdef class Logs:
    """The logs of messages in queues, and the clock; each stream has its own log."""

    def __cinit__(self, uint32_t seed, size_t durable_segment_bytes,
                  size_t transient_segment_bytes):
        self.clock = Clock()
        self.transient = Log(False, transient_segment_bytes, seed)
        self.durable = Log(True, durable_segment_bytes, seed)
        self.producers = Producers()
        self.generation = 1
        self.unsettled = []
        self.dropped = []

    def __repr__(self):
        return f"<Logs generation={self.generation} synced={self.synced}>"

    cdef Record *record(self, uint64_t position):
        return record_at(self, position)

    cdef int release(self, uint64_t position, uint32_t share) except -1:
        """An entry that referred to the record, for a share of its bytes, is gone."""
        if not position >> 63:
            self.transient.release(position, share)
        elif self.durable.release(position, share):
            self.idle_segments = True
        return 0

    def note_change(self):
        """Note a durable change; returns the generation that it belongs to."""
        self.dirty = True
        return self.generation

    @property
    def segments(self):
        """Segments of the durable log that exist, oldest first."""
        return [segment for segment in self.durable.segments if segment is not None]

    cdef tuple begin_sync(self):
        """Close the generation: its number, the writes, the segments to delete after them."""
        self.producers.begin_sync(self.durable, self.clock.wall_ms)
        drops, self.dropped = self.dropped, []
        self.generation += 1
        self.dirty = self.awaited = False
        return self.generation - 1, self.durable.unwritten(), drops

    cdef int end_sync(self, uint64_t generation, list writes) except -1:
        """The generation is on disk."""
        self.synced = generation
        self.durable.mark_written(writes)
        return 0

    cdef bint begin_mapping(self) except -1:
        """Whether segments can be read from their files from now on, by `mapping`."""
        cdef Segment segment
        if self.is_mapping or self.map_segment is None:
            return False
        for segment in self.segments:
            if can_be_mapped(segment):
                self.is_mapping = True
                return True
        return False


cdef bint can_be_mapped(Segment segment) except -1:
    """Whether a segment is sealed, on disk, still needed, and looked at by nobody."""
    return (segment.sealed and not segment.mapped and segment.written == segment.used
            and segment.live and not segment.readers)


def mapping(Logs logs):
    """Read segments from their files, one a step: to free the memory of one takes milliseconds."""
    cdef Segment segment
    try:
        for segment in logs.segments:
            if can_be_mapped(segment):
                segment.adopt(logs.map_segment(segment.number), logs.durable)
                yield
    except OSError:
        pass  # no descriptor or mapping to be had: they stay in memory until the next sync
    finally:
        logs.is_mapping = False
