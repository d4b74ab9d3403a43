"""Memory of many pages: arrays that grow without a copy, and giving memory back in steps.

A megabyte takes some 0.1 ms to give back to the system, and up to half a millisecond to copy to new
pages, while all wait. What nobody needs any more stands in a list until it was given back: memory
of logs in one of their broker, that of arrays and of whatever ends with its last holder in one of
the process, since a `__dealloc__` knows no broker. It must not know what the memory is for.

Invariants: one step gives STEP_BYTES back at most, and is followed by a look at the clock; an array
of ARRAY_BYTES_MIN or more is a mapping, a smaller one the C library's.
"""

from cpython.ref cimport Py_REFCNT
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

cdef list unheld = []


cdef class LargeMemory:
    """A mapping of anonymous memory."""

    def __dealloc__(self):
        # Its last holder may be the output of a connection, in the middle of its turn.
        if self.base != NULL:
            leave(self.base, self.bytes)

    def __repr__(self):
        return f"<LargeMemory of {self.bytes} bytes>"

    cdef bint shrink(self) noexcept:
        """Give its last pages back to the system; returns whether there are others."""
        cdef size_t left = (self.bytes - 1) // STEP_BYTES * STEP_BYTES
        munmap(self.base + left, self.bytes - left)
        self.bytes = left
        if not left:
            self.base = NULL
        return left


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
    """Have a mapping given back that nobody refers to; at once if that is one step."""
    cdef LargeMemory memory
    if size <= STEP_BYTES:
        munmap(base, size)
        return
    memory = LargeMemory()
    memory.base, memory.bytes = base, size
    unheld.append(memory)


cdef bint is_leaving(list leaving) noexcept:
    """Whether `give_back` has something to do."""
    return bool(leaving) or bool(unheld)


cdef int give_back(list leaving, Clock clock) except -1:
    """Give memory back, as far as the slice at hand allows. Others may still refer to it."""
    cdef LargeMemory memory
    cdef list some
    while leaving or unheld:
        some = leaving or unheld
        memory = some.pop()
        # Otherwise somebody still reads it: it comes back here from the last one who does.
        if memory.base != NULL and Py_REFCNT(memory) == 1 and memory.shrink():
            some.append(memory)
        # For each, too: there may be very many that have one step each.
        if clock.over():
            break
    return 0
