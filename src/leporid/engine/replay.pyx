"""Replay: state is rebuilt by applying the facts of the log in their order.

Responsible for reading a segment's bytes, trusting none of them: every record's checksum is
verified before it counts, a torn end is cut off, and what does not verify in between is set aside
and reported. It does not open files. Invariant: a fact applied twice changes nothing.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from cpython.buffer cimport Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

from leporid.engine.cleaning cimport relocate
from leporid.engine.index cimport GONE, Slot
from leporid.engine.log cimport (
    DURABLE_BIT, FLAG_IN_TX, KIND_CLEAN, KIND_COMMIT, KIND_DELIVERED, KIND_PUBLISH, KIND_SETTLE,
    SEGMENT_HEADER_BYTES, Segment,
)
from leporid.engine.plane cimport Plane
from leporid.engine.queue cimport Queue
from leporid.engine.wire cimport Range, Record, Target, crc32c

from leporid.engine.log import FORMAT_VERSION, MAGIC
from leporid.engine.reports import SegmentReport, SegmentUnreadable


cdef bint plausible(const Record *record, size_t left) noexcept:
    """Lengths that fit into what is there, so that the checksum may be computed."""
    cdef uint64_t need
    if record.size < sizeof(Record) or record.size & 7 or record.size > left:
        return False
    if record.kind < KIND_PUBLISH or record.kind > KIND_DELIVERED:
        return False
    need = (sizeof(Record) + <uint64_t> record.targets * sizeof(Target) + record.names_len
            + record.properties_len + record.body_len)
    return need <= record.size < need + 8


cdef class Replay:
    """Applies segments to a plane, oldest first; with `plane=None` it only verifies them.

    Durable queues must have been made before. After the last segment call `finish`.
    """

    cdef Plane plane
    cdef bint clean                 # the newest record is CLEAN
    cdef set damaged                # numbers of segments that had something set aside

    def __cinit__(self, Plane plane):
        self.plane = plane
        self.damaged = set()

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
            salt = self.check_header(number, base[:min(size, SEGMENT_HEADER_BYTES)])
            report = SegmentReport(number)
            valid = []
            while at + sizeof(Record) <= size:
                record = <const Record *> (base + at)
                if (plausible(record, size - at)
                        and record.crc == crc32c(salt ^ <uint32_t> at, base + at + 8,
                                                 record.size - 8)):
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
            if self.plane is not None:
                segment = self.plane.durable.restore(number, mapping, end, salt)
                if report.damaged:
                    self.damaged.add(number)
            self.apply(segment, base, valid, report)
        finally:
            PyBuffer_Release(&view)
        return report

    def check_header(self, uint32_t number, bytes header):
        if len(header) < SEGMENT_HEADER_BYTES or header[:8] != MAGIC:
            raise SegmentUnreadable(f"segment {number}: not a segment of Leporid's log")
        version, found, salt, crc = (
            int.from_bytes(header[at:at + 4], "little") for at in (8, 12, 16, 20))
        if crc != crc32c(0, <const uint8_t *> <char *> header, 20):
            raise SegmentUnreadable(f"segment {number}: its header is damaged")
        if version != FORMAT_VERSION:
            raise SegmentUnreadable(
                f"segment {number}: format {version} is not known here (this is {FORMAT_VERSION})")
        if found != number:
            raise SegmentUnreadable(f"segment {number}: the file is that of segment {found}")
        return salt

    cdef size_t torn_bytes(self, const uint8_t *base, size_t end, size_t size):
        """Bytes after the last good record up to the last that is not zero."""
        while size > end and base[size - 1] == 0:
            size -= 1
        return size - end

    cdef int apply(self, Segment segment, const uint8_t *base, list valid, report) except -1:
        cdef size_t at
        cdef const Record *record
        pending = []
        for at in valid:
            record = <const Record *> (base + at)
            self.clean = record.kind == KIND_CLEAN
            report.records += 1
            if record.flags & FLAG_IN_TX:
                pending.append(at)
                continue
            if record.kind == KIND_COMMIT:
                for at in pending:
                    self.apply_one(segment, base, at, report)
                pending = []
                continue
            # Facts of one transaction lie next to each other: any other fact ends it undone.
            if pending:
                report.undone += len(pending)
                pending = []
            self.apply_one(segment, base, at, report)
        report.undone += len(pending)
        return 0

    cdef int apply_one(self, Segment segment, const uint8_t *base, size_t at, report) except -1:
        cdef const Record *record = <const Record *> (base + at)
        cdef const Target *target = <const Target *> (base + at + sizeof(Record))
        cdef const uint32_t *head = <const uint32_t *> target
        cdef Range *ranges = <Range *> (head + 2)
        cdef Queue queue
        cdef Slot *slot
        cdef uint64_t position, seq
        cdef uint32_t i
        if record.kind == KIND_PUBLISH:
            report.publishes += 1
            if self.plane is None:
                return 0
            position = <uint64_t> (segment.number | DURABLE_BIT) << 32 | at
            for i in range(record.targets):
                queue = self.plane.queues.get(target[i].queue)
                if queue is not None:
                    queue.apply_publish(target[i].seq, position)
        elif record.kind == KIND_SETTLE or record.kind == KIND_DELIVERED:
            if record.body_len < 8 or record.body_len != 8 + head[1] * sizeof(Range):
                raise AssertionError(f"record at {at} has a good checksum and a wrong length")
            report.settles += record.kind == KIND_SETTLE
            if self.plane is None:
                return 0
            queue = self.plane.queues.get(head[0])
            for i in range(head[1]):
                if record.kind == KIND_SETTLE and ranges[i].segment != segment.number:
                    segment.pins.add(ranges[i].segment)
                if queue is None:
                    continue
                if record.kind == KIND_SETTLE:
                    queue.apply_settle(&ranges[i])
                    continue
                for seq in range(ranges[i].first, ranges[i].first + ranges[i].count):
                    slot = queue.slot_of(seq)
                    if slot != NULL and slot.state != GONE:
                        slot.deliveries = max(1, slot.deliveries)
        return 0

    def finish(self):
        """Every segment was applied; returns whether the broker had been shut down in order.

        After anything else a message may have been delivered before, so all are marked.
        """
        cdef Queue queue
        cdef Segment segment
        for queue in self.plane.queues.values():
            if queue.durable:
                queue.finish_restore(not self.clean)
        self.plane.idle_segments = True
        for number in self.damaged:
            # What is left of a damaged segment moves, so that its damage is reported once.
            segment = self.plane.durable.find(number)
            relocate(self.plane, segment)
        return self.clean
