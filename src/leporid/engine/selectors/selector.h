/* The machine that runs a compiled expression over one message's encoded properties.
 *
 * filters/program.py draws the bytes of a program. `program_open` checks every number in them, so
 * that `program_run` need not: stack depth, constants, headers, jumps, which lead forward only. A
 * run allocates nothing, and takes at most as many steps as there are instructions and fields, and
 * those of patterns.
 */
#ifndef LEPORID_SELECTOR_H
#define LEPORID_SELECTOR_H

#include "hashing.h"
#include "matching.h"
#include "pattern.h"

enum { PROGRAM_VERSION = 1, DIALECT_JMS = 0, DIALECT_ROCKETMQ = 1 };
enum { HEADERS_MAX = 128, STACK_MAX = 128, BUCKETS = 64, NO_SLOT = 255 };
enum { BIT_HEADERS = 13, BIT_DELIVERY_MODE = 12, BIT_PRIORITY = 11, BIT_TIMESTAMP = 6, BITS = 16 };

enum {
    OP_END = 0, OP_CONSTANT = 1, OP_HEADER = 2, OP_PROPERTY = 3, OP_ROUTING_KEY = 4,
    OP_EXCHANGE = 5, OP_DELIVERY_MODE = 6, OP_MILLISECONDS = 7, OP_TAG = 8, OP_CONDITION = 9,
    OP_NOT = 10, OP_NEGATIVE = 11, OP_IS_NULL = 12, OP_UNLESS_FALSE = 13, OP_AND = 14,
    OP_UNLESS_TRUE = 15, OP_OR = 16, OP_EQUAL = 17, OP_LESS = 18, OP_LESS_OR_EQUAL = 19,
    OP_GREATER = 20, OP_GREATER_OR_EQUAL = 21, OP_ADD = 22, OP_SUBTRACT = 23, OP_MULTIPLY = 24,
    OP_DIVIDE = 25, OP_REMAINDER = 26, OP_BETWEEN = 27, OP_IN = 28, OP_LIKE = 29,
    OP_STARTSWITH = 30, OP_ENDSWITH = 31, OP_COUNT = 32
};

typedef struct {
    uint8_t opcode, count;
    uint16_t operand;
} Instruction;

typedef struct {
    Operand value;
    Pattern *pattern;      /* instead of the value */
} Constant;

typedef struct {
    const uint8_t *name;
    uint64_t hash;
    uint8_t length, next;  /* in the same bucket; NO_SLOT ends it */
} Header;

/* What is run. */
typedef struct {
    uint8_t jms;
    uint16_t count;        /* of instructions */
    Constant *constants;
    Instruction *instructions;
} Code;

typedef struct {
    Code code;
    uint8_t headers_count;
    uint8_t first[BUCKETS];
    uint16_t constants_count;
    uint16_t wanted;       /* property flags */
    uint64_t lengths;      /* of the headers' names, modulo 64 */
    Header headers[HEADERS_MAX];
} Program;

/* Where the values of a message stand: properties by their bits, then these, then headers. */
enum {
    AT_ROUTING_KEY = BITS, AT_EXCHANGE, AT_TAG, AT_DELIVERY_MODE, AT_MILLISECONDS, AT_HEADERS
};

/* What a message has of what a program uses. */
typedef struct {
    Operand *values;
    uint64_t work;         /* fields, instructions, steps of patterns */
} Seen;

/* ------------------------------------------------------------------ loading */

/* Values that an instruction takes off the stack, and puts there. */
static const uint8_t takes[OP_COUNT] = {
    1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 1, 1, 1, 1
};

static void program_close(Program *g) {
    if (!g) return;
    Constant *constants = g->code.constants;
    for (int i = 0; constants && i < g->constants_count; i++) free(constants[i].pattern);
    free(constants);
    free(g->code.instructions);
    free(g);
}

