"""Replay: state is rebuilt by applying the facts of the log in their order.

Responsible for reading a segment's bytes, trusting none of them: every record's checksum is
verified before it counts, a torn end is cut off, and damaged bytes in between are skipped and
reported. It must not open files, nor know queues. Invariant: a fact applied twice changes nothing.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from cpython.buffer cimport Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

from leporid.engine.log.cleaning cimport relocate
from leporid.engine.log.facts cimport append_commit
from leporid.engine.log.log cimport (
    BACKLOG_BIT, COMMIT_REPLACES, DURABLE_BIT, FLAG_IN_TX, FLAG_PRODUCED, KIND_CLEAN, KIND_COMMIT,
    KIND_DELIVERED, KIND_LAST, KIND_PRODUCER, KIND_PUBLISH, KIND_SETTLE, KIND_SYNCED,
    SEGMENT_HEADER_BYTES, TRANSIENT_IDS, Segment,
)
from leporid.engine.log.logs cimport Logs
from leporid.engine.wire.codec cimport Props
from leporid.engine.wire.crc cimport crc32c
from leporid.engine.wire.record cimport (
    Message, Range, Record, Target, content_bytes, content_of, header_check, key_in, message_in,
    properties_in, targets_of,
)

from leporid.engine.log.log import FORMAT_VERSION, MAGIC
from leporid.engine.log.reports import SegmentReport, SegmentTooNew, SegmentUnreadable


cdef enum:
    SECTOR_BYTES = 512              # what a disk writes whole or not at all
    PRODUCER_BYTES_MIN = 12         # a number and a sequence number, before the reference

cdef extern from *:
    # No queue or stream gets there: at a million messages a second, in 146,000 years.
    uint64_t SEQUENCE_MAX "(1ull << 62)"

# A COMMIT's size, which no other record has: all are longer but CLEAN.
cdef size_t COMMIT_BYTES = sizeof(Record) + 8


cdef bint plausible(const Record *record, size_t left, uint32_t seed) noexcept:
    """Whether a record's header verifies and its lengths fit into the `left` bytes.

    The header has its own check, so that bytes of a body that look like a header (nobody outside
    knows the seed) do not each cost a checksum over all that follows.
    """
    cdef uint64_t need
    if record.size < sizeof(Record) or record.size & 7 or record.size > left:
        return False
    if record.kind < KIND_PUBLISH or record.kind > KIND_LAST:
        return False
    if record.check != header_check(record, seed):
        return False
    need = (sizeof(Record) + <uint64_t> record.targets * sizeof(Target)
            + <uint64_t> content_bytes(record))
    return need <= record.size < need + 8


cdef bint makes_sense(const Record *record) noexcept:
    """Whether a record whose checksum is right says what one of its kind must say.

    No broker writes any other; but what follows reads as far as these lengths say, and a checksum
    is no signature.
    """
    if record.kind == KIND_PUBLISH:
        return message_makes_sense(record)
    if record.targets or record.names_len or record.properties_len:
        return False
    if record.kind == KIND_SETTLE or record.kind == KIND_DELIVERED:
        return ranges_make_sense(record)
    if record.kind == KIND_COMMIT:
        return record.size >= COMMIT_BYTES
    if record.kind == KIND_SYNCED:
        return record.body_len == 2 * sizeof(uint64_t) and (
            (<const uint64_t *> content_of(record))[1] <= SEQUENCE_MAX)
    return record.kind != KIND_PRODUCER or record.body_len >= PRODUCER_BYTES_MIN


cdef bint message_makes_sense(const Record *record) noexcept:
    cdef const Target *target = targets_of(record)
    cdef Message message = message_in(record)
    cdef Props props
    cdef uint32_t i
    for i in range(record.targets):
        if target[i].seq > SEQUENCE_MAX and not (
                record.flags & FLAG_PRODUCED and i + 1 == record.targets):
            return False
    return (record.targets and message.names_len >= 2
            and message.names[0] + <size_t> 2 <= message.names_len
            and <size_t> message.names[0] + key_in(&message)[0] + 2 == message.names_len
            and properties_in(record, &props) == 0)


cdef bint ranges_make_sense(const Record *record) noexcept:
    cdef const uint32_t *words = <const uint32_t *> content_of(record)
    cdef const Range *ranges = <const Range *> (words + 2)
    cdef uint32_t i
    if record.body_len < 8 or record.body_len != 8 + words[1] * sizeof(Range):
        return False
    for i in range(words[1]):
        if ranges[i].first > SEQUENCE_MAX:
            return False
    return True


cdef bint is_unwritten(const uint8_t *base, size_t start, size_t end, size_t used) noexcept:
    """Whether a sector between `start` and `end` is all zeros, so that it was never written.

    The first one may hold the end of the record before, from an earlier write; what follows that
    is the beginning of a record, which is never zero if it was written.
    """
    cdef size_t at = start, stop = (start | (SECTOR_BYTES - 1)) + 1, i
    while at < end and stop <= used:
        i = at
        while i < stop and base[i] == 0:
            i += 1
        if i == stop:
            return True
        at, stop = stop, stop + SECTOR_BYTES
    return False


cdef uint32_t count_before(const uint8_t *base, list pending, size_t at) except? 0:
    """How many of the last of these records are adjacent, up to the one that begins at `at`."""
    cdef uint32_t count = 0
    cdef size_t before
    for before in reversed(pending):
        if before + (<const Record *> (base + before)).size != at:
            break
        at = before
        count += 1
    return count


cdef class Replay:
    """Applies segments to `Logs`, oldest first; given None it only verifies them.

    Durable queues must exist before. After the last segment call `finish`.
    """

    def __cinit__(self, of):
        if isinstance(of, Logs):
            self.logs = of
            self.log = self.logs.durable
        self.damaged = set()
        self.last = (0, 0)

    def segment(self, uint32_t number, mapping):
        """Verify and apply one segment's file; returns a SegmentReport.

        Raises:
            SegmentUnreadable: the header is not that of this segment, in this format.
        """
        cdef Py_buffer view
        cdef const uint8_t *base
        cdef const Record *record
        cdef size_t size, at = SEGMENT_HEADER_BYTES, end = SEGMENT_HEADER_BYTES, bad = 0
        cdef uint32_t salt
        cdef Segment segment = None
        PyObject_GetBuffer(mapping, &view, PyBUF_SIMPLE)
        try:
            base = <const uint8_t *> view.buf
            size = view.len
            salt, before = self.check_header(number, base[:min(size, SEGMENT_HEADER_BYTES)])
            report = SegmentReport(number)
            if before[0] == self.last[0] and before[1] > self.last[1]:
                report.lost_before = before[1] - self.last[1]
            valid = []
            while at + sizeof(Record) <= size:
                record = <const Record *> (base + at)
                if (plausible(record, size - at, salt ^ <uint32_t> at)
                        and record.crc == crc32c(salt ^ <uint32_t> at, base + at + 8,
                                                 record.size - 8)
                        and makes_sense(record)):
                    if bad:
                        report.damaged.append((bad, at - bad))
                        bad = 0
                    valid.append(at)
                    at += record.size
                    end = at
                    continue
                if not bad:
                    bad = at
                at += 8
            report.used = end
            report.torn = self.torn_bytes(base, end, size)
            if self.log is not None:
                segment = self.log.restore(number, mapping, end, salt)
                if report.damaged:
                    self.damaged.add(number)
                if report.lost_before:
                    self.damaged.add(self.last[0])
                segment.holes = {start: start + length for start, length in report.damaged}
            self.apply(segment, base, valid, report)
            self.last = number, end
        finally:
            PyBuffer_Release(&view)
        return report

    def check_header(self, uint32_t number, bytes header):
        if len(header) < SEGMENT_HEADER_BYTES or header[:8] != MAGIC:
            raise SegmentUnreadable(f"segment {number}: not a segment of Leporid's log")
        version, found, salt, before, before_used, crc = (
            int.from_bytes(header[at:at + 4], "little") for at in range(8, 32, 4))
        if crc != crc32c(0, <const uint8_t *> <char *> header, 28):
            raise SegmentUnreadable(f"segment {number}: its header is damaged")
        if version > FORMAT_VERSION:
            raise SegmentTooNew(
                f"segment {number}: format {version} is not known here (this is {FORMAT_VERSION})")
        if found != number:
            raise SegmentUnreadable(f"segment {number}: the file is that of segment {found}")
        return salt, (before, before_used)

    cdef size_t torn_bytes(self, const uint8_t *base, size_t end, size_t size):
        """Bytes after the last good record, up to the last one that is not zero."""
        while size > end and base[size - 1] == 0:
            size -= 1
        return size - end

    cdef int apply(self, Segment segment, const uint8_t *base, list valid, report) except -1:
        cdef size_t at
        cdef const Record *record
        cdef const uint32_t *words
        cdef size_t begun = SEGMENT_HEADER_BYTES    # end of the newest record outside transactions
        cdef bint whole
        pending = []                                # facts in transactions, no COMMIT so far
        for at in valid:
            record = <const Record *> (base + at)
            self.clean = record.kind == KIND_CLEAN
            report.records += 1
            if record.flags & FLAG_IN_TX:
                pending.append(at)
                continue
            if record.kind == KIND_COMMIT:
                words = <const uint32_t *> content_of(record)
                whole = words[0] <= count_before(base, pending, at)
                replaces = words[1] == COMMIT_REPLACES
                first = 0   # for a client's transaction: all that may belong to it
                if whole or replaces:
                    first = max(0, len(pending) - <ssize_t> words[0] + (not whole))
                members = pending[first:]
                self.end_uncommitted(segment, base, pending[:first], begun,
                                     members[0] if members else at, report)
                if whole:
                    self.apply_all(segment, base, members, report)
                else:
                    self.end_damaged(segment, base, members, begun, at, replaces, report)
            else:
                self.end_uncommitted(segment, base, pending, begun, at, report)
            pending = []
            begun = at + record.size
            self.apply_one(segment, base, at, report)
        return self.end_uncommitted(segment, base, pending, begun, report.used, report)

    cdef int end_damaged(self, Segment segment, const uint8_t *base, list members, size_t begun,
                         size_t at, bint replaces, report) except -1:
        """A transaction has fewer facts than its COMMIT at `at` says.

        If the missing ones were never written (a sector of zeros: the power failed during the
        write), the transaction is undone. If they were damaged later, it had been confirmed. Then
        one that replaces a message by another is undone, which restores the first. Of any other
        one the messages are kept but the settles are undone: what was settled may have been
        replaced by a message that is missing.
        """
        for start, length in report.damaged:
            if begun <= start < at and not is_unwritten(base, start, start + length, report.used):
                report.broken.append((members[0] if members else at, at))
                if not replaces:
                    return self.apply_messages(segment, base, members, report)
        return self.undo(segment, base, members, report)

    cdef int end_uncommitted(self, Segment segment, const uint8_t *base, list pending,
                             size_t begun, size_t at, report) except -1:
        """Transactions have facts but no COMMIT; the next fact is at `at`.

        A COMMIT that was written and damaged later may have been answered. If only the COMMIT is
        missing, the whole transaction counts; if other facts may be missing, its messages count.
        Otherwise there was no COMMIT, and nothing counts. All facts between two damaged ranges
        are treated together; before the first one nothing is missing.
        """
        cdef size_t end, following
        cdef bint certain = bool(pending) and <size_t> pending[0] == begun
        cdef Py_ssize_t first = 0, last
        for last in range(len(pending)):
            end = pending[last] + (<const Record *> (base + <size_t> pending[last])).size
            following = pending[last + 1] if last + 1 < len(pending) else at
            if end == following and last + 1 < len(pending):
                continue
            facts = pending[first:last + 1]
            if end == following or is_unwritten(base, end, following, report.used):
                self.undo(segment, base, facts, report)
            elif certain and following - end == COMMIT_BYTES:
                self.apply_all(segment, base, facts, report)
            else:
                report.broken.append((facts[0], following))
                self.apply_messages(segment, base, facts, report)
            certain = following - end == COMMIT_BYTES
            first = last + 1
        return 0

    cdef int apply_all(self, Segment segment, const uint8_t *base, list facts, report) except -1:
        for at in facts:
            self.apply_one(segment, base, at, report)
        return 0

    cdef int apply_messages(self, Segment segment, const uint8_t *base, list facts,
                            report) except -1:
        """Apply the messages of a damaged transaction, and none of its settles."""
        cdef size_t at
        for at in facts:
            if (<const Record *> (base + at)).kind == KIND_PUBLISH:
                self.apply_one(segment, base, at, report)
            else:
                self.undo(segment, base, [at], report)
        return 0

    cdef int undo(self, Segment segment, const uint8_t *base, list facts, report) except -1:
        cdef size_t at
        report.undone += len(facts)
        if segment is not None:
            for at in facts:
                segment.holes[at] = at + (<const Record *> (base + at)).size
        return 0

    cdef int apply_one(self, Segment segment, const uint8_t *base, size_t at, report) except -1:
        cdef const Record *record = <const Record *> (base + at)
        cdef const Target *target = targets_of(record)
        cdef const uint32_t *words = <const uint32_t *> content_of(record)
        cdef const Range *ranges = <const Range *> (words + 2)
        cdef uint64_t position
        cdef uint32_t i
        if record.kind == KIND_PUBLISH:
            report.publishes += 1
            for i in range(record.targets):
                self.meet(target[i].queue)
            if self.logs is None:
                return 0
            if record.flags & FLAG_PRODUCED:
                self.logs.producers.meet(record)
            position = <uint64_t> (segment.number | DURABLE_BIT) << 32 | at
            for i in range(record.targets):
                if target[i].queue < TRANSIENT_IDS:  # else another queue has that id by now
                    self.logs.entries.restore_entry(target[i].queue, target[i].seq, position)
        elif record.kind == KIND_PRODUCER:
            if self.logs is not None:
                self.logs.producers.learn(record)
        elif record.kind == KIND_SETTLE or record.kind == KIND_DELIVERED:
            report.settles += record.kind == KIND_SETTLE
            self.meet(words[0])
            if self.logs is None:
                return 0
            for i in range(words[1]):
                if record.kind == KIND_DELIVERED:
                    self.logs.entries.restore_delivered(words[0], &ranges[i])
                    continue
                if ranges[i].segment != segment.number:
                    segment.pins.add(ranges[i].segment)
                self.logs.entries.restore_settled(words[0], &ranges[i])
        return 0

    cdef void meet(self, uint32_t queue):
        if queue < TRANSIENT_IDS:
            self.highest_queue_id = max(self.highest_queue_id, queue & ~<uint32_t> BACKLOG_BIT)

    def finish(self, bint missing=False):
        """Every segment was applied; returns whether the last run was an orderly shutdown.

        If it was not, any message may have been delivered before, so all are marked as such.

        Args:
            missing: a segment could not be read at all, and it may have been the newest one.
        """
        self.clean = self.clean and not missing
        self.logs.entries.end_replay(not self.clean)
        self.logs.idle_segments = True
        if self.damaged:
            self.logs.producers.doubt()
        for number in self.damaged:
            # Its good records are copied to a new segment, so that damage is reported once.
            relocate(self.logs, self.log.find(number))
        # An empty COMMIT: from now on the newest record is not CLEAN, should this run crash.
        append_commit(self.logs, 0, 0)
        return self.clean
