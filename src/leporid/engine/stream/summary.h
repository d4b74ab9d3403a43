/* Which tags there are in a batch of messages of a stream: a Bloom filter of 1,024 bits.
 *
 * A question is answered "perhaps", or "no", and then none of the messages has it. With 256 tags,
 * as many as a batch has messages, one question in seven is answered "perhaps" for nothing; with 25
 * of them one in some 2,800.
 *
 * Noted are the texts of x-tag and of x-stream-filter-value, each the first of its name, as filters
 * read them. A dialect may find another value equal to a text: a batch that has such a value says
 * "perhaps" to everything.
 */
#ifndef LEPORID_SUMMARY_H
#define LEPORID_SUMMARY_H

#include "tags.h"

enum { SUMMARY_WORDS = 16, SUMMARY_UNFILTERED = 1 };

/* The first bit also says that a message has no text in x-stream-filter-value. */
typedef struct {
    uint64_t words[SUMMARY_WORDS];
} Summary;

static inline uint64_t summary_key(const uint8_t *text, size_t n) {
    return hash_key(text, n);
}

static inline void summary_add(Summary *s, uint64_t key) {
    for (int shift = 34; shift < 64; shift += 10)
        s->words[key >> (shift + 6) & 15] |= 1ull << (key >> shift & 63);
}

static inline int summary_may_have(const Summary *s, uint64_t key) {
    for (int shift = 34; shift < 64; shift += 10)
        if (!(s->words[key >> (shift + 6) & 15] >> (key >> shift & 63) & 1)) return 0;
    return 1;
}

enum { IS_TAG = 1, IS_FILTER_VALUE = 2 };

static inline int tag_header(const uint8_t *name, uint8_t n) {
    if (n == 5) return memcmp(name, "x-tag", 5) ? 0 : IS_TAG;
    return n == 21 && !memcmp(name, "x-stream-filter-value", 21) ? IS_FILTER_VALUE : 0;
}

/* Whether a message has one of the two headers: what HAS_TAG says of properties that are walked. */
static int has_tag(const uint8_t *properties, size_t n) {
    const uint8_t *end, *p = headers_in(properties, n, &end);
    while (p && p < end) {
        uint8_t size = *p++, type;
        const uint8_t *content;
        uint32_t length;
        if (end - p < size) return 0;
        if (tag_header(p, size)) return 1;
        p += size;
        if (next_value(&p, end, &type, &content, &length)) return 0;
    }
    return 0;
}

/* One more message, whose properties were walked before. */
static void summary_note(Summary *s, const uint8_t *properties, size_t n) {
    const uint8_t *end, *p = headers_in(properties, n, &end);
    int seen = 0, filtered = 0;
    while (p && p < end && seen != (IS_TAG | IS_FILTER_VALUE)) {
        uint8_t size = *p++, type;
        const uint8_t *name = p, *content;
        uint32_t length;
        if (end - p < size) break;
        p += size;
        if (next_value(&p, end, &type, &content, &length)) break;
        int which = tag_header(name, size);
        if (!which || seen & which) continue;
        seen |= which;
        if (type == 'S' || type == 'x') {
            summary_add(s, summary_key(content, length));
            filtered |= which == IS_FILTER_VALUE;
        } else if (type != 'V') {
            memset(s, 0xff, sizeof *s);
        }
    }
    if (!filtered) s->words[0] |= SUMMARY_UNFILTERED;
}

#endif
