/* When a message is due: the headers x-delay and x-deliver-at, read and rewritten as encoded.
 *
 * Nothing here allocates. Properties were walked before (wire.h), so lengths lie within them.
 */
#ifndef LEPORID_WHEN_H
#define LEPORID_WHEN_H

#include "wire.h"

enum { WHEN_NOW = 0, WHEN_DUE = 1, WHEN_INVALID = -1, WHEN_TOO_FAR = -2 };
#define DELAY_MS_MAX 315360000000ll  /* ten years, as of anything that expires */

/* The value of the first header of that name: where its type letter stands, and its end. */
static int find_header(const Props *props, const char *name, uint8_t n, const uint8_t **value,
                       const uint8_t **stop) {
    const uint8_t *p = props->headers, *end = p + props->headers_len;
    while (p < end) {
        const uint8_t *field = p;
        p += 1 + *p;
        *value = p;
        if (walk_value(&p, end, 1)) return 0;
        *stop = p;
        if (field[0] == n && memcmp(field + 1, name, n) == 0) return 1;
    }
    return 0;
}

/* Digits with a sign or without; what is larger than any moment becomes the largest number. */
static int text_number(const uint8_t *p, const uint8_t *end, int64_t *number) {
    int negative = p < end && *p == '-';
    int64_t value = 0;
    if (p < end && (*p == '+' || *p == '-')) p++;
    if (p == end) return 0;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9') return 0;
        value = value > INT64_MAX / 10 - 1 ? INT64_MAX / 10 : value * 10 + (*p - '0');
    }
    *number = negative ? -value : value;
    return 1;
}

static int real_number(double value, int64_t *number) {
    if (value >= 9e18) *number = INT64_MAX;
    else if (value <= -9e18) *number = INT64_MIN;
    else *number = (int64_t)value;
    return 1;
}

/* A value as a whole number, the way the delayed-message plugin converts it; 0: it is none. */
static int value_number(const uint8_t *p, const uint8_t *end, int64_t *number) {
    uint32_t bits;
    uint64_t wide;
    float single;
    double real;
    switch (*p++) {
    case 'b': *number = (int8_t)*p; return 1;
    case 'B': *number = *p; return 1;
    case 's': *number = (int16_t)load16(p); return 1;
    case 'u': *number = load16(p); return 1;
    case 'I': *number = (int32_t)load32(p); return 1;
    case 'i': *number = load32(p); return 1;
    case 'l': case 'L': *number = (int64_t)load64(p); return 1;
    case 'f':
        bits = load32(p);
        memcpy(&single, &bits, 4);
        return real_number(single, number);
    case 'd':
        wide = load64(p);
        memcpy(&real, &wide, 8);
        return real_number(real, number);
    case 'S': case 'x': return text_number(p + 4, end, number);
    default: return 0;
    }
}

/* Milliseconds since 1970: an AMQP timestamp has seconds, numbers are milliseconds already. */
static int value_moment(const uint8_t *p, const uint8_t *end, int64_t *moment_ms) {
    if (*p != 'T') return value_number(p, end, moment_ms);
    uint64_t seconds = load64(p + 1);
    *moment_ms = seconds > INT64_MAX / 1000 ? INT64_MAX : (int64_t)seconds * 1000;
    return 1;
}

/* When a message that came at that time is due, if it is delayed. x-deliver-at beats x-delay. */
static int find_due(const Props *props, uint64_t came_ms, int64_t *due_ms) {
    const uint8_t *value, *stop;
    int64_t number, came = (int64_t)came_ms;
    if (props->marks & HAS_DELIVER_AT) {
        if (!find_header(props, "x-deliver-at", 12, &value, &stop)
                || !value_moment(value, stop, &number))
            return WHEN_INVALID;
        if (number <= came) return WHEN_NOW;
        number -= came;
    } else if (!(props->marks & HAS_DELAY) || !find_header(props, "x-delay", 7, &value, &stop)
               || !value_number(value, stop, &number) || number <= 0) {
        return WHEN_NOW;
    }
    *due_ms = number > INT64_MAX - came ? INT64_MAX : came + number;
    return number > DELAY_MS_MAX ? WHEN_TOO_FAR : WHEN_DUE;
}

enum { NEGATED_BYTES = 8 };  /* that `negated` may need beyond what it copies */

/* Copies properties with their x-delay negated; returns their new length.
   It keeps its width if the negative number fits, and is an 'l' otherwise. */
static size_t negated(uint8_t *to, const uint8_t *properties, size_t n, const Props *props) {
    const uint8_t *value, *stop;
    uint8_t *q;
    int64_t number = 0;
    size_t before;
    if (!find_header(props, "x-delay", 7, &value, &stop) || !value_number(value, stop, &number)
            || number <= 0) {
        memcpy(to, properties, n);
        return n;
    }
    before = (size_t)(value - properties);
    memcpy(to, properties, before);
    q = to + before;
    if ((*value == 'b' || *value == 'B') && number <= 128) {
        *q++ = 'b';
        *q++ = (uint8_t)-number;
    } else if ((*value == 's' || *value == 'u') && number <= 32768) {
        *q++ = 's';
        store16(q, (uint16_t)-number);
        q += 2;
    } else if ((*value == 'I' || *value == 'i') && number <= 2147483648ll) {
        *q++ = 'I';
        store32(q, (uint32_t)-number);
        q += 4;
    } else {
        *q++ = *value == 'L' ? 'L' : 'l';
        store64(q, (uint64_t)-number);
        q += 8;
    }
    store32(to + (props->headers - 4 - properties),
            props->headers_len + (uint32_t)(q - to - before) - (uint32_t)(stop - value));
    memcpy(q, stop, n - (size_t)(stop - properties));
    return (size_t)(q - to) + n - (size_t)(stop - properties);
}

#endif
