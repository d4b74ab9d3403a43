"""A window of a stream: a range of its messages, for threads other than the broker's.

Responsible for keeping the bytes of the range in memory. It is opened and closed on the broker's
thread, and must not know who reads it. Invariant: every message in it is on disk, with an offset in
[first, end), and there are `rows` of them; every other message of that range is damaged, or cannot
match.

Most records are not read here, as that would cost the broker's thread a walk over all their memory:
from one entry of the offset index to the next they are counted by their offsets. Batches that
cannot have a match are skipped the same way.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.log.log cimport Segment
from leporid.engine.log.window cimport Window
from leporid.engine.stream.choice cimport Choice
from leporid.engine.stream.offset_index cimport IndexEntry, OffsetIndex
from leporid.engine.stream.stream cimport Cursor, Stream
from leporid.engine.wire.record cimport Record

cdef enum:
    # Half a millisecond or so of the broker's thread.
    BATCHES_SKIPPED_MAX = 1 << 15


cdef class StreamWindow(Window):
    """Made by `Stream.window`; `close` it, or use it in a `with` statement."""

    def __cinit__(self, Stream stream not None, uint64_t first, uint64_t end, uint32_t rows_max,
                  uint64_t bytes_max, Choice choice=None):
        cdef Cursor cursor
        cdef Segment segment = None
        cdef Record *record
        cdef size_t entry
        cdef uint64_t size, rows
        cdef const uint8_t *start = NULL
        cdef const uint8_t *p = NULL
        cdef OffsetIndex offsets
        self.segments = []
        self.lost = []
        self.first = self.end = first
        if first == end:
            return
        offsets = stream.offsets
        stream.locate(first, &cursor)
        entry = offsets.after(first)
        while True:
            if choice is not None and not self.skip_batches(stream, choice, &cursor, end):
                break
            record = stream.look(&cursor)
            if record == NULL or cursor.offset >= end:
                self.miss(end)
                break
            if self.rows and (self.rows >= rows_max or self.bytes + record.size > bytes_max):
                break
            self.miss(cursor.offset)
            if <const uint8_t *> record != p:
                if start != NULL:
                    self.add(start, p)
                start = <const uint8_t *> record
            if segment is None or segment.number != cursor.segment:
                segment = stream.log.find(cursor.segment)
                segment.readers += 1
                self.segments.append(segment)
            while entry < offsets.end and offsets.entries[entry].offset <= cursor.offset:
                entry += 1
            if stream.whole_step(entry, &cursor, segment) and offsets.entries[entry].offset <= end:
                size = offsets.entries[entry].at - cursor.at
                rows = offsets.entries[entry].offset - cursor.offset
                if self.rows + rows <= rows_max and self.bytes + size <= bytes_max:
                    p = <const uint8_t *> record + size
                    self.rows += <uint32_t> rows
                    self.bytes += size
                    cursor.at = offsets.entries[entry].at
                    cursor.offset = self.end = offsets.entries[entry].offset
                    continue
            p = <const uint8_t *> record + record.size
            self.rows += 1
            self.bytes += record.size
            self.end = cursor.offset + 1
            cursor.at += record.size
            cursor.offset += 1
        if start != NULL:
            self.add(start, p)

    def __repr__(self):
        return f"<StreamWindow of {self.rows} messages, offsets {self.first} to {self.end}>"

    cdef bint skip_batches(self, Stream stream, Choice choice, Cursor *cursor,
                           uint64_t end) noexcept:
        """Skip batches that cannot have a match; returns False at the limit of one window."""
        cdef OffsetIndex offsets = stream.offsets
        cdef IndexEntry *entries = offsets.entries
        cdef size_t entry = offsets.after(cursor.offset)
        # Damaged offsets are to be listed in `lost`, so they are not skipped.
        if stream.gaps or entry == offsets.start or entries[entry - 1].offset != cursor.offset:
            return True
        while entry < offsets.end and entries[entry].offset <= end and not choice.may_match(
                offsets.summary(entry - 1)):
            if self.batches_skipped == BATCHES_SKIPPED_MAX:
                return False
            self.batches_skipped += 1
            cursor.segment, cursor.at = entries[entry].segment, entries[entry].at
            cursor.offset = self.end = entries[entry].offset
            entry += 1
        return True

    def miss(self, uint64_t upto):
        """Note that the messages between the last one and an offset are damaged."""
        if self.end < upto:
            self.lost.append((self.end, upto))
            self.end = upto

    def close(self):
        """Release the bytes; on the broker's thread, when no thread reads them any more."""
        cdef Segment segment
        segments, self.segments = self.segments, []
        for segment in segments:
            segment.readers -= 1
        self.count = 0
