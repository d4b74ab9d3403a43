"""Weighted rendezvous hashing: which of several places a key belongs to.

Responsible for the choice. Each place has a score for the key, from the hash of both, and the best
score has the key. So the choice depends on the set of places alone, not on the order in which they
were added, and is the same after a restart. It must not know what a place stands for. Invariant:
removing a place moves only its own keys, adding one moves keys only to it; each has a share of the
keys in proportion to its weight.
"""

from libc.math cimport log
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.wire.hashing cimport hash_key


cdef struct Place:
    uint64_t seed
    double weight


cdef inline uint64_t mixed(uint64_t value) noexcept nogil:
    """Mix the bits of a value: each bit of the result depends on all (splitmix64's finalizer)."""
    value = (value ^ (value >> 30)) * <uint64_t> 0xbf58476d1ce4e5b9
    value = (value ^ (value >> 27)) * <uint64_t> 0x94d049bb133111eb
    return value ^ (value >> 31)


cdef class Rendezvous:
    """Places by name, each with a weight."""

    cdef Place *places
    cdef size_t capacity
    cdef list names
    cdef dict numbers           # name -> index

    def __cinit__(self):
        self.names = []
        self.numbers = {}

    def __dealloc__(self):
        free(self.places)

    def __len__(self):
        return len(self.names)

    def __repr__(self):
        return f"<Rendezvous places={len(self.names)}>"

    def add(self, bytes name not None, double weight):
        """Add a place; there must be none of that name, and its weight must be above zero."""
        cdef size_t count = len(self.names)
        cdef void *grown
        if name in self.numbers or not weight > 0:
            raise ValueError(f"place {name!r} of weight {weight}: the name exists, or the weight "
                             "is not above 0")
        if count == self.capacity:
            grown = realloc(self.places, max(8, self.capacity * 2) * sizeof(Place))
            if grown == NULL:
                raise MemoryError("no memory for another place")
            self.places = <Place *> grown
            self.capacity = max(8, self.capacity * 2)
        self.places[count].seed = mixed(hash_key(
            <const uint8_t *> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)))
        self.places[count].weight = weight
        self.numbers[name] = count
        self.names.append(name)

    def remove(self, bytes name not None):
        """Remove a place that is there."""
        cdef size_t at = self.numbers.pop(name), last = len(self.names) - 1
        moved = self.names.pop()
        if at != last:
            self.places[at] = self.places[last]
            self.names[at] = moved
            self.numbers[moved] = at

    def choose(self, bytes key not None):
        """Return the name of the place that a key belongs to; None if there is no place."""
        cdef uint64_t hashed = hash_key(
            <const uint8_t *> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)), drawn
        cdef double waited, shortest = 0
        cdef size_t at, best = 0, count = len(self.names)
        if not count:
            return None
        for at in range(count):
            drawn = mixed(hashed ^ self.places[at].seed)
            # Uniform in (0, 1], as an exponential time whose mean is the inverse of the weight.
            waited = -log(((drawn >> 11) + 1) * 1.1102230246251565e-16) / self.places[at].weight
            if (not at or waited < shortest
                    or waited == shortest and self.names[at] < self.names[best]):
                best, shortest = at, waited
        return self.names[best]
