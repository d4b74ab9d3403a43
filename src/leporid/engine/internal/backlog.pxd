"""Messages from the broker itself that wait for room in a full queue."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.publishing.publishing cimport Publishing
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.timed_queue cimport TimedQueue

cdef enum:
    # For each queue: some 25 MB of memory for the entries, and as many bytes of bodies as the log,
    # or memory for transient messages, can spare for a queue that is full.
    BACKLOG_MESSAGES_MAX = 1_000_000
    BACKLOG_BYTES_MAX = 512 * 1024 * 1024
    WAITING_MS_MAX = 24 * 3600 * 1000
    PAUSE_MIN_MS = 100              # between two tries that find no room, doubled each time
    PAUSE_MAX_MS = 5000

cdef class Backlog(TimedQueue):
    cdef Publishing publishing
    cdef Queue queue                    # the full queue
    cdef uint64_t pause_ms              # until the next try
    cdef bint admits(self, uint32_t body_len) except -1
    cdef bint fits(self, uint32_t body_len)
    cdef int give_up(self, uint64_t seq, Slot *slot, str reason) except -1
    cdef int note_given_up(self, str reason) except -1
    cdef Slot *head(self, uint64_t *seq)
    cdef int send(self, uint64_t seq, Slot *slot) except -1

cdef Backlog make_backlog(Publishing publishing, Queue queue)
