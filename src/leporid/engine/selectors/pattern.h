/* Patterns of LIKE and CONTAINS, all of their states in a few machine words.
 *
 * State j means that j places of the pattern have been passed. Each byte of a text moves all states
 * at once, so that a text of n bytes takes at most n * limbs steps, whatever the pattern is.
 *
 * A character is a byte that does not continue one in UTF-8, and the bytes that continue it; so
 * what is no UTF-8 can be matched, too.
 */
#ifndef LEPORID_PATTERN_H
#define LEPORID_PATTERN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "codec.h"

/* 255 places and the state behind the last make four words. */
enum { PLACES_MAX = 255, LIMBS_MAX = 4, ANY_ONE = 0xfe, ANY_MANY = 0xff };

typedef struct {
    uint32_t places, limbs;
    const uint8_t *text;
    uint32_t prefix;         /* bytes of the text that come before any wildcard */
    uint8_t class_of[256];   /* bytes that no place tells apart are of one class */
    uint64_t stay[LIMBS_MAX];    /* states that any byte leaves as they are: before % */
    uint64_t tail[LIMBS_MAX];    /* states that the rest of a character leaves as they are */
    uint64_t accepts[];      /* of each class: places that such a byte passes */
} Pattern;

static inline int continues(uint8_t byte) { return (byte & 0xc0) == 0x80; }

static inline void set_bit(uint64_t *bits, uint32_t at) { bits[at >> 6] |= 1ull << (at & 63); }

/* From the bytes of a program, which outlive it; ANY_ONE and ANY_MANY cannot be text in them. */
static int pattern_open(const uint8_t *p, uint32_t n, Pattern **opened) {
    uint32_t places = 0, classes = 2, at = 0;
    uint8_t class_of[256];
    for (int byte = 0; byte < 256; byte++) class_of[byte] = continues(byte);
    for (uint32_t i = 0; i < n; i++) {
        if (p[i] == ANY_MANY) continue;
        places++;
        if (p[i] != ANY_ONE && class_of[p[i]] < 2) class_of[p[i]] = classes++;
    }
    if (places > PLACES_MAX) return MALFORMED;
    uint32_t limbs = places / 64 + 1;
    Pattern *pattern = calloc(1, sizeof *pattern + (size_t) classes * limbs * 8);
    if (!pattern) return NO_MEMORY;
    pattern->places = places;
    pattern->limbs = limbs;
    pattern->text = p;
    while (pattern->prefix < n && p[pattern->prefix] < ANY_ONE) pattern->prefix++;
    memcpy(pattern->class_of, class_of, sizeof class_of);
    for (uint32_t i = 0; i < n; i++) {
        if (p[i] == ANY_MANY) {
            set_bit(pattern->stay, at);
            continue;
        }
        if (p[i] == ANY_ONE) {
            for (int byte = 0; byte < 256; byte++)
                if (!continues(byte)) set_bit(pattern->accepts + class_of[byte] * limbs, at);
            set_bit(pattern->tail, at + 1);
        } else {
            set_bit(pattern->accepts + class_of[p[i]] * limbs, at);
        }
        at++;
    }
    *opened = pattern;
    return DONE;
}

/* The usual one: below 64 places. */
static int pattern_matches_short(const Pattern *g, const uint8_t *p, uint32_t n, uint64_t *work) {
    uint64_t states = 1, last = 1ull << g->places, enough = g->stay[0] & last;
    const uint8_t *start = p, *end = p + n;
    for (; p < end && states && !(states & enough); p++) {
        uint64_t kept = states & (g->stay[0] | (continues(*p) ? g->tail[0] : 0));
        states = (states & g->accepts[g->class_of[*p]]) << 1 | kept;
    }
    *work += (uint64_t) (p - start);
    return (states & last) != 0;
}

/* Adds the steps to *work. */
static int pattern_matches(const Pattern *g, const uint8_t *p, uint32_t n, uint64_t *work) {
    if (g->limbs == 1) return pattern_matches_short(g, p, n, work);
    uint64_t states[LIMBS_MAX] = {1}, any = 1;
    uint32_t limbs = g->limbs, last = g->places >> 6;
    uint64_t last_bit = 1ull << (g->places & 63), enough = g->stay[last] & last_bit;
    const uint8_t *start = p, *end = p + n;
    for (; p < end && any && !(states[last] & enough); p++) {
        const uint64_t *accepts = g->accepts + g->class_of[*p] * limbs;
        uint64_t carry = 0;
        uint64_t rest = continues(*p) ? ~0ull : 0;
        any = 0;
        for (uint32_t i = 0; i < limbs; i++) {
            uint64_t kept = states[i] & (g->stay[i] | (g->tail[i] & rest));
            uint64_t passed = states[i] & accepts[i];
            states[i] = passed << 1 | carry | kept;
            carry = passed >> 63;
            any |= states[i];
        }
    }
    *work += (uint64_t) (p - start) * limbs;
    return (states[last] & last_bit) != 0;
}

#endif
