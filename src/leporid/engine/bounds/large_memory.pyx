"""Memory of many pages: arrays that grow without a copy, and giving memory back in steps.

A megabyte takes some 0.1 ms to give back to the system, and up to half a millisecond to copy to new
pages, while all wait. So a mapping that nobody refers to any more is left: it stands in a list of
the process until `give_back` has come to its end, since a `__dealloc__` knows no broker. It must
not know what the memory is for.

Invariants: one step gives STEP_BYTES back at most, and is followed by a look at the clock; an array
of ARRAY_BYTES_MIN or more is a mapping, a smaller one the C library's; leaving takes no memory.
"""

from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from posix.mman cimport (
    MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, mremap, munmap,
)

from leporid.engine.bounds.clock cimport Clock

cdef extern from "<sys/mman.h>" nogil:
    enum: MREMAP_MAYMOVE

cdef enum:
    ARRAY_BYTES_MIN = STEP_BYTES

cdef struct Mapping:
    # What its first bytes say once it was left.
    Mapping *next
    size_t bytes

cdef Mapping *left = NULL           # the newest first


cdef class LargeMemory:
    """A mapping of anonymous memory."""

    def __dealloc__(self):
        # Its last holder may be the output of a connection, in the middle of its turn.
        if self.base != NULL:
            leave(self.base, self.bytes)

    def __repr__(self):
        return f"<LargeMemory of {self.bytes} bytes>"


cdef void *grow_array(void *array, size_t before, size_t after) noexcept:
    """Do as `realloc`: NULL is no array yet, or says that there is no memory."""
    cdef void *made
    if after < ARRAY_BYTES_MIN:
        return realloc(array, after)
    if before >= ARRAY_BYTES_MIN:
        made = mremap(array, before, after, MREMAP_MAYMOVE)
        return NULL if made == MAP_FAILED else made
    made = mmap(NULL, after, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if made == MAP_FAILED:
        return NULL
    if array != NULL:
        memcpy(made, array, before)
        free(array)
    return made


cdef void free_array(void *array, size_t size) noexcept:
    """Free what `grow_array` gave; in turns to come if it is large."""
    if size < ARRAY_BYTES_MIN:
        free(array)
    else:
        leave(<uint8_t *> array, size)


cdef void leave(uint8_t *base, size_t size) noexcept:
    """Have a mapping given back that nobody refers to; at once if it is less than a step."""
    global left
    cdef Mapping *mapping = <Mapping *> base
    if size < STEP_BYTES:
        munmap(base, size)
        return
    mapping.next, mapping.bytes = left, size
    left = mapping


cdef bint is_leaving() noexcept:
    """Whether `give_back` has something to do."""
    return left != NULL


cdef void give_back(Clock clock) noexcept:
    """Give mappings back to the system, as far as the slice at hand allows."""
    global left
    cdef Mapping *mapping
    cdef size_t bytes_before, rest
    while left != NULL:
        mapping = left
        bytes_before = mapping.bytes
        rest = (bytes_before - 1) // STEP_BYTES * STEP_BYTES
        if rest:
            mapping.bytes = rest
        else:
            left = mapping.next
        munmap(<uint8_t *> mapping + rest, bytes_before - rest)
        # For each, too: there may be very many that have one step each.
        if clock.over():
            break
