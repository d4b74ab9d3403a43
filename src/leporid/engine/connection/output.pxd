"""Bytes that wait to be sent to one peer."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.bounds.accounts cimport Account
from leporid.engine.connection.connections cimport Connections
from leporid.engine.connection.large_body cimport LargeBody
from leporid.engine.wire.record cimport Message, Record

cdef enum:
    OUTPUT_HIGH_BYTES = 192 * 1024
    OUTPUT_LOW_BYTES = 64 * 1024
    OUTPUT_USUAL_BYTES = 256 * 1024
    # Of a user whose connections keep too much, each may have so many bytes that are not sent.
    OUTPUT_SHORT_BYTES = 4096

cdef class Output:
    cdef Connections connections
    cdef object owner               # the connection
    cdef public Account account     # which its buffers are charged to
    cdef uint8_t *out
    cdef size_t out_start, out_end, out_capacity
    cdef bint short                 # there was no room in the account for a usual buffer
    cdef list large                 # LargeBody, in order; None: there is none
    cdef size_t large_bytes         # of their frames, not sent yet
    # What has the body of the next content if that is large: its segment, or bytes that begin with
    # it; None: the body is copied.
    cdef object source
    cdef uint8_t *scratch           # properties with a header added
    cdef size_t scratch_len
    cdef bint touched               # is in connections.touched
    cdef bint muted                 # the connection closes: nothing is delivered or confirmed
    cdef public uint32_t frame_max
    cdef dict stalled               # consumers that wait for this output to drain, each once
    cdef public uint64_t last_sent_ms
    cdef int touch(self) except -1
    cdef int count(self, int64_t size) except -1
    cdef int sent(self, size_t count) except -1
    cdef size_t sent_large(self, size_t count) except? 0
    cdef int free_out(self) except -1
    cdef int shrink(self) except -1
    cdef int resume_stalled(self) except -1
    cdef int end(self) except -1
    cdef uint8_t *room(self, size_t size) except NULL
    cdef int write_delivery(self, uint16_t channel, const uint8_t *head, size_t head_len,
                            uint64_t tag, bint redelivered, const Record *record) except -1
    cdef int grow_scratch(self, size_t size) except -1
    cdef int write_delivery_with(self, uint16_t channel, const uint8_t *head, size_t head_len,
                                 uint64_t tag, bint redelivered, const Record *record,
                                 const uint8_t *field, uint64_t value) except -1
    cdef int write_from_stream(self, uint16_t channel, const uint8_t *head, size_t head_len,
                               uint64_t tag, uint64_t offset, const Record *record) except -1
    cdef int write_first_kept(self, uint16_t channel, const uint8_t *head, size_t head_len,
                              uint64_t tag, uint64_t offset, const Message *message) except -1
    cdef int write_counted(self, uint16_t channel, const uint8_t *head, size_t head_len,
                           uint64_t tag, bint redelivered, const Record *record,
                           uint64_t count) except -1
    cdef int write_content_with(self, uint16_t channel, const Message *message,
                                const uint8_t *field, uint64_t value) except -1
    cdef int write_heartbeat(self) except -1
    cdef int write_got(self, uint16_t channel, uint64_t tag, bint redelivered, uint32_t left,
                       const Record *record, bint counted, uint64_t count) except -1
    cdef int write_settled(self, uint16_t channel, uint16_t method, uint64_t tag,
                           bint multiple) except -1
    cdef int write_method(self, uint16_t channel, const uint8_t *payload, size_t size) except -1
    cdef int write_content(self, uint16_t channel, const uint8_t *properties,
                           size_t properties_len, const uint8_t *body, size_t body_len) except -1
    cdef int write_large(self, uint16_t channel, const uint8_t *properties, size_t properties_len,
                         const uint8_t *body, size_t body_len) except -1


cdef inline size_t pending(Output out) noexcept:
    """Bytes not sent yet."""
    return out.out_end - out.out_start + out.large_bytes


cdef inline bint is_above(Output out, size_t limit) noexcept:
    """Whether more bytes are not sent than a limit, or than a user who keeps too much may have."""
    cdef size_t size = pending(out)
    return size > limit or (out.short and size > OUTPUT_SHORT_BYTES)