static int load_header(Program *g, const uint8_t **at, const uint8_t *end) {
    const uint8_t *p = *at;
    if (end - p < 1 || end - p - 1 < *p) return MALFORMED;
    Header *header = &g->headers[g->headers_count];
    header->length = *p;
    header->name = p + 1;
    header->hash = hash_hidden(p + 1, *p);
    uint8_t *first = &g->first[header->hash % BUCKETS];
    header->next = *first;
    *first = g->headers_count++;
    g->lengths |= 1ull << (header->length & 63);
    *at = p + 1 + *p;
    return DONE;
}

static int load_constant(Constant *constant, const uint8_t **at, const uint8_t *end) {
    const uint8_t *p = *at;
    static const uint8_t sizes[6] = {0, 1, 8, 8, 2, 2};
    if (end - p < 1 || *p > 5 || end - p - 1 < sizes[*p]) return MALFORMED;
    uint8_t kind = *p++;
    uint32_t length = kind >= 4 ? load16(p) : 0;
    uint64_t both;
    if (end - p - sizes[kind] < length) return MALFORMED;
    *at = p + sizes[kind] + length;
    switch (kind) {
    case 0: set_nothing(&constant->value); break;
    case 1: constant->value.kind = BOOLEAN; constant->value.integer = *p != 0; break;
    case 2: set_integer(&constant->value, (int64_t) load64(p)); break;
    case 3:
        both = load64(p);
        constant->value.kind = NUMBER;
        memcpy(&constant->value.number, &both, 8);
        if (!isfinite(constant->value.number)) return MALFORMED;
        break;
    case 4: set_text(&constant->value, p + 2, length); break;
    default: return pattern_open(p + 2, length, &constant->pattern);
    }
    return DONE;
}

/* What the operand of an instruction must be. */
static int check_instruction(Program *g, const Instruction *one, int at) {
    const Constant *constants = g->code.constants;
    uint16_t operand = one->operand;
    switch (one->opcode) {
    case OP_CONSTANT:
        return operand < g->constants_count && !constants[operand].pattern;
    case OP_HEADER: return operand < g->headers_count;
    case OP_TAG: return operand < g->headers_count && one->count < g->headers_count;
    case OP_PROPERTY:
        if (operand < 2 || operand >= BITS || operand == BIT_HEADERS) return 0;
        g->wanted |= 1u << operand;
        return 1;
    case OP_DELIVERY_MODE: g->wanted |= 1u << BIT_DELIVERY_MODE; return 1;
    case OP_MILLISECONDS: g->wanted |= 1u << BIT_TIMESTAMP; return 1;
    case OP_UNLESS_FALSE: case OP_UNLESS_TRUE: return operand > at + 1 && operand < g->code.count;
    case OP_IN:
        for (int i = operand; i < operand + one->count; i++)
            if (i >= g->constants_count || constants[i].pattern) return 0;
        return 1;
    case OP_LIKE: return operand < g->constants_count && constants[operand].pattern;
    case OP_STARTSWITH: case OP_ENDSWITH:
        return operand < g->constants_count && constants[operand].value.kind == TEXT_VALUE;
    default: return one->opcode < OP_COUNT;
    }
}

/* A jump keeps the value it looked at: so it must find the stack as high as it leaves it. */
static int check_instructions(Program *g) {
    int depth = 0;
    int16_t *expected = calloc(g->code.count, sizeof *expected);
    if (!expected) return NO_MEMORY;
    for (int at = 0; at < g->code.count; at++) {
        const Instruction *one = &g->code.instructions[at];
        int ends = one->opcode == OP_END;
        if (!check_instruction(g, one, at) || ends != (at == g->code.count - 1)) goto malformed;
        if (expected[at] && expected[at] != depth) goto malformed;
        if (depth < takes[one->opcode]) goto malformed;
        depth += 1 - takes[one->opcode];
        if (depth > STACK_MAX) goto malformed;
        if (one->opcode == OP_UNLESS_FALSE || one->opcode == OP_UNLESS_TRUE) {
            if (expected[one->operand] && expected[one->operand] != depth) goto malformed;
            expected[one->operand] = (int16_t) depth;
        }
    }
    free(expected);
    return depth == 1 ? DONE : MALFORMED;
malformed:
    free(expected);
    return MALFORMED;
}

