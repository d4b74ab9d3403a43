"""Messages that wait for the verdicts of filter classes, and the frame of a batch of them.

Responsible for the list of objects that have messages to be judged. There are three kinds: a
binding with a filter class (`internal.verdict_queue`), consumers of a queue (`consumer_verdicts`),
a consumer of a stream (`connection.judged_stream_consumer`). Each has the methods `batch`, `judged`
and `give_back`; the server takes batches to the process of the class and returns the verdicts. It
must not know who judges. Invariant: a batch is a copy of the messages; waiting for its verdicts
keeps no record in the log.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from leporid.engine.wire.record cimport Record, content_bytes, content_of

cdef enum:
    BATCH = 2
    HEAD_BYTES = 5
    COUNT_BYTES = 4
    SIZES_BYTES = 10


cdef class Verdicts:
    """The objects that have messages to be judged."""

    def __cinit__(self):
        self.asking = {}

    def take(self):
        """The objects that have messages to be judged since the last call; some may be closed."""
        if not self.asking:
            return []
        asking, self.asking = list(self.asking), {}
        return asking


cdef inline uint8_t *append(uint8_t *to, const void *data, size_t size) noexcept nogil:
    memcpy(to, data, size)
    return to + size


cdef class VerdictBatch:
    """Messages that are judged together: up to `most`, and none is added once there are
    `bytes_max` bytes."""

    def __cinit__(self, size_t most, size_t bytes_max):
        self.most = min(most, <size_t> BATCH_MESSAGES_MAX)
        self.bytes_max = bytes_max

    cdef bint has_room(self):
        return self.count < self.most and self.size < self.bytes_max

    cdef int add(self, const Record *record) except -1:
        """Add a message, whose record must stay in place until `frame`."""
        self.records[self.count] = record
        self.count += 1
        self.size += content_bytes(record)
        return 0

    cdef bytes frame(self):
        """The frame for the filter server, in the layout of `leporid.filterserver.frames`."""
        cdef uint32_t payload = <uint32_t> (COUNT_BYTES + SIZES_BYTES * self.count + self.size)
        cdef uint32_t at
        cdef const Record *record
        cdef uint16_t names_len
        cdef uint8_t kind = BATCH
        cdef bytes made = PyBytes_FromStringAndSize(NULL, HEAD_BYTES + payload)
        cdef uint8_t *sizes = <uint8_t *> PyBytes_AS_STRING(made)
        cdef uint8_t *to = sizes + HEAD_BYTES + COUNT_BYTES + SIZES_BYTES * self.count
        sizes = append(sizes, &kind, 1)
        sizes = append(sizes, &payload, 4)
        sizes = append(sizes, &self.count, 4)
        for at in range(self.count):
            record = self.records[at]
            names_len = record.names_len
            sizes = append(sizes, &names_len, 2)
            sizes = append(sizes, &record.properties_len, 4)
            sizes = append(sizes, &record.body_len, 4)
            to = append(to, content_of(record), content_bytes(record))
        return made
