/* AMQP's encoding: big-endian loads and stores, field tables, and a content header's properties.
 *
 * Takes bytes from peers. Every announced length is compared with the bytes that are left before it
 * is used, and nothing allocates. Two functions know the types of fields: `next_value` their sizes,
 * `read_value` their encodings.
 */
#ifndef LEPORID_CODEC_H
#define LEPORID_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { DONE = 0, MALFORMED = -1, NO_MEMORY = -2 };

/* ------------------------------------------------------------------ big-endian integers */

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

/* ------------------------------------------------------------------ field tables */

/* The number of content bytes of a type; WIDTH_SENT when a 32-bit length precedes the content. */
enum { WIDTH_SENT = -1, WIDTH_UNKNOWN = -2 };

static inline int value_width(uint8_t type) {
    switch (type) {
    case 'V': return 0;
    case 't': case 'b': case 'B': return 1;
    case 's': case 'u': return 2;
    case 'I': case 'i': case 'f': return 4;
    case 'D': return 5;
    case 'l': case 'L': case 'T': case 'd': return 8;
    case 'S': case 'x': case 'F': case 'A': return WIDTH_SENT;
    default: return WIDTH_UNKNOWN;
    }
}

/* Step over the value at *at. MALFORMED when its type is unknown or its content is cut off. */
static inline int next_value(const uint8_t **at, const uint8_t *end, uint8_t *type,
                             const uint8_t **content, uint32_t *size) {
    const uint8_t *p = *at;
    if (p >= end) return MALFORMED;
    *type = *p++;
    int width = value_width(*type);
    if (width == WIDTH_UNKNOWN) return MALFORMED;
    if (width == WIDTH_SENT) {
        if (end - p < 4) return MALFORMED;
        *size = load32(p);
        p += 4;
    } else {
        *size = (uint32_t) width;
    }
    if ((size_t) (end - p) < *size) return MALFORMED;
    *content = p;
    *at = p + *size;
    return DONE;
}

/* One field of a table: its name, and its value as `next_value` finds it. */
typedef struct {
    const uint8_t *name, *content;
    uint32_t size;           /* of the content */
    uint8_t length, type;    /* of the name; of the value */
} Field;

/* Step over the field at *at, of which at least one byte is there. */
static inline int next_field(const uint8_t **at, const uint8_t *end, Field *field) {
    const uint8_t *p = *at;
    field->length = *p++;
    if (end - p < field->length) return MALFORMED;
    field->name = p;
    *at = p + field->length;
    return next_value(at, end, &field->type, &field->content, &field->size);
}

static inline int is_named(const Field *field, const char *name, uint8_t length) {
    return field->length == length && memcmp(field->name, name, length) == 0;
}

/* What the content of a value says. FIELD_OTHER: a table or an array. */
enum {
    FIELD_VOID, FIELD_BOOLEAN, FIELD_INTEGER, FIELD_TIME, FIELD_FLOAT, FIELD_DOUBLE, FIELD_DECIMAL,
    FIELD_TEXT, FIELD_OTHER
};

typedef struct {
    union {
        int64_t integer;     /* of a boolean 0 or 1; of a decimal the unscaled value */
        uint64_t seconds;    /* of a time, since 1970 */
        double real;
    };
    uint8_t kind, scale;
} Value;

