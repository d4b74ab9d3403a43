/* When a message is due: the headers x-delay and x-deliver-at, read and rewritten as encoded.
 *
 * Nothing here allocates. Properties were walked before (wire.h), so lengths lie within them.
 */
#ifndef LEPORID_WHEN_H
#define LEPORID_WHEN_H

#include "fields.h"

enum { WHEN_NOW = 0, WHEN_DUE = 1, WHEN_INVALID = -1, WHEN_TOO_FAR = -2 };
#define DELAY_MS_MAX 315360000000ll  /* ten years, as of anything that expires */
/* Numbers that would be moments of 1970 to 1973 are seconds by mistake: from 1973 to 5138. */
#define SECONDS_MIN 100000000ll
#define SECONDS_MAX 100000000000ll

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
static int value_number(uint8_t type, const uint8_t *content, uint32_t size, int64_t *number) {
    double real;
    if (type == 'S' || type == 'x') return text_number(content, content + size, number);
    if (as_real(type, content, &real)) return real_number(real, number);
    return type != 'T' && as_integer(type, content, number);
}

/* Milliseconds since 1970: an AMQP timestamp has seconds, numbers are milliseconds already. */
static int value_moment(uint8_t type, const uint8_t *content, uint32_t size, int64_t *moment_ms) {
    if (type != 'T') return value_number(type, content, size, moment_ms);
    uint64_t seconds = load64(content);
    *moment_ms = seconds > INT64_MAX / 1000 ? INT64_MAX : (int64_t)seconds * 1000;
    return 1;
}

/* When a message that came at that time is due by its x-delay. */
static int find_delay(const Props *props, uint64_t came_ms, int64_t *due_ms) {
    const uint8_t *value;
    uint8_t type;
    uint32_t size;
    int64_t number, came = (int64_t)came_ms;
    if (!(props->marks & HAS_DELAY) || !find_header(props, "x-delay", 7, &type, &value, &size)
            || !value_number(type, value, size, &number) || number <= 0)
        return WHEN_NOW;
    *due_ms = number > INT64_MAX - came ? INT64_MAX : came + number;
    return number > DELAY_MS_MAX ? WHEN_TOO_FAR : WHEN_DUE;
}

/* When it is due, if it is delayed; x-delay counts where `delaying` says so. An x-deliver-at beats
   it, unless that moment has passed, or is marked as such by a minus. */
static int find_due(const Props *props, uint64_t came_ms, int delaying, int64_t *due_ms) {
    const uint8_t *value;
    uint8_t type;
    uint32_t size;
    int64_t number, came = (int64_t)came_ms;
    if (props->marks & HAS_DELIVER_AT) {
        if (!find_header(props, "x-deliver-at", 12, &type, &value, &size)
                || !value_moment(type, value, size, &number))
            return WHEN_INVALID;
        if (type != 'T' && number >= SECONDS_MIN && number < SECONDS_MAX && came >= SECONDS_MAX)
            return WHEN_INVALID;
        if (number > came) {
            *due_ms = number;
            return number - came > DELAY_MS_MAX ? WHEN_TOO_FAR : WHEN_DUE;
        }
    }
    return delaying ? find_delay(props, came_ms, due_ms) : WHEN_NOW;
}

enum { NEGATED_BYTES = 8 };  /* that `negated` may need beyond what it copies */

/* Copies properties with one of the two headers negated; returns their new length.
   It keeps its width if the negative number fits, and is an 'l' otherwise, in milliseconds. */
static size_t negated(uint8_t *to, const uint8_t *properties, size_t n, const Props *props,
                      int mark) {
    const uint8_t *value, *stop;
    uint8_t *q, type;
    uint32_t size;
    int64_t number = 0;
    size_t before;
    if (mark == HAS_DELAY
            ? !find_header(props, "x-delay", 7, &type, &value, &size)
              || !value_number(type, value, size, &number)
            : !find_header(props, "x-deliver-at", 12, &type, &value, &size)
              || !value_moment(type, value, size, &number))
        number = 0;
    if (number <= 0) {
        memcpy(to, properties, n);
        return n;
    }
    stop = value + size;
    value -= type == 'S' || type == 'x' ? 5 : 1;  /* its letter, and its length if it has one */
    before = (size_t)(value - properties);
    memcpy(to, properties, before);
    q = to + before;
    if ((type == 'b' || type == 'B') && number <= 128) {
        *q++ = 'b';
        *q++ = (uint8_t)-number;
    } else if ((type == 's' || type == 'u') && number <= 32768) {
        *q++ = 's';
        store16(q, (uint16_t)-number);
        q += 2;
    } else if ((type == 'I' || type == 'i') && number <= 2147483648ll) {
        *q++ = 'I';
        store32(q, (uint32_t)-number);
        q += 4;
    } else {
        *q++ = type == 'L' ? 'L' : 'l';
        store64(q, (uint64_t)-number);
        q += 8;
    }
    store32(to + (props->headers - 4 - properties),
            props->headers_len + (uint32_t)(q - to - before) - (uint32_t)(stop - value));
    memcpy(q, stop, n - (size_t)(stop - properties));
    return (size_t)(q - to) + n - (size_t)(stop - properties);
}

#endif
