"""Dead letters: what leaves a queue without having been acknowledged."""

from libc.stdint cimport uint32_t, uint64_t

cdef class DeadLettering    # before the modules that know it, too

from leporid.engine.log.logs cimport Logs
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.record cimport Message

cdef enum:
    # Dead letters of one turn. Each costs some 20 us, and one frame or one moment may make a
    # million of them, for which nobody else should wait.
    LETTERS_MAX = 500
    # Entries that wait for theirs, before queues that drop more (a tighter limit on a long
    # queue) keep it for turns to come: to note a million of them took a second and 100 MB.
    WAITING_MAX = 20000
    # Letters of one message that full queues hand on to each other; there is no end to the ways
    # among many that all lead to all.
    REFUSED_MAX = 1000

cdef class DeadLettering:
    cdef Logs logs
    cdef uint32_t count                 # of this turn
    cdef readonly object waiting        # (queue, seq, reason): dead letters of turns to come
    cdef dict overfull                  # queues that still are, while so many are waiting
    cdef object refused                 # (queue, names, properties, body): letters to be made now
    cdef bint handing                   # they are being made
    cdef bint replacing                 # the letter that is made ends an entry of the log
    cdef list deferred                  # (generation, queue, position, seq): see `defer`
    cdef int turn(self) except -1
    cdef int dead_letter(self, Queue queue, uint64_t seq, Slot *slot, str reason) except -1
    cdef bint put_off(self, Queue queue) except -1
    cdef int end_with_letter(self, Queue queue, uint64_t seq, uint64_t letters,
                             uint64_t in_streams) except -1
    cdef int hand_over(self, Queue queue, bytes names, bytes properties, bytes body,
                       str reason) except -1
    cdef int dead_letter_refused(self, list queues, const Message *message) except -1
    cdef int defer(self, Queue queue, uint64_t position, uint64_t seq) except -1
    cdef int end_sync(self, uint64_t generation) except -1
