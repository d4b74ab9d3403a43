"""Staged records: those of a transaction, laid out in memory that becomes a segment at its commit.

Responsible for where each record is going to lie, for its bytes and their checksum, which come
while the transaction is filled, and for the rest of it, which a commit adds: targets, numbers of
entries, the checksum of the whole. It must not know transactions, nor where a message goes.

Invariant: staged records lie one after another from the header of the segment on, and at a commit
each is appended where it lies. One that no queue takes, or that needs more targets than it has
places for, is appended without targets, which means nothing; the message is copied then.
"""

from libc.stdint cimport UINT32_MAX, uint8_t, uint64_t
from libc.string cimport memcpy
from posix.mman cimport (
    MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap,
)

from leporid.engine.log.log cimport (
    DURABLE_BIT, FLAG_IN_TX, SEGMENT_HEADER_BYTES, Log, RecordMemory, Segment, fill_places,
    head_bytes, message_bytes, write_head,
)
from leporid.engine.log.logs cimport Logs
from leporid.engine.wire.crc cimport crc32c, crc_joined
from leporid.engine.wire.record cimport (
    Message, Record, content_bytes, content_of, message_in, record_bytes,
)

cdef extern from "<sys/mman.h>" nogil:
    int MREMAP_MAYMOVE
    int MREMAP_FIXED
    void *mremap(void *old, size_t old_size, size_t new_size, int flags, ...)

cdef enum:
    PAGE_BYTES = 4096
    # Empty names of an exchange and a key; no properties.
    NO_NAMES_BYTES = 2
    NO_PROPERTIES_BYTES = 2

# The smallest record of a message.
cdef size_t GAP_BYTES = record_bytes(1, NO_NAMES_BYTES + NO_PROPERTIES_BYTES)


cdef inline size_t aligned(size_t size, size_t to) noexcept nogil:
    return (size + to - 1) & ~(to - 1)


