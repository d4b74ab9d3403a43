/* A program taken apart into conditions that must all hold, as far as it is made of such.
 *
 * Most expressions compare a few values with constants, and want all of it to be so. These are run
 * without a stack. On the way the program's anchors are found (anchors.h).
 *
 * Invariant: conditions come to what the machine of selector.h says of the whole program.
 */
#ifndef LEPORID_CONJUNCTS_H
#define LEPORID_CONJUNCTS_H

#include "anchors.h"
#include "selector.h"

/* OPAQUE: anything else; only the program knows. */
enum { COMPARED = 1, ONE_OF = 2, OPAQUE = 3 };

typedef struct {
    uint32_t place;          /* of the value, see `AT_HEADERS` */
    uint8_t kind, relation;
    uint8_t flipped;         /* the constant stands on the left */
    uint8_t negated;
    uint8_t orders;          /* in which the condition holds of numbers: bits less, same, greater */
    uint32_t count;
    Operand constant;        /* what the value is compared with */
    const Constant *several; /* of which it is one */
} Conjunct;

/* ------------------------------------------------------------------ taking apart */

/* What stands on the machine's stack. */
enum { A_PLACE, A_CONSTANT, A_CONDITION, A_RESULT };

typedef struct {
    uint8_t kind;
    uint32_t what;           /* the place, or the constant */
    uint32_t first;          /* of its conjuncts, which are the last ones */
    Anchors yes, no;         /* what must be there for it to be true, to be false */
} Node;

typedef struct {
    const Code *code;
    const uint16_t *headers; /* numbers of the program's headers, among those of all programs */
    uint16_t tags[2];        /* numbers of the headers that are a message's tag */
    Conjunct *found;         /* room for one more than there are instructions */
    uint32_t count;
    const Filing *filing;    /* what is cheap to look up there */
    Anchor *room;            /* for as many as there are instructions */
    Anchors anchors;         /* of the whole program */
} Parts;

static Conjunct *add_conjunct(Parts *parts, uint8_t kind, uint32_t place) {
    Conjunct *one = &parts->found[parts->count++];
    memset(one, 0, sizeof *one);
    one->kind = kind;
    one->place = place;
    return one;
}

static void add_compared(Parts *parts, uint32_t place, const Operand *constant, int relation,
                         int flipped) {
    static const uint8_t orders[5] = {2, 1, 3, 4, 6}, mirrored[5] = {2, 4, 6, 1, 3};
    Conjunct *one = add_conjunct(parts, COMPARED, place);
    one->relation = relation;
    one->flipped = flipped;
    one->orders = flipped ? mirrored[relation] : orders[relation];
    one->constant = *constant;
}

/* The place that an instruction takes a value from; 0, which is none, when it takes none. */
static uint32_t place_of(const Parts *parts, const Instruction *one) {
    switch (one->opcode) {
    case OP_HEADER: return AT_HEADERS + parts->headers[one->operand];
    case OP_PROPERTY: return one->operand;
    case OP_ROUTING_KEY: return AT_ROUTING_KEY;
    case OP_EXCHANGE: return AT_EXCHANGE;
    case OP_DELIVERY_MODE: return AT_DELIVERY_MODE;
    case OP_MILLISECONDS: return AT_MILLISECONDS;
    case OP_TAG:
        return parts->headers[one->operand] == parts->tags[0]
            && parts->headers[one->count] == parts->tags[1] ? AT_TAG : 0;
    default: return 0;
    }
}

/* The anchors of what an instruction makes of the nodes from `v` on. */
static void join_anchors(Parts *parts, const Instruction *one, Node *v) {
    const Constant *constants = parts->code->constants;
    Anchors yes = no_anchors(), no = yes;
    int of_place = v->kind == A_PLACE;
    switch (one->opcode) {
    case OP_AND:
        yes = better_anchors(v[0].yes, v[1].yes);
        no = either_anchors(v[0].no, v[1].no);
        break;
    case OP_OR:
        yes = either_anchors(v[0].yes, v[1].yes);
        no = better_anchors(v[0].no, v[1].no);
        break;
    case OP_NOT:
        yes = v->no;
        no = v->yes;
        break;
    case OP_EQUAL:
        if (of_place && v[1].kind == A_CONSTANT)
            yes = value_anchor(parts->filing, parts->room++, v[0].what, constants + v[1].what, 1);
        else if (v[0].kind == A_CONSTANT && v[1].kind == A_PLACE)
            yes = value_anchor(parts->filing, parts->room++, v[1].what, constants + v[0].what, 1);
        break;
    case OP_IN:
        if (of_place)
            yes = value_anchor(parts->filing, parts->room++, v->what, constants + one->operand,
                               one->count);
        break;
    case OP_LIKE: case OP_STARTSWITH:
        if (!of_place) break;
        yes = begins_with(parts->filing, parts->room++, v->what, constants + one->operand,
                          one->opcode == OP_LIKE);
        if (!one->count) break;
        /* Negated; in rocketmq it is false, too, of what is no text. */
        no = parts->code->jms ? yes : no;
        yes = no_anchors();
    }
    v->yes = yes;
    v->no = no;
}

