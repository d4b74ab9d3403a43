"""Filters: the question that each answers about a message, filters made of others, and counters.

Responsible for the interface, for two filters as one, and for the filter beside a filter class.
`Filter` lets everything pass; `Selector`, `Tags` and `HeaderMatch`, which look into messages, have
modules of their own. It does not know where messages come from. Invariants: the answer depends on
nothing but the message's bytes, so any thread may ask; what is made of others passes only what its
first filter passes.
"""

from libc.stdint cimport uint8_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.log.log cimport KIND_PUBLISH
from leporid.engine.log.window cimport Window
from leporid.engine.wire.record cimport Record, Target

cdef extern from *:
    uint64_t add_relaxed "__atomic_add_fetch" (uint64_t *to, uint64_t value, int order) nogil
    uint64_t load_relaxed "__atomic_load_n" (uint64_t *at, int order) nogil
    int RELAXED "__ATOMIC_RELAXED"


cdef class Filter:
    """Lets messages pass, or not."""

    @property
    def type_errors(self):
        """Messages that did not pass, and in which an expression met a type error."""
        return load_relaxed(&self.errors, RELAXED)

    cdef int matches(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                     size_t properties_len) noexcept nogil:
        return 1

    cdef int failed(self) noexcept nogil:
        """Count a type error, and answer with it."""
        add_relaxed(&self.errors, 1, RELAXED)
        return -1

    def outcome(self, str exchange not None, str routing_key not None, bytes properties not None):
        """1, 0 or -1, as above; `properties` are encoded."""
        cdef bytes names = short(exchange) + short(routing_key)
        return self.matches(<const uint8_t *> PyBytes_AS_STRING(names), PyBytes_GET_SIZE(names),
                            <const uint8_t *> PyBytes_AS_STRING(properties),
                            PyBytes_GET_SIZE(properties))

    def matches_message(self, str exchange not None, str routing_key not None,
                        bytes properties not None):
        """Whether a message passes."""
        return self.outcome(exchange, routing_key, properties) == 1

    def count_in(self, Window window not None):
        """How many messages of a window pass; other threads run meanwhile."""
        cdef uint64_t count = 0
        cdef const uint8_t *p
        cdef const uint8_t *names
        cdef const Record *record
        cdef int at
        with nogil:
            for at in range(window.count):
                p = window.stretches[at].start
                while p < window.stretches[at].end:
                    record = <const Record *> p
                    names = p + sizeof(Record) + record.targets * sizeof(Target)
                    if record.kind == KIND_PUBLISH:
                        count += self.matches(names, record.names_len, names + record.names_len,
                                              record.properties_len) == 1
                    p += record.size
        return count


cdef class Conjunction(Filter):
    """Lets those messages pass that two filters let pass; one of them may be two again.

    The second is asked only about what the first lets pass, so the cheaper one stands first.
    """

    def __cinit__(self, Filter first not None, Filter second not None):
        self.first, self.second = first, second

    cdef int matches(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                     size_t properties_len) noexcept nogil:
        cdef int outcome = self.first.matches(names, names_len, properties, properties_len)
        if outcome == 1:
            outcome = self.second.matches(names, names_len, properties, properties_len)
        return self.failed() if outcome < 0 else outcome


cdef class ClassFilter(Filter):
    """Lets those messages pass that a filter class is to judge: what passes the filter beside it.

    The class is asked later and elsewhere, by whoever uses such a filter.
    """

    def __cinit__(self, str name not None, Filter first=None):
        self.name = name
        self.first = Filter() if first is None else first

    def __repr__(self):
        return f"<ClassFilter {self.name!r}>"

    cdef int matches(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                     size_t properties_len) noexcept nogil:
        return self.first.matches(names, names_len, properties, properties_len)


cdef class FilterCounters:
    """How often the filters of one exchange, or of the consumers of one queue, were asked.

    What is matched or a type error was evaluated, and what was evaluated was asked. What was asked
    and not evaluated, a value that the message has or lacks answered with no.
    """

    cpdef int note(self, uint64_t asked, uint64_t evaluated, uint64_t matched,
                   uint64_t type_errors) except -1:
        """Count some more."""
        self.asked += asked
        self.evaluated += evaluated
        self.matched += matched
        self.type_errors += type_errors
        return 0

    def __repr__(self):
        return (f"<FilterCounters asked={self.asked} evaluated={self.evaluated} "
                f"matched={self.matched} type_errors={self.type_errors}>")


cdef bytes short(str text):
    cdef bytes octets = text.encode("utf-8", "surrogateescape")
    if PyBytes_GET_SIZE(octets) > 255:
        raise ValueError(f"{text[:40]!r}… is longer than 255 bytes")
    return bytes((PyBytes_GET_SIZE(octets),)) + octets
