"""The interceptor of publishes: adds timestamp and message id to a client's messages.

Responsible for these two properties, if the configuration asks for them. It must not know who
publishes, nor to which exchange. It edits encoded properties, without decoding the others.
Invariant: all other properties keep their bytes.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from leporid.engine.wire.codec cimport Props, walk_properties

cdef enum:
    OFF = 0
    KEEP = 1                        # set it where the publisher did not
    OVERWRITE = 2
    # Flags of AMQP 0-9-1's class basic (1.8).
    CONTENT_TYPE_FLAG = 0x8000
    CONTENT_ENCODING_FLAG = 0x4000
    HEADERS_FLAG = 0x2000
    DELIVERY_MODE_FLAG = 0x1000
    PRIORITY_FLAG = 0x0800
    CORRELATION_ID_FLAG = 0x0400
    REPLY_TO_FLAG = 0x0200
    EXPIRATION_FLAG = 0x0100
    MESSAGE_ID_FLAG = 0x0080
    TIMESTAMP_FLAG = 0x0040
    UUID_BYTES = 16
    ID_BYTES = 38                   # "M-" and a UUID as text
    POOL_BYTES = 64 * UUID_BYTES    # drawn at once, as each draw is expensive

MODES = {"off": OFF, "keep": KEEP, "overwrite": OVERWRITE}

cdef const char *HEX = b"0123456789abcdef"


cdef inline uint16_t load16(const uint8_t *p) noexcept nogil:
    return <uint16_t> (p[0] << 8 | p[1])


cdef const uint8_t *after_expiration(const uint8_t *p) noexcept nogil:
    """Where message id and timestamp are, or would be, in properties that parse."""
    cdef uint16_t flags = load16(p)
    p += 2
    if flags & CONTENT_TYPE_FLAG:
        p += 1 + p[0]
    if flags & CONTENT_ENCODING_FLAG:
        p += 1 + p[0]
    if flags & HEADERS_FLAG:
        p += 4 + (<uint32_t> p[0] << 24 | <uint32_t> p[1] << 16 | <uint32_t> p[2] << 8 | p[3])
    if flags & DELIVERY_MODE_FLAG:
        p += 1
    if flags & PRIORITY_FLAG:
        p += 1
    if flags & CORRELATION_ID_FLAG:
        p += 1 + p[0]
    if flags & REPLY_TO_FLAG:
        p += 1 + p[0]
    if flags & EXPIRATION_FLAG:
        p += 1 + p[0]
    return p


cdef class Interceptor:
    """Sets timestamp and message id.

    Args:
        timestamp: "off"; "keep": set it in messages without one; "overwrite": in all.
        message_id: likewise.
        random_bytes: (count) gives random bytes.
    """

    def __cinit__(self, *, str timestamp not None, str message_id not None, random_bytes):
        self.timestamp = MODES[timestamp]
        self.message_id = MODES[message_id]
        self.random_bytes = random_bytes
        self.pool = b""

    def __repr__(self):
        return f"<Interceptor timestamp={self.timestamp} message_id={self.message_id}>"

    def intercepted(self, bytes properties not None, uint64_t wall_ms):
        """The properties of a message published at a time, as they are stored.

        Raises:
            ValueError: they do not parse.
        """
        cdef Props props
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(properties)
        cdef size_t size = PyBytes_GET_SIZE(properties)
        if walk_properties(p, size, &props):
            raise ValueError("properties do not parse")
        return self.intercept(p, size, wall_ms)

    cdef bytes intercept(self, const uint8_t *properties, size_t size, uint64_t wall_ms):
        """The same for properties that are known to parse."""
        cdef uint16_t flags = load16(properties)
        cdef bint sets_id = (self.message_id == OVERWRITE
                             or self.message_id == KEEP and not flags & MESSAGE_ID_FLAG)
        cdef bint sets_timestamp = (self.timestamp == OVERWRITE
                                    or self.timestamp == KEEP and not flags & TIMESTAMP_FLAG)
        cdef const uint8_t *message_id = after_expiration(properties)
        cdef const uint8_t *timestamp = message_id
        cdef const uint8_t *rest
        cdef size_t head = message_id - properties, id_len, timestamp_len, rest_len
        cdef uint64_t seconds = wall_ms // 1000
        cdef bytes changed
        cdef uint8_t *to
        cdef int at
        if flags & MESSAGE_ID_FLAG:
            timestamp += 1 + message_id[0]
        rest = timestamp + 8 if flags & TIMESTAMP_FLAG else timestamp
        id_len = 1 + ID_BYTES if sets_id else timestamp - message_id
        timestamp_len = 8 if sets_timestamp else rest - timestamp
        rest_len = size - (rest - properties)
        changed = PyBytes_FromStringAndSize(NULL, head + id_len + timestamp_len + rest_len)
        to = <uint8_t *> PyBytes_AS_STRING(changed)
        memcpy(to, properties, head)
        if id_len:
            flags |= MESSAGE_ID_FLAG
        if timestamp_len:
            flags |= TIMESTAMP_FLAG
        to[0], to[1] = <uint8_t> (flags >> 8), <uint8_t> flags
        to += head
        if sets_id:
            self.write_id(to)
        else:
            memcpy(to, message_id, id_len)
        to += id_len
        if sets_timestamp:
            for at in range(8):
                to[at] = <uint8_t> (seconds >> (56 - 8 * at))
        else:
            memcpy(to, timestamp, timestamp_len)
        memcpy(to + timestamp_len, rest, rest_len)
        return changed

    cdef int write_id(self, uint8_t *to) except -1:
        """Write a message id as a short string: M- and a UUID of version 4 (RFC 9562)."""
        cdef const uint8_t *drawn
        cdef uint8_t octet
        cdef int at
        if self.pool_at == <size_t> PyBytes_GET_SIZE(self.pool):
            self.pool = self.random_bytes(POOL_BYTES)
            self.pool_at = 0
            if PyBytes_GET_SIZE(self.pool) != POOL_BYTES:
                raise ValueError(f"{POOL_BYTES} random bytes were asked for")
        drawn = <const uint8_t *> PyBytes_AS_STRING(self.pool) + self.pool_at
        self.pool_at += UUID_BYTES
        to[0], to[1], to[2] = ID_BYTES, c"M", c"-"
        to += 3
        for at in range(UUID_BYTES):
            octet = drawn[at]
            if at == 6:
                octet = octet & 0x0f | 0x40
            elif at == 8:
                octet = octet & 0x3f | 0x80
            if at in (4, 6, 8, 10):
                to[0] = c"-"
                to += 1
            to[0], to[1] = HEX[octet >> 4], HEX[octet & 15]
            to += 2
        return 0