/* What an instruction makes of the nodes from `v` on; it takes the place of the first. */
static void join_nodes(Parts *parts, const Instruction *one, Node *v) {
    const Constant *constants = parts->code->constants;
    uint8_t opcode = one->opcode;
    int compares = opcode >= OP_EQUAL && opcode <= OP_GREATER_OR_EQUAL;
    if (opcode == OP_AND) {
        if (v[0].kind != A_CONDITION || v[1].kind != A_CONDITION) add_conjunct(parts, OPAQUE, 0);
        v->kind = A_CONDITION;
        return;
    }
    if (opcode == OP_NOT && v->kind == A_CONDITION && parts->count == v->first + 1
        && parts->found[v->first].kind != OPAQUE) {
        parts->found[v->first].negated ^= 1;
        parts->found[v->first].orders ^= 7;
        return;
    }
    parts->count = v->first;
    if (opcode == OP_NEGATIVE || (opcode >= OP_ADD && opcode <= OP_REMAINDER)) {
        v->kind = A_RESULT;
        return;
    }
    if (compares && v[0].kind == A_PLACE && v[1].kind == A_CONSTANT) {
        add_compared(parts, v[0].what, &constants[v[1].what].value, opcode - OP_EQUAL, 0);
    } else if (compares && v[0].kind == A_CONSTANT && v[1].kind == A_PLACE) {
        add_compared(parts, v[1].what, &constants[v[0].what].value, opcode - OP_EQUAL, 1);
    } else if (opcode == OP_BETWEEN && v[0].kind == A_PLACE && v[1].kind == A_CONSTANT
               && v[2].kind == A_CONSTANT) {
        add_compared(parts, v[0].what, &constants[v[1].what].value, GREATER_OR_EQUAL, 0);
        add_compared(parts, v[0].what, &constants[v[2].what].value, LESS_OR_EQUAL, 0);
    } else if (opcode == OP_IN && v[0].kind == A_PLACE) {
        Conjunct *in = add_conjunct(parts, ONE_OF, v[0].what);
        in->several = constants + one->operand;
        in->count = one->count;
    } else {
        add_conjunct(parts, OPAQUE, 0);
    }
    v->kind = A_CONDITION;
}

/* Goes through the program once, as the machine would that does not jump. */
static void take_apart(Parts *parts) {
    Node stack[STACK_MAX + 1], *top = stack;
    const Instruction *one = parts->code->instructions, *all = one;
    parts->count = 0;
    for (; one->opcode != OP_END; one++) {
        uint8_t opcode = one->opcode;
        uint32_t place = place_of(parts, one);
        if (opcode == OP_UNLESS_FALSE || opcode == OP_UNLESS_TRUE) {
            if (all[one->operand - 1].opcode == (opcode == OP_UNLESS_FALSE ? OP_AND : OP_OR))
                continue;
            stack->kind = A_RESULT;  /* no compiler of ours made this */
            stack->yes = no_anchors();
            break;
        }
        if (takes[opcode]) {
            top -= takes[opcode] - 1;
            join_anchors(parts, one, top - 1);
            join_nodes(parts, one, top - 1);
            continue;
        }
        top->kind = place ? A_PLACE : opcode == OP_CONSTANT ? A_CONSTANT : A_RESULT;
        top->what = place ? place : one->operand;
        top->first = parts->count;
        top->yes = top->no = no_anchors();
        top++;
    }
    parts->anchors = stack->yes;
    if (stack->kind == A_CONDITION) return;
    parts->count = 0;
    add_conjunct(parts, OPAQUE, 0);
}

/* ------------------------------------------------------------------ running */

static inline int conjunct_holds(const Code *code, const Conjunct *one, const Operand *values,
                                 int *bad) {
    const Operand *v = &values[one->place], *constant = &one->constant;
    int result;
    if (one->kind == ONE_OF)
        result = is_in(code, v, one->several, one->count, bad);
    else if (v->kind == INTEGER && constant->kind == INTEGER)
        return one->orders >> (order_integers(v->integer, constant->integer) + 1) & 1;
    else if (one->flipped)
        result = compare(code, one->relation, constant, v);
    else
        result = compare(code, one->relation, v, constant);
    return one->negated && result <= IS_TRUE ? !result : result;
}

/* None of the conjuncts is opaque. */
static inline int conjuncts_hold(const Code *code, const Conjunct *one, uint32_t count,
                                 const Operand *values) {
    int bad = 0, certain = 1;
    for (; count--; one++) {
        int result = conjunct_holds(code, one, values, &bad);
        if (result == IS_FALSE) return bad ? TYPE_ERROR : NO_MATCH;
        if (result == IS_TRUE) continue;
        certain = 0;
        bad |= result == BAD_TYPE;
        if (bad && !code->jms) return TYPE_ERROR;
    }
    return certain ? MATCH : bad ? TYPE_ERROR : NO_MATCH;
}

/* ------------------------------------------------------------------ ruling out */

/* The first two conditions, if they compare with integers: a half of a cache line that says of most
   messages that a program is not true, without a look at it. */
typedef struct {
    int64_t constants[2];
    uint32_t places[2];
    uint8_t orders[2], count;
} Glance;

static Glance glance_of(const Conjunct *one, uint32_t count) {
    Glance glance = {.count = 0};
    for (; count-- && glance.count < 2; one++) {
        if (one->kind != COMPARED || one->constant.kind != INTEGER) break;
        glance.constants[glance.count] = one->constant.integer;
        glance.places[glance.count] = one->place;
        glance.orders[glance.count++] = one->orders;
    }
    return glance;
}

/* Whether one of them is false, and nothing before it was anything but true. */
static inline int is_ruled_out(const Glance *glance, const Operand *values) {
    for (int i = 0; i < glance->count; i++) {
        const Operand *v = &values[glance->places[i]];
        if (v->kind != INTEGER) return 0;
        int order = order_integers(v->integer, glance->constants[i]);
        if (!(glance->orders[i] >> (order + 1) & 1)) return 1;
    }
    return 0;
}

#endif
