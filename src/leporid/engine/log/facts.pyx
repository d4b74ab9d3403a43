"""Facts about entries in the durable log: SETTLE, DELIVERED, COMMIT and CLEAN records.

Responsible for turning what queues noted into records. It must not know what settles an entry.
Invariant: a fact about entries of another segment pins that segment's number in its own.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memcpy

from leporid.engine.log.log cimport (
    COMMIT_REPLACES, FLAG_IN_TX, KIND_CLEAN, KIND_COMMIT, KIND_SETTLE, Segment, segment_number,
)
from leporid.engine.log.logs cimport Logs
from leporid.engine.wire.record cimport Range, Record, content_of, record_bytes

cdef enum:
    RANGES_MAX = 4096               # in one SETTLE record

# The size of a SETTLE record of one entry and the COMMIT after it.
cdef size_t LETTER_ROOM = 2 * (sizeof(Record) + 8) + sizeof(Range)


cdef int compare_ranges(const void *a, const void *b) noexcept nogil:
    cdef const Range *left = <const Range *> a
    cdef const Range *right = <const Range *> b
    if left.segment != right.segment:
        return 1 if left.segment > right.segment else -1
    if left.first == right.first:
        return 0
    return 1 if left.first > right.first else -1


cdef uint32_t merge_ranges(Range *ranges, uint32_t count) noexcept nogil:
    """Sort ranges and join adjacent ones; returns how many are left."""
    cdef uint32_t kept = 0, i
    qsort(ranges, count, sizeof(Range), compare_ranges)
    for i in range(1, count):
        if (ranges[i].segment == ranges[kept].segment
                and ranges[i].first == ranges[kept].first + ranges[kept].count):
            ranges[kept].count += ranges[i].count
        else:
            kept += 1
            ranges[kept] = ranges[i]
    return kept + 1 if count else 0


cdef class SettledRanges:
    """Entries of one queue that were settled and are not in the log yet."""

    def __cinit__(self, Logs logs not None, uint32_t queue):
        self.logs = logs
        self.queue = queue

    def __dealloc__(self):
        free(self.ranges)

    cdef int note(self, uint64_t position, uint64_t seq) except -1:
        """Note that an entry was settled whose record is at this position in the durable log."""
        cdef uint32_t segment = segment_number(position)
        cdef Logs logs = self.logs
        cdef Range *last
        cdef void *grown
        logs.settles += 1
        logs.settles_generation = max(logs.settles_generation, logs.generation)
        if self.count:
            last = &self.ranges[self.count - 1]
            if last.segment == segment and last.first + last.count == seq:
                last.count += 1
                return 0
        if self.count == self.capacity:
            self.capacity = max(4, self.capacity * 2)
            grown = realloc(self.ranges, self.capacity * sizeof(Range))
            if grown == NULL:
                raise MemoryError("no memory to note settled messages")
            self.ranges = <Range *> grown
        last = &self.ranges[self.count]
        last.segment, last.first, last.count = segment, seq, 1
        self.count += 1
        if not self.listed:
            self.listed = True
            logs.unsettled.append(self)
        return 0


cdef int flush_settles(Logs logs, uint8_t flags) except -1:
    """Append SETTLE facts for what was settled since the last call."""
    cdef SettledRanges settled
    cdef uint32_t count, at
    unsettled, logs.unsettled = logs.unsettled, []
    for settled in unsettled:
        settled.listed = False
        count = merge_ranges(settled.ranges, settled.count)
        settled.count = 0
        if settled.retired:
            continue
        at = 0
        while at < count:
            append_ranges(logs, KIND_SETTLE, flags, settled.queue, settled.ranges + at,
                          min(count - at, RANGES_MAX))
            at += RANGES_MAX
    return 0


cdef int append_ranges(Logs logs, uint8_t kind, uint8_t flags, uint32_t queue, const Range *ranges,
                       uint32_t count) except -1:
    """Append a fact about entries of one queue: queue id, number of ranges, the ranges."""
    cdef Record *record = logs.durable.begin_fact(
        kind, flags, 8 + count * sizeof(Range), logs.clock.wall_ms)
    cdef uint32_t *words = <uint32_t *> content_of(record)
    cdef Segment active = logs.durable.active
    cdef uint32_t at
    words[0], words[1] = queue, count
    memcpy(words + 2, ranges, count * sizeof(Range))
    for at in range(count):
        if ranges[at].segment != active.number:
            active.pins.add(ranges[at].segment)
    logs.durable.finish(record)
    logs.dirty = True
    return 0


cdef int append_commit(Logs logs, uint32_t count, uint32_t purpose) except -1:
    """Append a COMMIT: the `count` facts before it are a transaction, and count."""
    cdef Record *record = logs.durable.begin_fact(KIND_COMMIT, 0, 8, 0)
    cdef uint32_t *words = <uint32_t *> content_of(record)
    words[0], words[1] = count, purpose
    logs.durable.finish(record)
    logs.dirty = True
    return 0


cdef int append_clean(Logs logs) except -1:
    """Append the last fact of an orderly shutdown."""
    logs.durable.finish(logs.durable.begin_fact(KIND_CLEAN, 0, 0, 0))
    logs.dirty = True
    return 0


cdef int make_room(Logs logs, size_t targets, size_t content) except -1:
    """Make sure that the active segment has room for a message to `targets` queues and for what
    `settle_with_letter` appends; `content` is the size of its names, properties and body."""
    logs.durable.begin(record_bytes(targets, content) + LETTER_ROOM)
    return 0


cdef bint settle_with_letter(Logs logs, uint32_t queue, uint64_t position,
                             uint64_t seq) except -1:
    """Make one transaction of the newest record, a dead letter, and the settle of its original.

    Returns False, and does nothing, if the segment has no room for all of it.
    """
    cdef Segment active = logs.durable.active
    cdef Range settled
    cdef bint single
    if active.capacity - active.used < LETTER_ROOM:
        return False
    settled.segment = segment_number(position)
    settled.first, settled.count = seq, 1
    logs.durable.amend(FLAG_IN_TX)
    single, active.single = active.single, False
    append_ranges(logs, KIND_SETTLE, FLAG_IN_TX, queue, &settled, 1)
    append_commit(logs, 2, COMMIT_REPLACES)
    active.single = single
    logs.settles += 1
    logs.settles_generation = max(logs.settles_generation, logs.generation)
    return True
