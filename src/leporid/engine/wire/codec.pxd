"""C declarations of `codec.h`: integers, field tables and properties as AMQP encodes them."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "codec.h" nogil:
    int DONE
    int MALFORMED
    int NO_MEMORY

    uint16_t load16(const uint8_t *p)
    uint32_t load32(const uint8_t *p)
    uint64_t load64(const uint8_t *p)
    void store16(uint8_t *p, uint16_t v)
    void store32(uint8_t *p, uint32_t v)
    void store64(uint8_t *p, uint64_t v)

    int next_value(const uint8_t **at, const uint8_t *end, uint8_t *type,
                   const uint8_t **content, uint32_t *size)

    ctypedef struct Field:
        const uint8_t *name
        const uint8_t *content
        uint32_t size
        uint8_t length
        uint8_t type

    int next_field(const uint8_t **at, const uint8_t *end, Field *field)
    bint is_named(const Field *field, const char *name, uint8_t length)

    int FIELD_VOID
    int FIELD_BOOLEAN
    int FIELD_INTEGER
    int FIELD_TIME
    int FIELD_FLOAT
    int FIELD_DOUBLE
    int FIELD_DECIMAL
    int FIELD_TEXT
    int FIELD_OTHER

    ctypedef struct Value:
        int64_t integer
        uint64_t seconds
        double real
        uint8_t kind
        uint8_t scale

    Value read_value(uint8_t type, const uint8_t *content)
    int as_integer(uint8_t type, const uint8_t *content, int64_t *number)
    int as_real(uint8_t type, const uint8_t *content, double *number)

    int TABLE_DEPTH_MAX
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
    const uint8_t *headers_in(const uint8_t *p, size_t n, const uint8_t **headers_end)
    int find_header(const Props *props, const char *name, uint8_t length, uint8_t *type,
                    const uint8_t **content, uint32_t *size)

    int ADDED_BYTES_MAX
    const uint8_t *STREAM_OFFSET_FIELD
    const uint8_t *STREAM_SKIPPED_FIELD
    const uint8_t *DELIVERY_COUNT_FIELD
    size_t with_field(uint8_t *to, const uint8_t *properties, size_t n, const uint8_t *field,
                      uint64_t value)

    int TTL_NONE
    int TTL_SET
    int TTL_INVALID
    int64_t TTL_MS_MAX
    int parse_ttl(const Props *props, uint64_t *ttl_ms)
