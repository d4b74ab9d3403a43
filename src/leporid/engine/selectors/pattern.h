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
    uint64_t moves[];        /* of each class: places such a byte passes, states it leaves */
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
    Pattern *pattern = calloc(1, sizeof *pattern + (size_t) classes * 2 * limbs * 8);
    if (!pattern) return NO_MEMORY;
    uint64_t tail[LIMBS_MAX] = {0};     /* states that the rest of a character leaves as they are */
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
                if (!continues(byte)) set_bit(pattern->moves + class_of[byte] * 2 * limbs, at);
            set_bit(tail, at + 1);
        } else {
            set_bit(pattern->moves + class_of[p[i]] * 2 * limbs, at);
        }
        at++;
    }
    for (int byte = 0; byte < 256; byte++) {
        uint64_t *keeps = pattern->moves + (class_of[byte] * 2 + 1) * limbs;
        for (uint32_t i = 0; i < limbs; i++)
            keeps[i] = pattern->stay[i] | (continues(byte) ? tail[i] : 0);
    }
    *opened = pattern;
    return DONE;
}

/* `limbs` is a constant where this is inlined: its loops are unrolled, the states in registers. */
static inline int pattern_walks(const Pattern *g, const uint8_t *p, uint32_t n, uint64_t *work,
                                const uint32_t limbs) {
    uint64_t states[LIMBS_MAX] = {1}, any = 1;
    uint32_t last = limbs - 1;  /* the state behind the last place is in it */
    uint64_t last_bit = 1ull << (g->places & 63), enough = g->stay[last] & last_bit;
    const uint8_t *start = p, *end = p + n;
    for (; p < end && any && !(states[last] & enough); p++) {
        const uint64_t *passes = g->moves + g->class_of[*p] * 2 * limbs, *keeps = passes + limbs;
        uint64_t carry = 0;
        any = 0;
        for (uint32_t i = 0; i < limbs; i++) {
            uint64_t passed = states[i] & passes[i];
            states[i] = passed << 1 | carry | (states[i] & keeps[i]);
            carry = passed >> 63;
            any |= states[i];
        }
    }
    *work += (uint64_t) (p - start) * limbs;
    return (states[last] & last_bit) != 0;
}

/* Adds the steps to *work. */
static int pattern_matches(const Pattern *g, const uint8_t *p, uint32_t n, uint64_t *work) {
    switch (g->limbs) {
    case 1: return pattern_walks(g, p, n, work, 1);
    case 2: return pattern_walks(g, p, n, work, 2);
    case 3: return pattern_walks(g, p, n, work, 3);
    default: return pattern_walks(g, p, n, work, LIMBS_MAX);
    }
}

#endif
