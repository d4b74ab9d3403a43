"""Objects by rank: the first of many, when any of them may leave.

Responsible for a binary heap of objects that know their places in it, so that one comes and goes in
O(log n) however many there are. It must not know what is ranked. Invariant: `heap[0]` is before all
others, and each object's `place` is its index.
"""


cdef inline bint is_before(Ranked one, Ranked other):
    return one.priority > other.priority or (
        one.priority == other.priority and one.arrival < other.arrival)


cdef class Ranked:
    """Something with a rank; it is in one heap at most."""


cdef int put_in(list heap, Ranked item) except -1:
    """Add an object."""
    heap.append(item)
    return rise(heap, item, len(heap) - 1)


cdef int take_out(list heap, Ranked item) except -1:
    """Remove an object that is in the heap."""
    cdef Py_ssize_t at = item.place
    cdef Ranked last = <Ranked> heap.pop()
    if last is item:
        return 0
    if is_before(last, item):
        return rise(heap, last, at)
    return sink(heap, last, at)


cdef int rise(list heap, Ranked item, Py_ssize_t at) except -1:
    """Put an object at `at`, or further up, until none above comes after it."""
    cdef Ranked above
    while at:
        above = <Ranked> heap[(at - 1) // 2]
        if not is_before(item, above):
            break
        heap[at], above.place = above, at
        at = (at - 1) // 2
    heap[at], item.place = item, at
    return 0


cdef int sink(list heap, Ranked item, Py_ssize_t at) except -1:
    """Put an object at `at`, or further down, until none below comes before it."""
    cdef Py_ssize_t count = len(heap), child
    cdef Ranked below
    while 2 * at + 1 < count:
        child = 2 * at + 1
        below = <Ranked> heap[child]
        if child + 1 < count and is_before(<Ranked> heap[child + 1], below):
            child += 1
            below = <Ranked> heap[child]
        if not is_before(below, item):
            break
        heap[at], below.place = below, at
        at = child
    heap[at], item.place = item, at
    return 0
