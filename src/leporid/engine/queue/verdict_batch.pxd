"""Messages as a batch for a filter class."""

from libc.stdint cimport uint32_t

from leporid.engine.wire.wire cimport Record

cdef enum:
    # Pointers to records of a batch stand on the stack.
    BATCH_MESSAGES_MAX = 1000

cdef bytes batch_frame(const Record **records, uint32_t count)


cdef inline size_t content_of(const Record *record) noexcept nogil:
    """Bytes of a message in a batch."""
    return <size_t> record.names_len + record.properties_len + record.body_len
