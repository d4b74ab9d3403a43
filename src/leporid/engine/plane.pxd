"""What the parts of the data plane share: clock, logs, work lists, counters."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef class Plane    # before the modules that know it, too

from leporid.engine.queue.dead_lettering cimport DeadLettering
from leporid.engine.stream.choice cimport Tally
from leporid.engine.queue.index cimport BlockPool
from leporid.engine.connection.interceptor cimport Interceptor
from leporid.engine.log.log cimport Log, Segment
from leporid.engine.selectors.filter_counters cimport FilterCounters
from leporid.engine.log.producers cimport Producer, Producers
from leporid.engine.queue.retries cimport Retries
from leporid.engine.connection.timeouts cimport Timeouts
from leporid.engine.queue.timers cimport Timers
from leporid.engine.wire.wire cimport Record

cdef class Plane:
    cdef public uint64_t now_ms
    cdef public uint64_t wall_ms
    cdef readonly uint64_t generation
    cdef readonly uint64_t synced
    cdef readonly bint dirty            # something of this generation must reach the disk
    cdef readonly bint awaited          # and somebody waits for it
    cdef public bint publishers_blocked
    cdef public uint64_t message_bytes_max
    cdef public Interceptor interceptor  # of what clients publish; None: nothing is changed
    cdef public object map_segment      # (number) -> buffer of the file, given by the server
    cdef readonly Log transient
    cdef readonly Log durable
    cdef readonly uint64_t published, delivered, got, acked, confirmed, returned, redelivered
    cdef readonly uint64_t unroutable, requeued, expired, timed_out
    # Filters of bindings: counters, those that took looking at properties, and their outcomes.
    cdef readonly uint64_t filters_asked, filters_evaluated, filters_matched, filters_failed
    # Filters of consumers: counters, those that took looking at properties, and their outcomes.
    cdef readonly uint64_t wishes_asked, wishes_evaluated, wishes_matched, wishes_failed
    cdef dict counters                 # of those of one queue, by its id; once there are any
    cdef readonly uint64_t received_bytes, sent_bytes
    cdef list listed                    # queues that may have something for somebody
    cdef list offers                    # Credits of which there is some, with somebody waiting
    cdef list touched                   # connections with output
    cdef list confirming                # channels with unconfirmed publishes
    cdef uint64_t noted                 # durable settles, ever
    cdef uint64_t noted_by              # the generation that has the last of them
    cdef list unsynced                  # streams with something for the next sync
    cdef list syncing_streams           # those of the sync under way
    cdef list dropped_streams           # ids of streams whose files may go
    cdef readonly dict streams          # by id
    cdef readonly Producers producers   # of messages to queues
    cdef uint64_t retained_ms
    cdef uint64_t appended_to_streams   # messages, ever
    cdef public str incarnation_prefix  # of this data directory; given by the server
    cdef public object map_stream_segment   # (stream id, number) -> buffer of the file
    cdef DeadLettering dead_lettering                # dead letters
    cdef list settling                  # queues with settles not yet in the log
    cdef list held                      # connections that wait for a generation
    cdef list resuming                  # connections whose input waited for output or dead_lettering
    cdef list dropped                   # segments whose files may go
    cdef dict queues                    # by id, for replay and cleaning
    cdef uint32_t next_transient_id
    cdef Retries retries                # entries that are held before they are ready again
    cdef Timeouts timeouts              # deliveries that nobody settles
    cdef public uint64_t consumer_timeout_ms    # of those that say nothing else; 0: none
    cdef Timers timers                  # of entries with a time to live
    cdef uint64_t timed_count           # entries that have one, settled ones not counted
    cdef list zero_ttl                 # (queue, seq) with a time to live of 0
    cdef list is_due                   # TimedQueue that have something to send
    cdef dict judging                   # who may have something to ask a filter class, in order
    cdef dict all_verdicts                 # of consumers of queues, by filter class
    cdef Tally filtered                 # what readers with a filter made of all streams
    cdef list scanning                  # readers of streams that look for what they want
    cdef public int64_t search_work     # that filters of consumers may do in one turn
    cdef list searching                 # queues in which filters have more to look at
    cdef bint idle_segments             # a durable segment may have lost its last entry
    cdef uint64_t cleaned_ms
    cdef uint64_t compacted_ms
    cdef bint syncing
    cdef bint ended                     # the last facts were appended
    cdef BlockPool blocks
    cdef uint8_t *inbox                 # where every connection reads to
    cdef readonly size_t inbox_bytes
    cdef void *spare_outputs[16]
    cdef int spare_output_count
    cdef Record *record(self, uint64_t position)
    cdef uint32_t new_transient_id(self)
    cdef int release(self, uint64_t position) except -1
    cdef int work(self) except -1
    cdef int offer(self) except -1
    cdef int expire(self) except -1
    cdef int prune_timers(self) except -1

cdef FilterCounters counters_of(Plane plane, uint32_t queue_id)