static int program_load(Program *g, const uint8_t *p, size_t n) {
    const uint8_t *end = p + n;
    if (n < 6 || p[0] != PROGRAM_VERSION || p[1] > DIALECT_ROCKETMQ) return MALFORMED;
    int headers = p[2];
    uint16_t constants = p[3];
    g->code.jms = p[1] == DIALECT_JMS;
    g->code.count = load16(p + 4);
    p += 6;
    if (headers > HEADERS_MAX || !g->code.count || g->code.count > INT16_MAX) return MALFORMED;
    g->code.constants = calloc(constants + 1, sizeof(Constant));
    g->code.instructions = calloc(g->code.count, sizeof(Instruction));
    if (!g->code.constants || !g->code.instructions) return NO_MEMORY;
    memset(g->first, NO_SLOT, sizeof g->first);
    while (headers--) if (load_header(g, &p, end)) return MALFORMED;
    while (constants--) {
        int failed = load_constant(&g->code.constants[g->constants_count], &p, end);
        if (failed) return failed;
        g->constants_count++;
    }
    if ((size_t) (end - p) != (size_t) g->code.count * 4) return MALFORMED;
    for (int i = 0; i < g->code.count; i++, p += 4) {
        g->code.instructions[i].opcode = p[0];
        g->code.instructions[i].count = p[1];
        g->code.instructions[i].operand = load16(p + 2);
    }
    if (g->headers_count) g->wanted |= 1u << BIT_HEADERS;
    return check_instructions(g);
}

/* The bytes must stay where they are as long as the program is there. */
static Program *program_open(const uint8_t *p, size_t n, int *failed) {
    Program *g = calloc(1, sizeof *g);
    *failed = g ? program_load(g, p, n) : NO_MEMORY;
    if (!*failed) return g;
    program_close(g);
    return NULL;
}

/* ------------------------------------------------------------------ reading a message */

/* One walk over the table, for all names; the first of a name counts. */
static int see_headers(const Program *g, const uint8_t *p, const uint8_t *end, Seen *seen) {
    int left = g->headers_count;
    uint64_t found[HEADERS_MAX / 64] = {0};
    while (p < end && left) {
        uint8_t length = *p++;
        if (end - p < length) return MALFORMED;
        const uint8_t *name = p, *content;
        uint8_t type, slot = NO_SLOT;
        uint32_t size;
        p += length;
        seen->work++;
        if (next_value(&p, end, &type, &content, &size)) return MALFORMED;
        if (!(g->lengths >> (length & 63) & 1)) continue;
        uint64_t hash = hash_hidden(name, length);
        for (slot = g->first[hash % BUCKETS]; slot != NO_SLOT; slot = g->headers[slot].next) {
            const Header *header = &g->headers[slot];
            if (header->hash == hash && header->length == length
                && !memcmp(header->name, name, length)) break;
        }
        if (slot == NO_SLOT || found[slot >> 6] >> (slot & 63) & 1) continue;
        set_field(&seen->values[AT_HEADERS + slot], type, content, size);
        set_bit(found, slot);
        left--;
    }
    return DONE;
}

/* Properties in the order of their bits, no further than the last that is wanted. Where the headers
   are is told, if they are wanted: they are left to the caller. */
