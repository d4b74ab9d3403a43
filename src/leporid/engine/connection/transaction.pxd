"""Transactions of a channel."""

from libc.stdint cimport uint64_t

from leporid.engine.connection.channel cimport Channel

cdef uint64_t commit(Channel channel) except? 0
cdef int rollback(Channel channel) except -1
