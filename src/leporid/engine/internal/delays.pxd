"""The delayed messages of one exchange."""

from libc.stdint cimport uint64_t

from leporid.engine.log.log cimport RecordMemory
from leporid.engine.publishing.publishing cimport PartialAppends, Publishing
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.counters cimport Totals
from leporid.engine.queue.timed_queue cimport TimedQueue
from leporid.engine.queue.timers cimport Timers
from leporid.engine.routing.route cimport Route
from leporid.engine.routing.route_cache cimport Resolution, RouteCache
from leporid.engine.wire.codec cimport Props
from leporid.engine.wire.record cimport Message
from leporid.engine.wire.text cimport Bytes

cdef class DelayTotals(Totals):
    cdef readonly uint64_t fired, cancelled, unroutable     # since the start

cdef class Delays(TimedQueue):
    cdef Publishing publishing
    cdef readonly uint64_t fired        # messages since the start, as are the next two
    cdef readonly uint64_t cancelled
    cdef readonly uint64_t unroutable   # of those that were fired
    cdef DelayTotals all                # these three are among its own
    cdef RouteCache routes              # of the exchange
    cdef object routed                  # (exchange, keys, properties) -> queues
    cdef object elsewhere               # the same for the alternate exchange
    cdef public object on_unroutable    # (): called when a message was unroutable; or None
    cdef Route route                    # to this queue alone
    cdef bint pruning                   # a job forgets those of entries that are gone
    cdef readonly Timers due            # of every entry, and of some that are gone
    cdef Bytes scratch
    cdef int arm(self, uint64_t seq, uint64_t came_ms, const Props *props) except -1
    cdef uint64_t on_clock(self, uint64_t due_ms)
    cdef int prune_due(self) except -1
    cdef Resolution resolution          # of the message whose route is being found; or None
    cdef uint64_t resolving             # its entry
    cdef PartialAppends appends         # of that message; None: its streams are few
    cdef RecordMemory copied            # its body, if it is large; or None
    cdef Route stored_in_steps(self, Route route, Message *message, const Props *props)
    cdef int forget_steps(self) except -1
    cdef bint fire(self, uint64_t seq, Slot *slot) except -1
    cdef Route current_route(self, const Message *message, list keys)
    cdef Resolution resolution_of(self, const Message *message, list keys, bint refused)
    cdef uint64_t due_of(self, const Slot *slot) except? 0
    cdef bint waits(self, uint64_t seq, uint64_t at_ms)
    cdef list first(self, size_t limit)
    cdef list following(self, size_t limit, uint64_t at_ms, uint64_t seq)

cdef Route postponed(RouteCache routes, const Props *props, uint64_t came_ms)
