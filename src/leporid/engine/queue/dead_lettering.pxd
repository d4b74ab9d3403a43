"""Dead-lettering of messages that leave a queue unacknowledged."""

from libc.stdint cimport uint32_t, uint64_t

cdef class DeadLettering    # before the modules that know it, too

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.log.logs cimport Logs
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.record cimport Message

cdef enum:
    # Dead letters per turn, if there is time for as many. Each costs 20 us and more, the longer its
    # headers are, and one frame or one moment may make a million of them, for which no other
    # connection should wait.
    LETTERS_MAX = 500
    # Entries that wait to be dead-lettered. Beyond, a queue that must drop more (a tighter limit on
    # a long queue) keeps it for later turns: noting a million entries took a second and 100 MB.
    WAITING_MAX = 20000
    # Letters that full queues make of one message, each dead-lettering to the next; the paths among
    # many such queues have no end.
    REFUSED_MAX = 1000

cdef class DeadLettering:
    cdef Logs logs
    cdef Clock clock
    cdef uint32_t count                 # letters of this turn
    # None is made of what leaves a queue: one message that expires in each of many queues that
    # dead-letter to all of them becomes ever more, which nobody else could stop.
    cdef public bint held
    cdef bint granted                   # the next one may be made, however late it is
    # (queue, seq, reason, steps that are left; None: all, messages in streams when it was begun):
    # to be dead-lettered in later turns
    cdef readonly object waiting
    cdef dict overfull                  # queues over their limit until fewer entries are waiting
    cdef bint crowded                   # there were such queues since nothing was waiting
    # (queue, names, properties, body, [letters left of REFUSED_MAX], steps that are left; None:
    # all): letters of full queues
    cdef readonly object refused
    cdef list left                      # of the letter that is being made; None: none is
    cdef bint replacing                 # the letter being made replaces an entry of the log
    cdef list deferred                  # (generation, queue, position, seq): see `defer`
    cdef int turn(self) except -1
    cdef int dead_letter(self, Queue queue, uint64_t seq, Slot *slot, str reason) except -1
    cdef bint unfinished(self) except -1
    cdef int go_on(self, Queue queue, uint64_t seq, Slot *slot, str reason, steps,
                   uint64_t in_streams) except -1
    cdef bint make(self, steps) except -1
    cdef bint has_time(self) except -1
    cdef bint has_work(self) except -1
    cdef bint put_off(self, Queue queue) except -1
    cdef int end_with_letter(self, Queue queue, uint64_t seq, uint64_t letters,
                             uint64_t in_streams) except -1
    cdef int hand_over(self, Queue queue, bytes names, bytes properties, bytes body,
                       str reason) except -1
    cdef int dead_letter_refused(self, list queues, const Message *message) except -1
    cdef int make_refused(self) except -1
    cdef int make_all_refused(self) except -1
    cdef int defer(self, Queue queue, uint64_t position, uint64_t seq) except -1
    cdef int end_sync(self, uint64_t generation) except -1
