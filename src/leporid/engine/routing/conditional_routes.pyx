"""Conditional routes: the queues of a routing key, some of which take a message by a filter.

Responsible for evaluating all filters of a key's bindings together, and for the route of the queues
that take the message. Filters can be added and removed, as rebuilding the whole for each of
thousands of bindings would take long. It must not know bindings; a key without filters does not
come here. Invariants: a queue is in a route once, however many of its filters the message passes;
what passes in one slice of time is taken over before the next, as filters come and go in between.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, qsort, realloc
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route cimport Route, make_route
from leporid.engine.selectors.filter cimport Filter, FilterCounters
from leporid.engine.selectors.selector_set cimport SelectorSet
from leporid.engine.selectors.unfinished_match cimport UnfinishedMatch
from leporid.engine.wire.record cimport Message


cdef class ConditionalRoute:
    """The route of one key if some of its bindings have filters; see `Engine.conditional_route`.

    Args:
        totals: counters of the filters of all exchanges.
        queues: take every message.
        filtered: (filter, queue), none of them among `queues`; a queue may be there several times.
    """

    def __cinit__(self, FilterCounters totals not None, queues, filtered):
        self.totals = totals
        self.always = list(queues)
        self.everywhere = frozenset(self.always)
        self.members = SelectorSet()
        self.numbers = {}
        self.places = {}
        self.chosen = []
        self.users = []
        self.single = []
        self.vacant = []
        self.extend(filtered)
        self.otherwise = make_route(self.always)

    def __dealloc__(self):
        free(self.place_of)
        free(self.last)

    def __repr__(self):
        return f"<ConditionalRoute always={len(self.always)} filtered={len(self.members)}>"

    def extend(self, filtered):
        """Add more of what it is made of, before it is used; `filtered` as at first."""
        for filter, queue in filtered:
            self.add(filter, queue)
        self.amended = False

    cpdef int add(self, Filter wanted, Queue queue) except -1:
        """Add a filter of a queue."""
        cdef uint32_t member, place
        cdef void *grown
        self.amended = True
        if queue in self.everywhere or (wanted, queue) in self.numbers:
            return 0
        found = self.places.get(queue)
        if found is not None:
            place = found
        elif self.vacant:
            place = self.vacant.pop()
        else:
            place = <uint32_t> len(self.chosen)
            if place == self.size_of_last:
                grown = realloc(self.last, (place * 2 + 8) * sizeof(uint64_t))
                if grown == NULL:
                    raise MemoryError("no memory for a route with filters")
                self.last = <uint64_t *> grown
                self.size_of_last = place * 2 + 8
            self.last[place] = 0
            self.chosen.append(None)
            self.single.append(None)
            self.users.append(0)
        member = self.members.add(wanted)
        if member >= self.size_of_places:
            grown = realloc(self.place_of, (member * 2 + 8) * sizeof(uint32_t))
            if grown == NULL:
                self.members.remove(member)
                raise MemoryError("no memory for a route with filters")
            self.place_of = <uint32_t *> grown
            self.size_of_places = member * 2 + 8
        self.place_of[member] = place
        self.chosen[place] = queue
        self.users[place] += 1
        self.places[queue] = place
        self.numbers[wanted, queue] = member
        return 0

    cpdef int remove(self, Filter wanted, Queue queue) except -1:
        """Remove a filter of a queue."""
        cdef uint32_t place
        self.amended = True
        member = self.numbers.pop((wanted, queue), None)
        if member is None:
            return 0
        self.members.remove(member)
        place = self.places[queue]
        self.users[place] -= 1
        if not self.users[place]:
            self.chosen[place] = self.single[place] = None
            self.vacant.append(place)
            del self.places[queue]
        return 0

    cdef Route route_of(self, FilterCounters counters, const Message *message, Clock clock):
        """Where one message goes; `counters` are those of where it came in.

        None: the slice was over before all filters were asked; `unfinished` is the rest.
        """
        cdef uint64_t evaluated = self.members.evaluated, failed = self.members.failed
        cdef uint32_t count = self.members.match_in_time(
            message.names, message.names_len, message.properties, message.properties_len, clock)
        cdef uint32_t at, place = 0
        cdef list queues
        cdef Route route
        evaluated = self.members.evaluated - evaluated
        failed = self.members.failed - failed
        self.totals.note(self.members.count, evaluated, count, failed)
        counters.note(self.members.count, evaluated, count, failed)
        if self.members.unfinished is not None:
            self.unfinished = UnfinishedRoute(self, counters)
            return None
        if not count:
            return self.otherwise
        if count == 1:
            place = self.place_of[self.members.matched[0]]
            route = <Route> self.single[place]
            if route is None:
                route = self.single[place] = make_route(self.always + [self.chosen[place]])
            return route
        self.turn += 1
        queues = list(self.always)
        for at in range(count):
            place = self.place_of[self.members.matched[at]]
            if self.last[place] != self.turn:
                self.last[place] = self.turn
                queues.append(self.chosen[place])
        return make_route(queues)


cdef class UnfinishedRoute:
    """What is left of asking the filters of a conditional route about one message."""

    def __cinit__(self, ConditionalRoute source not None, FilterCounters counters not None):
        self.source, self.counters = source, counters
        self.rest, source.members.unfinished = source.members.unfinished, None
        self.queues = dict.fromkeys(source.always)
        self.take_over()

    cdef int take_over(self) except -1:
        """Add the queues whose filters the message has passed in this slice."""
        cdef SelectorSet members = self.source.members
        cdef uint32_t at
        for at in range(members.matched_count):
            self.queues[self.source.chosen[self.source.place_of[members.matched[at]]]] = None
        return 0

    cdef Route go_on(self, const Message *message, Clock clock):
        """The route; None: the slice is over."""
        cdef SelectorSet members = self.source.members
        cdef uint64_t evaluated = members.evaluated, failed = members.failed
        cdef Queue queue
        cdef uint32_t count
        members.matched_count = 0
        count = members.go_on(self.rest, message.names, message.names_len, message.properties,
                              message.properties_len, clock)
        self.source.totals.note(0, members.evaluated - evaluated, count, members.failed - failed)
        self.counters.note(0, members.evaluated - evaluated, count, members.failed - failed)
        self.take_over()
        if not self.rest.is_done():
            return None
        # Some may have been deleted meanwhile.
        return make_route([queue for queue in self.queues if not queue.retired])


cdef class FilterOutcomes:
    """The filters that decide about the route of a key; made by `Engine.filter_outcomes`.

    They decide more than which queues take a message: a filter between exchanges decides about all
    bindings behind it, and a message that passes none may go to an alternate exchange. The control
    plane resolves the route once for all messages that pass the same filters.

    Args:
        totals: counters of the filters of all exchanges.
        filters: all that may matter to a message with the key.
    """

    def __cinit__(self, FilterCounters totals not None, filters):
        self.totals = totals
        self.members = SelectorSet()
        self.extend(filters)

    def extend(self, filters):
        """Add more of them, before it is used."""
        for each in filters:
            self.members.add(each)

    def __repr__(self):
        return f"<FilterOutcomes filters={len(self.members)}>"

    cdef bytes passed_by(self, const Message *message, Clock clock):
        """The numbers of the filters that a message passes: equal for equal ones.

        None: the slice was over before all were asked. The rest is `members.unfinished`, for
        `go_on`; what was found is `so_far`.
        """
        cdef uint64_t evaluated = self.members.evaluated, failed = self.members.failed
        self.members.match_in_time(
            message.names, message.names_len, message.properties, message.properties_len, clock)
        self.evaluated = self.members.evaluated - evaluated
        self.failed = self.members.failed - failed
        return None if self.members.unfinished is not None else self.so_far(b"")

    cdef bytes go_on(self, UnfinishedMatch rest, bytes found, const Message *message, Clock clock):
        """Ask more filters about the same message; returns all that it has passed so far."""
        cdef SelectorSet members = self.members
        cdef uint64_t evaluated = members.evaluated, failed = members.failed
        members.matched_count = 0
        members.go_on(rest, message.names, message.names_len, message.properties,
                      message.properties_len, clock)
        self.evaluated = members.evaluated - evaluated
        self.failed = members.failed - failed
        return self.so_far(found)

    cdef bytes so_far(self, bytes before):
        """The numbers of the filters that were just passed, and of those passed before."""
        cdef bytes found = before + PyBytes_FromStringAndSize(
            <const char *> self.members.matched, self.members.matched_count * sizeof(uint32_t))
        if <size_t> len(found) > sizeof(uint32_t):
            qsort(PyBytes_AS_STRING(found), len(found) // sizeof(uint32_t), sizeof(uint32_t),
                  in_order)
        return found

    cdef int note(self, FilterCounters counters, size_t passed) except -1:
        """Count the last message, which has passed so many."""
        self.totals.note(self.members.count, self.evaluated, passed, self.failed)
        return counters.note(self.members.count, self.evaluated, passed, self.failed)


cdef int in_order(const void *a, const void *b) noexcept nogil:
    cdef uint32_t one = (<const uint32_t *> a)[0], other = (<const uint32_t *> b)[0]
    return (one > other) - (one < other)
