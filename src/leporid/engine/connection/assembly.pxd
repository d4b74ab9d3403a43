"""A message that is assembled from its frames."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

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
    cdef bytearray body
    cdef uint64_t left
    cdef uint64_t kept                  # of its connection's `content_bytes`
    cdef bint take(self, uint8_t kind, const uint8_t *payload, uint32_t size,
                   uint64_t message_bytes_max) except -1
    cdef int take_header(self, uint8_t kind, const uint8_t *payload, uint32_t size,
                         uint64_t message_bytes_max) except -1
    cdef object fault(self, object fault)