static int see_properties(uint32_t wanted, const uint8_t *p, size_t n, Operand *values,
                          const uint8_t **headers, const uint8_t **headers_end) {
    const uint8_t *end = p + n;
    if (n < 2) return MALFORMED;
    uint32_t flags = load16(p);
    p += 2;
    if (flags & 3) return MALFORMED;
    for (int bit = BITS - 1; wanted; wanted &= (1u << bit) - 1, bit--) {
        if (!(flags >> bit & 1)) continue;
        int is_wanted = wanted >> bit & 1;
        Operand *v = &values[bit];
        if (bit == BIT_HEADERS) {
            if (end - p < 4) return MALFORMED;
            uint32_t size = load32(p);
            p += 4;
            if ((size_t) (end - p) < size) return MALFORMED;
            if (is_wanted) *headers = p;
            p += size;
            if (is_wanted) *headers_end = p;
        } else if (bit == BIT_DELIVERY_MODE || bit == BIT_PRIORITY) {
            if (end - p < 1) return MALFORMED;
            if (is_wanted) set_integer(v, *p);
            p++;
        } else if (bit == BIT_TIMESTAMP) {
            if (end - p < 8) return MALFORMED;
            if (is_wanted) set_unsigned(v, load64(p));
            p += 8;
        } else {
            if (end - p < 1 || end - p - 1 < *p) return MALFORMED;
            if (is_wanted) set_text(v, p + 1, *p);
            p += 1 + *p;
        }
    }
    return DONE;
}

/* Exchange and routing key, as a record has them. */
static int see_names(const uint8_t *names, size_t names_len, Operand *values) {
    const uint8_t *end = names + names_len;
    if (!names_len || (size_t) *names + 2 > names_len) return MALFORMED;
    set_text(&values[AT_EXCHANGE], names + 1, *names);
    names += 1 + *names;
    if (end - names - 1 < *names) return MALFORMED;
    set_text(&values[AT_ROUTING_KEY], names + 1, *names);
    return DONE;
}

static int see(const Program *g, const uint8_t *names, size_t names_len,
               const uint8_t *properties, size_t properties_len, Seen *seen) {
    const uint8_t *headers = NULL, *headers_end = NULL;
    if (see_names(names, names_len, seen->values)) return MALFORMED;
    for (int i = 0; i < g->headers_count; i++) set_nothing(&seen->values[AT_HEADERS + i]);
    for (int i = 0; i < BITS; i++) set_nothing(&seen->values[i]);
    if (!g->wanted) return DONE;
    if (see_properties(g->wanted, properties, properties_len, seen->values, &headers,
                       &headers_end)) return MALFORMED;
    return headers ? see_headers(g, headers, headers_end, seen) : DONE;
}

/* ------------------------------------------------------------------ running */

static inline int compare(const Code *g, int relation, const Operand *a, const Operand *b) {
    return g->jms ? compare_jms(relation, a, b) : compare_rocketmq(relation, a, b);
}

static int is_between(const Code *g, const Operand *v, int *bad) {
    int low = compare(g, GREATER_OR_EQUAL, v, v + 1), high;
    if (low == IS_FALSE) return IS_FALSE;
    *bad |= low == BAD_TYPE;
    if (*bad && !g->jms) return BAD_TYPE;
    high = compare(g, LESS_OR_EQUAL, v, v + 2);
    if (high == IS_FALSE) return IS_FALSE;
    *bad |= high == BAD_TYPE;
    return low == IS_TRUE && high == IS_TRUE ? IS_TRUE : IS_UNKNOWN;
}

/* As `v = constant OR …`: what stands before the one that is equal may have been a type error. */
static int is_in(const Code *g, const Operand *v, const Constant *constants, int count,
                 int *bad) {
    int uncertain = 0;
    if (!g->jms && v->kind != TEXT_VALUE) return IS_UNKNOWN;
    if (v->kind == NOTHING) return IS_UNKNOWN;
    for (int i = 0; i < count; i++) {
        int equal = compare_jms(EQUAL, v, &constants[i].value);
        if (equal == IS_TRUE) return IS_TRUE;
        *bad |= uncertain |= equal == BAD_TYPE;
    }
    return uncertain ? IS_UNKNOWN : IS_FALSE;
}

