/* Many filters asked about one message: its values are read once, and most are not asked at all.
 *
 * A member that wants a value to be equal to a constant, or to one of several, is filed under it
 * (filing.h), once: under the condition that has the fewest members so far. The message's value in
 * that place finds those that are asked. All others are asked about every message. A value of
 * another kind than the constants (a number where texts are filed) asks all that are filed in that
 * place: it may be a type error, or be converted.
 *
 * Invariants: members' texts and constants lie in their filters, which outlive them here; between
 * two messages every value is nothing.
 */
#ifndef LEPORID_SELECTOR_SET_H
#define LEPORID_SELECTOR_SET_H

#include "conjuncts.h"
#include "filing.h"
#include "naming.h"

enum { PART_CONJUNCTS, PART_PROGRAM, PART_FILTER };
enum { NOT_TAKEN = -3 };

/* A filter of another kind, which looks at the message itself. */
typedef int (*Ask)(void *filter, const uint8_t *names, size_t names_len,
                   const uint8_t *properties, size_t properties_len);

typedef struct {
    uint8_t kind;
    uint16_t wanted;         /* property flags */
    uint32_t count;          /* of conjuncts, also of those of a program */
    Conjunct *conjuncts;
    Code code;
    Constant *own;           /* constants that no program has */
    void *filter;
    uint16_t *names;         /* numbers of headers */
    uint32_t names_count;
} Part;

typedef struct {
    Part *parts;             /* NULL: everything passes */
    uint32_t parts_count;
    uint32_t keys_count;     /* 0: it is asked about every message */
    Key **keys;
    uint32_t at;             /* among those; of a free number, the next free one */
    uint8_t used, numeric;   /* numeric: its keys are numbers */
    uint64_t *errors;        /* its filter's count of type errors */
} Member;

/* How many members are filed in a place. */
typedef struct {
    uint32_t texts, numbers;
} Filed;

typedef struct {
    Member *members;
    uint32_t size, count, upto, vacant;
    uint32_t *always, always_count;
    Glance *glances;         /* at those that are always asked */
    uint32_t *matched, matched_count;
    Filing filing;
    Naming naming;
    uint16_t tags[2];        /* numbers of the headers that are a message's tag */
    uint32_t places;         /* that there is room for */
    Operand *values;
    Filed *filed;
    uint8_t *found;          /* the message has that header */
    uint16_t *touched;       /* numbers of those it has */
    uint32_t touched_count;
    uint32_t uses[AT_HEADERS];   /* conjuncts and programs that want a property, or the tag */
    uint32_t header_users, wanted, filed_properties;
    uint64_t asked, evaluated, passed, failed;
} SelectorSet;

/* ------------------------------------------------------------------ room */

static int more_members(SelectorSet *s) {
    uint32_t size = s->size ? s->size * 2 : 8;
    Member *members = realloc(s->members, size * sizeof *members);
    if (!members) return NO_MEMORY;
    s->members = members;
    uint32_t *always = realloc(s->always, size * sizeof *always);
    if (!always) return NO_MEMORY;
    s->always = always;
    Glance *glances = realloc(s->glances, size * sizeof *glances);
    if (!glances) return NO_MEMORY;
    s->glances = glances;
    uint32_t *matched = realloc(s->matched, size * sizeof *matched);
    if (!matched) return NO_MEMORY;
    s->matched = matched;
    s->size = size;
    return DONE;
}

/* For the values of as many headers as have numbers. */
static int more_places(SelectorSet *s) {
    uint32_t places = AT_HEADERS + s->naming.size;
    if (places <= s->places) return DONE;
    Operand *values = realloc(s->values, places * sizeof *values);
    if (!values) return NO_MEMORY;
    s->values = values;
    Filed *filed = realloc(s->filed, places * sizeof *filed);
    if (!filed) return NO_MEMORY;
    s->filed = filed;
    uint16_t *touched = realloc(s->touched, places * sizeof *touched);
    if (!touched) return NO_MEMORY;
    s->touched = touched;
    uint8_t *found = realloc(s->found, places);
    if (!found) return NO_MEMORY;
    s->found = found;
    memset(found + s->places, 0, places - s->places);
    memset(values + s->places, 0, (places - s->places) * sizeof *values);
    memset(filed + s->places, 0, (places - s->places) * sizeof *filed);
    s->places = places;
    return DONE;
}

