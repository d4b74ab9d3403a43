"""What a traced channel publishes and is delivered."""

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route cimport Route
from leporid.engine.wire.record cimport Message, Record

cdef int trace_published(object trace, Clock clock, Route route, const Message *message,
                         list keys) except -1
cdef int trace_delivered(object trace, Queue queue, const Record *record,
                         bint redelivered) except -1
