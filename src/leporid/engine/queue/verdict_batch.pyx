"""Messages as a batch for a filter class, as `leporid.filterserver.frames` draws it.

It does not know who asks, nor about what. Invariant: the batch has the bytes of the records; nobody
who judges it keeps any of them in the log.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from leporid.engine.wire.wire cimport Record, Target

cdef enum:
    BATCH = 2
    HEAD_BYTES = 5
    COUNT_BYTES = 4
    SIZES_BYTES = 10


cdef inline uint8_t *append(uint8_t *to, const void *data, size_t size) noexcept nogil:
    memcpy(to, data, size)
    return to + size


cdef bytes batch_frame(const Record **records, uint32_t count):
    """The frame that asks about these messages."""
    cdef uint32_t payload = COUNT_BYTES + SIZES_BYTES * count
    cdef uint32_t at
    cdef const Record *record
    cdef uint16_t names_len
    cdef uint8_t kind = BATCH
    cdef uint8_t *sizes
    cdef uint8_t *to
    cdef bytes made
    for at in range(count):
        payload += <uint32_t> content_of(records[at])
    made = PyBytes_FromStringAndSize(NULL, HEAD_BYTES + payload)
    sizes = <uint8_t *> PyBytes_AS_STRING(made)
    to = sizes + HEAD_BYTES + COUNT_BYTES + SIZES_BYTES * count
    sizes = append(sizes, &kind, 1)
    sizes = append(sizes, &payload, 4)
    sizes = append(sizes, &count, 4)
    for at in range(count):
        record = records[at]
        names_len = record.names_len
        sizes = append(sizes, &names_len, 2)
        sizes = append(sizes, &record.properties_len, 4)
        sizes = append(sizes, &record.body_len, 4)
        to = append(to, <const uint8_t *> record + sizeof(Record)
                    + record.targets * sizeof(Target), content_of(record))
    return made
