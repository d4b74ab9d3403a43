/* Text for people who read tables: bytes that grow, UTF-8 that is always valid, and the values of
 * a field table as text or JSON.
 *
 * Takes what peers sent; nothing is read past the end it was given. What is appended as text is
 * valid UTF-8, whatever came: each maximal part of a broken sequence becomes U+FFFD, as in Python
 * and in browsers (Unicode 3.9, "U+FFFD Substitution of Maximal Subparts").
 */
#ifndef LEPORID_TEXT_H
#define LEPORID_TEXT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fields.h"

enum { NO_MEMORY = -2 };  /* beside DONE and MALFORMED of fields.h */

/* ------------------------------------------------------------------ bytes that grow */

typedef struct {
    uint8_t *data;
    size_t used, size;
} Bytes;

/* Arrow's offsets have 32 bits; a column of one batch cannot hold more. */
#define COLUMN_BYTES_MAX ((size_t) INT32_MAX)

static int bytes_grow(Bytes *b, size_t more) {
    if (more > COLUMN_BYTES_MAX || b->used + more > COLUMN_BYTES_MAX) return NO_MEMORY;
    size_t size = b->size < 64 ? 64 : b->size;
    while (size < b->used + more) size *= 2;
    uint8_t *data = realloc(b->data, size);
    if (!data) return NO_MEMORY;
    b->data = data;
    b->size = size;
    return DONE;
}

static inline int bytes_room(Bytes *b, size_t more) {
    return b->size - b->used >= more ? DONE : bytes_grow(b, more);
}

static inline int put(Bytes *b, const void *p, size_t n) {
    if (bytes_room(b, n)) return NO_MEMORY;
    if (n) memcpy(b->data + b->used, p, n);
    b->used += n;
    return DONE;
}

static inline int put_byte(Bytes *b, uint8_t byte) {
    if (bytes_room(b, 1)) return NO_MEMORY;
    b->data[b->used++] = byte;
    return DONE;
}

/* ------------------------------------------------------------------ UTF-8 */

static inline size_t ascii_length(const uint8_t *p, size_t n) {
    size_t at = 0;
    uint64_t word;
    for (; n - at >= 8; at += 8) {
        memcpy(&word, p + at, 8);
        if (word & 0x8080808080808080ull) break;
    }
    while (at < n && p[at] < 0x80) at++;
    return at;
}

/* The length of the character at p; or *bad, and the length of what U+FFFD stands for. */
static size_t utf8_step(const uint8_t *p, const uint8_t *end, int *bad) {
    uint8_t first = *p, low = 0x80, high = 0xbf;
    size_t length = 1, whole;
    *bad = 0;
    if (first < 0x80) return 1;
    *bad = 1;
    if (first < 0xc2 || first > 0xf4) return 1;
    if (first < 0xe0) whole = 2;
    else if (first < 0xf0) {
        whole = 3;
        if (first == 0xe0) low = 0xa0;   /* else there is a shorter form */
        if (first == 0xed) high = 0x9f;  /* surrogates */
    } else {
        whole = 4;
        if (first == 0xf0) low = 0x90;
        if (first == 0xf4) high = 0x8f;  /* beyond U+10FFFF */
    }
    while (length < whole) {
        if (p + length >= end || p[length] < low || p[length] > high) return length;
        low = 0x80; high = 0xbf;
        length++;
    }
    *bad = 0;
    return length;
}

static int put_text_slowly(Bytes *b, const uint8_t *p, const uint8_t *end) {
    while (p < end) {
        int bad;
        size_t length = utf8_step(p, end, &bad);
        if (bad ? put(b, "\xef\xbf\xbd", 3) : put(b, p, length)) return NO_MEMORY;
        p += length;
    }
    return DONE;
}

/* Append text of a peer. */
static inline int put_text(Bytes *b, const uint8_t *p, size_t n) {
    size_t plain = ascii_length(p, n);
    if (put(b, p, plain)) return NO_MEMORY;
    return plain == n ? DONE : put_text_slowly(b, p + plain, p + n);
}

static int is_utf8(const uint8_t *p, size_t n) {
    const uint8_t *end = p + n;
    int bad = 0;
    for (p += ascii_length(p, n); p < end && !bad;) p += utf8_step(p, end, &bad);
    return !bad;
}

static int put_json_text(Bytes *b, const uint8_t *p, size_t n) {
    const uint8_t *end = p + n;
    if (put_byte(b, '"')) return NO_MEMORY;
    while (p < end) {
        int bad, failed;
        size_t length = utf8_step(p, end, &bad);
        if (bad) failed = put(b, "\xef\xbf\xbd", 3);
        else if (*p == '"' || *p == '\\') failed = put_byte(b, '\\') || put_byte(b, *p);
        else if (*p >= 0x20) failed = put(b, p, length);
        else {
            char code[8];
            const char *known = "btn\0fr";  /* from 8 on; 11 has no short form */
            if (*p >= 8 && *p <= 13 && *p != 11) snprintf(code, sizeof code, "\\%c", known[*p - 8]);
            else snprintf(code, sizeof code, "\\u%04x", *p);
            failed = put(b, code, strlen(code));
        }
        if (failed) return NO_MEMORY;
        p += length;
    }
    return put_byte(b, '"');
}

/* ------------------------------------------------------------------ numbers and times */

static int put_unsigned(Bytes *b, uint64_t value, int negative) {
    uint8_t digits[24], *p = digits + sizeof digits;
    do *--p = '0' + value % 10; while (value /= 10);
    if (negative) *--p = '-';
    return put(b, p, digits + sizeof digits - p);
}

