"""The one question that is asked of every filter, and who else asks it than the engine.

Responsible for the interface; this class lets everything pass. It does not know where messages come
from. Invariant: the answer depends on nothing but the message's bytes, so any thread may ask.
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


cdef bytes short(str text):
    cdef bytes octets = text.encode("utf-8", "surrogateescape")
    if PyBytes_GET_SIZE(octets) > 255:
        raise ValueError(f"{text[:40]!r}… is longer than 255 bytes")
    return bytes((PyBytes_GET_SIZE(octets),)) + octets
