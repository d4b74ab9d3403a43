"""Many filters asked about one message at once: what every subscriber of one thing wants of it.

    members = SelectorSet()
    number = members.add(filter)            a small number, given again after `remove`
    count = members.match(names, names_len, properties, properties_len)
    members.matched[0 .. count]             numbers of those that the message passes, in no order;
                                            valid until the set is used again

The headers are walked once for all members, and a member that wants a tag, or a value to be equal
to a constant (`origin = 'JFK' AND …`), is found by it: it costs nothing for messages with another
one. `selector_set.h` does it. Whoever wants its counts beside others' adds `counts` up.

It does not know what a member stands for: numbers are an index into a list of the user's. One
thread uses a set, with the interpreter's lock. Invariant: matched are exactly those members whose
`Filter.matches` would say 1; but type errors are counted only of members that were asked.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.selectors.conjunction cimport Conjunction
from leporid.engine.selectors.filter cimport Filter, short
from leporid.engine.wire.hashing cimport keep_secret
from leporid.engine.log.log cimport KIND_PUBLISH
from leporid.engine.selectors.selector cimport Selector
from leporid.engine.selectors.tags cimport Tags
from leporid.engine.log.window cimport Window
from leporid.engine.wire.wire cimport Record, Target

keep_secret()


cdef class SelectorSet:
    """Filters that are asked together, by number."""

    def __cinit__(self):
        self.set = set_open()
        self.filters = []
        if self.set == NULL:
            raise MemoryError("no memory for a set of filters")
        self.matched = self.set.matched

    def __dealloc__(self):
        set_close(self.set)

    def __len__(self):
        return self.set.count

    def __repr__(self):
        return f"<SelectorSet members={self.set.count} filed={self.filed}>"

    @property
    def filed(self):
        """Members that are found by a value, and not asked about every message."""
        return self.set.count - self.set.always_count

    @property
    def counts(self):
        """(counters, asked, passed, type errors) since the start: each member is one question
        about each message, and is asked unless a value has answered it."""
        return self.set.asked, self.set.evaluated, self.set.passed, self.set.failed

    cpdef uint32_t add(self, Filter filter) except? 0xffffffff:
        """Take a member in; returns its number. A filter may be in it several times."""
        cdef uint32_t number
        if filter is None:
            raise TypeError("None is no filter")
        number = set_begin(self.set, &filter.errors)
        if number == NOBODY:
            raise MemoryError("no memory for another filter in a set")
        try:
            self.add_parts(number, filter)
            if set_file(self.set, number):
                raise MemoryError("no memory for another filter in a set")
        except BaseException:
            set_remove(self.set, number)
            raise
        if number == <size_t> len(self.filters):
            self.filters.append(filter)
        else:
            self.filters[number] = filter
        self.matched = self.set.matched
        return number

    cdef int add_parts(self, uint32_t number, Filter filter) except -1:
        cdef int failed = 0
        if type(filter) is Conjunction:
            self.add_parts(number, (<Conjunction> filter).first)
            self.add_parts(number, (<Conjunction> filter).second)
        elif type(filter) is Tags:
            failed = self.add_tags_of(number, <Tags> filter)
        elif type(filter) is Selector:
            failed = add_program(self.set, number, (<Selector> filter).program)
        elif type(filter) is not Filter:
            failed = NOT_TAKEN
        if failed == NOT_TAKEN:
            failed = add_filter(self.set, number, <void *> filter)
        if failed:
            raise MemoryError("no memory for another filter in a set")
        return 0

    cdef int add_tags_of(self, uint32_t number, Tags filter) except? -2:
        cdef Py_ssize_t at, count = len(filter.texts)
        cdef int failed = add_tags(self.set, number, <uint32_t> count)
        for at in range(0 if failed else count):
            set_tag(self.set, number, <uint32_t> at, filter.tags[at].text, filter.tags[at].length)
        return failed

    cpdef int remove(self, uint32_t number) except -1:
        """Let a member go."""
        if number >= <size_t> len(self.filters) or self.filters[number] is None:
            raise KeyError(number)
        set_remove(self.set, number)
        self.filters[number] = None
        return 0

    cdef uint32_t match(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                        size_t properties_len) noexcept:
        return set_match(self.set, names, names_len, properties, properties_len, ask_other)

    def matching(self, str exchange not None, str routing_key not None, bytes properties not None):
        """The numbers of the members that a message passes; `properties` are encoded."""
        cdef bytes names = short(exchange) + short(routing_key)
        cdef uint32_t at, count
        count = self.match(<const uint8_t *> PyBytes_AS_STRING(names), PyBytes_GET_SIZE(names),
                           <const uint8_t *> PyBytes_AS_STRING(properties),
                           PyBytes_GET_SIZE(properties))
        return [self.matched[at] for at in range(count)]

    def count_in(self, Window window not None):
        """How many members the messages of a window pass, all together."""
        cdef uint64_t count = 0
        cdef const uint8_t *p
        cdef const uint8_t *names
        cdef const Record *record
        cdef int at
        for at in range(window.count):
            p = window.stretches[at].start
            while p < window.stretches[at].end:
                record = <const Record *> p
                names = p + sizeof(Record) + record.targets * sizeof(Target)
                if record.kind == KIND_PUBLISH:
                    count += self.match(names, record.names_len, names + record.names_len,
                                        record.properties_len)
                p += record.size
        return count


cdef int ask_other(void *other, const uint8_t *names, size_t names_len, const uint8_t *properties,
                   size_t properties_len) noexcept:
    return (<Filter> other).matches(names, names_len, properties, properties_len)
