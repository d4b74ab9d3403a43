"""C declarations of `wire.h`: the bytes of frames, properties and records."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "wire.h" nogil:
    uint16_t load16(const uint8_t *p)
    uint32_t load32(const uint8_t *p)
    uint64_t load64(const uint8_t *p)
    void store16(uint8_t *p, uint16_t v)
    void store32(uint8_t *p, uint32_t v)
    void store64(uint8_t *p, uint64_t v)

    uint32_t crc32c(uint32_t seed, const uint8_t *p, size_t n)
    uint64_t hash_key(const uint8_t *p, size_t n)

    int HAS_CC
    int HAS_BCC
    int HAS_DELAY
    int HAS_DELIVER_AT
    int HAS_TAG

    ctypedef struct Props:
        uint16_t flags
        uint8_t delivery_mode
        uint8_t priority
        uint8_t marks
        uint8_t expiration_len
        uint8_t reply_to_len
        uint8_t user_id_len
        const uint8_t *headers
        uint32_t headers_len
        const uint8_t *expiration
        const uint8_t *reply_to
        const uint8_t *user_id

    int walk_properties(const uint8_t *p, size_t n, Props *out)

    int ADDED_BYTES_MAX
    const uint8_t *STREAM_OFFSET_FIELD
    const uint8_t *DELIVERY_COUNT_FIELD
    size_t with_field(uint8_t *to, const uint8_t *properties, size_t n, const uint8_t *field,
                      uint64_t value)

    int TTL_NONE
    int TTL_SET
    int TTL_INVALID
    int parse_ttl(const Props *props, uint64_t *ttl_ms)

    ctypedef struct Record:
        uint32_t size
        uint32_t crc
        uint8_t kind
        uint8_t flags
        uint16_t targets
        uint32_t properties_len
        uint64_t timestamp_ms
        uint32_t body_len
        uint16_t names_len
        uint16_t check

    uint16_t header_check(const Record *record, uint32_t seed)

    ctypedef struct Target:
        uint32_t queue
        uint64_t seq

    int RANGE_COUNT_BITS
    int RANGE_COUNT_MAX

    ctypedef struct Range:
        uint32_t segment
        uint32_t count
        uint64_t first
