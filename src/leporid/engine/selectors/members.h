/* The members of a set of filters: what is known of each, and how they come and go.
 *
 * A member is made of parts, which must all let a message pass, and stands either in the filing,
 * under values of which a message must have one, or on the list of those that are always asked.
 *
 * Invariants: members' texts and constants lie in their filters, which outlive them here; a member
 * that could not be taken in as a whole can be removed.
 */
#ifndef LEPORID_MEMBERS_H
#define LEPORID_MEMBERS_H

#include "conjuncts.h"
#include "filing.h"
#include "naming.h"

enum { PART_CONJUNCTS, PART_PROGRAM, PART_FILTER };
enum { NOT_TAKEN = -3 };

typedef struct {
    uint8_t kind;
    uint16_t wanted;         /* property flags */
    uint32_t made;           /* places from AT_TAG on, whose values are made of others, as bits */
    uint32_t count;          /* of conjuncts, also of those of a program */
    Conjunct *conjuncts;
    Code code;
    Constant *own;           /* constants that no program has */
    void *filter;
    uint16_t *names;         /* numbers of headers */
    uint32_t names_count;
    Anchor *room;            /* for the anchors, until it is filed */
    Anchors anchors;
} Part;

/* Where a member is filed, and its place on the list there. */
typedef struct {
    Key *key;
    uint32_t at;
} Standing;

typedef struct {
    Part *parts;             /* NULL: everything passes */
    uint32_t parts_count;
    uint32_t keys_count;     /* 0: it is asked about every message */
    Standing *keys;
    uint32_t at;             /* among those; of a free number, the next free one */
    uint8_t used;
    uint64_t turn;           /* of the last message that it was asked about, if it is filed */
    uint64_t *errors;        /* its filter's count of type errors */
} Member;

/* How many keys of members there are in a place. */
typedef struct {
    uint32_t texts, numbers, prefixes;
    uint32_t lengths;        /* of the prefixes, as bits; some may be there no more */
    Key *keys[2];            /* all texts, all numbers */
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
    uint64_t turn;           /* of the message */
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
    for (int place = AT_TAG; place < AT_HEADERS; place++)
        if (part->made >> place & 1) s->uses[place] += change;
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
    free(part->room);
}

/* A key that is new, or that nobody is filed under any more when it goes, is listed or not. */
static void list_key(Key **first, Key *key, int change) {
    if (key->count > 1) return;
    if (change > 0) {
        key->before = NULL;
        key->after = *first;
        if (*first) (*first)->before = key;
        *first = key;
    } else {
        if (key->after) key->after->before = key->before;
        *(key->before ? &key->before->after : first) = key->after;
    }
}

static void count_filed(SelectorSet *s, Key *key, int change) {
    uint32_t place = key->place & PLACE_MASK, length = prefix_length(key->place);
    Filed *filed = &s->filed[place];
    if (!length) list_key(&filed->keys[is_numeric(&key->value)], key, change);
    if (length) {
        filed->prefixes += change;
        filed->lengths = filed->prefixes ? filed->lengths | 1u << length : 0;
    } else if (is_numeric(&key->value)) {
        filed->numbers += change;
    } else {
        filed->texts += change;
    }
    if (place >= AT_HEADERS) return;
    s->filed_properties &= ~(1u << place);
    if (filed->texts || filed->numbers || filed->prefixes) s->filed_properties |= 1u << place;
}

static void unfile(SelectorSet *s, uint32_t number) {
    Member *m = &s->members[number];
    if (m->keys_count) {
        for (uint32_t i = 0; i < m->keys_count; i++) {
            Standing one = m->keys[i];
            count_filed(s, one.key, -1);
            uint32_t moved = take_from(&s->filing, one.key, one.at);
            if (moved == NOBODY) continue;
            Standing *its = s->members[moved].keys;
            while (its->key != one.key) its++;
            its->at = one.at;
        }
    } else if (m->at != NOBODY) {
        s->always[m->at] = s->always[--s->always_count];
        s->glances[m->at] = s->glances[s->always_count];
        s->members[s->always[m->at]].at = m->at;
    }
}

static void close_member(SelectorSet *s, Member *m) {
    for (uint32_t i = 0; i < m->parts_count; i++) close_part(s, &m->parts[i]);
    free(m->parts);
    free(m->keys);
}

static void set_remove(SelectorSet *s, uint32_t number) {
    Member *m = &s->members[number];
    unfile(s, number);
    close_member(s, m);
    memset(m, 0, sizeof *m);
    m->at = s->vacant;
    s->vacant = number;
    s->count--;
}

