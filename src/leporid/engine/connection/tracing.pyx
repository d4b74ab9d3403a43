"""What a traced channel publishes and is delivered, told to the control plane.

Responsible for copying such a message out of the engine, if there is room for the copy. It must not
know what becomes of it. Invariant: a channel that is not traced pays for one test of a pointer at
each publish and each delivery, and nothing is copied before `admits` agreed to its size.

`Channel.trace` is an object with three methods, none of which raises anything: `admits(size)`,
`published(at_ms, names, properties, body, keys, queues)` and
`delivered(at_ms, published_ms, queue, names, properties, body, redelivered)`. Times are
milliseconds since 1970.
"""

from libc.stdint cimport uint32_t

from leporid.engine.bounds.clock cimport Clock, spend
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.unique_queue cimport UniqueQueue
from leporid.engine.routing.route cimport Route, all_queues
from leporid.engine.stream.stream cimport Stream
from leporid.engine.wire.record cimport (
    Message, Record, body_bytes, message_in, names_bytes, properties_bytes,
)


cdef enum:
    UNITS_A_COPY = 16   # of the clock's: a copy takes as long as so many small messages
    # Properties are decoded: up to 20 ms for 128 KiB of headers, of which a turn takes one message.
    UNIT_BYTES_BITS = 2


cdef bint is_declared(Queue queue):
    """Whether clients know a queue: it is none of those that the broker makes for itself."""
    return (type(queue) is Queue or type(queue) is Stream or type(queue) is UniqueQueue
            ) and not queue.private


cdef uint32_t units_of(const Message *message) noexcept:
    """How long a copy takes."""
    return <uint32_t> (UNITS_A_COPY + (message.properties_len >> UNIT_BYTES_BITS))


cdef int trace_published(object trace, Clock clock, Route route, const Message *message,
                         list keys) except -1:
    """A message was published along a route; `keys` are those of CC and BCC, or None."""
    cdef Queue queue
    if not trace.admits(message.names_len + message.properties_len + message.body_len):
        return 0
    queues = [queue.name for queue in all_queues(route) if is_declared(queue)]
    trace.published(clock.wall_ms, names_bytes(message), properties_bytes(message),
                    body_bytes(message), keys or [], queues)
    spend(clock, units_of(message))
    return 0


cdef int trace_delivered(object trace, Queue queue, const Record *record,
                         bint redelivered) except -1:
    """A message of a queue was delivered."""
    cdef Message message = message_in(record)
    if trace.admits(message.names_len + message.properties_len + message.body_len):
        trace.delivered(queue.queues.clock.wall_ms, record.timestamp_ms, queue.name,
                        names_bytes(&message), properties_bytes(&message), body_bytes(&message),
                        redelivered)
        spend(queue.queues.clock, units_of(&message))
    return 0