static void set_close(SelectorSet *s);

static SelectorSet *set_open(void) {
    SelectorSet *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->vacant = NOBODY;
    s->tags[0] = (uint16_t) use_name(&s->naming, (const uint8_t *) "x-tag", 5);
    s->tags[1] = (uint16_t) use_name(&s->naming, (const uint8_t *) "x-stream-filter-value", 21);
    if (s->tags[0] != NO_NAME && s->tags[1] != NO_NAME && !more_members(s) && !more_places(s))
        return s;
    set_close(s);
    return NULL;
}

/* ------------------------------------------------------------------ members come and go */

static void note_wanted(SelectorSet *s) {
    s->wanted = s->header_users || s->uses[AT_TAG] ? 1u << BIT_HEADERS : 0;
    for (int bit = 0; bit < BITS; bit++) if (s->uses[bit]) s->wanted |= 1u << bit;
}

/* What a part makes it necessary to look at; `change` is 1 or -1. */
static void use_places(SelectorSet *s, const Part *part, int change) {
    for (int bit = 0; bit < BITS; bit++)
        if (bit != BIT_HEADERS && part->wanted >> bit & 1) s->uses[bit] += change;
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t place = part->conjuncts[i].place;
        if (place >= AT_TAG && place < AT_HEADERS) s->uses[place] += change;
    }
    s->header_users += change * (int) part->names_count;
    note_wanted(s);
}

static void close_part(SelectorSet *s, Part *part) {
    use_places(s, part, -1);
    for (uint32_t i = 0; i < part->names_count; i++) leave_name(&s->naming, part->names[i]);
    if (part->kind == PART_PROGRAM) free(part->code.instructions);
    free(part->names);
    free(part->conjuncts);
    free(part->own);
}

static void count_filed(SelectorSet *s, uint32_t place, int numeric, int change) {
    Filed *filed = &s->filed[place];
    if (numeric) filed->numbers += change; else filed->texts += change;
    if (place >= AT_HEADERS) return;
    s->filed_properties &= ~(1u << place);
    if (filed->texts || filed->numbers) s->filed_properties |= 1u << place;
}

static void unfile(SelectorSet *s, uint32_t number) {
    Member *m = &s->members[number];
    if (m->keys_count) {
        count_filed(s, m->keys[0]->place, m->numeric, -1);
        for (uint32_t i = 0; i < m->keys_count; i++) take_from(&s->filing, m->keys[i], number);
    } else if (m->at != NOBODY) {
        s->always[m->at] = s->always[--s->always_count];
        s->glances[m->at] = s->glances[s->always_count];
        s->members[s->always[m->at]].at = m->at;
    }
    free(m->keys);
}

static void set_remove(SelectorSet *s, uint32_t number) {
    Member *m = &s->members[number];
    unfile(s, number);
    for (uint32_t i = 0; i < m->parts_count; i++) close_part(s, &m->parts[i]);
    free(m->parts);
    memset(m, 0, sizeof *m);
    m->at = s->vacant;
    s->vacant = number;
    s->count--;
}

static void set_close(SelectorSet *s) {
    if (!s) return;
    for (uint32_t i = 0; i < s->upto; i++) if (s->members[i].used) set_remove(s, i);
    filing_close(&s->filing);
    naming_close(&s->naming);
    free(s->members);
    free(s->always);
    free(s->glances);
    free(s->matched);
    free(s->values);
    free(s->filed);
    free(s->touched);
    free(s->found);
    free(s);
}