static void set_close(SelectorSet *s) {
    if (!s) return;
    for (uint32_t i = 0; i < s->upto; i++) if (s->members[i].used) close_member(s, &s->members[i]);
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
    part->room = calloc(1, sizeof *part->room);
    if (!part->own || !part->conjuncts || !part->room) return NO_MEMORY;
    part->code.jms = 1;
    part->made = 1u << AT_TAG;
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

/* Conditions and anchors may ask for these. */
static uint32_t made_places(const Program *g) {
    uint32_t made = 0;
    for (uint32_t i = 0; i < g->code.count; i++) {
        uint8_t opcode = g->code.instructions[i].opcode;
        if (opcode == OP_TAG) made |= 1u << AT_TAG;
        if (opcode == OP_DELIVERY_MODE) made |= 1u << AT_DELIVERY_MODE;
        if (opcode == OP_MILLISECONDS) made |= 1u << AT_MILLISECONDS;
    }
    return made;
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
    part->room = malloc((g->code.count + 1) * sizeof *part->room);
    if (!part->names || !part->conjuncts || !part->room) return NO_MEMORY;
    for (int i = 0; i < g->headers_count; i++) {
        const Header *header = &g->headers[i];
        uint32_t name = use_name(&s->naming, header->name, header->length);
        if (name == NO_NAME) return NO_MEMORY;
        part->names[part->names_count++] = (uint16_t) name;
        s->header_users++;
    }
    if (more_places(s)) return NO_MEMORY;
    s->header_users -= part->names_count;  /* `use_places` adds them */
    Parts parts = {
        .code = &g->code, .headers = part->names, .tags = {s->tags[0], s->tags[1]},
        .found = part->conjuncts, .filing = &s->filing, .room = part->room
    };
    take_apart(&parts);
    part->count = parts.count;
    part->anchors = parts.anchors;
    part->code = g->code;
    part->wanted = g->wanted;
    part->made = made_places(g);
    use_places(s, part, 1);
    for (uint32_t i = 0; i < part->count; i++) opaque |= part->conjuncts[i].kind == OPAQUE;
    return opaque ? renumber(part, g, part->names) : DONE;
}

/* ------------------------------------------------------------------ filing */

/* Those of one part are enough, as all parts must hold. */
static Anchors best_anchors(SelectorSet *s, const Member *m) {
    Anchors best = no_anchors();
    for (uint32_t i = 0; i < m->parts_count; i++) {
        Part *part = &m->parts[i];
        if (part->own)  /* tags, whose texts are known now */
            part->anchors = value_anchor(&s->filing, part->room, AT_TAG, part->own,
                                         part->conjuncts->count);
        best = better_anchors(best, part->anchors);
    }
    return best;
}

static int file_anchors(SelectorSet *s, uint32_t number, const Anchors *anchors) {
    Member *m = &s->members[number];
    uint32_t count = 0;
    for (const Anchor *one = anchors->first; one; one = one->next) count += one->count;
    m->keys = malloc(count * sizeof *m->keys);
    if (!m->keys) return NO_MEMORY;
    for (const Anchor *one = anchors->first; one; one = one->next) {
        for (uint32_t i = 0; i < one->count; i++) {
            Standing *mine = &m->keys[m->keys_count];
            int filed = file_under(&s->filing, one->place, anchor_value(one, i), number,
                                   &mine->key);
            if (filed < 0) return NO_MEMORY;
            if (!filed) continue;
            mine->at = mine->key->count - 1;
            m->keys_count++;
            count_filed(s, mine->key, 1);
        }
    }
    return DONE;
}

/* Ends what `set_begin` began: from now on the member is asked. */
static int set_file(SelectorSet *s, uint32_t number) {
    Member *m = &s->members[number];
    Anchors anchors = best_anchors(s, m);
    int failed = DONE;
    if (anchors.first) {
        failed = file_anchors(s, number, &anchors);
    } else {
        const Part *first = m->parts;
        m->at = s->always_count++;
        s->always[m->at] = number;
        s->glances[m->at] = glance_of(
            first ? first->conjuncts : NULL,
            first && first->kind == PART_CONJUNCTS ? first->count : 0);
    }
    for (uint32_t i = 0; i < m->parts_count; i++) {
        free(m->parts[i].room);
        m->parts[i].room = NULL;
    }
    return failed;
}

#endif
