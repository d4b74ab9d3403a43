"""What a set of filters keeps of each of its members.

Responsible for their memory: parts, which must all let a message pass, and the places of a member
in the index. It must not know messages, nor which members a set has. Invariant: what is freed was
made here.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from leporid.engine.selectors.conjuncts cimport ONE_OF
from leporid.engine.selectors.machine cimport (
    AT_DELIVERY_MODE, AT_MILLISECONDS, AT_TAG, Header, Instruction, OP_DELIVERY_MODE, OP_HEADER,
    OP_MILLISECONDS, OP_TAG, Program,
)

cdef enum:
    # Comparisons with constants that are not counted as work: a quarter of a microsecond.
    SHORT_PART = 16


cdef void *resized(void *array, size_t count, size_t size) except NULL:
    cdef void *grown = realloc(array, count * size)
    if grown == NULL:
        raise MemoryError("no memory for another filter in a set")
    return grown


cdef void *zeroed(size_t count, size_t size) except NULL:
    cdef void *array = calloc(count, size)
    if array == NULL:
        raise MemoryError("no memory for another filter in a set")
    return array


cdef Part *add_part(Member *member, uint8_t kind) except NULL:
    cdef Part *part
    member.parts = <Part *> resized(member.parts, member.parts_count + 1, sizeof(Part))
    part = &member.parts[member.parts_count]
    memset(part, 0, sizeof(Part))
    part.kind = kind
    member.parts_count += 1
    return part


cdef int free_member(Member *member) noexcept:
    cdef Part *part
    cdef uint32_t at
    for at in range(member.parts_count):
        part = &member.parts[at]
        if part.kind == PART_PROGRAM:
            free(part.code.instructions)
        free(part.names)
        free(part.conjuncts)
        free(part.tags)
        free(part.room)
    free(member.parts)
    free(member.postings)
    return 0


cdef bint is_tag(const Program *program, const Instruction *one) noexcept:
    """Whether OP_TAG asks for the message's tag, as our compiler has it."""
    cdef const Header *first = &program.headers[one.operand]
    cdef const Header *second = &program.headers[one.count]
    return (
        first.length == 5 and not memcmp(first.name, b"x-tag", 5)
        and second.length == 21 and not memcmp(second.name, b"x-stream-filter-value", 21)
    )


cdef uint32_t derived_places(const Program *program) noexcept:
    """Places whose values are made of others, and which the program looks at."""
    cdef uint32_t derived = 0
    cdef uint8_t opcode
    cdef int at
    for at in range(program.code.count):
        opcode = program.code.instructions[at].opcode
        if opcode == OP_TAG:
            derived |= 1 << AT_TAG
        elif opcode == OP_DELIVERY_MODE:
            derived |= 1 << AT_DELIVERY_MODE
        elif opcode == OP_MILLISECONDS:
            derived |= 1 << AT_MILLISECONDS
    return derived


cdef int renumber(Part *part, const Program *program) except -1:
    """Have the machine find headers by the set's ids. Those of the tags fit into eight bits."""
    cdef size_t size = program.code.count * sizeof(Instruction)
    cdef Instruction *own = <Instruction *> malloc(size)
    cdef Instruction *one
    cdef int at
    if own == NULL:
        raise MemoryError("no memory for another filter in a set")
    memcpy(own, program.code.instructions, size)
    part.kind = PART_PROGRAM
    part.code.instructions = own
    for at in range(program.code.count):
        one = &own[at]
        if one.opcode == OP_TAG:
            one.count = <uint8_t> part.names[one.count]
        if one.opcode == OP_HEADER or one.opcode == OP_TAG:
            one.operand = part.names[one.operand]
    return 0


cdef bint is_long(const Part *part) noexcept:
    """Whether evaluating the conjuncts of a part takes longer than counting that it was."""
    cdef uint32_t at, compared = 0
    for at in range(part.count):
        compared += part.conjuncts[at].count if part.conjuncts[at].kind == ONE_OF else 1
    return compared > SHORT_PART
