/* The values of a field table as they are encoded: one after the other, one by name, as numbers.
 *
 * Takes what peers sent; nothing is read past the end it was given, and nothing is allocated.
 */
#ifndef LEPORID_FIELDS_H
#define LEPORID_FIELDS_H

#include "wire.h"

enum { DONE = 0, MALFORMED = -1 };

/* How many bytes a value of that type has after its letter; -1: its size stands there. */
static int value_width(uint8_t type) {
    switch (type) {
    case 'V': return 0;
    case 't': case 'b': case 'B': return 1;
    case 's': case 'u': return 2;
    case 'I': case 'i': case 'f': return 4;
    case 'D': return 5;
    case 'l': case 'L': case 'T': case 'd': return 8;
    case 'S': case 'x': case 'F': case 'A': return -1;
    default: return -2;
    }
}

/* Step over the value at p: its type, its content and its size; MALFORMED when it is not whole. */
static int next_value(const uint8_t **at, const uint8_t *end, uint8_t *type,
                      const uint8_t **content, uint32_t *size) {
    const uint8_t *p = *at;
    if (p >= end) return MALFORMED;
    *type = *p++;
    int width = value_width(*type);
    if (width == -2) return MALFORMED;
    if (width == -1) {
        if (end - p < 4) return MALFORMED;
        *size = load32(p);
        p += 4;
    } else {
        *size = width;
    }
    if ((size_t) (end - p) < *size) return MALFORMED;
    *content = p;
    *at = p + *size;
    return DONE;
}

/* The first header of that name: its type, its content and its size; 0: it is not there. */
static int find_header(const Props *props, const char *name, uint8_t n, uint8_t *type,
                       const uint8_t **content, uint32_t *size) {
    const uint8_t *p = props->headers, *end = p + props->headers_len;
    while (p < end && end - p > *p) {
        const uint8_t *key = p;
        p += 1 + *p;
        if (next_value(&p, end, type, content, size)) return 0;
        if (key[0] == n && memcmp(key + 1, name, n) == 0) return 1;
    }
    return 0;
}

/* A value of any of the integer types, a time among them; 0: it is of another. */
static int as_integer(uint8_t type, const uint8_t *content, int64_t *number) {
    switch (type) {
    case 'b': *number = (int8_t)*content; return 1;
    case 'B': *number = *content; return 1;
    case 's': *number = (int16_t)load16(content); return 1;
    case 'u': *number = load16(content); return 1;
    case 'I': *number = (int32_t)load32(content); return 1;
    case 'i': *number = load32(content); return 1;
    case 'l': case 'L': case 'T': *number = (int64_t)load64(content); return 1;
    default: return 0;
    }
}

/* A value of either of the types with a point; 0: it is of another. */
static int as_real(uint8_t type, const uint8_t *content, double *number) {
    uint32_t bits;
    uint64_t wide;
    float single;
    switch (type) {
    case 'f':
        bits = load32(content);
        memcpy(&single, &bits, 4);
        *number = single;
        return 1;
    case 'd':
        wide = load64(content);
        memcpy(number, &wide, 8);
        return 1;
    default: return 0;
    }
}

#endif