static inline __attribute__((always_inline))
int is_found(const Code *g, const Instruction *one, const Operand *v, uint64_t *work) {
    const Constant *constant = &g->constants[one->operand];
    const Operand *text = &constant->value;
    int found;
    if (v->kind != TEXT_VALUE) {
        if (!g->jms) return IS_FALSE;
        return v->kind == NOTHING ? IS_UNKNOWN : BAD_TYPE;
    }
    if (one->opcode == OP_LIKE) {
        found = pattern_matches(constant->pattern, v->text, v->length, work);
    } else {
        const uint8_t *at = v->text;
        if (one->opcode == OP_ENDSWITH) at += v->length - text->length;
        found = v->length >= text->length && !memcmp(at, text->text, text->length);
    }
    return found != one->count;
}

static int is_condition(const Code *g, const Operand *v) {
    if (v->kind == BOOLEAN) return (int) v->integer;
    if (v->kind == NOTHING) return IS_UNKNOWN;
    return g->jms ? BAD_TYPE : IS_FALSE;
}

/* Conditions on the stack are booleans, or nothing for unknown. */
static inline int truth(const Operand *v) {
    return v->kind == BOOLEAN ? (int) v->integer : IS_UNKNOWN;
}

static inline int both(int a, int b) {
    if (a == IS_FALSE || b == IS_FALSE) return IS_FALSE;
    return a == IS_TRUE && b == IS_TRUE ? IS_TRUE : IS_UNKNOWN;
}

static inline int either(int a, int b) {
    if (a == IS_TRUE || b == IS_TRUE) return IS_TRUE;
    return a == IS_FALSE && b == IS_FALSE ? IS_FALSE : IS_UNKNOWN;
}

static void push(const Code *g, const Instruction *one, const Operand *values, Operand *v) {
    const Operand *from;
    switch (one->opcode) {
    case OP_CONSTANT: *v = g->constants[one->operand].value; break;
    case OP_HEADER: *v = values[AT_HEADERS + one->operand]; break;
    case OP_PROPERTY: *v = values[one->operand]; break;
    case OP_ROUTING_KEY: *v = values[AT_ROUTING_KEY]; break;
    case OP_EXCHANGE: *v = values[AT_EXCHANGE]; break;
    case OP_DELIVERY_MODE:
        from = &values[BIT_DELIVERY_MODE];
        if (from->kind == INTEGER && from->integer == 2)
            set_text(v, (const uint8_t *) "PERSISTENT", 10);
        else set_text(v, (const uint8_t *) "NON_PERSISTENT", 14);
        break;
    case OP_MILLISECONDS:
        *v = values[BIT_TIMESTAMP];
        if (v->kind == INTEGER && v->integer <= INT64_MAX / 1000) v->integer *= 1000;
        else if (v->kind != NOTHING) set_number(v, number_of(v) * 1000);
        break;
    default:  /* OP_TAG */
        *v = values[AT_HEADERS + one->operand];
        if (v->kind != TEXT_VALUE) *v = values[AT_HEADERS + one->count];
        if (v->kind != TEXT_VALUE) set_nothing(v);
    }
}

/* The result of an instruction on the values from v on; BAD_TYPE leaves nothing there. */
static inline __attribute__((always_inline))
int apply(const Code *g, const Instruction *one, Operand *v, uint64_t *work, int *bad) {
    switch (one->opcode) {
    case OP_CONDITION: return is_condition(g, v);
    case OP_NOT: return truth(v) == IS_UNKNOWN ? IS_UNKNOWN : !truth(v);
    case OP_IS_NULL: return v->kind == NOTHING;
    case OP_AND: return both(truth(v), truth(v + 1));
    case OP_OR: return either(truth(v), truth(v + 1));
    case OP_BETWEEN: return is_between(g, v, bad);
    case OP_IN: return is_in(g, v, g->constants + one->operand, one->count, bad);
    case OP_LIKE: case OP_STARTSWITH: case OP_ENDSWITH: return is_found(g, one, v, work);
    default: return compare(g, one->opcode - OP_EQUAL, v, v + 1);
    }
}

