"""Routes with filters: which of a key's queues a message goes to, by what it is.

Responsible for asking the filters of a key's bindings together, and for making one route of those
queues that take the message and those that take every message. It does not know bindings, and
nothing of it is asked where no binding has a filter. Invariant: a queue is in a route once, however
many of its filters the message passes.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from leporid.engine.filter cimport Filter
from leporid.engine.queue cimport Queue
from leporid.engine.selector_set cimport SelectorSet
from leporid.engine.source cimport Route, make_route


cdef class Fork:
    """Where one key leads, if some of its bindings have filters; made by `Plane.fork`.

    Args:
        plane: counts what is asked here.
        queues: of every message.
        filtered: (filter, queue), none of them among `queues`; a queue may be there several times.
    """

    def __cinit__(self, Plane plane not None, queues, filtered):
        cdef Filter filter
        cdef Queue queue
        cdef uint32_t member
        self.plane = plane
        self.always = list(queues)
        self.members = SelectorSet()
        self.chosen = []
        filtered = list(filtered)
        self.place_of = <uint32_t *> calloc(len(filtered) + 1, sizeof(uint32_t))
        self.last = <uint64_t *> calloc(len(filtered) + 1, sizeof(uint64_t))
        if self.place_of == NULL or self.last == NULL:
            raise MemoryError("no memory for a route with filters")
        places = {}
        for filter, queue in filtered:
            member = self.members.add(filter)
            if queue not in places:
                places[queue] = len(self.chosen)
                self.chosen.append(queue)
            self.place_of[member] = places[queue]
        self.otherwise = make_route(self.always)
        self.single = [None] * len(self.chosen)

    def __dealloc__(self):
        free(self.place_of)
        free(self.last)

    def __repr__(self):
        return f"<Fork always={len(self.always)} filtered={len(self.members)}>"

    cdef Route route_of(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                        size_t properties_len):
        """Where one message goes."""
        cdef uint64_t evaluated = self.members.set.evaluated, failed = self.members.set.failed
        cdef uint32_t count = self.members.match(names, names_len, properties, properties_len)
        cdef uint32_t at, place = 0
        cdef list queues
        cdef Route route
        self.plane.filters_asked += self.members.set.count
        self.plane.filters_evaluated += self.members.set.evaluated - evaluated
        self.plane.filters_matched += count
        self.plane.filters_failed += self.members.set.failed - failed
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
