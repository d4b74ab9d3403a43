"""InternedNames: reference-counted interning of header names.

Each name that at least one selector uses has a small integer id, so that the values of a message's
headers stand in an array. `intern` adds a user to a name, `release` takes one away.

It does not know what the ids are for. Invariants: a name in use has one id; the id of a name
without users is given to another name.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

from leporid.engine.wire.hashing cimport hash_hidden, keep_secret

cdef enum:
    FIRST_SIZE = 16

keep_secret()


cdef class InternedNames:
    """Names by id, and ids by name."""

    def __dealloc__(self):
        cdef uint32_t at
        for at in range(self.end):
            free(self.names[at].text)
        free(self.names)
        free(self.buckets)

    def __len__(self):
        return self.count

    cdef uint32_t find(self, const uint8_t *text, uint8_t length) noexcept:
        """The id of a name; NO_NAME when nobody uses it. `lengths` says that of most at once."""
        return find_hashed(self, text, length, hash_hidden(text, length))

    cdef uint32_t intern(self, const uint8_t *text, uint8_t length) except? 0xffffffff:
        """The id of a name, which has one user more; NO_NAME when NAMES_MAX are in use."""
        cdef uint64_t hash = hash_hidden(text, length)
        cdef uint32_t at = find_hashed(self, text, length, hash)
        cdef uint16_t *bucket
        cdef uint8_t *copy
        cdef Name *name
        if at != NO_NAME:
            self.names[at].users += 1
            return at
        if self.count >= NAMES_MAX:
            return NO_NAME
        if self.count == self.size:
            self.grow()
        copy = <uint8_t *> malloc(<size_t> length + 1)
        if copy == NULL:
            raise MemoryError("no memory for the name of a header")
        memcpy(copy, text, length)
        if self.count < self.end:
            at = self.free_id
            self.free_id = self.names[at].next
        else:
            at = self.end
            self.end += 1
        bucket = &self.buckets[hash & (self.size - 1)]
        name = &self.names[at]
        name.text, name.hash, name.users, name.length = copy, hash, 1, length
        name.next = bucket[0]
        bucket[0] = <uint16_t> at
        self.count += 1
        self.with_length[length & 63] += 1
        self.lengths |= <uint64_t> 1 << (length & 63)
        return at

    cdef int release(self, uint32_t id) noexcept:
        """Take one user of a name away."""
        cdef Name *name = &self.names[id]
        cdef uint16_t *link
        name.users -= 1
        if name.users:
            return 0
        link = &self.buckets[name.hash & (self.size - 1)]
        while link[0] != id:
            link = &self.names[link[0]].next
        link[0] = name.next
        self.with_length[name.length & 63] -= 1
        if not self.with_length[name.length & 63]:
            self.lengths &= ~(<uint64_t> 1 << (name.length & 63))
        free(name.text)
        name.text = NULL
        name.next = self.free_id
        self.free_id = <uint16_t> id
        self.count -= 1
        return 0

    cdef int grow(self) except -1:
        cdef uint32_t at, size = self.size * 2 if self.size else FIRST_SIZE
        cdef uint16_t *bucket
        cdef void *grown = realloc(self.names, size * sizeof(Name))
        if grown == NULL:
            raise MemoryError("no memory for the name of a header")
        self.names = <Name *> grown
        grown = realloc(self.buckets, size * sizeof(uint16_t))
        if grown == NULL:
            raise MemoryError("no memory for the name of a header")
        self.buckets = <uint16_t *> grown
        self.size = size
        for at in range(size):
            self.buckets[at] = NO_NAME
        for at in range(self.end):
            if self.names[at].text == NULL:
                continue
            bucket = &self.buckets[self.names[at].hash & (size - 1)]
            self.names[at].next = bucket[0]
            bucket[0] = <uint16_t> at
        return 0


cdef uint32_t find_hashed(InternedNames self, const uint8_t *text, uint8_t length,
                          uint64_t hash) noexcept:
    cdef uint32_t at
    cdef const Name *name
    if not self.size:
        return NO_NAME
    at = self.buckets[hash & (self.size - 1)]
    while at != NO_NAME:
        name = &self.names[at]
        if name.hash == hash and name.length == length and not memcmp(name.text, text, length):
            break
        at = name.next
    return at
