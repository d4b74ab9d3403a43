"""The messages of a queue as values, for whoever publishes them once more.

It takes nothing out and marks nothing; it does not know what they are wanted for. Invariant: what
it gives stays as it is, whatever becomes of the queue.
"""

from libc.stdint cimport uint32_t

from leporid.engine.queue.index cimport BLOCK_SLOTS, READY, Block
from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.wire cimport Record, Target


def snapshot(Queue queue not None):
    """What is ready in a queue, in order of arrival: exchange, routing key, properties, body."""
    cdef Block *block = queue.index.block_from(0)
    cdef Record *record
    cdef const unsigned char *names
    cdef const unsigned char *key
    cdef const unsigned char *properties
    cdef uint32_t at
    messages = []
    while block != NULL:
        for at in range(BLOCK_SLOTS):
            if block.slots[at].state != READY:
                continue
            record = queue.plane.record(block.slots[at].position)
            names = (<const unsigned char *> record + sizeof(Record)
                     + record.targets * sizeof(Target))
            key = names + 1 + names[0]
            properties = names + record.names_len
            messages.append((
                names[1:1 + names[0]].decode(), key[1:1 + key[0]].decode(),
                <bytes> properties[:record.properties_len],
                <bytes> (properties + record.properties_len)[:record.body_len]))
        block = queue.index.block_from(block.number + 1)
    return messages
