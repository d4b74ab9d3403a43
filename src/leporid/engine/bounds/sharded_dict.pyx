"""A dict that never grows in one long step.

Responsible for mappings that peers can fill with a million entries, such as the bindings of an
exchange. A dict of Python's that outgrows its table copies all of it at once: 30 ms at 700,000
entries, and what is filed under several dicts pays for each. This one is a dict until it has
`ENTRIES_MAX` entries; then it becomes `FANOUT` dicts, among which the hash chooses, and each of
these does likewise. It must not know what is filed.

Python's collector is not told of the dicts of a divided one: it would look at all that a new one
has, which are a few entries that came since its last collection, and a hundred times as many that
were moved, in one piece. So what is filed here in great numbers is freed when its last reference
goes, or never; as it is with what the collector has frozen (`server/garbage.py`).

Invariant: an addition moves at most `ENTRIES_MAX` entries, unless millions have the same hash.

The order of the entries is that of their additions as long as there is one dict, and no order
afterwards. While keys or values are iterated over, others may come and go: who is there all the
time is met once, and who has gone may be met, too.
"""

from libc.stdint cimport uint64_t

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object each)

cdef enum:
    # Filing them again takes about a millisecond.
    ENTRIES_MAX = 1024
    FANOUT_BITS = 4
    FANOUT = 1 << FANOUT_BITS
    # All that a hash can tell apart.
    LEVELS_MAX = 64 // FANOUT_BITS


cdef class Shard:
    """A dict, or those that it has become."""

    def __cinit__(self, int level):
        self.level = level
        self.entries = {}

    cdef int divide(self) except -1:
        cdef dict entries = self.entries
        cdef Shard shard
        self.shards = [Shard(self.level + 1) for _ in range(FANOUT)]
        self.entries = None
        for key, value in entries.items():
            shard = self.next(mixed_hash(key))
            shard.add(key, value)
            shard.count += 1
        return 0

    cdef int add(self, key, value) except -1:
        self.entries[key] = value
        if self.level:
            # Adding has told the collector of it.
            PyObject_GC_UnTrack(self.entries)
        return 0

    cdef Shard next(self, uint64_t mixed):
        return <Shard> self.shards[(mixed >> (64 - FANOUT_BITS * (self.level + 1))) & (FANOUT - 1)]


cdef inline uint64_t mixed_hash(key) except? 0:
    # Hashes of integers are the integers, and those of addresses end alike.
    return <uint64_t> hash(key) * <uint64_t> 0x9E3779B97F4A7C15


cdef class ShardedDict:
    """A mapping; see the module."""

    def __cinit__(self):
        self.root = Shard(0)

    def __repr__(self):
        return f"<ShardedDict entries={self.root.count}>"

    def __len__(self):
        return self.root.count

    def __contains__(self, key):
        return key in self.shard(key).entries

    def __getitem__(self, key):
        return self.shard(key).entries[key]

    def __setitem__(self, key, value):
        cdef Shard shard = self.shard(key)
        cdef Py_ssize_t before = len(shard.entries)
        shard.add(key, value)
        if len(shard.entries) == before:
            return
        self.change_counts(key, 1)
        if shard.count > ENTRIES_MAX and shard.level < LEVELS_MAX:
            shard.divide()

    def __delitem__(self, key):
        del self.shard(key).entries[key]
        self.change_counts(key, -1)

    def __iter__(self):
        return _keys(self.root)

    cpdef object get(self, key):
        """The value of a key, or None."""
        return self.shard(key).entries.get(key)

    def values(self):
        """The values, in the order of the keys."""
        return _values(self.root)

    def popitem(self):
        """Remove an entry and return it; raises KeyError if there is none."""
        cdef Shard shard = self.root, part
        while shard.entries is None:
            for part in shard.shards:
                if part.count:
                    break
            shard = part
        item = shard.entries.popitem()
        self.change_counts(item[0], -1)
        return item

    def pop(self, key):
        """Remove a key, if it is there, and return its value; None: it was not."""
        cdef Shard shard = self.shard(key)
        cdef Py_ssize_t before = len(shard.entries)
        value = shard.entries.pop(key, None)
        if len(shard.entries) < before:
            self.change_counts(key, -1)
        return value

    cdef Shard shard(self, key):
        """That whose dict a key is in, or would be."""
        cdef Shard shard = self.root
        cdef uint64_t mixed
        if shard.entries is None:
            mixed = mixed_hash(key)
            while shard.entries is None:
                shard = shard.next(mixed)
        return shard

    cdef int change_counts(self, key, int by) except -1:
        """A key came to all on the way to its dict, or left them."""
        cdef Shard shard = self.root
        cdef uint64_t mixed
        shard.count += by
        if shard.entries is None:
            mixed = mixed_hash(key)
            while shard.entries is None:
                shard = shard.next(mixed)
                shard.count += by
        return 0


def _keys(Shard shard):
    # What divides meanwhile has been copied, or is met divided.
    if shard.entries is not None:
        yield from _draining(list(shard.entries))
    else:
        for part in shard.shards:
            yield from _keys(part)


def _values(Shard shard):
    if shard.entries is not None:
        yield from _draining(list(shard.entries.values()))
    else:
        for part in shard.shards:
            yield from _values(part)


def _draining(list copied):
    # What has gone meanwhile is freed one by one, and not with the last of them.
    copied.reverse()
    while copied:
        yield copied.pop()
