"""Many filters asked about one message at once; selector_set.pyx says how to use them."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.selectors.filter cimport Filter
from leporid.engine.selectors.selector cimport Program
from leporid.engine.selectors.tags cimport Tags

cdef extern from "selector_set.h":
    uint32_t NOBODY
    int NOT_TAKEN

    ctypedef int (*Ask)(void *filter, const uint8_t *names, size_t names_len,
                        const uint8_t *properties, size_t properties_len) noexcept

    ctypedef struct Set "SelectorSet":
        uint32_t count, always_count
        uint32_t *matched
        uint64_t asked, evaluated, passed, failed

    Set *set_open() noexcept
    void set_close(Set *set) noexcept
    uint32_t set_begin(Set *set, uint64_t *errors) noexcept
    int add_filter(Set *set, uint32_t number, void *filter) noexcept
    int add_tags(Set *set, uint32_t number, uint32_t count) noexcept
    void set_tag(Set *set, uint32_t number, uint32_t at, const uint8_t *text,
                 uint32_t length) noexcept
    int add_program(Set *set, uint32_t number, const Program *program) noexcept
    int set_file(Set *set, uint32_t number) noexcept
    void set_remove(Set *set, uint32_t number) noexcept
    uint32_t set_match(Set *set, const uint8_t *names, size_t names_len,
                       const uint8_t *properties, size_t properties_len, Ask ask) noexcept

cdef class SelectorSet:
    cdef Set *set
    cdef list filters               # by number, which keep what the set points into
    cdef const uint32_t *matched    # of the last message
    cpdef uint32_t add(self, Filter filter) except? 0xffffffff
    cpdef int remove(self, uint32_t number) except -1
    cdef uint32_t match(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                        size_t properties_len) noexcept
    cdef int add_parts(self, uint32_t number, Filter filter) except -1
    cdef int add_tags_of(self, uint32_t number, Tags filter) except? -2
