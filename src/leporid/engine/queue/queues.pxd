"""What all queues share."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef class Queues   # before the modules that know it, too

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.bounds.jobs cimport Jobs
from leporid.engine.bounds.sharded_dict cimport ShardedDict
from leporid.engine.log.logs cimport Entries, Logs
from leporid.engine.log.producers cimport Producer
from leporid.engine.queue.dead_lettering cimport DeadLettering
from leporid.engine.queue.counters cimport DeliveryCounts, Totals
from leporid.engine.queue.index cimport BlockPool, Index
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.timers cimport Timer, Timers
from leporid.engine.wire.codec cimport Props
from leporid.engine.wire.record cimport Message

cdef class Queues(Entries):
    cdef readonly Logs logs
    cdef readonly Clock clock
    cdef Jobs jobs
    cdef ShardedDict by_id
    cdef dict retired                   # id -> Index, whose entries a job is dropping
    cdef uint32_t next_transient_id
    cdef BlockPool blocks
    cdef readonly Totals uncounted      # of queues that nobody counts
    cdef readonly DeadLettering dead_lettering
    cdef object make_backlog            # (queue) -> its backlog
    # Each of these lists is worked on from the left; what a turn has no time for stays in it.
    cdef object ready_queues            # may have something to deliver, or exceed a limit
    cdef object offers                  # SharedCredit that consumers wait for, and has some now
    cdef object due_queues              # TimedQueue with messages to send
    cdef readonly bint late             # a turn had no time for all timers that were due
    cdef readonly Timers timers         # of entries with a time to live, and of timed queues
    cdef uint64_t timed_count           # how many of them are current: not of settled entries
    cdef readonly Timers held           # of held entries
    cdef uint64_t held_count            # how many of them are current: not of settled entries
    cdef bint timeouts_changed          # a queue's consumer timeout: all channels are checked once
    # Virtual host -> type -> DeliveryCounts. The virtual host None is for queues of none, and for
    # all of those that are gone; the type "" is that of hidden queues.
    cdef dict counts
    # Messages, since the start.
    cdef readonly uint64_t published, routed, received_confirm, confirmed, nacked, returned
    cdef readonly uint64_t unroutable, requeued, expired, timed_out
    cdef uint32_t id_of(self, uint32_t queue_id)
    cdef Queue add(self, Queue queue)
    cdef DeliveryCounts counts_of(self, str kind, str vhost)
    cdef DeliveryCounts all_counts(self)
    cdef int retire(self, Queue queue) except -1
    cdef Queue backlog_of(self, Queue queue)
    cdef Queue restored(self, uint32_t number)
    cdef uint64_t append(self, list queues, bint durable, const Message *message,
                         const Props *props, uint8_t flags, Producer producer,
                         uint64_t sequence) except? 0
    cdef int turn(self) except -1
    cdef int work(self) except -1
    cdef int serve(self) except -1
    cdef bint offer(self) except -1
    cdef int ring(self) except -1
    cdef bint expire(self) except -1
    cdef uint64_t drop_retired(self, Index index, uint64_t seq, uint64_t end,
                               bint timed) except? 0
    cdef int hold(self, uint64_t at_ms, uint32_t queue, uint64_t seq) except -1
    cdef bint release_held(self) except -1
    cdef int append_delivered(self) except -1
