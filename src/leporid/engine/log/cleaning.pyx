"""Cleaning of the logs: unreferenced segments are dropped, mostly dead ones are compacted.

A transient segment is needed while an entry refers to one of its records. A durable segment is
needed while an entry refers to one of its records, or while a SETTLE fact in it is about a record
of another segment that still exists: without the fact that record would be delivered again after a
restart. It must not know queues (it asks `Entries`) or files (storage deletes the segments in
`dropped`). Invariant: a copy is synced before its original is dropped.

A durable segment may have all of a large transaction, so it is copied in steps: entries may be
settled meanwhile, and are found where they are by then.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.bounds.clock cimport spend
from leporid.engine.log.facts cimport append_ranges
from leporid.engine.log.log cimport (
    COPIED_AT_ONCE, DURABLE_BIT, KIND_PUBLISH, KIND_SETTLE, SEGMENT_HEADER_BYTES, Log, Segment,
    begin_message, finish_message, is_mostly_dead, record_memory,
)
from leporid.engine.log.logs cimport Entries, Logs
from leporid.engine.wire.record cimport (
    Message, Range, Record, Target, content_of, message_in, targets_of,
)

cdef enum:
    # So many segments are never worth compacting: steady traffic drains them by itself.
    SLACK_SEGMENTS = 4
    # The log has a list item for every number since its oldest segment; older ones are compacted.
    SPAN_MAX = 4096
    # The same for the transient log. A sixteenth of the mostly dead segments is copied at a time,
    # so that no turn is long and yet no traffic outruns it.
    TRANSIENT_SLACK_SEGMENTS = 32
    COMPACT_EVERY_MS = 100
    COMPACT_SEGMENTS = 16
    COMPACT_SHARE = 16
    # The most that follows a large record in a segment of its own: a settle and a COMMIT.
    FACTS_BYTES = 256
    UNIT_BYTES = 2048               # that take as long to copy as a unit of work


cdef bint droppable(Logs logs, Segment segment) except -1:
    """Whether nothing refers to a segment, and no existing segment needs a fact in it."""
    if not segment.sealed or segment.written != segment.used:
        return False
    if segment is logs.relocating:
        return False    # copies of some of its records may not be on disk
    if segment.drop_after:
        return segment.drop_after <= logs.synced
    if segment.live:
        return False
    for number in segment.pins:
        if number != segment.number and logs.durable.find(number) is not None:
            return False
    return True


cdef bint is_single(Log log, Segment segment) noexcept:
    """Whether a segment has one large record alone, of which a copy would save nothing.

    A transaction may have a segment of its own, too, with any number of records.
    """
    cdef const Record *first = <const Record *> (segment.base + SEGMENT_HEADER_BYTES)
    return (segment.capacity > log.segment_bytes
            and SEGMENT_HEADER_BYTES + first.size + FACTS_BYTES >= segment.used)


cdef size_t needed_bytes(Log log, Segment segment) noexcept:
    """About how many bytes of a segment entries refer to, the facts between them included."""
    if not segment.total_bytes:
        return 0
    if is_single(log, segment):
        return segment.used if segment.live else 0
    return segment.used * segment.live_bytes // segment.total_bytes


cdef int clean(Logs logs) except -1:
    """Drop unreferenced durable segments; compact the oldest one of a mostly dead log."""
    cdef Segment segment
    cdef Segment oldest = None
    cdef uint64_t live = 0, total = 0
    progress = logs.idle_segments
    logs.idle_segments = False
    while progress:
        progress = False
        for segment in logs.segments:
            if droppable(logs, segment):
                logs.durable.drop(segment)
                logs.dropped.append(segment.number)
                progress = logs.dirty = True
    if logs.relocating is not None:
        return 0
    for segment in logs.segments:
        total += segment.used
        live += needed_bytes(logs.durable, segment)
        if (oldest is None and not is_single(logs.durable, segment)
                and segment.sealed and not segment.drop_after and not segment.readers
                and segment.written == segment.used and is_mostly_dead(segment)):
            oldest = segment
    if oldest is not None and (
            total > 2 * live + SLACK_SEGMENTS * logs.durable.segment_bytes
            or logs.durable.active.number - oldest.number > SPAN_MAX):
        logs.relocating, logs.relocated = oldest, SEGMENT_HEADER_BYTES
        go_on_relocating(logs)
    return 0


cdef int compact(Logs logs) except -1:
    """Copy the live records of mostly dead transient segments to new ones.

    Otherwise a queue that keeps one message in ten thousand keeps the memory of all of them.
    """
    cdef Log log = logs.transient
    cdef Segment segment
    cdef uint64_t live = 0, total = 0
    cdef size_t slack = TRANSIENT_SLACK_SEGMENTS * log.segment_bytes
    if log.bytes <= slack or logs.clock.now_ms - logs.compacted_ms < COMPACT_EVERY_MS:
        return 0
    logs.compacted_ms = logs.clock.now_ms
    sparse = []
    for segment in log.segments:
        if segment is None or not segment.total_bytes:
            continue
        total += segment.capacity
        live += needed_bytes(log, segment)
        if (segment.sealed and segment.live and segment.live_bytes * 4 < segment.total_bytes
                and not is_single(log, segment)):
            sparse.append(segment)
    if total <= 2 * live + slack:
        return 0
    for segment in sparse[:max(COMPACT_SEGMENTS, len(sparse) // COMPACT_SHARE)]:
        copy_records(logs, log, segment)
        if not segment.live:
            log.drop(segment)
    return 0


cdef int copy_records(Logs logs, Log log, Segment segment) except -1:
    """Append a copy of every record of a transient segment that an entry refers to."""
    cdef size_t at = SEGMENT_HEADER_BYTES
    while at < segment.used:
        copy_if_live(logs, log, segment, at)
        at += (<Record *> (segment.base + at)).size
    segment.live_bytes = 0
    return 0


cdef int copy_if_live(Logs logs, Log log, Segment segment, size_t at) except -1:
    """Append a copy of the message that is there in a segment, if an entry refers to it."""
    cdef list live = live_targets(logs, log, segment, at)
    if live:
        copy_record(logs, log, segment, <Record *> (segment.base + at), live)
    return 0


cdef list live_targets(Logs logs, Log log, Segment segment, size_t at):
    """The targets of the message that is there whose entries refer to it."""
    cdef Record *record = <Record *> (segment.base + at)
    cdef Target *target = targets_of(record)
    cdef uint32_t i, number = segment.number
    cdef uint64_t position
    cdef list live = []
    if log.durable:
        number |= DURABLE_BIT
    position = <uint64_t> number << 32 | at
    for i in range(record.targets):
        if logs.entries.refers(target[i].queue, target[i].seq, position):
            live.append((target[i].queue, target[i].seq))
    return live


cdef bint has_copied(Logs logs, Segment segment, Record *record) except -1:
    """Copy a large body before its record, as far as the slice allows; returns whether all of it
    is copied, or nothing refers to it."""
    cdef Message message = message_in(record)
    if logs.copied is None:
        if not live_targets(logs, logs.durable, segment, logs.relocated):
            return True
        logs.copied = record_memory(message.names_len + message.properties_len, message.body_len)
    return logs.copied.copy_rest(message.body, message.body_len, logs.clock)


cdef int copy_record(Logs logs, Log log, Segment segment, Record *record, list live) except -1:
    """Append a copy of a record, with these targets alone: (queue, sequence number)."""
    cdef Entries entries = logs.entries
    cdef Message message = message_in(record)
    cdef Record *copy
    cdef Target *kept
    cdef uint64_t position
    cdef uint32_t share, body_lost = 0
    if not has_readers(entries, live):
        body_lost = record.body_len
        message.body_len = 0
    elif logs.copied is not None:
        message.body, message.memory = logs.copied.body, <void *> logs.copied
    copy = begin_message(log, &message, len(live), record.timestamp_ms)
    kept = targets_of(copy)
    for queue, seq in live:
        kept.queue, kept.seq = queue, seq
        kept += 1
    share = copy.size // <uint32_t> len(live)
    position = finish_message(log, copy, &message)
    if log.durable:
        log.active.pins.add(segment.number)
    log.hold(position, <uint32_t> len(live), share)
    for queue, seq in live:
        entries.move(queue, seq, position, share, body_lost)
        segment.live -= 1
    return 0


cdef bint has_readers(Entries entries, list live) except -1:
    """Whether a queue still has the message, not only deduplication caches of exchanges."""
    for queue, _ in live:
        if entries.needs_body(queue):
            return True
    return False


cdef int relocate(Logs logs, Segment segment) except -1:
    """Copy what is still needed of a segment, so that it can be dropped, in one go."""
    logs.relocating, logs.relocated = segment, SEGMENT_HEADER_BYTES
    while logs.relocating is not None:
        go_on_relocating(logs)
    return 0


cdef int go_on_relocating(Logs logs) except -1:
    """Append a copy of what is still needed of a segment, as far as the slice at hand allows.

    That is every record with a live entry, for the queues where it is live, and every SETTLE
    fact about another segment that exists. A copy is not part of a transaction any more.
    """
    cdef Segment segment = logs.relocating
    cdef Record *record
    while logs.relocated < segment.used:
        if logs.relocated in segment.holes:
            logs.relocated = segment.holes[logs.relocated]
            continue
        record = <Record *> (segment.base + logs.relocated)
        if record.kind == KIND_PUBLISH:
            if record.body_len > COPIED_AT_ONCE and not has_copied(logs, segment, record):
                return 0
            copy_if_live(logs, logs.durable, segment, logs.relocated)
            logs.copied = None
        elif record.kind == KIND_SETTLE:
            copy_settles(logs, segment, record)
        logs.relocated += record.size
        if spend(logs.clock, 1 + record.size // UNIT_BYTES):
            return 0
    if segment.readers:
        return 0        # a window that was opened meanwhile reads it
    assert segment.live == 0, f"{segment!r} is still referred to after it was copied"
    segment.live_bytes = 0
    segment.drop_after = logs.generation
    logs.relocating = None
    logs.dirty = logs.idle_segments = True
    return 0


cdef bint is_relocating(Logs logs) noexcept:
    """Whether there is something left to copy."""
    return logs.relocating is not None and logs.relocated < logs.relocating.used


cdef int copy_settles(Logs logs, Segment segment, Record *record) except -1:
    """Append what a SETTLE fact says about other segments that exist."""
    cdef uint32_t *head = <uint32_t *> content_of(record)
    cdef Range *ranges
    cdef uint32_t i, count = 0
    cdef bytes scratch
    if not logs.entries.has_queue(head[0]):
        return 0
    scratch = (<uint8_t *> (head + 2))[:head[1] * sizeof(Range)]
    ranges = <Range *> <char *> scratch
    for i in range(head[1]):
        if (ranges[i].segment != segment.number
                and logs.durable.find(ranges[i].segment) is not None):
            ranges[count] = ranges[i]
            count += 1
    if count:
        append_ranges(logs, KIND_SETTLE, 0, head[0], ranges, count)
    return 0
