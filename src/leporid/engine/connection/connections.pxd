"""What all connections share."""

from libc.stdint cimport uint8_t, uint64_t

cdef enum:
    # So much of large bodies is encoded at a time: a peer that takes less has the rest encoded once
    # more, and one that takes more costs a call for each of it.
    OUTBOX_BYTES = 128 * 1024

cdef class Connections  # before the modules that know it, too

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.bounds.jobs cimport Jobs
from leporid.engine.bounds.lines cimport Lines
from leporid.engine.connection.timeouts cimport Timeouts
from leporid.engine.log.logs cimport Logs
from leporid.engine.publishing.publishing cimport Publishing
from leporid.engine.queue.queues cimport Queues
from leporid.engine.selecting.filtered_consumers cimport Searches
from leporid.engine.selecting.verdicts cimport Verdicts
from leporid.engine.stream.stream cimport Streams

cdef class Connections:
    cdef Logs logs
    cdef Clock clock
    cdef Jobs jobs
    cdef Queues queues
    cdef Streams streams
    cdef Publishing publishing
    cdef Searches searches
    cdef Verdicts verdicts
    cdef readonly Timeouts timeouts     # of unsettled deliveries
    cdef public bint publishers_blocked
    cdef public uint64_t message_bytes_max
    cdef public uint64_t transaction_entries_max
    cdef public uint64_t consumer_timeout_ms    # the default; 0: none
    cdef readonly uint64_t received_bytes, sent_bytes
    cdef readonly uint64_t publishers       # open channels that have published
    cdef readonly uint64_t output_bytes     # of the buffers of all outputs
    cdef list touched                   # connections with output, or to be closed
    cdef list confirming                # channels with unconfirmed publishes
    cdef list held                      # connections that wait for a generation
    cdef Lines resuming                 # connections that have input left to handle
    cdef uint8_t *inbox                 # the input buffer of all connections
    cdef readonly size_t inbox_bytes
    cdef uint8_t *outbox                # the next frames of a large body, of any connection
    cdef void *spare_outputs[16]
    cdef int spare_output_count
    cdef int resume_input(self) except -1
    cdef int confirm(self) except -1
    cdef int end_sync(self, uint64_t generation) except -1
