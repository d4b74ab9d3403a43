"""The log: records appended to segments, found again by position.

Responsible for where a record lies and for how long its memory stays. It must not know queues or
files: storage writes the segments of the durable log and returns a mapping of each sealed one.
Invariants: a segment with a live entry, or one that is pinned, keeps its bytes at `base`; a
position, which is a segment number and a byte offset, stays valid until the last entry that refers
to it is released. A pinned segment may leave the log: its bytes then go with the last pin.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from cpython.buffer cimport (
    PyBUF_READ, PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.memoryview cimport PyMemoryView_FromMemory
from posix.mman cimport (
    MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap,
)

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.bounds.large_memory cimport LargeMemory, leave
from leporid.engine.wire.crc cimport crc32c, crc_joined
from leporid.engine.wire.record cimport (
    Message, Record, Target, content_of, header_check, record_bytes,
)


MAGIC = b"LEPSEG1\n"
HEADER_BYTES = SEGMENT_HEADER_BYTES
FORMAT_VERSION = 1

# Recycled transient segments that are kept for the next append: steady traffic then stays in the
# processor's cache and never asks the kernel for fresh pages.
cdef enum:
    SPARE_MAX = 4
    SPARE_MEMORY_MAX = 2            # of durable segments, for the same reason
    SHORT_FACT_BYTES = 48           # SYNCED or COMMIT; no message is that short
    # Around a body in its memory: before it, what all targets take that a record can have, whose
    # pages come when they are used; after it, what makes the record's size a multiple of 8, and
    # facts: those that make one transaction of a letter and the end of its original.
    TARGETS_ROOM = 65536 * 12
    FACTS_BYTES = 256
    AFTER_BODY_BYTES = 8 + FACTS_BYTES
    PART_BYTES = 1024 * 1024        # that are copied at a time: 0.5 ms


cdef class RecordMemory(LargeMemory):
    """Memory in which the body of a large message is assembled, and which becomes its segment.

    A copy of 128 MiB takes 60 ms, most of it for pages that the kernel has to give; here each frame
    of the body pays for its own. The body never moves, and is there for as long as anybody refers
    to its memory. A record for another log needs a copy; `prepare` makes copies in slices. Made by
    `record_memory`.
    """

    def __repr__(self):
        return f"<RecordMemory of {self.bytes} bytes size={self.size}>"

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.body, self.size, 1, flags)

    cdef int append(self, const uint8_t *data, size_t size) except -1:
        """The next part of the body has come."""
        if size > self.bytes - (self.body - self.base) - self.size - AFTER_BODY_BYTES:
            raise ValueError(f"no room for {size} bytes more in {self!r}")
        memcpy(self.body + self.size, data, size)
        self.crc = crc32c(self.crc, data, size)
        self.size += size
        return 0

    cdef bint copy_rest(self, const uint8_t *body, size_t size, Clock clock) except -1:
        """Copy what is not here yet of a body; returns False if the slice is over before."""
        cdef size_t part
        while self.size < size:
            part = min(size - self.size, PART_BYTES)
            self.append(body + self.size, part)
            if clock.over():
                return False
        return True

    cdef Log log_for(self, Log log):
        """The log that a message goes to, which would go to `log`."""
        return log

    cdef bint prepare(self, size_t records, size_t head_bytes, Clock clock) except -1:
        """Have memory for so many more records of the body; returns False if the slice is over
        before.

        Args:
            records: in how many logs it will be that do not have it yet.
            head_bytes: of the message's names and properties.
            clock: tells when the slice is over.
        """
        cdef RecordMemory copy = None
        # A target shifts the body by 4 octets, so that one more aligns it if that is not off by
        # fewer. Otherwise it stays where it is.
        cdef size_t fitting = (
            not self.used and (self.body - self.base - head_bytes) % sizeof(uint32_t) == 0)
        self.copies = [copy for copy in self.copies or () if not copy.used]
        while True:
            if self.copies:
                copy = <RecordMemory> self.copies[len(self.copies) - 1]
                if not copy.copy_rest(self.body, self.size, clock):
                    return False
            if fitting + len(self.copies) >= records:
                return True
            self.copies.append(record_memory(head_bytes, self.size))

    cdef size_t places(self, Log log, const Message *message, size_t targets) noexcept:
        """How many targets a record around the body would have: one more where that aligns it.

        0: it is in a record already, or is small enough to go where others are.
        """
        cdef size_t before = self.body - self.base, places
        for places in (targets, targets + 1):
            if (not self.used
                    and message_bytes(message, places) + SEGMENT_HEADER_BYTES > log.segment_bytes
                    and before >= head_bytes(message, places) + SEGMENT_HEADER_BYTES
                    and (before - head_bytes(message, places)) % 8 == 0):
                return places
        return 0

    cdef Record *begin(self, Log log, const Message *message, size_t targets,
                       uint64_t timestamp_ms) except? NULL:
        """Begin a record around the body, or a copy of it, as `begin_message` does.

        NULL: the record goes where others are.
        """
        cdef size_t places = self.places(log, message, targets)
        cdef RecordMemory copy
        cdef Record *record
        if not places:
            for copy in self.copies or ():
                record = copy.begin(log, message, targets, timestamp_ms)
                if record != NULL:
                    return record
            return NULL
        record = <Record *> (self.body - head_bytes(message, places))
        log.roll(message_bytes(message, places), <uint8_t *> record - SEGMENT_HEADER_BYTES, self)
        self.used = True
        write_head(record, message, places, timestamp_ms)
        fill_places(record, targets)
        return record

    cdef uint64_t finish(self, Log log, Record *record) noexcept:
        """Append the record; the checksum of its body was made while that came."""
        cdef uint8_t *content = content_of(record)
        cdef uint8_t *body = content + record.names_len + record.properties_len
        cdef uint8_t *end = <uint8_t *> record + record.size
        if not log.durable or record.body_len != self.size:
            return log.finish(record)
        return log.finish_known(log.active, record, crc32c(
            crc_joined(crc32c(0, content, body - content), self.crc, self.size),
            body + self.size, end - body - self.size))


cdef RecordMemory record_memory(size_t head_bytes, size_t body_bytes):
    """Reserve memory; its pages come with the body.

    Args:
        head_bytes: of the message's names and properties.
        body_bytes: of its body, once it is whole.
    """
    cdef RecordMemory made = RecordMemory()
    cdef size_t before = (
        TARGETS_ROOM + SEGMENT_HEADER_BYTES + sizeof(Record) + sizeof(Target) + head_bytes)
    cdef size_t count = before + body_bytes + AFTER_BODY_BYTES
    cdef void *memory = mmap(NULL, count, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    if memory == MAP_FAILED:
        raise MemoryError(f"no {count} bytes of memory for a message")
    made.base = <uint8_t *> memory
    made.bytes = count
    made.body = made.base + before
    return made


cdef class Segment:
    """One part of a log: a header, then records one after another.

    Attributes:
        number: its place in the log, and part of its file's name.
        used: bytes appended so far, header included.
        written: bytes of these that are in the file.
        live: entries of queues that still refer to a record here.
    """

    def __cinit__(self, uint32_t number, size_t capacity, uint32_t salt):
        self.number = number
        self.capacity = capacity
        self.salt = salt
        self.used = SEGMENT_HEADER_BYTES
        self.base = NULL
        self.pins = set()
        self.holes = {}

    def __dealloc__(self):
        self.free_memory()

    def __repr__(self):
        return (f"<Segment {self.number} used={self.used} written={self.written} "
                f"live={self.live_bytes}/{self.total_bytes}{' sealed' if self.sealed else ''}>")

    cdef int allocate(self) except -1:
        cdef void *memory = mmap(NULL, self.capacity, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        if memory == MAP_FAILED:
            raise MemoryError(f"no {self.capacity} bytes of memory for a segment of the log")
        self.base = <uint8_t *> memory
        return 0

    cdef void give_memory(self, Log log):
        """Let the log reuse this memory: its pages exist, and each fresh one costs a page fault."""
        if self.base != NULL and not self.mapped and self.memory is None:
            if (self.capacity == log.segment_bytes
                    and log.spare_memory_count < SPARE_MEMORY_MAX):
                log.spare_memory[log.spare_memory_count] = self.base
                log.spare_memory_count += 1
            else:
                leave(self.base, self.capacity)
            self.base = NULL
        self.free_memory()

    cdef int adopt(self, object mapping, Log log) except -1:
        """Read from a mapping of the file instead of memory, which the log may reuse."""
        cdef Py_buffer view
        PyObject_GetBuffer(mapping, &view, PyBUF_SIMPLE)
        if <size_t> view.len < self.used:
            PyBuffer_Release(&view)
            raise ValueError(
                f"mapping of segment {self.number} has {view.len} bytes, not {self.used}")
        self.give_memory(log)
        self.view = view
        self.mapping = mapping
        self.base = <uint8_t *> view.buf
        self.mapped = True
        return 0

    cdef void free_memory(self):
        if self.base != NULL:
            if self.mapped:
                PyBuffer_Release(&self.view)
                self.mapping = None
                self.mapped = False
            elif self.memory is not None:
                self.memory = None
            else:
                munmap(self.base, self.capacity)    # of a log that is gone
            self.base = NULL

    def unwritten(self):
        """The bytes that storage has not been given yet, as a view that stays valid until sealed
        memory is exchanged for a mapping (which needs them written first)."""
        return PyMemoryView_FromMemory(<char *> self.base + self.written,
                                       self.used - self.written, PyBUF_READ)

    def mark_written(self, size_t upto):
        self.written = upto


def segment_header(number, salt, previous, previous_used):
    """The first 64 bytes of a segment's file (storage/FORMAT.md).

    `previous` and `previous_used` say where the segment before it ended, so that a lost end shows.
    """
    fields = (FORMAT_VERSION, number, salt, previous, previous_used)
    cdef bytes body = MAGIC + b"".join(int(v).to_bytes(4, "little") for v in fields)
    crc = crc32c(0, <const uint8_t *> <char *> body, len(body))
    return (body + int(crc).to_bytes(4, "little")).ljust(SEGMENT_HEADER_BYTES, b"\0")


cdef inline uint64_t count_record(Log log, Segment segment, Record *record) noexcept:
    """A record of a segment is whole; returns its position."""
    cdef size_t at = <uint8_t *> record - segment.base
    cdef uint64_t position = <uint64_t> segment.number << 32 | at
    if log.durable:
        position |= <uint64_t> DURABLE_BIT << 32
    log.newest = at
    if at == segment.used:      # else it was staged, and others may follow it already
        segment.used += record.size
    log.appended += 1
    return position


cdef class Log:
    """An append-only sequence of segments, either durable or in memory alone."""

    def __cinit__(self, bint durable, size_t segment_bytes, uint32_t seed):
        self.durable = durable
        self.segment_bytes = segment_bytes
        self.first = 1
        self.segments = []
        self.spare = []
        self.seed = seed
        self.active = None

    def __dealloc__(self):
        self.free_spare()

    cdef void free_spare(self):
        for at in range(self.spare_memory_count):
            munmap(self.spare_memory[at], self.segment_bytes)
        self.spare_memory_count = 0

    cdef int resize(self, size_t segment_bytes) except -1:
        """Set the size of segments from the next one on; for durable logs."""
        self.free_spare()
        self.segment_bytes = segment_bytes
        return 0

    cdef Record *begin(self, size_t size) except NULL:
        """Reserve room for one record of `size` bytes (a multiple of 8) at the end of the log."""
        cdef Segment segment = self.active
        if segment is None or segment.sealed or segment.single or (
                segment.used + size > segment.capacity):
            self.roll(size, NULL, None)
            segment = self.active
        return <Record *> (segment.base + segment.used)

    cdef Record *begin_fact(self, uint8_t kind, uint8_t flags, size_t content,
                            uint64_t timestamp_ms) except NULL:
        """Begin any other record, zeros after its header; the caller fills in `content_of`."""
        cdef Segment segment = self.active
        cdef size_t size = record_bytes(0, content)
        cdef Record *record
        if size <= SHORT_FACT_BYTES and segment is not None and segment.single and (
                not segment.sealed and segment.used + size <= segment.capacity):
            record = <Record *> (segment.base + segment.used)   # it needs no other segment
        else:
            record = self.begin(size)
        memset(record, 0, size)
        record.size = <uint32_t> size
        record.kind = kind
        record.flags = flags
        record.timestamp_ms = timestamp_ms
        record.body_len = <uint32_t> content
        return record

    cdef uint64_t finish(self, Record *record) noexcept:
        """Append the record that `begin` returned and the caller filled; returns its position."""
        cdef Segment segment = self.active
        cdef uint32_t seed
        if self.durable:
            seed = segment.salt ^ <uint32_t> (<uint8_t *> record - segment.base)
            record.check = header_check(record, seed)
            record.crc = crc32c(seed, <uint8_t *> record + 8, record.size - 8)
        return count_record(self, segment, record)

    cdef uint64_t finish_known(self, Segment segment, Record *record,
                               uint32_t content_crc) noexcept:
        """The same for a record of which the checksum of its content is known, in any segment.

        The content is what follows the targets, up to the record's end; its seed is 0. Of a
        transient log it does not matter.
        """
        cdef uint8_t *content = content_of(record)
        cdef uint32_t seed
        if self.durable:
            seed = segment.salt ^ <uint32_t> (<uint8_t *> record - segment.base)
            record.check = header_check(record, seed)
            record.crc = crc_joined(
                crc32c(seed, <uint8_t *> record + 8, content - <uint8_t *> record - 8),
                content_crc, <uint8_t *> record + record.size - content)
        return count_record(self, segment, record)

    cdef void amend(self, uint8_t flags) noexcept:
        """Set flags of the durable record that was appended last, within the same turn."""
        cdef Segment segment = self.active
        cdef uint32_t seed = segment.salt ^ <uint32_t> self.newest
        cdef Record *record = <Record *> (segment.base + self.newest)
        record.flags |= flags
        record.check = header_check(record, seed)
        record.crc = crc32c(seed, <uint8_t *> record + 8, record.size - 8)

    cdef int roll(self, size_t size, uint8_t *base, RecordMemory memory) except -1:
        """Seal the active segment and open another one that has room for `size` bytes.

        Where `base` says, which is in `memory`; NULL: wherever there is room.
        """
        cdef Segment segment = self.active
        cdef size_t capacity = self.segment_bytes
        cdef uint32_t number
        if segment is not None:
            segment.sealed = True
            if segment.live == 0 and not self.durable:
                self.drop(segment)
        if base != NULL or size + SEGMENT_HEADER_BYTES > capacity:
            # For this record alone: others would make it look mostly dead once they are settled.
            # A stream's next sync needs a short fact, which is no reason for one more file.
            capacity = size + SEGMENT_HEADER_BYTES
            if self.durable:
                capacity += FACTS_BYTES if base != NULL else SHORT_FACT_BYTES
        elif self.spare:
            segment = self.spare.pop()
            segment.sealed = False
            self.active = segment
            return 0
        number = self.first + <uint32_t> len(self.segments)
        segment = Segment(number, capacity, crc32c(self.seed, <uint8_t *> &number, 4))
        if base != NULL:
            segment.base, segment.memory = base, memory
            segment.single = type(memory) is RecordMemory
        elif capacity == self.segment_bytes and self.spare_memory_count:
            self.spare_memory_count -= 1
            segment.base = self.spare_memory[self.spare_memory_count]
        else:
            segment.allocate()
        if self.durable:
            before = self.active
            header = segment_header(number, segment.salt, before.number if before else 0,
                                    before.used if before else 0)
            memcpy(segment.base, <char *> header, SEGMENT_HEADER_BYTES)
        self.segments.append(segment)
        self.bytes += capacity
        self.active = segment
        return 0

    cdef Segment find(self, uint32_t number):
        """The segment of that number, or None when it is gone."""
        cdef Py_ssize_t index = <Py_ssize_t> number - self.first
        if index < 0 or index >= len(self.segments):
            return None
        return self.segments[index]

    cdef Record *at(self, uint64_t position):
        return record_in(self, position)

    cdef int hold(self, uint64_t position, uint32_t entries, uint32_t share) except -1:
        """Count new entries that refer to the record at a position, each for a share of its bytes.

        Numbers of entries would not do: a small message that stays would keep a large one.
        """
        cdef Segment segment = <Segment> self.segments[segment_number(position) - self.first]
        segment.live += entries
        segment.live_bytes += <uint64_t> entries * share
        segment.total_bytes += <uint64_t> entries * share
        return 0

    cdef int release(self, uint64_t position, uint32_t share) except -1:
        """An entry is gone; returns 1 if it was the last one of a durable segment."""
        cdef Segment segment = <Segment> self.segments[segment_number(position) - self.first]
        segment.live -= 1
        segment.live_bytes -= share
        if segment.live:
            return 0
        if self.durable:
            return 1
        if segment.sealed:
            self.drop(segment)
        elif segment.capacity > self.segment_bytes:
            self.active = None  # it was made for a single record, so its memory is large
            self.drop(segment)
        elif not segment.pinned:
            segment.used = SEGMENT_HEADER_BYTES
            segment.total_bytes = 0
        return 0

    cdef int drop(self, Segment segment) except -1:
        """Forget a segment that nothing refers to any more."""
        if (not self.durable and segment.capacity == self.segment_bytes
                and len(self.spare) < SPARE_MAX and not segment.pinned):
            segment.used = SEGMENT_HEADER_BYTES
            segment.total_bytes = 0
            self.spare.append(segment)
            return 0
        self.segments[segment.number - self.first] = None
        self.bytes -= segment.capacity
        if not segment.pinned:
            segment.give_memory(self)
        cdef Py_ssize_t gone = 0
        # The last place is kept, so that no number is used twice.
        while gone < len(self.segments) - 1 and self.segments[gone] is None:
            gone += 1
        if gone > 64 or gone * 2 > len(self.segments):
            del self.segments[:gone]
            self.first += <uint32_t> gone
        return 0

    cdef list unwritten(self):
        """What is not in files yet: (segment number, file size, offset, bytes), oldest first."""
        cdef Segment segment
        cdef Py_ssize_t at = len(self.segments) - 1
        cdef list writes = []
        while at >= 0:
            segment = <Segment> self.segments[at]
            if segment is not None:
                if segment.used > segment.written:
                    writes.append((segment.number, segment.capacity, segment.written,
                                   segment.unwritten()))
                elif segment.sealed:
                    break
            at -= 1
        writes.reverse()
        return writes

    cdef int mark_written(self, list writes) except -1:
        """These writes are on disk; their views of the bytes are released."""
        cdef Segment segment
        for number, _, offset, data in writes:
            segment = self.find(number)
            if segment is not None:
                segment.written = offset + len(data)
        writes.clear()
        segment = self.active
        # One that was made for a single record is full: its memory, which is large, need not wait
        # for the next record.
        if (segment is not None and segment.capacity > self.segment_bytes
                and segment.written == segment.used):
            segment.sealed = True
        return 0

    cdef Segment restore(self, uint32_t number, object mapping, size_t used, uint32_t salt):
        """Add a segment found on disk; numbers must come in rising order."""
        cdef Segment segment = Segment(number, len(mapping), salt)
        if not self.segments:
            self.first = number
        while self.first + <uint32_t> len(self.segments) < number:
            self.segments.append(None)
        segment.used = used
        segment.written = used
        segment.sealed = True
        segment.adopt(mapping, self)
        self.segments.append(segment)
        self.active = segment  # sealed: the next append begins another
        self.bytes += segment.capacity
        return segment
