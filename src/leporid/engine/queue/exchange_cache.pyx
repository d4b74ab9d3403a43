"""The deduplication cache of an exchange: a hidden queue of the messages that it has routed.

Responsible for the keys that an exchange remembers, and for how long. The cache is one more target
in the record of a message: message and key are on disk together or not at all, and replay restores
both. Entries leave when there are too many, oldest first, and when they expire. It must not know
exchanges: routing asks `has` and adds the cache to the message's queues.

Invariants: nothing is delivered from a cache; a message that no queue took is not remembered.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport strlen
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.log.log cimport Segment, is_durable, segment_number
from leporid.engine.queue.index cimport AT_ONCE, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.unique_queue cimport UniqueQueue, key_of
from leporid.engine.wire.codec cimport TTL_MS_MAX, Props, as_integer, find_header, walk_properties
from leporid.engine.wire.record cimport NO_LIMIT, Record, properties_in

cdef const char *TTL_HEADER = b"x-cache-ttl"

cdef class ExchangeCache(UniqueQueue):
    """The deduplication cache of one exchange; made by `Engine.cache`."""

    def __cinit__(self, *_):
        self.private = True
        self.reserved = set()
        self.cache_ttl = NO_LIMIT

    def __repr__(self):
        return f"<ExchangeCache {self.name!r} known={len(self.keys)}>"

    def set_cache(self, size, ttl_ms):
        """Set how many messages are remembered, and for how long; None: until there is no room."""
        self.set_limits(max_length=size)
        self.cache_ttl = NO_LIMIT if ttl_ms is None else ttl_ms

    def has(self, bytes properties not None):
        """Whether a message with these encoded properties is a duplicate."""
        cdef Props props
        cdef bytes key
        if walk_properties(<const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
                           &props):
            return False
        key = key_of(&props)
        return key is not None and self.holds(key)

    # ------------------------------------------------------------- keys, by sequence number

    cdef bint holds(self, bytes key) except -1:
        cdef Slot *slot
        if key in self.reserved:
            return True
        found = self.keys.get(key)
        if found is None:
            return False
        slot = self.slot_of(found)
        if slot.expires_at_ms and (slot.expires_at_ms <= self.queues.clock.now_ms
                                   or slot.expires_at_ms == AT_ONCE):
            self.expire(found)  # its timer comes later in this turn
            return False
        return True

    cdef int enter(self, uint64_t seq, uint64_t position) except -1:
        cdef Props props
        cdef bytes key
        if properties_in(self.logs.record(position), &props) == 0:
            key = key_of(&props)
            if key is not None:
                self.keys[key] = seq
                self.reserved.discard(key)
        return 0

    cdef int leave(self, uint64_t seq, uint64_t position) except -1:
        cdef Props props
        cdef bytes key
        if properties_in(self.logs.record(position), &props) == 0:
            key = key_of(&props)
            if key is not None and self.keys.get(key) == seq:
                del self.keys[key]
        return 0

    # ------------------------------------------------------------- entries

    cdef int push(self, uint64_t position, uint32_t body_len, uint32_t share,
                  uint8_t priority) except -1:
        cdef Props props
        cdef uint64_t ttl_ms
        cdef uint64_t seq = self.next_seq
        UniqueQueue.push(self, position, body_len, share, priority)
        if body_len:
            give_share(self, self.slot_of(seq))
        properties_in(self.logs.record(position), &props)
        ttl_ms = self.ttl_of(&props)
        if ttl_ms != NO_LIMIT:
            Queue.set_ttl(self, seq, ttl_ms)
        return self.drop_excess()

    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1:
        """A message's time to live in a queue does not limit how long it is remembered."""
        return 0

    cdef int expire(self, uint64_t seq) except -1:
        """A key is forgotten; no message expired, so none is counted."""
        Queue.expire(self, seq)
        return 0

    cdef uint64_t ttl_of(self, const Props *props):
        cdef uint8_t type = 0
        cdef uint32_t size = 0
        cdef int64_t number = 0
        cdef const uint8_t *content
        if (not find_header(props, TTL_HEADER, <uint8_t> strlen(TTL_HEADER), &type, &content,
                            &size) or not as_integer(type, content, &number)):
            return self.cache_ttl
        return <uint64_t> max(0, min(number, TTL_MS_MAX))

    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1:
        """Restore a key and what is left of its time; time passed while the broker was down."""
        cdef Record *record = self.logs.record(position)
        cdef Props props
        cdef uint64_t ttl_ms, over_ms
        self.enter(seq, position)
        if record.body_len:
            give_share(self, self.slot_of(seq))
        properties_in(record, &props)
        ttl_ms = self.ttl_of(&props)
        if ttl_ms == NO_LIMIT:
            return 0
        over_ms = self.came_ms(position) + ttl_ms
        ttl_ms = over_ms - self.queues.clock.wall_ms if over_ms > self.queues.clock.wall_ms else 0
        return Queue.set_ttl(self, seq, ttl_ms)


cdef int give_share(Queue queue, Slot *slot) except -1:
    """Leave the record to the queues that have the message.

    Once it has left all of them it is worth copying, since the copy for a cache has no body. The
    copy is the cache's, so it has a share of that.
    """
    cdef Segment segment
    if is_durable(slot.position):
        segment = queue.logs.durable.find(segment_number(slot.position))
    else:
        segment = queue.logs.transient.find(segment_number(slot.position))
    segment.live_bytes -= slot.share
    segment.total_bytes -= slot.share
    slot.share = 0
    return 0
