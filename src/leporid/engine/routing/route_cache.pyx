"""The cache of an exchange's routes by routing key, valid until the topology changes.

Responsible for finding the route of a key in one probe, and for finding that of a message in as
many slices of time as it takes (`Resolution`), and giving its queues room for an entry in the same
way. Where the bindings that a key meets say all, a key that is not cached has the route of the
bindings, and the resolver is not asked: publishers who never repeat a key would ask it always. It
must not know exchange types or alternate exchanges, nor of bindings anything but whether two are
the same: the control plane does. Invariant: a cached route is what the resolver would return now;
whoever changes a binding calls `forget` on every exchange it concerns. What was found in slices,
and something has changed meanwhile, is not cached.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.iterator cimport PyIter_Check

from leporid.engine.bounds.clock cimport Clock, spend
from leporid.engine.bounds.jobs cimport Jobs
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.conditional_routes cimport ConditionalRoute, FilterOutcomes
from leporid.engine.routing.route cimport Route, all_queues, make_route, same_way
from leporid.engine.selectors.filter cimport FilterCounters
from leporid.engine.wire.hashing cimport hash_hidden, keep_secret
from leporid.engine.wire.record cimport Message, exchange_name, key_in, properties_bytes
from leporid.engine.wire.text cimport ascii_length

from leporid.amqp.errors import PreconditionFailed

keep_secret()

cdef enum:
    # Routes cached for one exchange. Beyond, the cache is cleared: at once for a key that the
    # resolver was asked for; for keys that go where others go once there were so many of them, as
    # what is cached may be what nobody publishes with any more.
    ROUTES_MAX = 32768
    NOT_CACHED_MAX = 4 * ROUTES_MAX
    # Memory of the routes of all exchanges. Beyond, the cache is cleared that began to fill first:
    # publishers who never repeat a key would otherwise fill one for each exchange.
    ALL_BYTES_MAX = 64 * 1024 * 1024
    # Of a route, beside its key and its queues.
    ROUTE_BYTES = 400
    # Routes that are updated one by one when a binding with a filter comes or goes. If there are
    # more, the cache is cleared: each takes a microsecond or so.
    AMENDED_MAX = 64
    # Memory of the outcomes of filters cached for one exchange, and of one outcome without its
    # lists of filters and queues. Beyond, the cache is cleared.
    OUTCOMES_BYTES_MAX = 32 * 1024 * 1024
    OUTCOME_BYTES = 500
    UNITS_A_QUESTION = 16       # of the clock: what the resolver takes at least
    UNITS_A_BLOCK = 4           # likewise, of a queue's index
    UNITS_A_MEETING = 16        # likewise, of finding the bindings that a key meets
    # Bindings of a route that is found by them, and routes of one exchange that are kept so.
    MET_MAX = 64
    BY_MET_MAX = 1024
    # Memory of such a route, with its bindings and queues.
    MET_BYTES = 2000

# In the slot of a route that was forgotten; equals no key.
cdef Route FORGOTTEN = Route()

# What a resolver returns for a key whose messages it must be asked about one by one.
BY_MESSAGE = object()


cdef str text_of(bytes key):
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise PreconditionFailed(f"routing key {key!r} is not valid UTF-8") from None


cdef bytes identity_of(list met):
    """What is the same for the same bindings in the same order."""
    cdef (void *)[MET_MAX] each
    cdef Py_ssize_t at
    for at in range(len(met)):
        each[at] = <void *> met[at]
    return PyBytes_FromStringAndSize(<char *> each, len(met) * sizeof(void *))


def _freeing(list table, dict by_met, Clock clock):
    """Free the routes of a cache that was cleared, in steps of 0.3 microseconds."""
    while table:
        table.pop()
        if spend(clock, 1):
            yield
    while by_met:
        by_met.popitem()
        if spend(clock, 1):
            yield


cdef class CachedRoutes:
    """What the route caches of one broker keep together; bounded."""

    def __cinit__(self, Jobs jobs not None):
        self.jobs = jobs
        self.bytes_max = ALL_BYTES_MAX
        self.caches = {}

    def __repr__(self):
        return f"<CachedRoutes bytes={self.bytes} caches={len(self.caches)}>"

    cdef int add(self, RouteCache routes, uint64_t size) except -1:
        """Count what a cache is about to keep; others, or itself, are cleared to make room."""
        cdef RouteCache oldest
        while self.caches and self.bytes + size > self.bytes_max:
            oldest = next(iter(self.caches))
            oldest.clear()
        self.caches[routes] = None
        routes.bytes += size
        self.bytes += size
        return 0

    cdef int remove(self, RouteCache routes) except -1:
        """Count a cache out that is cleared."""
        self.bytes -= routes.bytes
        routes.bytes = 0
        self.caches.pop(routes, None)
        return 0


cdef class RouteCache:
    """The routes of one exchange; made by `Engine.route_cache`."""

    def __cinit__(self, str name, resolver, bint cacheable, Clock clock not None,
                  CachedRoutes all_routes not None, Totals totals not None):
        self.name = name
        self.raw_name = name.encode()
        self.resolver = resolver
        self.cacheable = cacheable
        self.clock = clock
        self.all_routes = all_routes
        self.totals = totals
        self.counters = FilterCounters()
        self.clear()

    cdef int clear(self) except -1:
        if self.count or self.by_met:
            # A job each, as others may clear theirs: it is work of whoever causes it.
            self.all_routes.jobs.start(_freeing(self.table, self.by_met, self.clock))
            self.by_met = {}
        self.table = [None] * 16
        self.mask = 15
        self.count = self.forgotten = self.not_cached = 0
        self.outcomes_bytes = 0
        self.epoch += 1
        self.forget_met()
        return self.all_routes.remove(self)

    def forget(self):
        """Clear the cache: a binding changed, of this exchange or of one bound to it."""
        self.clear()

    def forget_key(self, str key):
        """Drop the route of one key; cheaper than `forget`."""
        cdef bytes raw = key.encode()
        cdef const uint8_t *text = <const uint8_t *> PyBytes_AS_STRING(raw)
        cdef uint64_t h = hash_hidden(text, len(raw)), at = h & self.mask
        cdef Route route
        while True:
            route = <Route> self.table[at]
            if route is None:
                break
            if route.hash == h and route.key == raw:
                # The slot stays in use, so that probing past it still works, but knows no queue.
                self.table[at] = FORGOTTEN
                self.forgotten += 1
                break
            at = (at + 1) & self.mask
        self.epoch += 1
        self.forget_met()           # it may have what is gone

    def amend(self, meets, wanted, queue, bint comes):
        """Update the routes for a binding with a filter, to a queue, that came or went.

        Args:
            meets: (key) says whether the binding matches a routing key, whatever its filter.
            wanted: its filter.
            queue: its destination.
            comes: it was added; else it was removed.
        """
        cdef Route route
        cdef ConditionalRoute conditional
        if self.count > AMENDED_MAX:
            self.clear()
            return
        self.epoch += 1     # a route that is being found is not amended
        # Several keys may share a conditional route, and the binding may match only some of them.
        met, unmet = {}, set()
        for route in self.table:
            if route is None or route.key is None:
                continue
            if not meets(text_of(route.key)):
                unmet.add(route.conditional)
            elif route.conditional is None:
                self.forget_key(text_of(route.key))
            else:
                met.setdefault(route.conditional, []).append(text_of(route.key))
        for conditional, keys in met.items():
            if conditional in unmet:
                for key in keys:
                    self.forget_key(key)
            elif comes:
                conditional.add(wanted, queue)
            else:
                conditional.remove(wanted, queue)

    def retire(self):
        """The exchange was deleted; publishers must look its name up again."""
        self.retired = True
        self.met_by = None
        self.clear()

    def end(self):
        """The deleted exchange is gone: nothing leads anywhere, and nobody is asked any more.

        What is asked knows the exchange, which knows this cache: all of them would stay until a
        full garbage collection.
        """
        self.resolver = _nowhere
        self.make_delays = self.check_key = self.delays = self.met_by = self.queues_met = None

    cdef Route route_of(self, const Message *message, const uint8_t *key, size_t size):
        """The route of a message with a routing key.

        None: the slice was over before it was found; whoever takes what is `unfinished` goes on.
        """
        cdef Route route
        cdef Resolution resolution
        if self.keyless:
            self.check_text(key, size)
        if self.cacheable:
            route = self.cached(key, 0 if self.keyless else size)
            if route is not None:
                if route.by_message:
                    return self.route_by(route, message)
                return self.with_room(route) if route.wide else route
            if self.met_by is not None:
                route = self.by_bindings(key, size)
                if route is not None:
                    return route
        resolution = Resolution(self, key[:size])
        route = resolution.go_on(message)
        if route is None:
            self.unfinished = resolution
        return route

    cdef int check_text(self, const uint8_t *key, size_t size) except -1:
        """Refuse a key that is no text, as looking for its route would."""
        if ascii_length(key, size) < size:
            text_of(key[:size])
        return 0

    cdef Resolution take_unfinished(self):
        """The search for the route of the last message, which was left unfinished."""
        resolution, self.unfinished = self.unfinished, None
        return resolution

    cdef Route route_by(self, Route route, const Message *message):
        """The route of a message whose key alone does not say it; None as above."""
        cdef Route found
        cdef ConditionalRoute conditional
        cdef Resolution resolution
        if route.conditional is not None:
            conditional = <ConditionalRoute> route.conditional
            found = conditional.route_of(self.counters, message, self.clock)
            if found is None:
                resolution = self.unfinished = Resolution(self, route.key)
                resolution.was_cut = True
                resolution.filters, conditional.unfinished = conditional.unfinished, None
            elif found.wide:
                return self.with_room(found)
            return found
        resolution = Resolution(self, route.key)
        found = resolution.go_by(route, message)
        if found is None:
            self.unfinished = resolution
        elif found.wide:
            return self.with_room(found)
        return found

    cdef Route with_room(self, Route route):
        """A route, once each of its queues has room for an entry; None as above."""
        cdef Resolution resolution = Resolution(self, route.key)
        cdef Route found
        resolution.found = route
        found = resolution.with_room()
        if found is None:
            self.unfinished = resolution
        return found

    cdef int keep_outcome(self, dict outcomes, bytes passed, Route outcome) except -1:
        """Keep where the messages go that pass these filters."""
        cdef uint64_t size = OUTCOME_BYTES + len(passed) + 8 * len(outcome.queues)
        cdef uint64_t epoch = self.epoch
        self.outcomes_bytes += size
        if self.outcomes_bytes > OUTCOMES_BYTES_MAX:
            self.clear()
            return 0
        self.all_routes.add(self, size)
        if self.epoch == epoch:
            outcomes[passed] = outcome
        return 0

    cdef Route cached(self, const uint8_t *key, size_t size):
        """The cached route of a key, or None."""
        cdef uint64_t h = hash_hidden(key, size), at = h & self.mask
        cdef Route route
        while True:
            route = <Route> self.table[at]
            if route is None:
                return None
            if (route.hash == h and route.key is not None
                    and <size_t> PyBytes_GET_SIZE(route.key) == size
                    and memcmp(PyBytes_AS_STRING(route.key), key, size) == 0):
                return route
            at = (at + 1) & self.mask

    cdef Route by_bindings(self, const uint8_t *key, size_t size):
        """The route of a key that is not cached, by the bindings that it meets; or None.

        The key is cached if there is room. If there is none, it is more than likely that it would
        have to go before it comes again.
        """
        cdef Route route
        cdef bytes raw = key[:size]
        met = self.met_by(text_of(raw))
        self.clock.units += UNITS_A_MEETING
        if met is None or len(met) > MET_MAX:
            return None
        route = self.route_met(met)
        if route is None:
            return None
        route = same_way(route)
        route.key, route.hash = raw, hash_hidden(key, size)
        if self.count < ROUTES_MAX or self.forgotten > ROUTES_MAX // 2:
            self.remember(route)
            return route
        self.not_cached += 1
        if self.not_cached == NOT_CACHED_MAX:
            self.clear()
        return route

    cdef Route route_met(self, list met):
        """The route of messages that meet some bindings; None: the resolver is to be asked.

        It has no key.
        """
        cdef Route route
        cdef uint64_t epoch = self.epoch
        if self.met_epoch != epoch:
            self.forget_met()
        identity = identity_of(met)
        found = self.by_met.get(identity)
        if found is not None:
            return <Route> (<tuple> found)[0]
        queues = None if self.queues_met is None else self.queues_met(met)
        if queues is None:
            return None
        route = make_route(queues)
        if len(self.by_met) < BY_MET_MAX:   # until the cache is cleared
            self.all_routes.add(self, MET_BYTES)
            if self.epoch == epoch:         # it may have been cleared to make room
                self.met_bytes += MET_BYTES
                # While it has the bindings, no others are at their addresses.
                self.by_met[identity] = route, met
            else:
                self.bytes -= MET_BYTES
                self.all_routes.bytes -= MET_BYTES
        return route

    cdef int forget_met(self) except -1:
        self.by_met = {}
        self.met_epoch = self.epoch
        self.bytes -= self.met_bytes
        self.all_routes.bytes -= self.met_bytes
        self.met_bytes = 0
        return 0

    cdef int check(self, const uint8_t *key, size_t size, list copies) except -1:
        """Check the keys of a message that is routed later, as routing it now would."""
        text = text_of(key[:size])
        if self.check_key is not None:
            for each in [text, *copies]:
                self.check_key(each)
        return 0

    cdef int remember(self, Route route) except -1:
        """Cache the route of a key."""
        cdef Py_ssize_t queues = 0 if route.queues is None else len(route.queues)
        cdef list old
        cdef Route other
        if self.count >= ROUTES_MAX:
            self.clear()
        self.all_routes.add(self, ROUTE_BYTES + len(route.key) + 8 * queues)
        if self.count * 2 > self.mask:
            old = self.table
            self.mask = self.mask * 2 + 1
            self.table = [None] * (self.mask + 1)
            self.count = self.forgotten = 0
            for other in old:
                if other is not None and other.key is not None:
                    self.place(other)
        return self.place(route)

    cdef int place(self, Route route) except -1:
        cdef uint64_t at = route.hash & self.mask
        while self.table[at] is not None:
            at = (at + 1) & self.mask
        self.table[at] = route
        self.count += 1
        return 0


cdef class Resolution:
    """The search for the route of one message, as far as it has come."""

    def __cinit__(self, RouteCache routes not None, bytes key):
        self.routes, self.key, self.epoch = routes, key, routes.epoch

    cdef Route go_on(self, const Message *message):
        """The route; None: the slice is over. The message must be the same each time."""
        cdef Route route
        if self.kept:
            return self.found
        if self.found is None:
            route = self.find(message)
            if route is None or not route.wide:
                return route
            self.found = route
        return self.with_room()

    cdef Route with_room(self):
        """The route that was found, once each of its queues has room for an entry.

        Else as many queues would make room in one piece as there are: all are at the end of a block
        of their index at once if they get the same messages.
        """
        cdef Route route = self.found, left
        cdef Queue queue
        cdef bint cut = self.roomy > 0
        while self.roomy < len(route.queues):
            queue = <Queue> route.queues[self.roomy]
            self.roomy += 1
            if not queue.retired and queue.index.reserve(queue.next_seq):
                if spend(self.routes.clock, UNITS_A_BLOCK):
                    return None
        if not cut:
            return route
        # Some may have been deleted. The epoch says nothing of it where each message is resolved.
        there = [queue for queue in all_queues(route) if not queue.retired]
        if self.epoch == self.routes.epoch and len(there) == len(all_queues(route)):
            return route
        left = make_route(there)        # that of this message only
        left.keys = route.keys
        return left

    cdef Route find(self, const Message *message):
        cdef Route route
        if self.filters is not None:
            return self.filters.go_on(message, self.routes.clock)
        if self.deciding is not None:
            self.passed = self.decision.go_on(self.deciding, self.passed, message,
                                              self.routes.clock)
            self.evaluated += self.decision.evaluated
            self.failed += self.decision.failed
            if not self.deciding.is_done():
                return None
            self.deciding = None
            return self.decided(message)
        if self.key_is_known:
            return self.of_message(message)
        if not self.routes.cacheable:
            self.key_is_known = True
            return self.of_message(message)
        if self.steps is None:
            route = self.routes.cached(<const uint8_t *> PyBytes_AS_STRING(self.key),
                                       0 if self.routes.keyless else len(self.key))
            if route is not None:
                return self.go_by(route, message) if route.by_message else route
            self.steps = self.routes.resolver(text_of(self.key), None)
        found = self.resolved()
        if found is None:
            return None
        route = self.made(found)
        if self.epoch == self.routes.epoch:
            if self.routes.keyless:
                route.key = b""
            route.hash = hash_hidden(
                <const uint8_t *> PyBytes_AS_STRING(route.key), len(route.key))
            self.routes.remember(route)
            self.epoch = self.routes.epoch
        elif not route.by_message:
            route.key = None            # it is that of this message only
        return self.go_by(route, message) if route.by_message else route

    cdef Route go_by(self, Route route, const Message *message):
        """Go on with the route of the key, which depends on the message."""
        cdef ConditionalRoute conditional
        cdef Route found
        self.key_is_known = True
        if route.conditional is not None:
            conditional = <ConditionalRoute> route.conditional
            found = conditional.route_of(self.routes.counters, message, self.routes.clock)
            if found is None:
                self.filters, conditional.unfinished = conditional.unfinished, None
            return found
        if route.by_filters is None:
            return self.of_message(message)
        self.decision, self.outcomes = <FilterOutcomes> route.by_filters, route.outcomes
        self.passed = self.decision.passed_by(message, self.routes.clock)
        if self.passed is not None:
            return self.decided(message)
        self.passed = self.decision.so_far(b"")
        self.deciding = self.decision.members.unfinished
        self.evaluated, self.failed = self.decision.evaluated, self.decision.failed
        self.was_cut = True
        return None

    cdef Route decided(self, const Message *message):
        """The route of a message of which it is known what filters it passes."""
        cdef Route outcome = self.outcomes.get(self.passed)
        if outcome is None or self.epoch != self.routes.epoch:
            # The resolver evaluates the filters again, and counts that.
            return self.of_message(message)
        if self.evaluated:
            self.decision.evaluated, self.decision.failed = self.evaluated, self.failed
        self.decision.note(self.routes.counters, len(self.passed) // sizeof(uint32_t))
        return outcome

    cdef Route of_message(self, const Message *message):
        """Have the control plane resolve this one message."""
        cdef Route route
        cdef const uint8_t *key
        if self.steps is None:
            # What is spread is routed by another key than its own, which is empty; the route of a
            # keyless cache has none.
            key = key_in(message)
            own = text_of(self.key or key[1:1 + key[0]])
            if self.routed is not None:
                self.steps = self.routed(exchange_name(message), [own], properties_bytes(message))
            else:
                self.steps = self.routes.resolver(own, properties_bytes(message))
        found = self.resolved()
        if found is None:
            return None
        route = self.made(found)
        route.key = None                # so that it is not taken for the route of the key
        route.keys = self.keys
        if self.passed is not None and self.epoch == self.routes.epoch:
            self.routes.keep_outcome(self.outcomes, self.passed, route)
        return route

    cdef object resolved(self):
        """What the resolver has returned; None: the slice is over."""
        cdef Clock clock = self.routes.clock
        clock.units += UNITS_A_QUESTION
        steps = self.steps
        if PyIter_Check(steps):
            try:
                while True:
                    next(steps)
                    if clock.over():
                        self.was_cut = True
                        return None
            except StopIteration as end:
                steps = end.value
        self.steps = None
        return steps

    cdef Route made(self, object found):
        """A route of what the resolver has returned."""
        cdef Route route
        cdef Queue queue
        if type(found) is ConditionalRoute:
            route = Route()
            route.conditional, route.by_message = found, True
        elif type(found) is FilterOutcomes:
            route = Route()
            route.by_filters, route.outcomes, route.by_message = found, {}, True
        elif found is BY_MESSAGE:
            route = Route()
            route.by_message = True
        else:
            if self.was_cut:            # some may have been deleted meanwhile
                found = [queue for queue in found if not queue.retired]
            route = make_route(found)
        route.key = self.key
        return route


cdef Resolution resolution_of_keys(RouteCache routes, list keys, object steps):
    """The search for the route of a message with several keys: what the control plane does."""
    cdef Resolution resolution = Resolution(routes, None)
    resolution.key_is_known = True
    resolution.keys, resolution.steps = keys, steps
    return resolution


cdef Resolution found_resolution(RouteCache routes, Route route):
    """The end of the search for the route of a message that is not stored everywhere yet."""
    cdef Resolution resolution = Resolution(routes, None)
    resolution.found, resolution.kept = route, True
    return resolution


def _nowhere(key, properties):
    """The resolver of an exchange that is gone."""
    return ()


cdef object resolved_now(object steps):
    """What a resolver comes to, however long it takes."""
    if not PyIter_Check(steps):
        return steps
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value


cdef class LastRoute:
    """The exchange and the route of a publisher's last message: most publishers repeat both."""

    cdef bint is_to(self, const Message *message) noexcept:
        """Whether a message goes to the same exchange, which still exists."""
        return (self.routes is not None and not self.routes.retired
                and PyBytes_GET_SIZE(self.routes.raw_name) == message.names[0]
                and memcmp(PyBytes_AS_STRING(self.routes.raw_name), message.names + 1,
                           message.names[0]) == 0)

    cdef Route route_of(self, const Message *message):
        """Where a message goes from that exchange; None: `routes` has what is left to find it."""
        cdef const uint8_t *key = key_in(message)
        cdef Route route
        if (self.route is not None and self.epoch == self.routes.epoch
                and (PyBytes_GET_SIZE(self.route.key) == key[0]
                     and memcmp(PyBytes_AS_STRING(self.route.key), key + 1, key[0]) == 0
                     or self.routes.keyless and ascii_length(key + 1, key[0]) == key[0])):
            return self.routes.with_room(self.route) if self.route.wide else self.route
        route = self.routes.route_of(message, key + 1, key[0])
        if route is not None and route.key is not None:
            self.route = route
            self.epoch = self.routes.epoch
        return route

    cdef int keep(self, Route route) except -1:
        """The route of the last message was found later; the next one may have the same key."""
        if route.key is not None:
            self.route = route
            self.epoch = self.routes.epoch
        return 0
