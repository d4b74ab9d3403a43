/* The tag of a message, and Java's hash of it.
 *
 * Takes properties that were walked before, and bears with others: nothing is read past the end.
 */
#ifndef LEPORID_TAGS_H
#define LEPORID_TAGS_H

#include "text.h"
#include "wire.h"

/* String.hashCode, over the units of UTF-16; what is no UTF-8 counts as U+FFFD, as in Java. */
static int32_t java_hash(const uint8_t *p, size_t n) {
    const uint8_t *end = p + n;
    uint32_t hash = 0;
    while (p < end) {
        int bad;
        uint32_t point = *p;
        if (point < 0x80) {
            hash = 31 * hash + point;
            p++;
            continue;
        }
        size_t length = utf8_step(p, end, &bad);
        if (bad) point = 0xfffd;
        else if (length == 2) point = (point & 31) << 6 | (p[1] & 63);
        else if (length == 3) point = (point & 15) << 12 | (p[1] & 63) << 6 | (p[2] & 63);
        else point = (point & 7) << 18 | (p[1] & 63) << 12 | (p[2] & 63) << 6 | (p[3] & 63);
        p += length;
        if (point >= 0x10000) {
            hash = 31 * hash + (0xd7c0 + (point >> 10));
            point = 0xdc00 | (point & 0x3ff);
        }
        hash = 31 * hash + point;
    }
    return (int32_t) hash;
}

/* The headers' content; NULL when there are none. */
static const uint8_t *headers_in(const uint8_t *p, size_t n, const uint8_t **headers_end) {
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

/* The text of header x-tag, else that of x-stream-filter-value; the first of a name counts. NULL:
   the message has no tag. */
static const uint8_t *tag_of(const uint8_t *properties, size_t n, uint32_t *length) {
    const uint8_t *end, *p = headers_in(properties, n, &end);
    const uint8_t *other = NULL;
    uint32_t other_length = 0;
    int seen = 0;  /* 1: x-tag, 2: x-stream-filter-value */
    while (p && p < end && seen != 3) {
        uint8_t size = *p++, type;
        const uint8_t *name = p, *content;
        uint32_t content_length;
        if (end - p < size) break;
        p += size;
        if (next_value(&p, end, &type, &content, &content_length)) break;
        int text = type == 'S' || type == 'x';
        if (size == 5 && !(seen & 1) && !memcmp(name, "x-tag", 5)) {
            *length = content_length;
            if (text) return content;
            seen |= 1;
        } else if (size == 21 && !(seen & 2) && !memcmp(name, "x-stream-filter-value", 21)) {
            if (text) other = content;
            other_length = content_length;
            seen |= 2;
        }
    }
    *length = other_length;
    return other;
}

#endif
