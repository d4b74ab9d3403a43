/* What a message must have if a program is to be true of it: one of several values.
 *
 * `a = 1 OR b IN (2, 3)` can only be true of a message in which a is 1, or b is 2 or 3, and
 * `a LIKE 'x%'` only where a begins with x. Such values are a program's anchors: who has many
 * programs asks only those whose anchors a message has (selector_set.h). Both sides of OR must have
 * anchors, one of AND is enough, and NOT asks for those of what must be false.
 *
 * Invariant: a program is true of no message that has none of its anchors, unless the message has a
 * value of another kind in one of their places: how that is compared is the dialect's affair.
 */
#ifndef LEPORID_ANCHORS_H
#define LEPORID_ANCHORS_H

#include "filing.h"
#include "selector.h"

/* Longer ones are cut, so that a text has so many prefixes at most that somebody may look for. */
enum { PREFIX_MAX = 16, PREFIX_SHIFT = 24, PLACE_MASK = (1 << PREFIX_SHIFT) - 1 };

typedef struct Anchor Anchor;

/* A value must be one of these, or begin with it: then its length stands beside the place. */
struct Anchor {
    Anchor *next;
    uint32_t place, count;
    Operand one;
    const Constant *several; /* instead, if it is not NULL */
};

/* One of these must be there. NULL: nothing that could be looked up. */
typedef struct {
    Anchor *first, *last;
    uint64_t cost;           /* values, and members that are filed under them */
} Anchors;

static inline uint32_t with_prefix(uint32_t place, uint32_t length) {
    return place | length << PREFIX_SHIFT;
}

static inline uint32_t prefix_length(uint32_t place) { return place >> PREFIX_SHIFT; }

static inline const Operand *anchor_value(const Anchor *anchor, uint32_t at) {
    return anchor->several ? &anchor->several[at].value : &anchor->one;
}

static Anchors no_anchors(void) { return (Anchors) {NULL, NULL, 0}; }

static Anchors only_anchor(const Filing *filing, Anchor *anchor) {
    uint64_t cost = anchor->count;
    for (uint32_t i = 0; i < anchor->count; i++) {
        const Key *key = find_key(filing, anchor->place, anchor_value(anchor, i));
        if (key) cost += key->count;
    }
    anchor->next = NULL;
    return (Anchors) {anchor, anchor, cost};
}

static Anchors either_anchors(Anchors a, Anchors b) {
    if (!a.first || !b.first) return no_anchors();
    a.last->next = b.first;
    return (Anchors) {a.first, b.last, a.cost + b.cost};
}

static Anchors better_anchors(Anchors a, Anchors b) {
    if (!a.first) return b;
    return !b.first || a.cost <= b.cost ? a : b;
}

/* Whether all are texts, or all numbers. */
static int are_keys(const Constant *constants, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!is_key(&constants[i].value)) return 0;
        if (is_numeric(&constants[i].value) != is_numeric(&constants[0].value)) return 0;
    }
    return count > 0;
}

static Anchors value_anchor(const Filing *filing, Anchor *anchor, uint32_t place,
                            const Constant *constants, uint32_t count) {
    if (!are_keys(constants, count)) return no_anchors();
    anchor->place = place;
    anchor->count = count;
    anchor->several = constants;
    return only_anchor(filing, anchor);
}

static Anchors prefix_anchor(const Filing *filing, Anchor *anchor, uint32_t place,
                             const uint8_t *text, uint32_t length) {
    if (!length) return no_anchors();
    if (length > PREFIX_MAX) length = PREFIX_MAX;
    anchor->place = with_prefix(place, length);
    anchor->count = 1;
    anchor->several = NULL;
    set_text(&anchor->one, text, length);
    return only_anchor(filing, anchor);
}

/* What an instruction on a value that stands in a place makes necessary. */
static Anchors begins_with(const Filing *filing, Anchor *anchor, uint32_t place,
                           const Constant *constant, int is_pattern) {
    if (is_pattern)
        return prefix_anchor(filing, anchor, place, constant->pattern->text,
                             constant->pattern->prefix);
    return prefix_anchor(filing, anchor, place, constant->value.text, constant->value.length);
}

#endif