static int put_signed(Bytes *b, int64_t value) {
    return put_unsigned(b, value < 0 ? 0 - (uint64_t) value : (uint64_t) value, value < 0);
}

/* The shortest text that reads back as the same number; always with a point or an exponent. */
static int put_float(Bytes *b, double value, int single) {
    char text[40];
    int most = single ? 9 : 17;
    if (value - value != 0) return put(b, "null", 4);  /* refused when it came; JSON has no word */
    for (int digits = single ? 6 : 15; digits <= most; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (single ? strtof(text, NULL) == (float) value : strtod(text, NULL) == value) break;
    }
    if (!strpbrk(text, ".e")) strcat(text, ".0");
    return put(b, text, strlen(text));
}

static int put_decimal(Bytes *b, uint8_t scale, int32_t unscaled) {
    char digits[16];
    int64_t value = unscaled;
    int length = snprintf(digits, sizeof digits, "%lld", (long long) (value < 0 ? -value : value));
    if (value < 0 && put_byte(b, '-')) return NO_MEMORY;
    if (length <= scale) {
        if (put(b, "0.", 2)) return NO_MEMORY;
        for (int zeros = scale - length; zeros; zeros--) if (put_byte(b, '0')) return NO_MEMORY;
        return put(b, digits, length);
    }
    if (put(b, digits, length - scale)) return NO_MEMORY;
    return scale && (put_byte(b, '.') || put(b, digits + length - scale, scale)) ? NO_MEMORY : DONE;
}

/* The last second of the year 9999: beyond it, hardly any program has a time. */
#define SECONDS_MAX 253402300799ull

/* ISO 8601 in UTC; beyond the year 9999 the number of seconds. */
static int put_time(Bytes *b, uint64_t seconds, int json) {
    char text[40];
    if (seconds > SECONDS_MAX) return put_unsigned(b, seconds, 0);
    /* Days to a date in the calendar of eras of 400 years that begin in March. */
    uint64_t days = seconds / 86400 + 719468, rest = seconds % 86400, era = days / 146097;
    uint64_t of_era = days % 146097;
    uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    uint64_t month = (5 * of_year + 2) / 153, day = of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    year += era * 400 + (month <= 2);
    snprintf(text, sizeof text, json ? "\"%04u-%02u-%02uT%02u:%02u:%02uZ\""
             : "%04u-%02u-%02uT%02u:%02u:%02uZ", (unsigned) year, (unsigned) month, (unsigned) day,
             (unsigned) (rest / 3600), (unsigned) (rest / 60 % 60), (unsigned) (rest % 60));
    return put(b, text, strlen(text));
}

/* ------------------------------------------------------------------ values of a field table */

static int put_json_table(Bytes *b, const uint8_t *p, const uint8_t *end, int depth);
static int put_value(Bytes *b, const uint8_t **at, const uint8_t *end, int json, int depth);

static int put_json_array(Bytes *b, const uint8_t *p, const uint8_t *end, int depth) {
    int failed = put_byte(b, '['), first = 1;
    if (depth > TABLE_DEPTH_MAX) return MALFORMED;
    for (; p < end && !failed; first = 0) {
        if (!first && put_byte(b, ',')) return NO_MEMORY;
        failed = put_value(b, &p, end, 1, depth);
    }
    return failed ? failed : put_byte(b, ']');
}

static int put_json_table(Bytes *b, const uint8_t *p, const uint8_t *end, int depth) {
    int failed = put_byte(b, '{'), first = 1;
    if (depth > TABLE_DEPTH_MAX) return MALFORMED;
    for (; p < end && !failed; first = 0) {
        if (end - p - 1 < *p) return MALFORMED;
        if ((!first && put_byte(b, ',')) || put_json_text(b, p + 1, *p) || put_byte(b, ':'))
            return NO_MEMORY;
        p += 1 + *p;
        failed = put_value(b, &p, end, 1, depth);
    }
    return failed ? failed : put_byte(b, '}');
}

static int put_number(Bytes *b, uint8_t type, const uint8_t *p, int json) {
    uint32_t word;
    uint64_t both;
    float single;
    double number;
    switch (type) {
    case 'V': return put(b, "null", 4);
    case 't': return *p ? put(b, "true", 4) : put(b, "false", 5);
    case 'b': return put_signed(b, (int8_t) *p);
    case 'B': return put_unsigned(b, *p, 0);
    case 's': return put_signed(b, (int16_t) load16(p));
    case 'u': return put_unsigned(b, load16(p), 0);
    case 'I': return put_signed(b, (int32_t) load32(p));
    case 'i': return put_unsigned(b, load32(p), 0);
    case 'T': return put_time(b, load64(p), json);
    case 'D': return put_decimal(b, *p, (int32_t) load32(p + 1));
    case 'f':
        word = load32(p);
        memcpy(&single, &word, 4);
        return put_float(b, single, 1);
    case 'd':
        both = load64(p);
        memcpy(&number, &both, 8);
        return put_float(b, number, 0);
    default: return put_signed(b, (int64_t) load64(p));  /* l, L */
    }
}

/* Append the value at *at and step over it: as JSON, or as text with JSON for tables and arrays.
 * A void gives "null". */
static int put_value(Bytes *b, const uint8_t **at, const uint8_t *end, int json, int depth) {
    uint8_t type;
    const uint8_t *p;
    uint32_t size;
    if (next_value(at, end, &type, &p, &size)) return MALFORMED;
    switch (type) {
    case 'S': case 'x': return json ? put_json_text(b, p, size) : put_text(b, p, size);
    case 'F': return put_json_table(b, p, p + size, depth + 1);
    case 'A': return put_json_array(b, p, p + size, depth + 1);
    default: return put_number(b, type, p, json);
    }
}

#endif
