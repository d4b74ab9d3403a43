"""A large body that waits in the output of a connection."""

from libc.stdint cimport uint8_t, uint16_t
from cpython.buffer cimport Py_buffer

from leporid.engine.log.log cimport Segment

cdef enum:
    # A longer body is not copied into the output. What a consumer leaves unread is then no more
    # than OUTPUT_HIGH_BYTES and one such body; and copying one takes no more than ten microseconds.
    BODY_COPIED_MAX = 128 * 1024

cdef class LargeBody:
    cdef Segment segment            # where the body lies, at `at`; None: it lies in `view`
    cdef size_t at
    cdef Py_buffer view
    cdef size_t size                # of the body
    cdef size_t step                # bytes of it in one frame
    cdef uint16_t channel
    cdef size_t before              # bytes of the output's buffer that are sent first
    cdef size_t total               # of its frames
    cdef readonly size_t left       # bytes of its frames that were not sent
    cdef size_t encode(self, uint8_t *to, size_t room) noexcept

cdef LargeBody large_body(object source, const uint8_t *body, size_t size, uint16_t channel,
                          size_t step)
