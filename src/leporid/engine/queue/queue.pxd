"""A queue: entries in order, limits, consumers."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef class Queue    # before the modules that know it, too

from leporid.engine.log.facts cimport SettledRanges
from leporid.engine.log.logs cimport Logs
from leporid.engine.log.producers cimport Producer
from leporid.engine.queue.counters cimport DeliveryCounts, Totals
from leporid.engine.queue.index cimport Index, Slot
from leporid.engine.queue.queues cimport Queues
from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.queue.takers cimport Selection, Taker, Takers
from leporid.engine.queue.timers cimport Timer
from leporid.engine.selectors.filter cimport FilterCounters
from leporid.engine.wire.codec cimport Props
from leporid.engine.wire.record cimport Message, Range

cdef enum:
    DROP_HEAD = 0
    REJECT_PUBLISH = 1
    REJECT_PUBLISH_DLX = 2
    HOLD_RETURNED = 1               # hold messages that consumers returned before they are ready
    HOLD_FAILED = 2                 # hold messages that consumers failed with

cdef class Queue:
    cdef readonly uint32_t id
    cdef readonly str name
    cdef readonly bint durable
    cdef readonly bint retired
    cdef readonly bint remembers        # keys of its messages: it is a UniqueQueue
    cdef bint own_record                # each message has a record of its own: `append_message`
    cdef bint routes_again              # and is routed again as it was published, with BCC
    cdef bint own_timers                # of its entries: they are not in `queues.timers`
    cdef readonly Totals totals         # this queue's counts are among these
    cdef readonly uint64_t ready_count
    cdef readonly uint64_t unacked_count
    cdef readonly uint64_t ready_bytes
    cdef readonly uint64_t held_count
    cdef uint64_t held_bytes
    cdef readonly uint64_t next_seq
    cdef readonly uint64_t published
    cdef readonly DeliveryCounts counts         # of its deliveries
    cdef readonly DeliveryCounts type_counts    # the same of its type in its virtual host
    cdef readonly int consumer_count
    # Set by the control plane, from arguments.
    cdef uint64_t length_limit, bytes_limit, ttl
    cdef readonly int overflow
    cdef readonly int max_priority
    cdef public object dead_letters
    cdef public bint private            # a message that only goes here counts as unroutable
    cdef readonly bint limited          # has a limit of length or bytes
    cdef readonly bint counted          # deliveries have the header x-delivery-count
    cdef int delivery_limit
    cdef int retries                    # HOLD_RETURNED, HOLD_FAILED, both or none
    cdef uint64_t retry_min_ms, retry_max_ms
    cdef uint64_t timeout_ms            # of its consumers; NO_LIMIT: not set
    cdef bint timeout_requeues          # an overdue message is requeued, its channel stays open
    cdef Queues queues
    cdef Logs logs
    cdef SettledRanges settled          # not in the log yet
    cdef Index index
    cdef Takers takers
    cdef Selection selection            # once a consumer has a filter; None: none has
    cdef readonly FilterCounters counters   # of its consumers' filters; None: there were none
    cdef Queue backlog                  # messages that wait for room here; None: there were none
    cdef public object given_up         # (reason): called when such a message is dropped; or None
    cdef readonly bint paused           # delivers nothing, to nobody
    cdef bint listed                    # is in queues.ready_queues
    cdef bint excess_left               # a turn had no time to drop all that is over the limits
    cdef object zero_ttl                # entries with a TTL of 0; None: there were none
    cdef uint64_t head_seq              # without priorities: later entries were never delivered
    cdef readonly SequenceHeap returned     # requeued entries, before head_seq
    cdef readonly list lanes            # with priorities: a SequenceHeap for each
    cdef Slot *slot_of(self, uint64_t seq) noexcept
    cdef int push(self, uint64_t position, uint32_t body_len, uint32_t share,
                  uint8_t priority) except -1
    cdef int append_message(self, const Message *message, const Props *props, uint8_t flags,
                            Producer producer, uint64_t sequence) except -1
    cdef Slot *pop(self, uint64_t *seq) except? NULL
    cdef Slot *pop_any(self, uint64_t *seq) except? NULL
    cdef int take(self, Slot *slot) except -1
    cdef int settle(self, uint64_t seq, Slot *slot) except -1
    cdef int forget(self, uint64_t seq, Slot *slot) except -1
    cdef int drop(self, uint64_t seq, Slot *slot, str reason) except -1
    cdef int requeue(self, uint64_t seq, Slot *slot, bint failed) except -1
    cdef int put_back(self, uint64_t seq, Slot *slot) except -1
    cdef int make_ready(self, uint64_t seq, Slot *slot) except -1
    cdef int hold(self, uint64_t seq, Slot *slot) except -1
    cdef int hold_until(self, uint64_t seq, Slot *slot, uint64_t at_ms) except -1
    cdef int end_hold(self, Slot *slot) except -1
    cdef int push_ready(self, uint64_t seq, Slot *slot) except -1
    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1
    cdef int expire(self, uint64_t seq) except -1
    cdef int expire_zero_ttl(self) except -1
    cdef bint is_timer(self, uint64_t seq, uint64_t at_ms)
    cdef bint shorten(self, Timer *due)
    cdef bint over_limit(self) noexcept
    cdef bint is_crowded(self) noexcept
    cdef bint refuses(self, uint32_t body_len) except -1
    cdef bint is_full(self, uint32_t body_len) noexcept
    cdef bint admits(self, uint32_t body_len) except -1
    cdef int drop_excess(self) except -1
    cdef int deliver(self) except -1
    cdef int deliver_offered(self) except -1
    cdef int hand_out(self) except -1
    cdef void wake(self)
    cdef int attach(self, Taker taker) except -1
    cdef int detach(self, Taker taker) except -1
    cdef int resume(self, Taker taker) except -1
    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1
    cdef uint64_t came_ms(self, uint64_t position)
    cdef uint64_t drop_some(self, uint64_t seq, uint64_t end) except? 0
    cdef int purged(self) except -1
