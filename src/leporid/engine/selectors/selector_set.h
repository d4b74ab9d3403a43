/* Many filters asked about one message: its values are read once, and most are not asked at all.
 *
 * A member that can only pass messages with certain values, or with texts that begin in certain
 * ways, is filed under all of these (anchors.h, filing.h); where it has several such conditions,
 * under the one that has the fewest members so far. The message's values find those that are asked.
 * All others are asked about every message. A value of another kind than the constants (a number
 * where texts are filed) asks all that are filed in that place: it may be a type error, or be
 * converted.
 *
 * Invariant: between two messages every value is nothing.
 */
#ifndef LEPORID_SELECTOR_SET_H
#define LEPORID_SELECTOR_SET_H

#include "members.h"

/* A filter of another kind, which looks at the message itself. */
typedef int (*Ask)(void *filter, const uint8_t *names, size_t names_len,
                   const uint8_t *properties, size_t properties_len);

/* ------------------------------------------------------------------ asking */

typedef struct {
    const uint8_t *names, *properties;
    size_t names_len, properties_len;
    Ask ask;
} Asked;

static int see_numbered(SelectorSet *s, const uint8_t *p, const uint8_t *end) {
    uint32_t left = s->naming.count;
    while (p < end && left) {
        uint8_t length = *p++, type;
        const uint8_t *name = p, *content;
        uint32_t size, number;
        if (end - p < length) return MALFORMED;
        p += length;
        if (next_value(&p, end, &type, &content, &size)) return MALFORMED;
        number = number_of_name(&s->naming, name, length);
        if (number == NO_NAME || s->found[AT_HEADERS + number]) continue;
        set_field(&s->values[AT_HEADERS + number], type, content, size);
        s->found[AT_HEADERS + number] = 1;
        s->touched[s->touched_count++] = (uint16_t) number;
        left--;
    }
    return DONE;
}

static int see_message(SelectorSet *s, const Asked *asked) {
    static const Instruction mode = {OP_DELIVERY_MODE, 0, 0}, ms = {OP_MILLISECONDS, 0, 0};
    const Instruction tag = {OP_TAG, (uint8_t) s->tags[1], s->tags[0]};
    const uint8_t *headers = NULL, *end = NULL;
    Operand *v = s->values;
    if (see_names(asked->names, asked->names_len, v)) return MALFORMED;
    if (s->wanted && see_properties(s->wanted, asked->properties, asked->properties_len, v,
                                    &headers, &end)) return MALFORMED;
    if (headers && see_numbered(s, headers, end)) return MALFORMED;
    if (s->uses[AT_TAG]) push(NULL, &tag, v, &v[AT_TAG]);
    if (s->uses[AT_DELIVERY_MODE]) push(NULL, &mode, v, &v[AT_DELIVERY_MODE]);
    if (s->uses[AT_MILLISECONDS]) push(NULL, &ms, v, &v[AT_MILLISECONDS]);
    return DONE;
}

static void forget_message(SelectorSet *s) {
    for (int place = 0; place < AT_HEADERS; place++) set_nothing(&s->values[place]);
    for (; s->touched_count; s->touched_count--) {
        uint32_t place = AT_HEADERS + s->touched[s->touched_count - 1];
        set_nothing(&s->values[place]);
        s->found[place] = 0;
    }
}

static int ask_part(SelectorSet *s, const Part *part, const Asked *asked) {
    Seen seen = {s->values, 0};
    switch (part->kind) {
    case PART_CONJUNCTS:
        return conjuncts_hold(&part->code, part->conjuncts, part->count, s->values);
    case PART_PROGRAM:
        return program_run(&part->code, &seen);
    default:
        return asked->ask(part->filter, asked->names, asked->names_len, asked->properties,
                          asked->properties_len);
    }
}

static inline void ask_member(SelectorSet *s, uint32_t number, const Asked *asked) {
    const Member *m = &s->members[number];
    int outcome = MATCH;
    s->evaluated++;
    for (uint32_t i = 0; i < m->parts_count && outcome == MATCH; i++)
        outcome = ask_part(s, &m->parts[i], asked);
    if (outcome == MATCH) {
        s->matched[s->matched_count++] = number;
    } else if (outcome == TYPE_ERROR) {
        s->failed++;
        __atomic_add_fetch(m->errors, 1, __ATOMIC_RELAXED);
    }
}

static inline void ask_once(SelectorSet *s, uint32_t number, const Asked *asked) {
    if (s->members[number].turn == s->turn) return;
    s->members[number].turn = s->turn;
    ask_member(s, number, asked);
}

static inline void ask_found(SelectorSet *s, const Key *key, const Asked *asked) {
    for (uint32_t i = 0; key && i < key->count; i++) ask_once(s, key->members[i], asked);
}

/* All that are filed in a place under values of a kind that the message's is not. */
static void ask_others(SelectorSet *s, uint32_t place, int numeric, const Asked *asked) {
    for (const Key *key = s->filed[place].keys[numeric]; key; key = key->after)
        ask_found(s, key, asked);
}

static void ask_filed(SelectorSet *s, uint32_t place, const Asked *asked) {
    const Operand *v = &s->values[place];
    const Filed *filed = &s->filed[place];
    if (v->kind == NOTHING) return;
    for (int numeric = 0; numeric < 2; numeric++) {
        if (!(numeric ? filed->numbers : filed->texts)) continue;
        if (numeric ? is_numeric(v) : v->kind == TEXT_VALUE)
            ask_found(s, find_key(&s->filing, place, v), asked);
        else ask_others(s, place, numeric, asked);
    }
    if (v->kind != TEXT_VALUE) return;  /* what is no text begins with nothing */
    Operand prefix = *v;
    for (uint32_t left = filed->lengths; left; left &= left - 1) {
        prefix.length = (uint32_t) __builtin_ctz(left);
        if (prefix.length > v->length) break;
        ask_found(s, find_key(&s->filing, with_prefix(place, prefix.length), &prefix), asked);
    }
}

/* The members that a message passes are `matched`, in no order; returns how many. */
static uint32_t set_match(SelectorSet *s, const uint8_t *names, size_t names_len,
                          const uint8_t *properties, size_t properties_len, Ask ask) {
    Asked asked = {names, properties, names_len, properties_len, ask};
    s->matched_count = 0;
    if (!s->count) return 0;
    s->asked += s->count;
    s->turn++;
    if (see_message(s, &asked)) {
        s->failed++;
    } else {
        for (uint32_t left = s->filed_properties; left; left &= left - 1)
            ask_filed(s, (uint32_t) __builtin_ctz(left), &asked);
        for (uint32_t i = 0; i < s->touched_count; i++)
            ask_filed(s, AT_HEADERS + s->touched[i], &asked);
        for (uint32_t i = 0; i < s->always_count; i++) {
            if (is_ruled_out(&s->glances[i], s->values)) s->evaluated++;
            else ask_member(s, s->always[i], &asked);
        }
    }
    forget_message(s);
    s->passed += s->matched_count;
    return s->matched_count;
}

#endif
