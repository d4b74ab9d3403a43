"""Segments in memory and the log that appends to them."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from cpython.buffer cimport Py_buffer

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.bounds.large_memory cimport LargeMemory
from leporid.engine.wire.record cimport Message, Record, Target, record_bytes, targets_of

cdef enum:
    KIND_PUBLISH = 1
    KIND_SETTLE = 2
    KIND_COMMIT = 3
    KIND_CLEAN = 4
    KIND_DELIVERED = 5
    KIND_SYNCED = 6
    KIND_PRODUCER = 7
    KIND_LAST = 7
    # The purpose of a transaction, in its COMMIT.
    COMMIT_PUBLISHES = 0            # a client's: its publishes count even if the rest is damaged
    COMMIT_REPLACES = 1             # a message is republished, and its entry settled
    FLAG_IN_TX = 1
    FLAG_PRODUCED = 2               # the last target is a producer and its sequence number
    SEGMENT_HEADER_BYTES = 64
    DURABLE_BIT = 0x80000000        # of a position's upper half
    # Of queue ids: the backlog of the queue without this bit; the first id of queues that have no
    # definition and that a restart forgets.
    BACKLOG_BIT = 0x40000000
    TRANSIENT_IDS = 0x80000000
    NO_QUEUE = 0xffffffff           # of a target that fills a place
    # The body of a message is copied in one piece up to this size, in 1 to 2 ms; that of a dead
    # letter twice. Those that come from clients have memory of their own from about here on.
    COPIED_AT_ONCE = 4 * 1024 * 1024


cdef inline uint32_t segment_number(uint64_t position) noexcept nogil:
    """The segment that a record lies in."""
    return <uint32_t> (position >> 32) & ~<uint32_t> DURABLE_BIT


cdef inline bint is_durable(uint64_t position) noexcept nogil:
    return position >> 63

cdef class Log

cdef class RecordMemory(LargeMemory):
    cdef uint8_t *body
    cdef readonly size_t size           # bytes of the body that have come
    cdef uint32_t crc                   # of these
    cdef bint used                      # it is a segment's
    cdef list copies                    # RecordMemory for further records; or None
    cdef int append(self, const uint8_t *data, size_t size) except -1
    cdef bint copy_rest(self, const uint8_t *body, size_t size, Clock clock) except -1
    cdef bint prepare(self, size_t records, size_t head_bytes, Clock clock) except -1
    # How `begin_message` and `finish_message` use the memory that a message's body lies in.
    cdef Log log_for(self, Log log)
    cdef size_t places(self, Log log, const Message *message, size_t targets) noexcept
    cdef Record *begin(self, Log log, const Message *message, size_t targets,
                       uint64_t timestamp_ms) except? NULL
    cdef uint64_t finish(self, Log log, Record *record) noexcept

cdef RecordMemory record_memory(size_t head_bytes, size_t body_bytes)

cdef class Segment:
    cdef readonly uint32_t number
    cdef uint8_t *base
    cdef readonly size_t capacity
    cdef readonly size_t used           # bytes appended
    cdef readonly size_t written        # bytes that storage has on disk
    cdef readonly uint32_t salt
    cdef readonly uint64_t live         # entries of queues that refer to records here
    cdef readonly uint64_t live_bytes   # their shares of those records
    cdef readonly uint64_t total_bytes  # the shares of all entries that ever did
    cdef readonly bint sealed
    cdef bint single                    # it is the memory of one message, for which it is kept
    cdef readonly bint mapped           # `base` is a mapping of the file
    cdef RecordMemory memory            # what `base` is part of; None: it is the segment's own
    cdef int readers                    # open windows, which need the bytes where they are
    cdef int pinned                     # large bodies in outputs; the bytes may move, not go
    cdef uint64_t drop_after            # when this generation is synced the file may go; 0: unset
    cdef set pins                       # numbers of segments that must be dropped before this one
    cdef dict holes                     # damaged or undone bytes: start -> end
    cdef object mapping
    cdef Py_buffer view
    cdef int allocate(self) except -1
    cdef void give_memory(self, Log log)
    cdef int adopt(self, object mapping, Log log) except -1
    cdef void free_memory(self)

cdef inline bint is_mostly_dead(Segment segment) noexcept:
    """Whether at least half of what entries referred to in a segment is needed no more."""
    return segment.live_bytes * 2 <= segment.total_bytes


cdef class Log:
    cdef readonly bint durable
    cdef readonly size_t segment_bytes  # of the next segment
    cdef readonly uint32_t first        # number of segments[0]
    cdef readonly list segments         # Segment or None, by number - first
    cdef readonly Segment active
    cdef readonly uint64_t appended     # records, since the start
    cdef size_t newest                  # where the newest of them begins in `active`
    cdef readonly size_t bytes          # memory and mappings of all segments
    cdef list spare
    cdef uint8_t *spare_memory[2]
    cdef int spare_memory_count
    cdef uint32_t seed
    cdef Record *begin(self, size_t size) except NULL
    cdef Record *begin_fact(self, uint8_t kind, uint8_t flags, size_t content,
                            uint64_t timestamp_ms) except NULL
    cdef uint64_t finish(self, Record *record) noexcept
    cdef uint64_t finish_known(self, Segment segment, Record *record,
                               uint32_t content_crc) noexcept
    cdef void free_spare(self)
    cdef void amend(self, uint8_t flags) noexcept
    cdef int resize(self, size_t segment_bytes) except -1
    cdef list unwritten(self)
    cdef int mark_written(self, list writes) except -1
    cdef int roll(self, size_t size, uint8_t *base, RecordMemory memory) except -1
    cdef Segment find(self, uint32_t number)
    cdef Record *at(self, uint64_t position)
    cdef int hold(self, uint64_t position, uint32_t entries, uint32_t share) except -1
    cdef int release(self, uint64_t position, uint32_t share) except -1
    cdef int drop(self, Segment segment) except -1
    cdef Segment restore(self, uint32_t number, object mapping, size_t used, uint32_t salt)


cdef inline Record *record_in(Log log, uint64_t position):
    """The record at a position of this log, which has it."""
    return <Record *> ((<Segment> log.segments[segment_number(position) - log.first]).base
                       + <uint32_t> position)


cdef inline uint8_t *write_head(Record *record, const Message *message, size_t targets,
                                uint64_t timestamp_ms) noexcept nogil:
    """Write what stands before a message's body, but for its targets; returns where that goes."""
    cdef uint8_t *p = <uint8_t *> record + sizeof(Record) + targets * sizeof(Target)
    record.size = <uint32_t> message_bytes(message, targets)
    record.kind = KIND_PUBLISH
    record.flags = 0
    record.targets = <uint16_t> targets
    record.properties_len = <uint32_t> message.properties_len
    record.timestamp_ms = timestamp_ms
    record.body_len = <uint32_t> message.body_len
    record.names_len = <uint16_t> message.names_len
    memcpy(p, message.names, message.names_len)
    p += message.names_len
    memcpy(p, message.properties, message.properties_len)
    return p + message.properties_len


