"""What facts of the log do to a queue's entries."""

from libc.stdint cimport uint64_t

from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.wire cimport Range

cdef int apply_publish(Queue queue, uint64_t seq, uint64_t position) except -1
cdef int apply_settle(Queue queue, Range *settled) except -1
cdef int apply_delivered(Queue queue, Range *delivered) except -1
cdef int finish_restore(Queue queue, bint redelivered) except -1
