/* Bytes on the wire and on disk: big-endian loads and stores, CRC32C, a hash for short keys,
 * and the walk over a content header's properties.
 *
 * Nothing here allocates, and nothing reads past the length it was given: every length that a
 * peer announced is compared with what is really there before it is used.
 */
#ifndef LEPORID_WIRE_H
#define LEPORID_WIRE_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>

static inline uint16_t load16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return __builtin_bswap16(v);
}

static inline uint32_t load32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}

static inline uint64_t load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return __builtin_bswap64(v);
}

static inline void store16(uint8_t *p, uint16_t v) {
    v = __builtin_bswap16(v);
    memcpy(p, &v, 2);
}

static inline void store32(uint8_t *p, uint32_t v) {
    v = __builtin_bswap32(v);
    memcpy(p, &v, 4);
}

static inline void store64(uint8_t *p, uint64_t v) {
    v = __builtin_bswap64(v);
    memcpy(p, &v, 8);
}


/* ------------------------------------------------------------------ CRC32C (Castagnoli) */

static uint32_t crc32c_table[8][256];
static int crc32c_hardware = -1;

static void crc32c_prepare(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t c = n;
        for (int k = 0; k < 8; k++) c = (c & 1) ? (c >> 1) ^ 0x82f63b78u : c >> 1;
        crc32c_table[0][n] = c;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++)
            crc32c_table[k][n] = crc32c_table[0][crc32c_table[k - 1][n] & 0xff]
                ^ (crc32c_table[k - 1][n] >> 8);
#if defined(__x86_64__)
    __builtin_cpu_init();
    crc32c_hardware = __builtin_cpu_supports("sse4.2") ? 1 : 0;
#else
    crc32c_hardware = 0;
#endif
}

#if defined(__x86_64__)
__attribute__((target("sse4.2")))
static uint32_t crc32c_sse(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t c = crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        c = __builtin_ia32_crc32di(c, v);
    }
    for (; n; n--, p++) c = __builtin_ia32_crc32qi((uint32_t)c, *p);
    return (uint32_t)c;
}
#endif

static uint32_t crc32c_plain(uint32_t crc, const uint8_t *p, size_t n) {
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v; memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap64(v);
#endif
        v ^= crc;
        crc = crc32c_table[7][v & 0xff] ^ crc32c_table[6][(v >> 8) & 0xff]
            ^ crc32c_table[5][(v >> 16) & 0xff] ^ crc32c_table[4][(v >> 24) & 0xff]
            ^ crc32c_table[3][(v >> 32) & 0xff] ^ crc32c_table[2][(v >> 40) & 0xff]
            ^ crc32c_table[1][(v >> 48) & 0xff] ^ crc32c_table[0][v >> 56];
    }
    for (; n; n--, p++) crc = crc32c_table[0][(crc ^ *p) & 0xff] ^ (crc >> 8);
    return crc;
}

/* The seed makes a record of one file (or place) invalid in every other. */
static uint32_t crc32c(uint32_t seed, const uint8_t *p, size_t n) {
    if (crc32c_hardware < 0) crc32c_prepare();
#if defined(__x86_64__)
    if (crc32c_hardware) return ~crc32c_sse(~seed, p, n);
#endif
    return ~crc32c_plain(~seed, p, n);
}

/* ------------------------------------------------------------------ a hash for routing keys */

static inline uint64_t hash_key(const uint8_t *p, size_t n) {
    uint64_t h = 0x9e3779b97f4a7c15ull ^ n, v;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&v, p, 8);
        h = (h ^ v) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    if (n) {
        v = 0;
        memcpy(&v, p, n);
        h = (h ^ v) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    h *= 0xc4ceb9fe1a85ec53ull;
    return h ^ (h >> 29);
}

/* -------------------------------------------------------- properties (AMQP 0-9-1 4.2.6.1) */

/* Arrays and tables within tables; RabbitMQ has no limit, a stack has. */
enum { TABLE_DEPTH_MAX = 32 };

/* Headers that make a message a rare one, or have its tag. */
enum { HAS_CC = 1, HAS_BCC = 2, HAS_DELAY = 4, HAS_DELIVER_AT = 8, HAS_TAG = 16 };

typedef struct {
    uint16_t flags;
    uint8_t delivery_mode;   /* 0 when absent */
    uint8_t priority;
    uint8_t marks;           /* HAS_… */
    uint8_t expiration_len, reply_to_len, user_id_len;
    const uint8_t *headers;  /* the table's content, after its length; NULL when absent */
    uint32_t headers_len;
    const uint8_t *expiration, *reply_to, *user_id;
} Props;

