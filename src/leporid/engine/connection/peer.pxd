"""A peer: its channels, what is sent to it, what it is held back for."""

from libc.stdint cimport uint64_t

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.outbox cimport Outbox

cdef class Peer(Outbox):
    cdef public object session
    cdef public bytes user_id
    cdef readonly dict channels
    cdef readonly bint closing          # connection.close was sent or came: only class 10 is heard
    cdef readonly bint awaits_eof       # both have closed: the peer is to close the socket
    cdef readonly bint finished         # to be closed when the output is sent
    cdef readonly bint is_lost
    cdef Channel last_channel
    cdef uint64_t held                  # the generation that this peer waits for; 0: none
    cdef list held_frames
    cdef int resume_input(self) except -1
    cdef int release(self) except -1
    cdef int touch(self) except -1
