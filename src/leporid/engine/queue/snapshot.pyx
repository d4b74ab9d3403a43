"""A snapshot of a queue: its ready messages as values, to be published again.

Responsible for copying them. It must not take or mark entries, nor know what the copies are for.
Invariant: a snapshot does not change with the queue.
"""

from libc.stdint cimport uint32_t

from leporid.engine.queue.index cimport BLOCK_SLOTS, READY, Block
from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.record cimport (
    Message, body_bytes, exchange_name, message_in, properties_bytes, routing_key,
)


def snapshot(Queue queue not None):
    """Ready messages in order of arrival: (exchange, routing key, properties, body)."""
    cdef Block *block = queue.index.block_from(0)
    cdef Message message
    cdef uint32_t at
    messages = []
    while block != NULL:
        for at in range(BLOCK_SLOTS):
            if block.slots[at].state == READY:
                message = message_in(queue.logs.record(block.slots[at].position))
                messages.append((exchange_name(&message), routing_key(&message),
                                 properties_bytes(&message), body_bytes(&message)))
        block = queue.index.block_from(block.number + 1)
    return messages
