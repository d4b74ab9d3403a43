"""The filter of a stream's consumer or reader."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from leporid.engine.selectors.filter cimport Filter
from leporid.engine.stream.offset_index cimport Summary
from leporid.engine.wire.record cimport Message, Record, message_in

cdef struct Tally:
    # What filters did with the messages of a stream.
    uint64_t batches_skipped
    uint64_t evaluated
    uint64_t matched
    uint64_t type_errors


cdef inline void add_tally(Tally *to, const Tally *more) noexcept nogil:
    to.batches_skipped += more.batches_skipped
    to.evaluated += more.evaluated
    to.matched += more.matched
    to.type_errors += more.type_errors


cdef inline tuple tally_of(const Tally *tally):
    """Batches skipped, messages evaluated and matched, and those with a type error."""
    return tally.batches_skipped, tally.evaluated, tally.matched, tally.type_errors


cdef struct Group:
    # A batch must have one of these tags; or, with `unfiltered`, a message without a filter value.
    size_t first, end
    bint unfiltered

cdef class Choice:
    cdef readonly Filter filter
    cdef uint64_t *keys             # of the tags of all groups
    cdef Group *groups
    cdef int group_count
    cdef int64_t look_work          # the work of checking one summary
    cdef int64_t steps              # the least work of evaluating one message
    cdef int64_t patterns           # LIKE patterns, each of which may scan a text
    cdef int weigh(self, Filter filter) except -1
    cdef bint may_match(self, const Summary *summary) noexcept nogil


cdef inline int64_t work_of(Choice choice, const Record *record) noexcept nogil:
    """The rough cost of evaluating a message, in units of one to three nanoseconds."""
    return (choice.steps + (record.properties_len >> 2)
            + choice.patterns * record.properties_len + min(record.size >> 7, <uint32_t> 64))


cdef inline int outcome_of(Choice choice, const Record *record, Tally *tally) noexcept nogil:
    """Evaluate the filter on a message, and count that: 1 matches, 0 does not, -1 type error."""
    cdef Message message = message_in(record)
    cdef int outcome = choice.filter.matches(message.names, message.names_len,
                                             message.properties, message.properties_len)
    tally.evaluated += 1
    tally.matched += outcome == 1
    tally.type_errors += outcome < 0
    return outcome
