"""A connection: frames in, frames out."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.peer cimport Peer

cdef class Connection(Peer):
    cdef readonly bint greeted          # the protocol header came
    cdef readonly bint broken           # frames cannot be told apart any more: nothing is heard
    cdef readonly bint published
    cdef public uint64_t last_received_ms
    cdef readonly uint64_t received_bytes
    cdef uint8_t *rest                  # bytes received and not yet handled
    cdef size_t rest_len
    cdef size_t lead                    # of the inbox, before what is read now
    cdef uint64_t settle_generation     # of the newest durable settle
    cdef size_t skip                    # bytes to come of a frame that does not matter
    cdef size_t at                      # of the frame that is next, in the scan under way
    cdef uint64_t deepest
    cdef bint paused                    # input waits here: for output to leave, or for dead_lettering
    cdef bint awaits_letters                    # it settled what is not buried yet
    cdef int drop_buffers(self) except -1
    cdef int keep_rest(self, const uint8_t *p, size_t n) except -1
    cdef int handle(self, uint8_t *p, size_t n) except -1
    cdef bint scan(self, uint8_t *p, size_t n) except -1
    cdef bint greet(self, const uint8_t *p, size_t n) except -1
    cdef int on_method(self, uint8_t *p, size_t n, uint16_t number, Channel channel,
                       uint8_t *payload, uint32_t size) except -1
    cdef Channel channel_of(self, uint16_t number)
    cdef int publish_ahead(self, uint8_t *p, size_t n, Channel channel, uint32_t size) except -1
    cdef int assemble(self, Channel channel, uint8_t kind, const uint8_t *payload,
                      uint32_t size) except -1
    cdef int take_settle(self, Channel channel, uint16_t method, const uint8_t *payload,
                         uint32_t size) except -1
    cdef int fail(self, object fault) except -1
