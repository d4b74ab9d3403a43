"""Searching streams for consumers with a filter, within a budget of work per turn.

Responsible for each consumer's share of the budget, and for finding the next message that matches,
batch by batch: a batch whose summary rules a match out is not read. It must not know credit or
channels.

Invariants: a turn's search is bounded, however many consumers there are and whatever their filters,
so that connections wait at most that long; each consumer gets its share, first those that had none
in the turn before. A message that is skipped does not match.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from leporid.engine.log.log cimport KIND_PUBLISH, Segment
from leporid.engine.queue.takers cimport Taker
from leporid.engine.stream.choice cimport Choice, Tally, add_tally, outcome_of, work_of
from leporid.engine.stream.offset_index cimport OffsetIndex
from leporid.engine.stream.stream cimport Cursor, Stream, Streams, offset_of
from leporid.engine.wire.record cimport Record

cdef extern from *:
    void prefetch "__builtin_prefetch" (const void *at) nogil

cdef enum:
    # A unit takes one to three nanoseconds, the more the slower memory is.
    WORK_A_TURN = 1000000
    # The least share of a consumer: enough for a batch or two.
    WORK_LEAST = 10000
    # Consumers that are asked in a turn, as many may have found all that there is.
    READERS_A_TURN = 1000
    # How far ahead of the current record memory is prefetched.
    PREFETCH_BYTES = 512


cdef int scan(Streams streams) except -1:
    """Let consumers with a filter search; once a turn."""
    cdef Taker reader
    cdef int64_t left = WORK_A_TURN, share, granted, rest
    cdef Py_ssize_t count = len(streams.scanning)
    share = max(<int64_t> WORK_LEAST, WORK_A_TURN // <int64_t> count)
    count = min(count, <Py_ssize_t> READERS_A_TURN)
    while count and left > 0:
        count -= 1
        reader = <Taker> streams.scanning.popitem(False)[0]
        if not reader.active:
            continue
        granted = min(left, share)
        rest = reader.look_for(granted)
        left -= granted - rest
        if rest <= 0:
            streams.scanning[reader] = None
    return 0


cdef Record *find_next(Stream stream, Choice choice, Scan *scan) except? NULL:
    """The next message that matches; the cursor is then at it.

    NULL: there is none up to the end, or the budget is spent.
    """
    cdef Cursor *cursor = scan.cursor
    cdef Record *record
    cdef Segment segment
    cdef Tally tally
    tally.batches_skipped = tally.evaluated = tally.matched = tally.type_errors = 0
    record = NULL
    while scan.work > 0 and cursor.offset < stream.end:
        if cursor.offset >= scan.looked:
            skip_batches(stream, choice, scan, &tally)
            continue
        record = stream.look(cursor)
        if record == NULL:
            break
        if cursor.offset >= scan.looked:
            record = NULL
            continue
        segment = stream.log.find(cursor.segment)
        # In a segment with damage, one message at a time.
        record = seek(choice, scan, segment.base, segment.used, len(segment.holes) > 0, &tally)
        if record != NULL:
            break
    add_tally(&stream.tally, &tally)
    add_tally(&stream.streams.filtered, &tally)
    return record


cdef int skip_batches(Stream stream, Choice choice, Scan *scan, Tally *tally) except -1:
    """Go to the next batch that may have a match, or to the end, by summaries alone."""
    cdef OffsetIndex offsets = stream.offsets
    cdef Cursor *cursor = scan.cursor
    cdef size_t after = offsets.after(cursor.offset), batch
    batch = after = max(after, offsets.start + 1) - 1
    while batch < offsets.end and offsets.entries[batch].offset < stream.end and scan.work > 0:
        scan.work -= choice.look_work
        if choice.may_match(offsets.summary(batch)):
            break
        batch += 1
    if batch > after:
        tally.batches_skipped += batch - after
        if batch == offsets.end or offsets.entries[batch].offset >= stream.end:
            cursor[0] = stream.end_place
        else:
            cursor.offset = offsets.entries[batch].offset
            cursor.segment, cursor.at = offsets.entries[batch].segment, offsets.entries[batch].at
    scan.looked = cursor.offset
    if scan.work > 0 and cursor.offset < stream.end:
        batch += 1
        scan.looked = offsets.entries[batch].offset if batch < offsets.end else stream.end
        scan.looked = min(scan.looked, stream.end)
    return 0


cdef Record *seek(Choice choice, Scan *scan, const uint8_t *base, size_t used, bint once,
                  Tally *tally) noexcept nogil:
    """The next match in a segment from the cursor on, up to where summaries were checked."""
    cdef Cursor *cursor = scan.cursor
    cdef const uint8_t *p = base + cursor.at
    cdef const Record *record
    cdef const Record *found = NULL
    cdef uint64_t offset
    while p < base + used and scan.work > 0:
        record = <const Record *> p
        prefetch(p + PREFETCH_BYTES)
        if record.kind == KIND_PUBLISH:
            offset = offset_of(record)
            if offset >= scan.looked:
                break
            cursor.offset = offset
            scan.work -= work_of(choice, record)
            if outcome_of(choice, record, tally) == 1:
                found = record
                break
            cursor.offset = offset + 1
        p += record.size
        if once:
            break
    cursor.at = <uint32_t> (p - base)
    return <Record *> found