static int walk_value(const uint8_t **at, const uint8_t *end, int depth);

static inline uint8_t mark_of(const uint8_t *name, uint8_t n) {
    switch (n) {
    case 2: return memcmp(name, "CC", 2) ? 0 : HAS_CC;
    case 3: return memcmp(name, "BCC", 3) ? 0 : HAS_BCC;
    case 5: return memcmp(name, "x-tag", 5) ? 0 : HAS_TAG;
    case 7: return memcmp(name, "x-delay", 7) ? 0 : HAS_DELAY;
    case 12: return memcmp(name, "x-deliver-at", 12) ? 0 : HAS_DELIVER_AT;
    case 21: return memcmp(name, "x-stream-filter-value", 21) ? 0 : HAS_TAG;
    default: return 0;
    }
}

/* Fields of a table whose content is [p, end); 0, or -1 when it is malformed. */
static int walk_table(const uint8_t *p, const uint8_t *end, int depth, uint8_t *marks) {
    if (depth > TABLE_DEPTH_MAX) return -1;
    while (p < end) {
        uint8_t n = *p++;
        if (end - p < n) return -1;
        if (marks) *marks |= mark_of(p, n);
        p += n;
        if (walk_value(&p, end, depth)) return -1;
    }
    return 0;
}

static int walk_value(const uint8_t **at, const uint8_t *end, int depth) {
    const uint8_t *p = *at;
    uint32_t n;
    if (p >= end) return -1;
    switch (*p++) {
    case 'V': n = 0; break;
    case 't': case 'b': case 'B': n = 1; break;
    case 's': case 'u': n = 2; break;
    case 'f':  /* neither float may be NaN or infinite: RabbitMQ has no reading for them */
        if (end - p < 4 || (load32(p) & 0x7f800000u) == 0x7f800000u) return -1;
        n = 4;
        break;
    case 'd':
        if (end - p < 8 || (load64(p) & 0x7ff0000000000000ull) == 0x7ff0000000000000ull) return -1;
        n = 8;
        break;
    case 'I': case 'i': n = 4; break;
    case 'D': n = 5; break;
    case 'l': case 'L': case 'T': n = 8; break;
    case 'S': case 'x':
        if (end - p < 4) return -1;
        n = load32(p); p += 4;
        break;
    case 'F':
        if (end - p < 4) return -1;
        n = load32(p); p += 4;
        if ((size_t)(end - p) < n || walk_table(p, p + n, depth + 1, NULL)) return -1;
        break;
    case 'A': {
        if (end - p < 4) return -1;
        n = load32(p); p += 4;
        if ((size_t)(end - p) < n || depth >= TABLE_DEPTH_MAX) return -1;
        const uint8_t *q = p, *stop = p + n;
        while (q < stop) if (walk_value(&q, stop, depth + 1)) return -1;
        break;
    }
    default: return -1;
    }
    if ((size_t)(end - p) < n) return -1;
    *at = p + n;
    return 0;
}

/* Flags and values as they stand in a header frame; 0, or -1 when they are malformed. */
static int walk_properties(const uint8_t *p, size_t n, Props *out) {
    const uint8_t *end = p + n;
    memset(out, 0, sizeof *out);
    if (n < 2) return -1;
    out->flags = load16(p);
    p += 2;
    if (out->flags == 0 && n == 2) return 0;
    if (out->flags == 0x1000 && n == 3) {  /* the usual persistent message */
        out->delivery_mode = *p;
        return 0;
    }
    if (out->flags & 3) return -1;  /* a second flag word, or the reserved bit: nothing is there */
    const uint8_t *text[14] = {0};
    uint8_t text_len[14] = {0};
    for (int bit = 15; bit >= 2; bit--) {
        if (!(out->flags & (1u << bit))) continue;
        switch (bit) {
        case 13: {
            if (end - p < 4) return -1;
            uint32_t size = load32(p); p += 4;
            if ((size_t)(end - p) < size) return -1;
            if (walk_table(p, p + size, 1, &out->marks)) return -1;
            out->headers = p; out->headers_len = size;
            p += size;
            break;
        }
        case 12: case 11:
            if (end - p < 1) return -1;
            if (bit == 12) out->delivery_mode = *p; else out->priority = *p;
            p++;
            break;
        case 6:
            if (end - p < 8) return -1;
            p += 8;
            break;
        default: {
            if (end - p < 1 || end - p - 1 < *p) return -1;
            text_len[bit - 2] = *p; text[bit - 2] = p + 1;
            p += 1 + *p;
        }
        }
    }
    out->reply_to = text[7]; out->reply_to_len = text_len[7];
    out->expiration = text[6]; out->expiration_len = text_len[6];
    out->user_id = text[2]; out->user_id_len = text_len[2];
    return p == end ? 0 : -1;
}

