"""Deduplication: no two messages of a queue have the same header x-deduplication-header.

Responsible for the key that messages are compared by, and for queues that remember the keys of
their entries (exchanges use `exchange_cache`). It must not know routes: those leave out a queue
that `holds` a message's key.

Invariant: the keys of a queue follow from its entries alone, so that replay restores them; a key is
free once the last entry that has it leaves the queue, also if that entry is dead-lettered and
comes back.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport strlen
from cpython.bytes cimport PyBytes_AS_STRING

from hashlib import blake2b

from leporid.engine.wire.codec cimport Props, as_integer, as_real, find_header, walk_properties
from leporid.engine.wire.record cimport properties_in
from leporid.engine.bounds.clock cimport Clock, spend
from leporid.engine.bounds.sharded_dict cimport ShardedDict
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.queue cimport Queue

cdef enum:
    # Longer keys are remembered by their hash, so that publishers cannot fill the memory with them.
    KEY_BYTES_MAX = 64
    HASH_BYTES = 32

cdef const char *HEADER = b"x-deduplication-header"


cdef bytes key_of(const Props *props):
    """The key that a message is compared by; None: it has no such header.

    As in the RabbitMQ plugin, the width of a number does not matter, nor whether a text came as
    bytes; but 1, 1.0 and "1" are three keys.
    """
    cdef uint8_t type
    cdef uint32_t size
    cdef int64_t number
    cdef double value
    cdef const uint8_t *content
    cdef bytes raw
    if not find_header(props, HEADER, <uint8_t> strlen(HEADER), &type, &content, &size):
        return None
    if as_integer(type, content, &number):
        return b"l" + (<uint8_t *> &number)[:8]
    if as_real(type, content, &value):
        return b"d" + (<uint8_t *> &value)[:8]
    if type == c"t":
        return b"t1" if content[0] else b"t0"
    raw = content[:size]
    if size > KEY_BYTES_MAX:
        raw = b"#" + blake2b(raw, digest_size=HASH_BYTES).digest()
    return (b"S" if type == c"x" else bytes((type,))) + raw


def dedup_key(bytes properties not None):
    """The key of a message with these encoded properties; None: it is not compared."""
    cdef Props props
    if walk_properties(<const uint8_t *> PyBytes_AS_STRING(properties), len(properties), &props):
        return None
    return key_of(&props)


cdef class UniqueQueue(Queue):
    """A queue of which no two messages have the same key; made by `Engine.unique_queue`."""

    def __cinit__(self, *_):
        self.remembers = True
        self.keys = ShardedDict()
        self.leaving = set()

    def __repr__(self):
        return (f"<UniqueQueue {self.name!r} ready={self.ready_count} "
                f"unacked={self.unacked_count} known={len(self.keys)}>")

    @property
    def known(self):
        """How many keys it remembers."""
        return len(self.keys)

    cdef bint holds(self, bytes key) except -1:
        return key in self.keys

    cdef int enter(self, uint64_t seq, uint64_t position) except -1:
        """Count the key of an entry that comes."""
        cdef Props props
        cdef bytes key
        if properties_in(self.logs.record(position), &props) == 0:
            key = key_of(&props)
            if key is not None:
                # Two only after a crash: the first was settled, but its settle is not on disk.
                self.keys[key] = (self.keys.get(key) or 0) + 1
        return 0

    cdef int leave(self, uint64_t seq, uint64_t position) except -1:
        """Free the key of an entry that leaves."""
        cdef Props props
        cdef bytes key
        if properties_in(self.logs.record(position), &props) == 0:
            key = key_of(&props)
            if key is not None:
                count = self.keys[key] - 1
                if count:
                    self.keys[key] = count
                else:
                    del self.keys[key]
        return 0

    cdef int push(self, uint64_t position, uint32_t body_len, uint32_t share,
                  uint8_t priority) except -1:
        Queue.push(self, position, body_len, share, priority)
        return self.enter(self.next_seq - 1, position)

    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1:
        self.enter(seq, position)
        return Queue.restore_entry(self, seq, position)

    cdef int forget(self, uint64_t seq, Slot *slot) except -1:
        if seq in self.leaving:
            self.leaving.discard(seq)
        elif self.keys:
            self.leave(seq, slot.position)
        return Queue.forget(self, seq, slot)

    def retire(self):
        """Forget all keys at once, instead of each with its entry."""
        keys, self.keys = self.keys, ShardedDict()
        self.queues.jobs.start(_freeing(keys, self.queues.clock))
        return Queue.retire(self)

    cdef int drop(self, uint64_t seq, Slot *slot, str reason) except -1:
        """Free the key first: the dead letter may come back here, and is no duplicate."""
        if self.dead_letters is not None and seq not in self.leaving:
            self.leave(seq, slot.position)
            self.leaving.add(seq)
        return Queue.drop(self, seq, slot, reason)


def _freeing(ShardedDict keys, Clock clock):
    """Free the memory of many keys, in steps."""
    while keys:
        keys.popitem()
        if spend(clock, 1):
            yield
