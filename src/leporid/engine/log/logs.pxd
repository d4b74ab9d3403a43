"""Both logs, the time, and what must be on disk."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.log.log cimport Log
from leporid.engine.log.producers cimport Producers
from leporid.engine.wire.record cimport Range, Record

cdef class Clock:
    cdef public uint64_t now_ms         # never jumps
    cdef public uint64_t wall_ms        # Unix time

cdef class Entries:
    # Of queues, by number: what cleaning asks.
    cdef bint has_queue(self, uint32_t queue) except -1
    cdef bint refers(self, uint32_t queue, uint64_t seq, uint64_t position) except -1
    cdef bint needs_body(self, uint32_t queue) except -1
    cdef int move(self, uint32_t queue, uint64_t seq, uint64_t position,
                  uint32_t body_lost) except -1
    # And what replay has to say.
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
    cdef readonly bint awaited          # and somebody waits for it
    cdef public object map_segment      # (number) -> buffer of the file, given by the server
    cdef Entries entries                # that refer to records
    cdef uint64_t settles               # durable ones, ever
    cdef uint64_t settles_generation    # that has the last of them
    cdef list unsettled                 # SettledRanges that are not in the log yet
    cdef uint64_t stream_messages       # appended to the logs of streams, ever
    cdef list dropped                   # segments whose files may go
    cdef bint idle_segments             # a durable segment may have lost its last entry
    cdef uint64_t cleaned_ms
    cdef uint64_t compacted_ms
    cdef Record *record(self, uint64_t position)
    cdef int release(self, uint64_t position) except -1
    cdef tuple begin_sync(self)
    cdef int end_sync(self, uint64_t generation, list writes) except -1