/* Decode content that `next_value` found. */
static inline Value read_value(uint8_t type, const uint8_t *p) {
    Value value = {.kind = FIELD_INTEGER};
    uint32_t word;
    uint64_t both;
    float single;
    switch (type) {
    case 'V': value.kind = FIELD_VOID; break;
    case 't': value.kind = FIELD_BOOLEAN; value.integer = *p != 0; break;
    case 'b': value.integer = (int8_t) *p; break;
    case 'B': value.integer = *p; break;
    case 's': value.integer = (int16_t) load16(p); break;
    case 'u': value.integer = load16(p); break;
    case 'I': value.integer = (int32_t) load32(p); break;
    case 'i': value.integer = load32(p); break;
    case 'l': case 'L': value.integer = (int64_t) load64(p); break;
    case 'T': value.kind = FIELD_TIME; value.seconds = load64(p); break;
    case 'f':
        word = load32(p);
        memcpy(&single, &word, 4);
        value.kind = FIELD_FLOAT;
        value.real = single;
        break;
    case 'd':
        both = load64(p);
        memcpy(&value.real, &both, 8);
        value.kind = FIELD_DOUBLE;
        break;
    case 'D':
        value.kind = FIELD_DECIMAL;
        value.scale = *p;
        value.integer = (int32_t) load32(p + 1);
        break;
    case 'S': case 'x': value.kind = FIELD_TEXT; break;
    default: value.kind = FIELD_OTHER;
    }
    return value;
}

/* The number of a value of any integer type, timestamps included; 0: it has another type. */
static inline int as_integer(uint8_t type, const uint8_t *content, int64_t *number) {
    Value value = read_value(type, content);
    if (value.kind != FIELD_INTEGER && value.kind != FIELD_TIME) return 0;
    *number = value.integer;
    return 1;
}

/* The number of a float or a double; 0: the value has another type. */
static inline int as_real(uint8_t type, const uint8_t *content, double *number) {
    Value value = read_value(type, content);
    if (value.kind != FIELD_FLOAT && value.kind != FIELD_DOUBLE) return 0;
    *number = value.real;
    return 1;
}

/* ---------------------------------------------------------- properties (AMQP 0-9-1 4.2.6.1) */

/* How deep tables and arrays may nest. RabbitMQ has no limit; a recursive walk needs one. */
enum { TABLE_DEPTH_MAX = 32 };

/* Headers that take a message off the usual path, or hold its tag. */
enum { HAS_CC = 1, HAS_BCC = 2, HAS_DELAY = 4, HAS_DELIVER_AT = 8, HAS_TAG = 16 };

