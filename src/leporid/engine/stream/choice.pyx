"""The filter of a stream's reader, and groups of tags that let it skip batches.

Responsible for the two questions: may a batch have something, and does a message match. It does not
know streams or readers. Invariant: any thread may ask, as nothing here changes; a batch that has a
matching message is never said to have none, if each message that the filter lets pass has one of
the tags of each group.
"""

from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.selectors.filter cimport Conjunction, Filter
from leporid.engine.selectors.selector cimport Selector
from leporid.engine.stream.offset_index cimport SUMMARY_UNFILTERED, summary_key, summary_may_have

cdef enum:
    STEPS_LEAST = 16                # for any message, as its header is read from memory
    TAG_STEPS = 8
    INSTRUCTION_BYTES = 4
    OP_LIKE = 29


cdef class Choice:
    """A filter, and the tags that a batch must have for a match.

    Args:
        filter: decides about each message.
        groups: a message that passes has at least one tag of each group.
        unfiltered: another group: one of these tags, or no filter value.
    """

    def __cinit__(self, Filter filter not None, groups=(), *, unfiltered=None):
        cdef int at = 0
        cdef size_t key = 0
        cdef bytes tag
        cdef list all_groups = [(tuple(tags), False) for tags in groups]
        if unfiltered is not None:
            all_groups.append((tuple(unfiltered), True))
        self.filter = filter
        self.steps = STEPS_LEAST
        self.weigh(filter)
        self.groups = <Group *> calloc(max(1, len(all_groups)), sizeof(Group))
        self.keys = <uint64_t *> calloc(
            max(1, sum([len(tags) for tags, _ in all_groups])), sizeof(uint64_t))
        if self.groups == NULL or self.keys == NULL:
            raise MemoryError("no memory for the tags of a filter")
        for at in range(len(all_groups)):
            tags, self.groups[at].unfiltered = all_groups[at]
            self.groups[at].first = key
            for tag in tags:
                self.keys[key] = summary_key(<const uint8_t *> PyBytes_AS_STRING(tag),
                                             PyBytes_GET_SIZE(tag))
                key += 1
            self.groups[at].end = key
        self.group_count = len(all_groups)
        self.look_work = 4 + <int64_t> key

    def __dealloc__(self):
        free(self.groups)
        free(self.keys)

    def __repr__(self):
        return f"<Choice by {self.filter!r} groups={self.group_count}>"

    cdef int weigh(self, Filter filter) except -1:
        """Add the cost of a filter."""
        cdef const uint8_t *code
        cdef Py_ssize_t size, at
        if isinstance(filter, Conjunction):
            self.weigh((<Conjunction> filter).first)
            return self.weigh((<Conjunction> filter).second)
        if not isinstance(filter, Selector):
            self.steps += TAG_STEPS
            return 0
        code = <const uint8_t *> PyBytes_AS_STRING((<Selector> filter).code)
        size = PyBytes_GET_SIZE((<Selector> filter).code)
        at = size - INSTRUCTION_BYTES * (code[4] << 8 | code[5])
        while at < size:
            self.steps += 2
            self.patterns += code[at] == OP_LIKE
            at += INSTRUCTION_BYTES
        return 0

    cdef bint may_match(self, const Summary *summary) noexcept nogil:
        """Whether a batch may have a match; NULL: the stream has no tags."""
        cdef int at
        cdef size_t key
        cdef Group *group
        for at in range(self.group_count):
            group = &self.groups[at]
            if group.unfiltered and (
                    summary == NULL or summary.words[0] & SUMMARY_UNFILTERED):
                continue
            if summary == NULL:
                return False
            key = group.first
            while key < group.end and not summary_may_have(summary, self.keys[key]):
                key += 1
            if key == group.end:
                return False
        return True
