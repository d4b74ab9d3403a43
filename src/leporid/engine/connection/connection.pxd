"""A connection: frames in, frames out."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.bounds.accounts cimport Account
from leporid.engine.bounds.clock cimport Party
from leporid.engine.connection.assembly cimport Assembly
from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.connections cimport Connections
from leporid.engine.connection.output cimport Output
from leporid.engine.log.logs cimport Logs

cdef class Connection:
    cdef Connections connections
    cdef Logs logs
    cdef readonly Output output
    cdef public object session
    cdef public Account account     # what it makes the broker keep
    cdef public Party party         # whose connection it is; None: nobody's in particular
    cdef public bytes user_id
    cdef readonly dict channels
    cdef readonly bint closing      # connection.close was sent or received: only class 10 counts
    cdef readonly bint awaits_eof   # both have closed: the peer is to close the socket
    cdef readonly bint finished     # to be closed when the output is sent
    cdef readonly bint is_lost
    cdef Channel last_channel
    cdef uint64_t held              # the generation that answers wait for; 0: none
    cdef list held_frames
    cdef readonly bint greeted      # the protocol header was received
    cdef readonly bint broken       # framing was lost: all further input is ignored
    cdef readonly bint blocked      # it wants to publish while an alarm is on
    cdef public bint internal       # no client's: alarms do not block it
    cdef public uint64_t last_received_ms
    cdef readonly uint64_t received_bytes, sent_bytes
    cdef public uint64_t received_max   # more may not be received; 0: any number
    # Of messages whose frames have not all come: how many there are, what is kept of them.
    cdef readonly uint32_t content_count
    cdef readonly uint64_t content_bytes
    cdef uint8_t *rest              # bytes received and not yet handled
    cdef size_t rest_len
    cdef size_t lead                # bytes of `rest` in the inbox, before those that are read now
    cdef uint64_t settle_generation     # of the newest durable settle
    cdef size_t skip                # bytes of a frame that is being ignored, not received yet
    cdef size_t at                  # the next frame's offset in the input, during a scan
    cdef uint64_t deepest           # ready entries in the longest consumed queue just published to
    cdef bint paused                # input waits: for output, for dead letters, or for a slice
    cdef bint resuming              # is in connections.resuming
    cdef readonly uint32_t jobs     # of this connection that are under way: its input waits
    cdef uint64_t settles_before    # the first of them: `logs.settles`
    cdef Assembly unrouted          # a publish whose route is being found; None: there is none
    cdef Channel unrouted_on        # its channel
    cdef bint awaits_letters        # dead letters of its settles were left for a later turn
    cdef bint pause(self) except -1
    cdef int block(self) except -1
    cdef int on_content(self, uint16_t number, Channel channel, uint8_t kind, uint8_t *payload,
                        uint32_t size) except -1
    cdef int resume_later(self) except -1
    cdef int resume_input(self) except -1
    cdef int release(self) except -1
    cdef int keep_rest(self, const uint8_t *p, size_t n) except -1
    cdef int drop_rest(self) except -1
    cdef int handle(self, uint8_t *p, size_t n) except -1
    cdef bint scan(self, uint8_t *p, size_t n) except -1
    cdef int lose_track(self, size_t n) except -1
    cdef bint greet(self, const uint8_t *p, size_t n) except -1
    cdef int on_method(self, uint8_t *p, size_t n, uint16_t number, Channel channel,
                       uint8_t *payload, uint32_t size) except -1
    cdef int publish_ahead(self, uint8_t *p, size_t n, Channel channel, uint32_t size) except -1
    cdef int await_route(self, size_t start) except -1
    cdef int publish_assembled(self, Channel channel, Assembly whole) except -1
    cdef int go_on_with_unrouted(self) except -1
    cdef int begin_content(self, Channel channel, Assembly whole) except -1
    cdef int charge(self, Assembly whole) except -1
    cdef int forget_content(self, Channel channel) except -1
    cdef int assemble(self, Channel channel, uint8_t kind, const uint8_t *payload,
                      uint32_t size) except -1
    cdef int take_settle(self, Channel channel, uint16_t method, const uint8_t *payload,
                         uint32_t size) except -1
    cdef int fail(self, object fault) except -1
