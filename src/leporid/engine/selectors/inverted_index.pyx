"""InvertedIndex: which members require a value, by the value and the place where it stands.

A place is a property, a header or the routing key, as a number; a value is a text or a number. 1
and 1.0 are one value. `find` returns the posting list of a place and value, `add` puts a member on
it, `remove` takes the member off.

It does not know what members are: numbers that its user gives. Invariants: a posting list has no
member twice; an empty posting list is freed.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from leporid.engine.selectors.machine cimport (
    NUMBER, Operand, TEXT_VALUE, same_text, set_integer, set_text,
)
from leporid.engine.wire.hashing cimport hash_hidden, hash_pair, keep_secret

cdef enum:
    FIRST_BUCKETS = 16
    FIRST_MEMBERS = 2

cdef double INT64_END = 9223372036854775808.0   # the least double above every int64_t

keep_secret()


cdef class InvertedIndex:
    """Posting lists in a hash table."""

    def __dealloc__(self):
        cdef size_t at
        for at in range(self.size):
            while self.buckets[at] != NULL:
                self.drop(self.buckets[at])
        free(self.buckets)

    def __len__(self):
        return self.count

    cdef PostingList *find(self, uint32_t place, const Operand *value) noexcept:
        """The posting list of a value; NULL when no member requires it."""
        cdef Operand room
        cdef const Operand *key
        cdef uint64_t hash
        cdef PostingList *postings
        if not self.count:
            return NULL
        key = normalized(value, &room)
        hash = hash_value(place, key)
        postings = self.buckets[hash & (self.size - 1)]
        while postings != NULL and not (postings.hash == hash and postings.place == place
                                        and is_same_value(&postings.value, key)):
            postings = postings.next
        return postings

    cdef bint add(self, uint32_t place, const Operand *value, uint32_t member,
                  PostingList **found) except -1:
        """Put a member on a posting list. False: it was on the list already.

        A member's values are added one after another: if it is on a list, it is the last one there.
        """
        cdef PostingList *postings = self.make(place, value)
        cdef uint32_t size
        cdef void *grown
        found[0] = postings
        if postings.count and postings.members[postings.count - 1] == member:
            return False
        if postings.count == postings.size:
            size = postings.size * 2 if postings.size else FIRST_MEMBERS
            grown = realloc(postings.members, size * sizeof(uint32_t))
            if grown == NULL:
                if not postings.count:
                    self.drop(postings)
                raise MemoryError("no memory for another filter in a set")
            postings.members = <uint32_t *> grown
            postings.size = size
        postings.members[postings.count] = member
        postings.count += 1
        return True

    cdef uint32_t remove(self, PostingList *postings, uint32_t at) noexcept:
        """Remove the member at a place of a list; returns who has moved there, or NOBODY."""
        cdef uint32_t moved
        postings.count -= 1
        if at != postings.count:
            moved = postings.members[postings.count]
            postings.members[at] = moved
            return moved
        if not postings.count:
            self.drop(postings)
        return NOBODY

    cdef int grow(self) except -1:
        cdef size_t at, bucket, size = self.size * 2 if self.size else FIRST_BUCKETS
        cdef PostingList **buckets = <PostingList **> calloc(size, sizeof(PostingList *))
        cdef PostingList *postings
        cdef PostingList *following
        if buckets == NULL:
            raise MemoryError("no memory for another filter in a set")
        for at in range(self.size):
            postings = self.buckets[at]
            while postings != NULL:
                following = postings.next
                bucket = postings.hash & (size - 1)
                postings.next = buckets[bucket]
                buckets[bucket] = postings
                postings = following
        free(self.buckets)
        self.buckets = buckets
        self.size = size
        return 0

    cdef PostingList *make(self, uint32_t place, const Operand *value) except NULL:
        """The posting list of a value, which may be new."""
        cdef PostingList *postings = self.find(place, value)
        cdef Operand room
        cdef const Operand *key
        cdef uint32_t length
        cdef size_t bucket
        if postings != NULL:
            return postings
        if self.count >= self.size:
            self.grow()
        key = normalized(value, &room)
        length = key.length if key.kind == TEXT_VALUE else 0
        postings = <PostingList *> calloc(1, sizeof(PostingList) + length)
        if postings == NULL:
            raise MemoryError("no memory for another filter in a set")
        postings.hash = hash_value(place, key)
        postings.place = place
        postings.value = key[0]
        if key.kind == TEXT_VALUE:
            if length:
                memcpy(postings + 1, key.text, length)
            set_text(&postings.value, <const uint8_t *> (postings + 1), length)
        bucket = postings.hash & (self.size - 1)
        postings.next = self.buckets[bucket]
        self.buckets[bucket] = postings
        self.count += 1
        return postings

    cdef int drop(self, PostingList *postings) noexcept:
        cdef PostingList **link = &self.buckets[postings.hash & (self.size - 1)]
        while link[0] != postings:
            link = &link[0].next
        link[0] = postings.next
        self.count -= 1
        free(postings.members)
        free(postings)
        return 0


cdef const Operand *normalized(const Operand *v, Operand *room) noexcept nogil:
    """One form for equal values: a whole number of 64 bits is an integer, which takes the room."""
    if v.kind == NUMBER and -INT64_END <= v.number < INT64_END:
        if v.number == <double> <int64_t> v.number:
            set_integer(room, <int64_t> v.number)
            return room
    return v


cdef uint64_t hash_value(uint32_t place, const Operand *key) noexcept nogil:
    cdef uint64_t value
    if key.kind == TEXT_VALUE:
        value = hash_hidden(key.text, key.length)
    else:
        value = <uint64_t> key.integer  # also the bits of a double
    return hash_pair(value, key.kind + (<uint64_t> place << 8))


cdef bint is_same_value(const Operand *a, const Operand *b) noexcept nogil:
    if a.kind != b.kind:
        return False
    if a.kind == TEXT_VALUE:
        return same_text(a, b.text, b.length)
    return a.integer == b.integer