/* What a delivery may add to the headers: a name and the type 'l', as they stand in a table. */
#define STREAM_OFFSET_FIELD ((const uint8_t *)"\x0fx-stream-offsetl")
#define DELIVERY_COUNT_FIELD ((const uint8_t *)"\x10x-delivery-countl")
enum { ADDED_BYTES_MAX = 4 + 1 + 16 + 1 + 8 };  /* a table's length, the longer field, its value */

/* Copies the fields of a table that was walked before, but those of that name; returns their
   length. A publisher may have written anything, or got the message from another queue. */
static size_t without_field(uint8_t *to, const uint8_t *p, const uint8_t *end,
                            const uint8_t *name) {
    uint8_t *q = to;
    while (p < end) {
        const uint8_t *field = p;
        p += 1 + *p;
        if (walk_value(&p, end, 1)) p = end;
        if (field[0] == name[0] && memcmp(field + 1, name + 1, name[0]) == 0) continue;
        memcpy(q, field, (size_t)(p - field));
        q += p - field;
    }
    return (size_t)(q - to);
}

/* Copies properties that were walked before, with a header in front of the others; returns their
   new length. `to` has room for ADDED_BYTES_MAX more. */
static size_t with_field(uint8_t *to, const uint8_t *properties, size_t n, const uint8_t *field,
                         uint64_t value) {
    const size_t added = 4 + 1 + (size_t)field[0] + 1 + 8;
    const uint8_t *p = properties + 2, *end = properties + n;
    uint8_t *q = to;
    uint16_t flags = load16(properties);
    uint32_t size = 0, copied;
    store16(q, flags | 0x2000);
    if (flags & 0x8000) p += 1 + *p;
    if (flags & 0x4000) p += 1 + *p;
    memcpy(q + 2, properties + 2, (size_t)(p - properties) - 2);
    q += p - properties;
    if (flags & 0x2000) { size = load32(p); p += 4; }
    copied = (uint32_t)without_field(q + added, p, p + size, field);
    store32(q, copied + (uint32_t)added - 4);
    memcpy(q + 4, field, added - 12);
    store64(q + added - 8, value);
    q += added + copied;
    p += size;
    memcpy(q, p, (size_t)(end - p));
    return (size_t)(q - to) + (size_t)(end - p);
}

enum { TTL_NONE = 0, TTL_SET = 1, TTL_INVALID = -1 };
#define TTL_MS_MAX 315360000000ull  /* ten years, RabbitMQ 4's limit */

/* The property expiration as milliseconds. */
static int parse_ttl(const Props *props, uint64_t *ttl_ms) {
    uint64_t value = 0;
    if (!props->expiration) return TTL_NONE;
    const uint8_t *p = props->expiration, *end = p + props->expiration_len;
    int negative = p < end && *p == '-';
    if (p < end && (*p == '+' || *p == '-')) p++;
    if (p == end) return TTL_INVALID;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9') return TTL_INVALID;
        value = value * 10 + (*p - '0');
        if (value > TTL_MS_MAX) return TTL_INVALID;
    }
    if (negative && value) return TTL_INVALID;
    *ttl_ms = value;
    return value > TTL_MS_MAX ? TTL_INVALID : TTL_SET;
}

/* ------------------------------------------------------------------ records (storage/FORMAT.md) */

typedef struct {
    uint32_t size;          /* of the whole record, a multiple of 8 */
    uint32_t crc;           /* CRC32C of the bytes from `kind` on, seeded by salt and offset */
    uint8_t kind;
    uint8_t flags;
    uint16_t targets;       /* queues it went to */
    uint32_t properties_len;
    uint64_t timestamp_ms;
    uint32_t body_len;
    uint16_t names_len;     /* exchange and routing key, both as short strings */
    uint16_t check;         /* of this header alone, so that `size` can be trusted first */
} Record;                   /* 32 bytes, little-endian; targets, names, properties, body follow */

static inline uint16_t header_check(const Record *record, uint32_t seed) {
    uint32_t crc = crc32c(~seed, (const uint8_t *)&record->size, 4);
    return (uint16_t)crc32c(crc, &record->kind, 22);
}

typedef struct __attribute__((packed)) { uint32_t queue; uint64_t seq; } Target;

/* Settled or delivered sequence numbers. Of delivered ones the upper half of `count` says how
   often; 0 there, by an older version, is at least once. */
typedef struct { uint32_t segment; uint32_t count; uint64_t first; } Range;
enum { RANGE_COUNT_BITS = 16, RANGE_COUNT_MAX = 0xffff };

#endif