/* Numbers stay numbers; what is none has no other sign. */
static int change_sign(const Code *g, Operand *v) {
    if (is_numeric(v)) {
        negate(v);
        return IS_TRUE;
    }
    int known = v->kind != NOTHING;
    set_nothing(v);
    return known && g->jms ? BAD_TYPE : IS_UNKNOWN;
}

enum { MATCH = 1, NO_MATCH = 0, TYPE_ERROR = -1, UNFINISHED = 2 };

/* Of all instructions only LIKE may take long. Where `known` is given it has what each LIKE came
   to, by its instruction, one more than that; 0: it was not run yet. */
static inline __attribute__((always_inline)) int run(const Code *g, Seen *seen, uint64_t stop,
                                                     uint8_t *known) {
    Operand stack[STACK_MAX], *top = stack;  /* the next free place */
    const Instruction *one = g->instructions;
    int bad = 0, result;
    for (;; one++) {
        seen->work++;
        switch (one->opcode) {
        case OP_END:
            if (truth(stack) == IS_TRUE) return MATCH;
            return bad ? TYPE_ERROR : NO_MATCH;
        case OP_CONSTANT: case OP_HEADER: case OP_PROPERTY: case OP_ROUTING_KEY: case OP_EXCHANGE:
        case OP_DELIVERY_MODE: case OP_MILLISECONDS: case OP_TAG:
            push(g, one, seen->values, top++);
            continue;
        case OP_UNLESS_FALSE: case OP_UNLESS_TRUE:
            if (truth(top - 1) == (one->opcode == OP_UNLESS_TRUE))
                one = g->instructions + one->operand - 1;
            continue;
        case OP_ADD: case OP_SUBTRACT: case OP_MULTIPLY: case OP_DIVIDE: case OP_REMAINDER:
            top--;
            result = calculate(one->opcode - OP_ADD, top - 1, top);
            break;
        case OP_NEGATIVE:
            result = change_sign(g, top - 1);
            break;
        default:
            top -= takes[one->opcode] - 1;
            if (known && known[one - g->instructions]) {
                result = known[one - g->instructions] - 1;
            } else {
                if (known && one->opcode == OP_LIKE && seen->work >= stop) return UNFINISHED;
                result = apply(g, one, top - 1, &seen->work, &bad);
                if (known && one->opcode == OP_LIKE)
                    known[one - g->instructions] = (uint8_t) (result + 1);
            }
            top[-1].kind = result == IS_TRUE || result == IS_FALSE ? BOOLEAN : NOTHING;
            top[-1].integer = result;
        }
        bad |= result == BAD_TYPE;
        if (bad && !g->jms) return TYPE_ERROR;
    }
}

static int program_run(const Code *g, Seen *seen) { return run(g, seen, 0, NULL); }

/* The same until `stop` steps were taken in all, then UNFINISHED: it is to be run again, with what
   is `known` by now. It comes a LIKE further at least if there are fewer steps at first. */
static int program_run_until(const Code *g, Seen *seen, uint64_t stop, uint8_t *known) {
    return run(g, seen, stop, known);
}

/* Malformed properties, which no broker lets in, are no match, and a type error. */
static int program_matches(const Program *g, const uint8_t *names, size_t names_len,
                           const uint8_t *properties, size_t properties_len, uint64_t *work) {
    Operand values[AT_HEADERS + HEADERS_MAX];
    Seen seen = {values, 0};
    int result = TYPE_ERROR;
    if (!see(g, names, names_len, properties, properties_len, &seen))
        result = program_run(&g->code, &seen);
    if (work) *work = seen.work;
    return result;
}

#endif
