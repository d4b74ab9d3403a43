"""What everything that is kept shares: both logs, the time, and sync generations.

Responsible for where a record is found by its position, and for what belongs to the next sync. It
never opens a file or reads a clock: the server sets the time, writes what `begin_sync` hands out and
says `end_sync`. It does not know queues: what it must know of their entries it asks `Entries`.

Everything durable that happens belongs to the current `generation`. `begin_sync` closes it and
opens the next; when it is on disk, `end_sync` makes it `synced`. Invariant: `synced` is below
`generation`, and everything of the generations up to it is on disk.
"""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.log.log cimport Log, Segment
from leporid.engine.log.producers cimport Producers
from leporid.engine.wire.record cimport Range, Record


cdef class Clock:
    """The time, as the server has set it."""


cdef class Entries:
    """What the log must know of the entries that refer to its records; queues answer it."""

    cdef bint has_queue(self, uint32_t queue) except -1:
        raise NotImplementedError

    cdef bint refers(self, uint32_t queue, uint64_t seq, uint64_t position) except -1:
        """Whether that entry of a queue refers to that record."""
        raise NotImplementedError

    cdef bint needs_body(self, uint32_t queue) except -1:
        """Whether a queue delivers its messages, or only knows what there was."""
        raise NotImplementedError

    cdef int move(self, uint32_t queue, uint64_t seq, uint64_t position,
                  uint32_t body_lost) except -1:
        """That entry's record was copied to there, without so many bytes of body."""
        raise NotImplementedError

    cdef int restore_entry(self, uint32_t queue, uint64_t seq, uint64_t position) except -1:
        """A record in the log is about this entry."""
        raise NotImplementedError

    cdef int restore_settled(self, uint32_t queue, const Range *which) except -1:
        """These entries have ended."""
        raise NotImplementedError

    cdef int restore_delivered(self, uint32_t queue, const Range *which) except -1:
        """These entries were delivered, as often as it says."""
        raise NotImplementedError

    cdef int end_replay(self, bint redelivered) except -1:
        """All facts were read; without an orderly stop all may have been delivered before."""
        raise NotImplementedError


cdef class Logs:
    """The logs of messages in queues; streams have logs of their own, and the time from here."""

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
        if position >> 63:
            return self.durable.at(position)
        return self.transient.at(position)

    cdef int release(self, uint64_t position) except -1:
        """An entry that referred to that record is gone."""
        if not position >> 63:
            self.transient.release(position)
        elif self.durable.release(position):
            self.idle_segments = True
        return 0

    def note_change(self):
        """Something durable happened: it belongs to this generation, which is returned."""
        self.dirty = True
        return self.generation

    @property
    def segments(self):
        """Segments of the durable log that exist, oldest first."""
        return [segment for segment in self.durable.segments if segment is not None]

    cdef tuple begin_sync(self):
        """Close the generation: its number, what is to be written, which files go after that."""
        self.producers.begin_sync(self.durable, self.clock.wall_ms)
        drops, self.dropped = self.dropped, []
        self.generation += 1
        self.dirty = self.awaited = False
        return self.generation - 1, self.durable.unwritten(), drops

    cdef int end_sync(self, uint64_t generation, list writes) except -1:
        """That generation is on disk; segments that are full are read from their files now."""
        cdef Segment segment
        self.synced = generation
        self.durable.mark_written(writes)
        if self.map_segment is None:
            return 0
        for segment in self.segments:
            if (segment.sealed and not segment.mapped and segment.written == segment.used
                    and segment.live and not segment.readers):
                try:
                    segment.adopt(self.map_segment(segment.number), self.durable)
                except OSError:
                    pass  # no descriptor or mapping to be had: it stays in memory until next time
        return 0