cdef inline size_t head_bytes(const Message *message, size_t targets) noexcept nogil:
    """What stands before the body in a message's record."""
    return (sizeof(Record) + targets * sizeof(Target) + message.names_len
            + message.properties_len)


cdef inline size_t message_bytes(const Message *message, size_t targets) noexcept nogil:
    """The size of a message's record."""
    return record_bytes(
        targets, message.names_len + message.properties_len + message.body_len)


cdef inline void fill_places(Record *record, size_t targets) noexcept nogil:
    """Make all targets of a record after the first ones no queue."""
    cdef Target *target = targets_of(record)
    cdef size_t at
    for at in range(targets, record.targets):
        target[at].queue, target[at].seq = NO_QUEUE, 0


cdef inline Record *begin_message(Log log, const Message *message, size_t targets,
                                  uint64_t timestamp_ms) except NULL:
    """A record of a message; the caller fills in its targets, and flags if it has some.

    It may have more targets, which are filled in.
    """
    cdef size_t size
    cdef Record *record
    if message.memory != NULL:
        record = (<RecordMemory> message.memory).begin(log, message, targets, timestamp_ms)
        if record != NULL:
            return record
    size = message_bytes(message, targets)
    record = log.begin(size)
    memset(<uint8_t *> record + size - 8, 0, 8)
    memcpy(write_head(record, message, targets, timestamp_ms), message.body, message.body_len)
    return record


cdef inline uint64_t finish_message(Log log, Record *record, const Message *message) noexcept:
    """Append the record that `begin_message` returned; returns its position."""
    if message.memory != NULL:
        return (<RecordMemory> message.memory).finish(log, record)
    return log.finish(record)


cdef inline void name_producer(Record *record, size_t queues, uint32_t number,
                               uint64_t sequence) noexcept:
    """Make the last target of a message to so many queues its producer and sequence number."""
    cdef Target *last = targets_of(record) + record.targets - 1
    if record.targets > queues + 1:
        targets_of(record)[queues] = last[0]    # which is no queue
    last.queue, last.seq = number, sequence