cdef class StagedRecords(RecordMemory):
    """The records of a transaction that go to one log; made by `staged_records`."""

    def __repr__(self):
        return f"<StagedRecords of {self.end} bytes appending={self.appending}>"

    # ------------------------------------------------------------- before the commit

    cdef size_t stage(self, const Message *message, size_t targets) except? 0:
        """Lay a message out.

        Args:
            message: its names, properties and body, which are copied; the memory of a large body
                becomes part of this one instead.
            targets: how many queues it goes to by now.

        Returns:
            Where its record is, for `choose`; 0: there is no room for it.
        """
        cdef size_t at = self.end
        cdef size_t size = message_bytes(message, targets)
        cdef Record *record
        cdef uint8_t *content
        cdef uint8_t *body
        if message.memory != NULL:
            at = self.adopt(message, targets)
            if at:
                return at
            at = self.end
        if size > self.bytes - self.end:
            return 0
        record = self.record_at(at)
        body = write_head(record, message, targets, 0)
        memcpy(body, message.body, message.body_len)    # and zeros up to the record's end
        if self.log.durable:
            content = content_of(record)
            record.crc = crc32c(0, content, <uint8_t *> record + size - content)
        self.end += size
        return at

    cdef size_t adopt(self, const Message *message, size_t targets) except? 0:
        """Lay a message out around a large body, whose pages are moved here; 0: not possible."""
        cdef RecordMemory memory = <RecordMemory> message.memory
        cdef size_t ahead = head_bytes(message, targets), at, size, skipped, pages
        cdef size_t before = memory.body - memory.base
        cdef size_t start = aligned(self.end + GAP_BYTES, PAGE_BYTES)
        cdef Record *record
        cdef uint8_t *content
        if memory.used:
            return 0
        if (before - ahead) % 8:
            targets += 1
            ahead = head_bytes(message, targets)
        if ahead > before or (before - ahead) % 8:
            return 0
        # The room for targets that are not needed stays behind.
        skipped = (before - ahead) & ~<size_t> (PAGE_BYTES - 1)
        pages = aligned(memory.bytes, PAGE_BYTES) - skipped
        if start + pages > self.bytes:
            return 0
        if mremap(memory.base + skipped, pages, pages, MREMAP_MAYMOVE | MREMAP_FIXED,
                  self.base + start) == MAP_FAILED:
            return 0
        memory.bytes, memory.used = skipped, True
        if not skipped:
            memory.base = NULL
        at = start + before - ahead - skipped
        self.fill_gap(at)
        size = message_bytes(message, targets)
        record = self.record_at(at)
        write_head(record, message, targets, 0)
        if self.log.durable:
            content = content_of(record)
            record.crc = crc_joined(
                crc32c(0, content, content_bytes(record) - memory.size), memory.crc, memory.size)
            content += content_bytes(record)
            record.crc = crc32c(record.crc, content, <uint8_t *> record + size - content)
        self.end = at + size
        return at

    cdef int fill_gap(self, size_t until) except -1:
        """Have a record of nothing from the end of the last one on."""
        cdef Record *record = self.record_at(self.end)
        cdef Message nothing
        cdef uint8_t *content
        nothing.names = nothing.properties = b"\0\0"
        nothing.names_len, nothing.properties_len = NO_NAMES_BYTES, NO_PROPERTIES_BYTES
        nothing.body_len = until - self.end - head_bytes(&nothing, 1)
        write_head(record, &nothing, 1, 0)
        if self.log.durable:
            content = content_of(record)
            record.crc = crc32c(0, content, <uint8_t *> record + record.size - content)
        self.gaps.append(self.end)
        self.end = until
        return 0

    cdef Record *record_at(self, size_t at) noexcept:
        return <Record *> (self.base + at)

    # ------------------------------------------------------------- the commit

    cdef bint begin_commit(self, size_t more) except -1:
        """Make this memory the active segment of its log, if it has room for `more` bytes.

        Returns whether it is; otherwise the messages are copied.
        """
        cdef size_t capacity = aligned(self.end + more, 8), kept
        cdef Segment segment
        cdef size_t at
        if capacity + PAGE_BYTES > self.bytes or capacity > UINT32_MAX:
            return False
        self.log.roll(capacity - SEGMENT_HEADER_BYTES, self.base, self)
        segment = self.log.active
        segment.used = self.end
        # It stays while its records are appended, though another may be the active one by then, or
        # a consumer has had all of it.
        segment.live += 1
        self.number = segment.number
        kept = aligned(segment.capacity, PAGE_BYTES)
        munmap(self.base + kept, self.bytes - kept)
        self.bytes = kept
        self.used = self.appending = True
        for at in self.gaps:
            self.bury(self.record_at(at))
        return True

    cdef int end_commit(self, Logs logs) except -1:
        """All records were appended: from now on the segment is as any other."""
        cdef uint64_t position = <uint64_t> self.number << 32
        if self.appending:
            self.appending = False
            logs.release(position | (<uint64_t> DURABLE_BIT << 32 if self.log.durable else 0), 0)
        return 0

    cdef Segment segment(self):
        """The segment that this memory has become. (To keep it would be a cycle.)"""
        return self.log.find(self.number)

    cdef bint has_places(self, size_t at, size_t targets) noexcept:
        """Whether the record that is there has room for so many targets."""
        return targets <= self.record_at(at).targets

    cdef Segment choose(self, size_t at, Message *message):
        """The message whose record is there is stored next; returns the segment that has it, or
        None before the commit."""
        cdef Record *record = self.record_at(at)
        message[0] = message_in(record)
        message.memory = <void *> self
        self.chosen = record if self.appending else NULL
        return self.segment() if self.appending else None

    cdef int end_choice(self) except -1:
        """It was stored, or was not; in another record if this one had no room for all targets."""
        if self.chosen != NULL:
            self.bury(self.chosen)
            self.chosen = NULL
        return 0

    cdef int bury(self, Record *record) except -1:
        """Append a record that no queue has."""
        cdef Segment segment = self.segment()
        fill_places(record, 0)
        record.flags = FLAG_IN_TX
        segment.total_bytes += record.size      # it is dead from the start
        self.finish(self.log, record)
        return 0

    # ------------------------------------------------------------- as a message's memory

    cdef Log log_for(self, Log log):
        # What lay in the durable log may stay there, whichever queues are left.
        return self.log if self.chosen != NULL and self.log.durable else log

    cdef size_t places(self, Log log, const Message *message, size_t targets) noexcept:
        cdef Record *record = self.chosen
        if (record != NULL and log is self.log and targets <= record.targets
                and message.names == content_of(record)
                and message.properties == message.names + record.names_len
                and message.properties_len == record.properties_len
                and message.body == message.properties + record.properties_len
                and message.body_len == record.body_len):
            return record.targets
        return 0

    cdef Record *begin(self, Log log, const Message *message, size_t targets,
                       uint64_t timestamp_ms) except? NULL:
        cdef Record *record = self.chosen
        if not self.places(log, message, targets):
            return NULL
        self.chosen = NULL
        record.timestamp_ms = timestamp_ms
        fill_places(record, targets)
        return record

    cdef uint64_t finish(self, Log log, Record *record) noexcept:
        cdef uint8_t *at = <uint8_t *> record
        if not self.appending or at < self.base or at >= self.base + self.end:
            return log.finish(record)
        return self.log.finish_known(self.segment(), record, record.crc)


cdef StagedRecords staged_records(Log log, size_t room):
    """Reserve memory for records of `room` bytes; None: the system does not give so much.

    Its pages come as it is filled.
    """
    cdef StagedRecords made = StagedRecords()
    cdef size_t count = aligned(SEGMENT_HEADER_BYTES + room, PAGE_BYTES)
    cdef void *memory = mmap(NULL, count, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    if memory == MAP_FAILED:
        return None
    made.base, made.bytes = <uint8_t *> memory, count
    made.log, made.gaps = log, []
    made.end = SEGMENT_HEADER_BYTES
    return made
