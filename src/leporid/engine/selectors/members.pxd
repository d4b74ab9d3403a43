"""A member of a set of filters; members.pyx says what keeps its memory."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.selectors.conjuncts cimport Conjunct, RequiredValue, RequiredValues
from leporid.engine.selectors.inverted_index cimport PostingList
from leporid.engine.selectors.machine cimport Code, Constant, Instruction, Program

cdef enum:
    PART_CONJUNCTS
    PART_LONG                   # conjuncts that take long, which is counted
    PART_PROGRAM
    PART_FILTER

cdef struct Part:
    uint8_t kind
    uint16_t wanted             # flags of the properties that it looks at
    uint32_t derived            # places from AT_TAG on that it looks at, as bits
    uint32_t count              # of conjuncts, also of those of a program
    Conjunct *conjuncts
    Code code
    Constant *tags              # of a filter by tags
    void *filter
    uint16_t *names             # ids of headers
    uint32_t names_count
    RequiredValue *room         # for `required`, until the member is indexed
    RequiredValues required

cdef extern from *:
    uint64_t NEVER "UINT64_MAX"

cdef struct Posting:            # where a member stands in the index
    PostingList *postings
    uint32_t at

cdef struct Member:
    Part *parts                 # NULL: every message passes
    uint32_t parts_count
    uint32_t postings_count     # 0: it is asked about every message
    Posting *postings
    uint32_t at                 # among the unindexed; of a free number, the next free one
    uint64_t message            # the last one that it was asked about, if it is indexed
    uint64_t *errors            # its filter's count of type errors
    uint64_t since              # the last message before it came; NEVER: it has gone


cdef void *resized(void *array, size_t count, size_t size) except NULL
cdef void *zeroed(size_t count, size_t size) except NULL
cdef Part *add_part(Member *member, uint8_t kind) except NULL
cdef int free_member(Member *member) noexcept
cdef bint is_tag(const Program *program, const Instruction *one) noexcept
cdef uint32_t derived_places(const Program *program) noexcept
cdef int renumber(Part *part, const Program *program) except -1
cdef bint is_long(const Part *part) noexcept
