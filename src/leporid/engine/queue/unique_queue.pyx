"""Deduplication: no two messages of a queue have the same header x-deduplication-header.

Responsible for what is the same, for queues that remember the keys of their entries (those of
exchanges are in `cache`), and for what a route is without those that have a message. It does not
say what becomes of a duplicate: its publisher is not told.

Invariant: what a queue remembers follows from its entries alone, so that it is what the log says,
whatever came in between; a key is free from when the last entry that has it leaves the queue,
also if that goes on as a dead letter and comes back.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport strlen
from cpython.bytes cimport PyBytes_AS_STRING

from hashlib import blake2b

from leporid.engine.wire.codec cimport Props, as_integer, as_real, find_header, walk_properties
from leporid.engine.wire.record cimport properties_in
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.queue cimport Queue

cdef enum:
    # Longer ones are remembered by their hash: a queue of a million must not keep a million times
    # what a peer likes to send.
    KEY_BYTES_MAX = 64
    HASH_BYTES = 32

cdef const char *HEADER = b"x-deduplication-header"


cdef bytes key_of(const Props *props):
    """What a message is compared by; None: it has no such header.

    As in the plugin that this comes from, the width of a number does not matter, nor whether a text
    came as bytes; but 1, 1.0 and "1" are three.
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
    """What a message with these encoded properties is compared by; None: it is not compared."""
    cdef Props props
    if walk_properties(<const uint8_t *> PyBytes_AS_STRING(properties), len(properties), &props):
        return None
    return key_of(&props)


cdef class UniqueQueue(Queue):
    """A queue of which no two messages have the same key; made by `Engine.unique_queue`."""

    def __cinit__(self, *_):
        self.remembers = True
        self.keys = {}
        self.leaving = set()

    def __repr__(self):
        return (f"<UniqueQueue {self.name!r} ready={self.ready_count} "
                f"unacked={self.unacked_count} known={len(self.keys)}>")

    @property
    def known(self):
        """How many keys are in it."""
        return len(self.keys)

    cdef bint holds(self, bytes key) except -1:
        return key in self.keys

    cdef int enter(self, uint64_t seq, uint64_t position) except -1:
        """An entry is here, whose key counts from now on."""
        cdef Props props
        cdef bytes key
        if properties_in(self.logs.record(position), &props) == 0:
            key = key_of(&props)
            if key is not None:
                # Twice only after a crash: the first was settled, and that is not on disk.
                self.keys[key] = self.keys.get(key, 0) + 1
        return 0

    cdef int leave(self, uint64_t seq, uint64_t position) except -1:
        """An entry's key counts no more."""
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

    cdef int push(self, uint64_t position, uint32_t body_len, uint8_t priority) except -1:
        Queue.push(self, position, body_len, priority)
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
        """Nobody asks for keys any more: all go at once, and not each with its entry."""
        self.keys = {}
        return Queue.retire(self)

    cdef int drop(self, uint64_t seq, Slot *slot, str reason) except -1:
        """Its dead letter may lead here again, and is no duplicate then."""
        if self.dead_letters is not None and seq not in self.leaving:
            self.leave(seq, slot.position)
            self.leaving.add(seq)
        return Queue.drop(self, seq, slot, reason)
