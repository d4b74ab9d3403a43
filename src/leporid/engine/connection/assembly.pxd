"""A message that is assembled from its frames."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.log.log cimport RecordMemory

cdef enum:
    FRAME_METHOD = 1
    FRAME_HEADER = 2
    FRAME_BODY = 3
    FRAME_HEARTBEAT = 8
    BASIC_PUBLISH_METHOD = 40

cdef class Assembly:
    cdef uint16_t method_id             # of the method with this content, as a rule basic.publish
    cdef bytes method
    cdef bytes properties               # None: the content header is next
    cdef bytearray body                 # its first bytes; all of them, if it is not large
    cdef RecordMemory memory            # the whole body, if it is large
    cdef uint64_t left
    cdef uint64_t kept                  # of its connection's `content_bytes`
    cdef bint take(self, uint8_t kind, const uint8_t *payload, uint32_t size,
                   uint64_t message_bytes_max) except -1
    cdef int take_header(self, uint8_t kind, const uint8_t *payload, uint32_t size,
                         uint64_t message_bytes_max) except -1
    cdef object fault(self, object fault)
    cdef size_t received(self) noexcept
    cdef const uint8_t *data(self) noexcept
    cdef int append(self, const uint8_t *data, uint32_t size) except -1
