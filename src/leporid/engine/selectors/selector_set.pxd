"""Many filters asked about one message at once; selector_set.pyx says how to use them."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.selectors.conjuncts cimport QuickReject, RequiredValues
from leporid.engine.selectors.filter cimport Filter
from leporid.engine.selectors.header_match cimport HeaderMatch
from leporid.engine.selectors.interned_names cimport InternedNames
from leporid.engine.selectors.inverted_index cimport InvertedIndex, PostingList
from leporid.engine.selectors.machine cimport AT_HEADERS, Operand, Program, Seen
from leporid.engine.selectors.members cimport Member, Part
from leporid.engine.selectors.selector cimport Selector
from leporid.engine.selectors.tags cimport Tags
from leporid.engine.selectors.unfinished_match cimport UnfinishedMatch

cdef struct IndexedPlace:       # the posting lists of values in one place
    uint32_t texts, numbers, prefixes
    uint32_t lengths            # of the prefixes, as bits; some may be of removed ones
    PostingList *lists[2]            # linked: those of texts, those of numbers


cdef struct Asked:
    const uint8_t *names
    const uint8_t *properties
    size_t names_len, properties_len


cdef class SelectorSet:
    cdef uint32_t count             # of members
    cdef uint64_t asked, evaluated, passed, failed  # `counts` says what they are
    cdef const uint32_t *matched    # members that the last message passed
    cdef list filters               # by number; the members point into them
    cdef Member *members
    cdef uint32_t size, end, free_number
    cdef uint32_t *unindexed        # members that are asked about every message
    cdef QuickReject *rejects       # of these
    cdef uint32_t unindexed_count, matched_count
    cdef uint32_t *passing          # `matched`, to be written
    cdef InvertedIndex index
    cdef InternedNames names
    cdef uint16_t[2] tags           # ids of the headers that hold a message's tag
    # By place: the message's value, the posting lists, whether the header was found.
    cdef Operand *values
    cdef IndexedPlace *indexed_places
    cdef uint8_t *found
    cdef uint16_t *touched          # ids of the headers that were found
    cdef uint32_t places, touched_count
    cdef uint32_t[AT_HEADERS] uses  # parts that look at a property, or at the tag
    cdef uint32_t header_users, wanted, indexed_properties
    cdef uint64_t message           # its number
    cdef Seen seen                  # what programs run on, and the steps of all of them
    cdef uint64_t limit             # of these steps, before the clock is read
    cdef Clock clock
    cdef bint is_over               # the slice
    cdef bint has_left
    cdef uint64_t *left             # members that were left for a later slice, as bits
    cdef UnfinishedMatch unfinished
    cpdef uint32_t add(self, Filter filter) except? 0xffffffff
    cpdef int remove(self, uint32_t number) except -1
    cdef uint32_t match(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                        size_t properties_len) noexcept
    cdef uint32_t match_in_time(self, const uint8_t *names, size_t names_len,
                                const uint8_t *properties, size_t properties_len,
                                Clock clock) except? 0xffffffff
    cdef uint32_t go_on(self, UnfinishedMatch rest, const uint8_t *names, size_t names_len,
                        const uint8_t *properties, size_t properties_len,
                        Clock clock) except? 0xffffffff
    cdef bint ask_once_more(self, UnfinishedMatch rest, uint32_t number,
                            const Asked *asked) except -1
    cdef list numbers_matched(self)
    cdef uint32_t take_number(self) except? 0xffffffff
    cdef int add_parts(self, Member *member, Filter filter) except -1
    cdef bint can_share(self, const Program *program) noexcept
    cdef int add_tags(self, Member *member, Tags filter) except -1
    cdef int add_header_match(self, Member *member, HeaderMatch filter) except -1
    cdef int add_selector(self, Member *member, Selector filter) except -1
    cdef int make_room(self) except -1
    cdef int make_places(self) except -1
    cdef int index_member(self, uint32_t number) except -1
    cdef int add_postings(self, uint32_t number, RequiredValues required) except -1
    cdef int unindex_member(self, uint32_t number) noexcept
    cdef int note_use(self, const Part *part, int change) noexcept
    cdef int note_postings(self, PostingList *postings, int change) noexcept
    cdef int drop(self, uint32_t number) noexcept