typedef struct {
    uint16_t flags;
    uint8_t delivery_mode;   /* 0 when absent */
    uint8_t priority;
    uint8_t marks;           /* HAS_…, of its headers */
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

/* Check the fields of a table whose content is [p, end), and of the tables within it. */
static int walk_table(const uint8_t *p, const uint8_t *end, int depth, uint8_t *marks) {
    if (depth > TABLE_DEPTH_MAX) return MALFORMED;
    while (p < end) {
        uint8_t n = *p++;
        if (end - p < n) return MALFORMED;
        if (marks) *marks |= mark_of(p, n);
        p += n;
        if (walk_value(&p, end, depth)) return MALFORMED;
    }
    return DONE;
}

/* Check the value at *at and step over it. NaN and infinity are malformed, as in RabbitMQ, which
   has no term for them. */
static int walk_value(const uint8_t **at, const uint8_t *end, int depth) {
    const uint8_t *p;
    uint8_t type;
    uint32_t n;
    if (next_value(at, end, &type, &p, &n)) return MALFORMED;
    switch (type) {
    case 'f': return (load32(p) & 0x7f800000u) == 0x7f800000u ? MALFORMED : DONE;
    case 'd':
        return (load64(p) & 0x7ff0000000000000ull) == 0x7ff0000000000000ull ? MALFORMED : DONE;
    case 'F': return walk_table(p, p + n, depth + 1, NULL);
    case 'A': {
        const uint8_t *stop = p + n;
        if (depth >= TABLE_DEPTH_MAX) return MALFORMED;
        while (p < stop) if (walk_value(&p, stop, depth + 1)) return MALFORMED;
        return DONE;
    }
    default: return DONE;
    }
}

/* Check the flags and values of a header frame, and note where the properties lie that the engine
   reads. */
static int walk_properties(const uint8_t *p, size_t n, Props *out) {
    const uint8_t *end = p + n;
    memset(out, 0, sizeof *out);
    if (n < 2) return MALFORMED;
    out->flags = load16(p);
    p += 2;
    if (out->flags == 0 && n == 2) return DONE;
    if (out->flags == 0x1000 && n == 3) {  /* the usual persistent message */
        out->delivery_mode = *p;
        return DONE;
    }
    if (out->flags & 3) return MALFORMED;  /* a second word of flags, and the reserved bit */
    const uint8_t *text[14] = {0};
    uint8_t text_len[14] = {0};
    for (int bit = 15; bit >= 2; bit--) {
        if (!(out->flags & (1u << bit))) continue;
        switch (bit) {
        case 13: {
            if (end - p < 4) return MALFORMED;
            uint32_t size = load32(p); p += 4;
            if ((size_t)(end - p) < size) return MALFORMED;
            if (walk_table(p, p + size, 1, &out->marks)) return MALFORMED;
            out->headers = p; out->headers_len = size;
            p += size;
            break;
        }
        case 12: case 11:
            if (end - p < 1) return MALFORMED;
            if (bit == 12) out->delivery_mode = *p; else out->priority = *p;
            p++;
            break;
        case 6:
            if (end - p < 8) return MALFORMED;
            p += 8;
            break;
        default: {
            if (end - p < 1 || end - p - 1 < *p) return MALFORMED;
            text_len[bit - 2] = *p; text[bit - 2] = p + 1;
            p += 1 + *p;
        }
        }
    }
    out->reply_to = text[7]; out->reply_to_len = text_len[7];
    out->expiration = text[6]; out->expiration_len = text_len[6];
    out->user_id = text[2]; out->user_id_len = text_len[2];
    return p == end ? DONE : MALFORMED;
}

/* The content of the headers in properties; NULL when there are none. */
static inline const uint8_t *headers_in(const uint8_t *p, size_t n, const uint8_t **headers_end) {
    const uint8_t *end = p + n;
    if (n < 2 || !(load16(p) & 0x2000)) return NULL;
    uint16_t flags = load16(p);
    p += 2;
    for (int bit = 15; bit > 13; bit--) {
        if (!(flags >> bit & 1)) continue;
        if (end - p < 1 || end - p - 1 < *p) return NULL;
        p += 1 + *p;
    }
    if (end - p < 4 || (size_t) (end - p - 4) < load32(p)) return NULL;
    *headers_end = p + 4 + load32(p);
    return p + 4;
}

/* The first header of that name: its type, its content and its size; 0: there is none. */
static int find_header(const Props *props, const char *name, uint8_t length, uint8_t *type,
                       const uint8_t **content, uint32_t *size) {
    const uint8_t *p = props->headers, *end = p + props->headers_len;
    Field field;
    while (p < end) {
        if (next_field(&p, end, &field)) return 0;
        if (!is_named(&field, name, length)) continue;
        *type = field.type;
        *content = field.content;
        *size = field.size;
        return 1;
    }
    return 0;
}

/* What a delivery may add to the headers: a name and the type 'l', encoded as in a table. */
#define STREAM_OFFSET_FIELD ((const uint8_t *)"\x0fx-stream-offsetl")
#define STREAM_SKIPPED_FIELD ((const uint8_t *)"\x10x-stream-skippedl")
#define DELIVERY_COUNT_FIELD ((const uint8_t *)"\x10x-delivery-countl")
enum { ADDED_BYTES_MAX = 4 + 1 + 16 + 1 + 8 };  /* a table's length, the longer field, its value */

/* Copy the fields of a checked table, except those of that name, which the publisher may have set,
   or an earlier delivery; returns their length. */
static size_t without_field(uint8_t *to, const uint8_t *p, const uint8_t *end,
                            const uint8_t *name) {
    uint8_t *q = to;
    Field field;
    while (p < end) {
        const uint8_t *start = p;
        if (next_field(&p, end, &field)) p = end;
        if (is_named(&field, (const char *) name + 1, name[0])) continue;
        memcpy(q, start, (size_t) (p - start));
        q += p - start;
    }
    return (size_t)(q - to);
}

/* Copy checked properties with one more header in front of the others; returns their new length.
   `to` has room for ADDED_BYTES_MAX more. */
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

#endif
