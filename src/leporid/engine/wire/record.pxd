"""Records of a log as they lie in a segment, and the message in one.

Header, targets, names, properties, body: nothing else of the engine knows that order, which
storage/FORMAT.md draws.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.wire.codec cimport Props, walk_properties
from leporid.engine.wire.crc cimport crc32c

cdef extern from *:
    uint64_t NO_LIMIT "UINT64_MAX"  # of a length, a size or a time that is not limited

cdef struct Record:             # 32 bytes, little-endian; targets, names, properties, body follow
    uint32_t size               # of the whole record, a multiple of 8
    uint32_t crc                # CRC32C of the bytes from `kind` on, seeded by salt and offset
    uint8_t kind
    uint8_t flags
    uint16_t targets            # queues it went to
    uint32_t properties_len
    uint64_t timestamp_ms
    uint32_t body_len
    uint16_t names_len          # exchange and routing key, both as short strings
    uint16_t check              # of this header alone, so that `size` can be trusted first

cdef packed struct Target:
    uint32_t queue
    uint64_t seq

cdef enum:
    RANGE_COUNT_BITS = 16
    RANGE_COUNT_MAX = 0xffff

# Settled or delivered sequence numbers. Of delivered ones the upper half of `count` says how often;
# 0 there, by an older version, is at least once.
cdef struct Range:
    uint32_t segment
    uint32_t count
    uint64_t first

cdef struct Message:
    const uint8_t *names            # exchange and routing key, each a short string
    const uint8_t *properties       # encoded
    const uint8_t *body
    size_t names_len, properties_len, body_len
    void *memory                    # a RecordMemory that has the body; NULL: it is elsewhere


cdef inline uint16_t header_check(const Record *record, uint32_t seed) noexcept nogil:
    cdef uint32_t crc = crc32c(~seed, <const uint8_t *> &record.size, 4)
    return <uint16_t> crc32c(crc, &record.kind, 22)


cdef inline Target *targets_of(const Record *record) noexcept nogil:
    """Where a message went: a queue and its sequence number there, for each queue."""
    return <Target *> (<uint8_t *> record + sizeof(Record))


cdef inline uint8_t *content_of(const Record *record) noexcept nogil:
    """What follows the targets; of a fact that is no message, all that it says."""
    return <uint8_t *> record + sizeof(Record) + record.targets * sizeof(Target)


cdef inline size_t content_bytes(const Record *record) noexcept nogil:
    return <size_t> record.names_len + record.properties_len + record.body_len


cdef inline Message message_in(const Record *record) noexcept nogil:
    """The message of a record; valid as long as the record stays where it is."""
    cdef Message message
    message.names = content_of(record)
    message.names_len = record.names_len
    message.properties = message.names + record.names_len
    message.properties_len = record.properties_len
    message.body = message.properties + record.properties_len
    message.body_len = record.body_len
    message.memory = NULL
    return message


cdef inline int properties_in(const Record *record, Props *props) noexcept nogil:
    """What the properties of a record's message say; not 0 when they do not parse."""
    return walk_properties(content_of(record) + record.names_len, record.properties_len, props)


cdef inline size_t record_bytes(size_t targets, size_t content) noexcept nogil:
    """The size of a record with so much in it."""
    return (sizeof(Record) + targets * sizeof(Target) + content + 7) & ~<size_t> 7


# ------------------------------------------------------------------ names


cdef inline const uint8_t *key_in(const Message *message) noexcept nogil:
    """The routing key, a short string: its length stands first."""
    return message.names + 1 + message.names[0]


cdef inline str exchange_name(const Message *message):
    return message.names[1:1 + message.names[0]].decode("utf-8", "surrogateescape")


cdef inline str routing_key(const Message *message):
    cdef const uint8_t *key = key_in(message)
    return key[1:1 + key[0]].decode("utf-8", "surrogateescape")


# ------------------------------------------------------------------ as Python bytes


cdef inline bytes names_bytes(const Message *message):
    return message.names[:message.names_len]


cdef inline bytes properties_bytes(const Message *message):
    return message.properties[:message.properties_len]


cdef inline bytes body_bytes(const Message *message):
    return message.body[:message.body_len]


cdef inline int set_properties(Message *message, bytes properties) except -1:
    """Other properties; whoever calls keeps the bytes alive."""
    message.properties = <const uint8_t *> <const char *> properties
    message.properties_len = len(properties)
    return 0


cdef inline Message message_of(bytes names, bytes properties, bytes body):
    """The message of these bytes, which whoever calls keeps alive."""
    cdef Message message
    message.names = <const uint8_t *> <const char *> names
    message.names_len = len(names)
    message.properties = <const uint8_t *> <const char *> properties
    message.properties_len = len(properties)
    message.body = <const uint8_t *> <const char *> body
    message.body_len = len(body)
    message.memory = NULL
    return message