/* A member without parts, which is not asked yet; NOBODY: no memory. */
static uint32_t set_begin(SelectorSet *s, uint64_t *errors) {
    uint32_t number = s->vacant;
    if (number == NOBODY) {
        if (s->upto == s->size && more_members(s)) return NOBODY;
        number = s->upto++;
    } else {
        s->vacant = s->members[number].at;
    }
    Member *m = &s->members[number];
    memset(m, 0, sizeof *m);
    m->used = 1;
    m->at = NOBODY;
    m->errors = errors;
    s->count++;
    return number;
}

static Part *add_part(SelectorSet *s, uint32_t number, uint8_t kind) {
    Member *m = &s->members[number];
    Part *parts = realloc(m->parts, (m->parts_count + 1) * sizeof *parts);
    if (!parts) return NULL;
    m->parts = parts;
    memset(&parts[m->parts_count], 0, sizeof *parts);
    parts[m->parts_count].kind = kind;
    return &parts[m->parts_count++];
}

static int add_filter(SelectorSet *s, uint32_t number, void *filter) {
    Part *part = add_part(s, number, PART_FILTER);
    if (!part) return NO_MEMORY;
    part->filter = filter;
    return DONE;
}

/* One of these must be the message's tag. */
static int add_tags(SelectorSet *s, uint32_t number, uint32_t count) {
    Part *part = add_part(s, number, PART_CONJUNCTS);
    if (!part) return NO_MEMORY;
    part->own = calloc(count + 1, sizeof *part->own);
    part->conjuncts = calloc(1, sizeof *part->conjuncts);
    if (!part->own || !part->conjuncts) return NO_MEMORY;
    part->code.jms = 1;
    part->count = 1;
    *part->conjuncts = (Conjunct) {
        .place = AT_TAG, .kind = ONE_OF, .several = part->own, .count = count
    };
    use_places(s, part, 1);
    return DONE;
}

static void set_tag(SelectorSet *s, uint32_t number, uint32_t at, const uint8_t *text,
                    uint32_t length) {
    Member *m = &s->members[number];
    set_text(&m->parts[m->parts_count - 1].own[at].value, text, length);
}

/* The machine finds values by the set's numbers; a tag's are small, as `count` has eight bits. */
static int renumber(Part *part, const Program *g, const uint16_t *numbers) {
    Instruction *mine = malloc(g->code.count * sizeof *mine);
    if (!mine) return NO_MEMORY;
    memcpy(mine, g->code.instructions, g->code.count * sizeof *mine);
    part->kind = PART_PROGRAM;
    part->code.instructions = mine;
    for (uint32_t i = 0; i < g->code.count; i++) {
        if (mine[i].opcode != OP_HEADER && mine[i].opcode != OP_TAG) continue;
        if (mine[i].opcode == OP_TAG) mine[i].count = (uint8_t) numbers[mine[i].count];
        mine[i].operand = numbers[mine[i].operand];
    }
    return DONE;
}

/* Whether an instruction asks for the message's tag, as OP_TAG does that a compiler made. */
static int is_tag(const Program *g, const Instruction *one) {
    const Header *first = &g->headers[one->operand], *second = &g->headers[one->count];
    return first->length == 5 && !memcmp(first->name, "x-tag", 5) && second->length == 21
        && !memcmp(second->name, "x-stream-filter-value", 21);
}

/* NOT_TAKEN: it would make too many names of headers; nothing was added. */
static int add_program(SelectorSet *s, uint32_t number, const Program *g) {
    int opaque = 0;
    if (s->naming.count + g->headers_count > NAMES_MAX) return NOT_TAKEN;
    for (uint32_t i = 0; i < g->code.count; i++)
        if (g->code.instructions[i].opcode == OP_TAG && !is_tag(g, &g->code.instructions[i]))
            return NOT_TAKEN;
    Part *part = add_part(s, number, PART_CONJUNCTS);
    if (!part) return NO_MEMORY;
    part->names = malloc((g->headers_count + 1) * sizeof *part->names);
    part->conjuncts = malloc((g->code.count + 1) * sizeof *part->conjuncts);
    if (!part->names || !part->conjuncts) return NO_MEMORY;
    for (int i = 0; i < g->headers_count; i++) {
        const Header *header = &g->headers[i];
        uint32_t name = use_name(&s->naming, header->name, header->length);
        if (name == NO_NAME) return NO_MEMORY;
        part->names[part->names_count++] = (uint16_t) name;
        s->header_users++;
    }
    if (more_places(s)) return NO_MEMORY;
    s->header_users -= part->names_count;  /* `use_places` adds them */
    Parts parts = {&g->code, part->names, {s->tags[0], s->tags[1]}, part->conjuncts, 0};
    take_apart(&parts);
    part->count = parts.count;
    part->code = g->code;
    part->wanted = g->wanted;
    use_places(s, part, 1);
    for (uint32_t i = 0; i < part->count; i++) opaque |= part->conjuncts[i].kind == OPAQUE;
    return opaque ? renumber(part, g, part->names) : DONE;
}

