"""Static analysis of a compiled selector: its conjuncts, and values that it requires.

Conjuncts: most selectors are comparisons of a value and a constant, joined by AND. Such conjuncts
are evaluated one after another, without the machine's stack.

Required values: `a = 1 OR b IN (2, 3)` is only true of a message in which a is 1, or b is 2 or 3;
`a LIKE 'x%'` only where a begins with x. An index finds selectors by these values. Both operands of
OR must require values; one of AND suffices, the cheaper one; NOT requires what its operand's being
false requires. `filters.required_texts` finds all texts that a tree requires of one name, and says
why that is another question.

It does not know what becomes of messages. Invariants: conjuncts come to what the machine says of
the whole selector. A selector is true of no message without one of its required values, unless the
message has a value of another kind in one of their places: the dialect says how that compares.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from leporid.engine.selectors.inverted_index cimport InvertedIndex, PostingList, is_indexable
from leporid.engine.selectors.machine cimport (
    AT_DELIVERY_MODE, AT_EXCHANGE, AT_HEADERS, AT_MILLISECONDS, AT_ROUTING_KEY, AT_TAG,
    Constant, GREATER_OR_EQUAL, INTEGER, Instruction, LESS_OR_EQUAL, OP_ADD, OP_AND, OP_BETWEEN,
    OP_CONSTANT, OP_DELIVERY_MODE, OP_END, OP_EQUAL, OP_EXCHANGE, OP_GREATER_OR_EQUAL, OP_HEADER,
    OP_IN, OP_LIKE, OP_MILLISECONDS, OP_NEGATIVE, OP_NOT, OP_OR, OP_PROPERTY, OP_REMAINDER,
    OP_ROUTING_KEY, OP_STARTSWITH, OP_TAG, OP_UNLESS_FALSE, OP_UNLESS_TRUE, STACK_MAX,
    is_numeric, set_text, takes,
)

cdef enum:
    # What stands on the stack: a value of the message, a constant, a condition, or another result.
    A_PLACE
    A_CONSTANT
    A_CONDITION
    A_RESULT

cdef struct Node:
    uint8_t kind
    uint32_t what                   # the place, or the constant
    uint32_t first                  # of its conjuncts, which are the last ones
    RequiredValues yes              # what its being true requires
    RequiredValues no               # what its being false requires

# By relation: for which orders of a value and a constant it holds, as bits less, equal, greater.
cdef uint8_t[5] ORDERS = [2, 1, 3, 4, 6]
cdef uint8_t[5] ORDERS_FLIPPED = [2, 4, 6, 1, 3]


# ---------------------------------------------------------------------- required values


cdef RequiredValues nothing_required() noexcept nogil:
    cdef RequiredValues none
    none.first = none.last = NULL
    none.cost = 0
    return none


cdef RequiredValues only(InvertedIndex index, RequiredValue *one) noexcept:
    cdef RequiredValues required
    cdef PostingList *postings
    cdef uint32_t at
    one.next = NULL
    required.first = required.last = one
    required.cost = one.count
    for at in range(one.count):
        postings = index.find(one.place, required_value(one, at))
        if postings != NULL:
            required.cost += postings.count
    return required


cdef RequiredValues either_required(RequiredValues a, RequiredValues b) noexcept nogil:
    if a.first == NULL or b.first == NULL:
        return nothing_required()
    a.last.next = b.first
    a.last = b.last
    a.cost += b.cost
    return a


cdef RequiredValues cheaper(RequiredValues a, RequiredValues b) noexcept nogil:
    if a.first == NULL:
        return b
    return a if b.first == NULL or a.cost <= b.cost else b


cdef bint are_indexable(const Constant *constants, uint32_t count) noexcept nogil:
    """Whether all are texts, or all numbers."""
    cdef uint32_t at
    for at in range(count):
        if not is_indexable(&constants[at].value):
            return False
        if is_numeric(&constants[at].value) != is_numeric(&constants[0].value):
            return False
    return count > 0


cdef RequiredValues one_of_values(InvertedIndex index, RequiredValue *room, uint32_t place,
                                  const Constant *constants, uint32_t count) noexcept:
    if not are_indexable(constants, count):
        return nothing_required()
    room.place = place
    room.count = count
    room.several = constants
    return only(index, room)


cdef RequiredValues prefix_required(InvertedIndex index, RequiredValue *room, uint32_t place,
                                    const Constant *constant, bint is_pattern) noexcept:
    cdef const uint8_t *text = constant.pattern.text if is_pattern else constant.value.text
    cdef uint32_t length = constant.pattern.prefix if is_pattern else constant.value.length
    if not length:
        return nothing_required()
    length = min(length, <uint32_t> PREFIX_MAX)
    room.place = with_prefix(place, length)
    room.count = 1
    room.several = NULL
    set_text(&room.one, text, length)
    return only(index, room)


cdef RequiredValue *take_room(Analysis *analysis) noexcept nogil:
    analysis.room += 1
    return analysis.room - 1


cdef int join_required(Analysis *analysis, InvertedIndex index, const Instruction *one,
                       Node *v) noexcept:
    """What the result of an instruction on the nodes from `v` on requires."""
    cdef const Constant *constants = analysis.code.constants
    cdef RequiredValues yes = nothing_required(), no = yes
    cdef bint of_place = v.kind == A_PLACE
    cdef uint8_t opcode = one.opcode
    if opcode == OP_AND:
        yes = cheaper(v[0].yes, v[1].yes)
        no = either_required(v[0].no, v[1].no)
    elif opcode == OP_OR:
        yes = either_required(v[0].yes, v[1].yes)
        no = cheaper(v[0].no, v[1].no)
    elif opcode == OP_NOT:
        yes, no = v.no, v.yes
    elif opcode == OP_EQUAL:
        if of_place and v[1].kind == A_CONSTANT:
            yes = one_of_values(index, take_room(analysis), v[0].what, constants + v[1].what, 1)
        elif v[0].kind == A_CONSTANT and v[1].kind == A_PLACE:
            yes = one_of_values(index, take_room(analysis), v[1].what, constants + v[0].what, 1)
    elif opcode == OP_IN and of_place:
        yes = one_of_values(index, take_room(analysis), v.what, constants + one.operand, one.count)
    elif (opcode == OP_LIKE or opcode == OP_STARTSWITH) and of_place:
        yes = prefix_required(index, take_room(analysis), v.what, constants + one.operand,
                              opcode == OP_LIKE)
        if one.count:
            # Negated. In the dialect rocketmq it is also false of values that are no texts.
            if analysis.code.jms:
                no = yes
            yes = nothing_required()
    v.yes, v.no = yes, no
    return 0


# ---------------------------------------------------------------------- conjuncts


cdef Conjunct *add_conjunct(Analysis *analysis, uint8_t kind, uint32_t place) noexcept nogil:
    cdef Conjunct *one = &analysis.conjuncts[analysis.count]
    analysis.count += 1
    memset(one, 0, sizeof(Conjunct))
    one.kind = kind
    one.place = place
    return one


cdef int add_compared(Analysis *analysis, const Node *value, const Node *constant, int relation,
                      bint flipped) noexcept nogil:
    cdef Conjunct *one = add_conjunct(analysis, COMPARED, value.what)
    one.relation = relation
    one.flipped = flipped
    one.orders = ORDERS_FLIPPED[relation] if flipped else ORDERS[relation]
    one.constant = analysis.code.constants[constant.what].value
    return 0


cdef uint32_t place_of(const Analysis *analysis, const Instruction *one) noexcept nogil:
    """The place that an instruction pushes the value of; 0 when it pushes none."""
    cdef uint8_t opcode = one.opcode
    if opcode == OP_HEADER:
        return AT_HEADERS + analysis.headers[one.operand]
    if opcode == OP_PROPERTY:
        return one.operand
    if opcode == OP_ROUTING_KEY:
        return AT_ROUTING_KEY
    if opcode == OP_EXCHANGE:
        return AT_EXCHANGE
    if opcode == OP_DELIVERY_MODE:
        return AT_DELIVERY_MODE
    if opcode == OP_MILLISECONDS:
        return AT_MILLISECONDS
    if opcode == OP_TAG and (analysis.headers[one.operand] == analysis.tags[0]
                             and analysis.headers[one.count] == analysis.tags[1]):
        return AT_TAG
    return 0


cdef int join_nodes(Analysis *analysis, const Instruction *one, Node *v) noexcept nogil:
    """Replace the nodes from `v` on by the result of an instruction on them."""
    cdef uint8_t opcode = one.opcode
    cdef bint compares = OP_EQUAL <= opcode <= OP_GREATER_OR_EQUAL
    cdef Conjunct *conjunct
    if opcode == OP_AND:
        if v[0].kind != A_CONDITION or v[1].kind != A_CONDITION:
            add_conjunct(analysis, OPAQUE, 0)
        v.kind = A_CONDITION
        return 0
    conjunct = &analysis.conjuncts[v.first]
    if (opcode == OP_NOT and v.kind == A_CONDITION and analysis.count == v.first + 1
            and conjunct.kind != OPAQUE):
        conjunct.negated ^= 1
        conjunct.orders ^= 7
        return 0
    analysis.count = v.first
    if opcode == OP_NEGATIVE or OP_ADD <= opcode <= OP_REMAINDER:
        v.kind = A_RESULT
        return 0
    if compares and v[0].kind == A_PLACE and v[1].kind == A_CONSTANT:
        add_compared(analysis, &v[0], &v[1], opcode - OP_EQUAL, False)
    elif compares and v[0].kind == A_CONSTANT and v[1].kind == A_PLACE:
        add_compared(analysis, &v[1], &v[0], opcode - OP_EQUAL, True)
    elif (opcode == OP_BETWEEN and v[0].kind == A_PLACE and v[1].kind == A_CONSTANT
            and v[2].kind == A_CONSTANT):
        add_compared(analysis, &v[0], &v[1], GREATER_OR_EQUAL, False)
        add_compared(analysis, &v[0], &v[2], LESS_OR_EQUAL, False)
    elif opcode == OP_IN and v[0].kind == A_PLACE:
        conjunct = add_conjunct(analysis, ONE_OF, v[0].what)
        conjunct.several = analysis.code.constants + one.operand
        conjunct.count = one.count
    else:
        add_conjunct(analysis, OPAQUE, 0)
    v.kind = A_CONDITION
    return 0


cdef int analyse(Analysis *analysis, InvertedIndex index) noexcept:
    """Walk over the program once, as the machine would if it did not jump."""
    cdef Node[STACK_MAX + 1] stack
    cdef Node *top = stack
    cdef const Instruction *instructions = analysis.code.instructions
    cdef const Instruction *one = instructions
    cdef uint32_t place
    cdef uint8_t joins
    analysis.count = 0
    while one.opcode != OP_END:
        if one.opcode == OP_UNLESS_FALSE or one.opcode == OP_UNLESS_TRUE:
            joins = OP_AND if one.opcode == OP_UNLESS_FALSE else OP_OR
            if instructions[one.operand - 1].opcode != joins:  # not made by our compiler
                stack[0].kind = A_RESULT
                stack[0].yes = nothing_required()
                break
        elif takes[one.opcode]:
            top -= takes[one.opcode] - 1
            join_required(analysis, index, one, top - 1)
            join_nodes(analysis, one, top - 1)
        else:
            place = place_of(analysis, one)
            top.kind = A_PLACE if place else A_CONSTANT if one.opcode == OP_CONSTANT else A_RESULT
            top.what = place if place else one.operand
            top.first = analysis.count
            top.yes = top.no = nothing_required()
            top += 1
        one += 1
    analysis.required = stack[0].yes
    if stack[0].kind != A_CONDITION:
        analysis.count = 0
        add_conjunct(analysis, OPAQUE, 0)
    return 0


cdef QuickReject quick_reject_of(const Conjunct *conjuncts, uint32_t count) noexcept nogil:
    cdef QuickReject reject
    cdef const Conjunct *one
    cdef uint32_t at
    memset(&reject, 0, sizeof(QuickReject))
    for at in range(min(count, <uint32_t> 2)):
        one = &conjuncts[at]
        if one.kind != COMPARED or one.constant.kind != INTEGER:
            break
        reject.constants[at] = one.constant.integer
        reject.places[at] = one.place
        reject.orders[at] = one.orders
        reject.count += 1
    return reject
