"""Both logs, and sync generations."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.log.log cimport Log, RecordMemory, Segment, record_in, segment_number
from leporid.engine.log.producers cimport Producers
from leporid.engine.wire.record cimport Range, Record

cdef class Entries:
    # Asked by cleaning; queues are named by their ids.
    cdef bint has_queue(self, uint32_t queue) except -1
    cdef bint refers(self, uint32_t queue, uint64_t seq, uint64_t position) except -1
    cdef bint needs_body(self, uint32_t queue) except -1
    cdef int move(self, uint32_t queue, uint64_t seq, uint64_t position,
                  uint32_t share, uint32_t body_lost) except -1
    # Told by replay.
    cdef int restore_entry(self, uint32_t queue, uint64_t seq, uint64_t position) except -1
    cdef int restore_settled(self, uint32_t queue, const Range *which) except -1
    cdef int restore_delivered(self, uint32_t queue, const Range *which) except -1
    cdef int end_replay(self, bint redelivered) except -1

cdef class Logs:
    cdef readonly Clock clock
    cdef readonly Log transient
    cdef readonly Log durable
    cdef readonly Producers producers   # of messages to queues
    cdef readonly uint64_t generation
    cdef readonly uint64_t synced
    cdef readonly bint dirty            # something of this generation must reach the disk
    cdef readonly bint awaited          # and a publisher or reader waits for it
    cdef public object map_segment      # (number) -> buffer of the file, given by the server
    cdef bint is_mapping                # `mapping` has begun
    cdef Entries entries                # the queues, as the logs know them
    cdef uint64_t settles               # of durable messages, since the start
    cdef uint64_t settles_generation    # the one that the newest of them belongs to
    cdef list unsettled                 # SettledRanges that are not in the log yet
    cdef uint64_t stream_messages       # appended to the logs of streams, since the start
    cdef list dropped                   # numbers of segments whose files may be deleted
    cdef bint idle_segments             # a durable segment may have lost its last entry
    cdef Segment relocating         # of which a copy is made, as far as `relocated`; or None
    cdef size_t relocated
    cdef RecordMemory copied        # the body of the record there, if it is large; or None
    cdef uint64_t cleaned_ms
    cdef uint64_t compacted_ms
    cdef Record *record(self, uint64_t position)
    cdef int release(self, uint64_t position, uint32_t share) except -1
    cdef tuple begin_sync(self)
    cdef int end_sync(self, uint64_t generation, list writes) except -1
    cdef bint begin_mapping(self) except -1


cdef inline Record *record_at(Logs logs, uint64_t position):
    """The record at a position; for the ways that every message takes."""
    return record_in(logs.durable if position >> 63 else logs.transient, position)


cdef inline Segment segment_of(Logs logs, uint64_t position):
    """The segment of the record at a position, which exists."""
    return (logs.durable if position >> 63 else logs.transient).find(segment_number(position))
