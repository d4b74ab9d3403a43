"""Replay of a stream's log: offsets are restored, and a write that did not finish is undone.

Responsible for which messages may be read after a start. It must not verify records: `log.replay`
does. Invariant: a message that was readable before keeps its offset; a message that no reader or
publisher was told of may be lost.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.log.log cimport (
    FLAG_PRODUCED, KIND_PRODUCER, KIND_PUBLISH, KIND_SYNCED, SEGMENT_HEADER_BYTES, Segment,
)
from leporid.engine.log.producers cimport Producers
from leporid.engine.log.replay cimport Replay, is_unwritten
from leporid.engine.stream.offset_index cimport IndexEntry, OffsetIndex, has_tag, is_due
from leporid.engine.stream.stream cimport Stream, offset_of
from leporid.engine.wire.record cimport (
    NO_LIMIT, Message, Record, content_of, message_in, targets_of,
)


cdef enum:
    # More messages than a segment of 16 MiB can hold.
    OFFSETS_IN_A_SEGMENT = 1 << 20


cdef class StreamReplay(Replay):
    """Applies a stream's segments, oldest first; `finish` opens the stream for readers."""

    cdef Stream stream
    cdef list reports
    cdef uint64_t certain           # offsets below were synced, by the SYNCED facts read so far
    cdef list unfinished            # offsets at which a sector was never written
    cdef Segment segment_before
    cdef size_t size_before         # of its file
    cdef size_t good_end            # of the newest good record in the segment that is being read

    def __cinit__(self, Stream stream not None):
        self.stream = stream
        self.log = stream.log
        self.reports = []
        self.unfinished = []

    def segment(self, uint32_t number, mapping):
        """Verify and apply one segment's file; raises SegmentUnreadable."""
        self.good_end = SEGMENT_HEADER_BYTES
        report = Replay.segment(self, number, mapping)
        self.segment_before = self.log.find(number)
        self.size_before = len(mapping)
        return report

    cdef int apply(self, Segment segment, const uint8_t *base, list valid, report) except -1:
        cdef Stream stream = self.stream
        cdef Record *record
        cdef size_t at
        cdef uint64_t offset
        self.reports.append(report)
        for at in valid:
            record = <Record *> (base + at)
            report.records += 1
            if record.kind == KIND_SYNCED and record.body_len == 16:
                offset = (<uint64_t *> content_of(record))[0]
                self.certain = max(self.certain, offset)
                stream.newest_ms = max(stream.newest_ms, record.timestamp_ms)
                offset = (<uint64_t *> content_of(record))[1]
                if offset > stream.next_seq:
                    self.miss(base, at, offset, report)
            if record.kind == KIND_PRODUCER:
                stream.producers.learn(record)
            if record.kind != KIND_PUBLISH or not record.targets:
                self.good_end = at + record.size
                continue
            offset = offset_of(record)
            if offset < stream.next_seq or targets_of(record).queue != stream.id:
                segment.holes[at] = at + record.size  # of a write that was undone
                continue
            if offset > stream.next_seq:
                self.miss(base, at, offset, report)
            self.good_end = at + record.size
            report.publishes += 1
            if is_due(stream.offsets, offset, segment.number):
                stream.add_index_entry(offset, record.timestamp_ms, segment.number, <uint32_t> at)
            self.sum_up(record)
            stream.newest_ms = max(stream.newest_ms, record.timestamp_ms)
            stream.next_seq = offset + 1
            if record.flags & FLAG_PRODUCED:
                stream.producers.meet(record)
        return 0

    cdef int sum_up(self, const Record *record) except -1:
        """Add the tags of a message to the newest summary, as when it was appended."""
        cdef Message message = message_in(record)
        cdef OffsetIndex offsets = self.stream.offsets
        cdef bint tagged = has_tag(message.properties, message.properties_len)
        if tagged or offsets.summaries != NULL:
            offsets.note(message.properties, message.properties_len, tagged)
        return 0

    cdef int miss(self, const uint8_t *base, size_t at, uint64_t offset, report) except -1:
        """Messages before the record at `at` are missing; the next one has this offset."""
        cdef Stream stream = self.stream
        cdef bint unwritten = False
        if stream.offsets.end == stream.offsets.start:
            stream.first = stream.next_seq = offset  # retention dropped them
            return 0
        stream.gaps = True
        report.lost.append((stream.next_seq, offset))
        for start, length in report.damaged:
            if self.good_end <= start < at and is_unwritten(base, start, start + length, at):
                unwritten = True
        if report.lost_before and self.segment_before is not None and is_unwritten(
                self.segment_before.base, self.segment_before.used,
                self.segment_before.used + report.lost_before, self.size_before):
            unwritten = True
        if unwritten:
            self.unfinished.append(stream.next_seq)
        stream.next_seq = offset
        return 0

    def finish(self, bint missing=False):
        """Every segment was read: undo a write that did not finish, and open the stream.

        Power may fail when later pages of a write are on disk and earlier ones are not. That write
        was not confirmed, so all messages after the first loss in it are dropped, and offsets stay
        dense. Reports may change; files are then to be cut to `used`. Returns whether nothing was
        lost.

        Args:
            missing: the newest segment could not be read; offsets that may have been in it are not
                used again.
        """
        cdef Stream stream = self.stream
        cdef uint64_t keep = NO_LIMIT
        for start in self.unfinished:
            if start >= self.certain:
                keep = min(keep, start)
        if keep != NO_LIMIT:
            for report in self.reports:
                report.lost = [(a, b) for a, b in report.lost if a < keep]
            self.cut_at(keep)
            self.learn_again()
        stream.next_seq = max(stream.next_seq, self.certain)
        if missing:
            stream.next_seq += OFFSETS_IN_A_SEGMENT
        if stream.offsets.end == stream.offsets.start:
            stream.first = stream.next_seq
        stream.end = stream.closing = stream.next_seq
        stream.locate(stream.end, &stream.end_place)
        stream.last_chunk = max(stream.first, min(self.certain, stream.end))
        stream.end_ms = stream.closing_ms = stream.newest_ms
        stream.recount()
        if missing:
            stream.append_synced()  # the next start will not find that file
            stream.touch()
        return not missing and not any(report.lost for report in self.reports)

    cdef int cut_at(self, uint64_t offset) except -1:
        """Drop every message from an offset on."""
        cdef Stream stream = self.stream
        cdef Segment segment
        cdef IndexEntry *entry = stream.offsets.before(offset - 1) if offset else NULL
        cdef size_t used
        cdef uint32_t number = 0 if entry == NULL else entry.segment
        for report in self.reports:
            if report.number < number:
                continue
            segment = stream.log.find(report.number)
            if report.number > number:
                # Facts are dropped, too: the header says where the segment before ended, and that
                # one may be cut.
                used = SEGMENT_HEADER_BYTES
            else:
                used = self.whole_until(segment, entry.at, offset)
            if used < segment.used:
                report.torn += segment.used - used
                report.used = segment.used = segment.written = used
                report.damaged = [(a, n) for a, n in report.damaged if a < used]
        while stream.offsets.end > stream.offsets.start and (
                stream.offsets.entries[stream.offsets.end - 1].offset >= offset):
            stream.offsets.end -= 1
        stream.next_seq = offset
        return 0

    cdef int learn_again(self) except -1:
        """Restore the producers' sequence numbers from the messages that were kept."""
        cdef Segment segment
        cdef Record *record
        cdef size_t at
        self.stream.producers = Producers()
        for report in self.reports:
            segment = self.stream.log.find(report.number)
            at = SEGMENT_HEADER_BYTES
            while at < segment.used:
                if at in segment.holes:
                    at = segment.holes[at]
                    continue
                record = <Record *> (segment.base + at)
                if record.kind == KIND_PRODUCER:
                    self.stream.producers.learn(record)
                elif record.kind == KIND_PUBLISH and record.flags & FLAG_PRODUCED:
                    self.stream.producers.meet(record)
                at += record.size
        return 0

    cdef size_t whole_until(self, Segment segment, size_t at, uint64_t offset) except? 0:
        """Where the first record of an offset or a later one begins in a segment."""
        cdef Record *record
        while at < segment.used:
            if at in segment.holes:
                return at  # the loss itself
            record = <Record *> (segment.base + at)
            if record.kind == KIND_PUBLISH and offset_of(record) >= offset:
                return at
            at += record.size
        return at
