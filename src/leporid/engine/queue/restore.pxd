"""What a restart makes of a queue."""

from libc.stdint cimport uint64_t

from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.record cimport Range

cdef int restore_record(Queue queue, uint64_t seq, uint64_t position) except -1
cdef int settle_restored(Queue queue, const Range *which) except -1
cdef int count_restored(Queue queue, const Range *which) except -1
cdef int end_restore(Queue queue, bint redelivered) except -1
cdef int append_deliveries(Queue queue) except -1