/* ------------------------------------------------------------------ filing */

/* The condition with the fewest members beside it; NULL: none can be looked up. */
static const Conjunct *best_of(const SelectorSet *s, const Member *m) {
    const Conjunct *best = NULL;
    const Operand *values;
    uint64_t fewest = UINT64_MAX;
    for (uint32_t p = 0; p < m->parts_count; p++) {
        for (uint32_t i = 0; i < m->parts[p].count; i++) {
            const Conjunct *one = &m->parts[p].conjuncts[i];
            uint32_t count = wanted_values(one, &values);
            uint64_t beside = 0;
            for (uint32_t v = 0; v < count; v++) {
                const Key *key = find_key(&s->filing, one->place, nth(one, values, v));
                if (key) beside += key->count;
            }
            if (count && beside < fewest) {
                fewest = beside;
                best = one;
            }
        }
    }
    return best;
}

/* Ends what `set_begin` began: from now on the member is asked. */
static int set_file(SelectorSet *s, uint32_t number) {
    Member *m = &s->members[number];
    const Conjunct *one = best_of(s, m);
    const Operand *values;
    if (!one) {
        const Part *first = m->parts;
        m->at = s->always_count++;
        s->always[m->at] = number;
        s->glances[m->at] = glance_of(
            first ? first->conjuncts : NULL,
            first && first->kind == PART_CONJUNCTS ? first->count : 0);
        return DONE;
    }
    uint32_t count = wanted_values(one, &values);
    m->keys = malloc(count * sizeof *m->keys);
    if (!m->keys) return NO_MEMORY;
    m->numeric = is_numeric(nth(one, values, 0));
    for (uint32_t v = 0; v < count; v++) {
        int filed = file_under(&s->filing, one->place, nth(one, values, v), number,
                               &m->keys[m->keys_count]);
        if (filed < 0) return NO_MEMORY;
        if (!m->keys_count) count_filed(s, one->place, m->numeric, 1);
        m->keys_count += filed;
    }
    return DONE;
}

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

static void ask_filed(SelectorSet *s, uint32_t place, const Asked *asked) {
    const Operand *v = &s->values[place];
    if (v->kind == NOTHING) return;
    for (int numeric = 0; numeric < 2; numeric++) {
        if (!(numeric ? s->filed[place].numbers : s->filed[place].texts)) continue;
        if (numeric ? is_numeric(v) : v->kind == TEXT_VALUE) {
            const Key *key = find_key(&s->filing, place, v);
            for (uint32_t i = 0; key && i < key->count; i++) ask_member(s, key->members[i], asked);
            continue;
        }
        for (uint32_t i = 0; i < s->upto; i++) {
            const Member *m = &s->members[i];
            if (m->keys_count && m->keys[0]->place == place && m->numeric == numeric)
                ask_member(s, i, asked);
        }
    }
}

/* The members that a message passes are `matched`, in no order; returns how many. */
static uint32_t set_match(SelectorSet *s, const uint8_t *names, size_t names_len,
                          const uint8_t *properties, size_t properties_len, Ask ask) {
    Asked asked = {names, properties, names_len, properties_len, ask};
    s->matched_count = 0;
    if (!s->count) return 0;
    s->asked += s->count;
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
