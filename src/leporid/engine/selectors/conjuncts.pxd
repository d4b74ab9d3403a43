"""Conjuncts of a selector and the values it requires; conjuncts.pyx says what they are."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.selectors.inverted_index cimport InvertedIndex
from leporid.engine.selectors.machine cimport (
    BAD_TYPE, Code, Constant, INTEGER, IS_FALSE, IS_TRUE, MATCH, NO_MATCH, Operand, TYPE_ERROR,
    compare, is_in, order_integers,
)

cdef enum:
    # OPAQUE: any other condition; only the machine can evaluate the selector.
    COMPARED = 1
    ONE_OF = 2
    OPAQUE = 3

cdef struct Conjunct:
    uint32_t place              # of the value, see `AT_HEADERS`
    uint8_t kind, relation
    uint8_t flipped             # the constant is the left operand
    uint8_t negated
    uint8_t orders              # for which an integer satisfies it: bits less, equal, greater
    uint32_t count
    Operand constant            # what the value is compared with
    const Constant *several     # of ONE_OF: the constants, `count` of them

cdef enum:
    # Prefixes are cut to PREFIX_MAX bytes, so that a text has no more that must be looked up. The
    # length of a required prefix stands in the upper bits of its place.
    PREFIX_MAX = 16
    PREFIX_SHIFT = 24
    PLACE_MASK = (1 << PREFIX_SHIFT) - 1

cdef struct RequiredValue:      # the value in a place is one of these, or begins with one
    RequiredValue *next
    uint32_t place, count
    Operand one
    const Constant *several     # instead of `one`, unless it is NULL

cdef struct RequiredValues:     # a message must have at least one of these
    RequiredValue *first        # NULL: nothing is required that an index could find
    RequiredValue *last
    uint64_t cost               # the number of values, and of members already on their lists

cdef struct Analysis:
    const Code *code
    const uint16_t *headers     # ids of the program's header names
    uint16_t[2] tags            # ids of the headers that hold a message's tag
    Conjunct *conjuncts         # room for one more than there are instructions
    uint32_t count
    RequiredValue *room         # for as many as there are instructions
    RequiredValues required     # by the whole selector

cdef int analyse(Analysis *analysis, InvertedIndex index) noexcept
cdef RequiredValues nothing_required() noexcept nogil
cdef RequiredValues either_required(RequiredValues a, RequiredValues b) noexcept nogil
cdef RequiredValues cheaper(RequiredValues a, RequiredValues b) noexcept nogil
cdef RequiredValues one_of_values(InvertedIndex index, RequiredValue *room, uint32_t place,
                                  const Constant *constants, uint32_t count) noexcept


cdef inline const Operand *required_value(const RequiredValue *required,
                                          uint32_t at) noexcept nogil:
    if required.several != NULL:
        return &required.several[at].value
    return &required.one


cdef inline uint32_t with_prefix(uint32_t place, uint32_t length) noexcept nogil:
    return place | length << PREFIX_SHIFT


cdef inline uint32_t prefix_length(uint32_t place) noexcept nogil:
    return place >> PREFIX_SHIFT


# ---------------------------------------------------------------------- evaluating conjuncts


cdef inline int conjunct_holds(const Code *code, const Conjunct *one, const Operand *values,
                               int *bad) noexcept nogil:
    cdef const Operand *v = &values[one.place]
    cdef int result
    if one.kind == ONE_OF:
        result = is_in(code, v, one.several, one.count, bad)
    elif v.kind == INTEGER and one.constant.kind == INTEGER:
        return one.orders >> (order_integers(v.integer, one.constant.integer) + 1) & 1
    elif one.flipped:
        result = compare(code, one.relation, &one.constant, v)
    else:
        result = compare(code, one.relation, v, &one.constant)
    if one.negated and result <= IS_TRUE:
        return IS_TRUE if result == IS_FALSE else IS_FALSE
    return result


cdef inline int conjuncts_hold(const Code *code, const Conjunct *conjuncts, uint32_t count,
                               const Operand *values) noexcept nogil:
    """What the machine says of a selector that has no OPAQUE conjunct."""
    cdef int bad = 0, certain = 1, result
    cdef uint32_t at
    for at in range(count):
        result = conjunct_holds(code, &conjuncts[at], values, &bad)
        if result == IS_FALSE:
            return TYPE_ERROR if bad else NO_MATCH
        if result == IS_TRUE:
            continue
        certain = 0
        bad |= result == BAD_TYPE
        if bad and not code.jms:
            return TYPE_ERROR
    if certain:
        return MATCH
    return TYPE_ERROR if bad else NO_MATCH


# ---------------------------------------------------------------------- quick reject

# The first two conjuncts, if they compare with integers: in 32 bytes, they reject most messages
# without a look at the selector.
cdef struct QuickReject:
    int64_t[2] constants
    uint32_t[2] places
    uint8_t[2] orders
    uint8_t count

cdef QuickReject quick_reject_of(const Conjunct *conjuncts, uint32_t count) noexcept nogil


cdef inline bint is_rejected(const QuickReject *reject, const Operand *values) noexcept nogil:
    """Whether one of these conjuncts is false and those before it are true."""
    cdef const Operand *v
    cdef int at, order
    for at in range(reject.count):
        v = &values[reject.places[at]]
        if v.kind != INTEGER:
            return False
        order = order_integers(v.integer, reject.constants[at])
        if not reject.orders[at] >> (order + 1) & 1:
            return True
    return False
