"""Routes by exchange and routing key, remembered until the topology changes.

Responsible for answering in one probe where a key goes. How the answer is found (bindings, types,
alternate exchanges) is the control plane's. Invariant: a remembered route is what the control
plane would answer now; whoever changes a binding calls `forget` on every exchange it concerns.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.routing.conditional_routes cimport ConditionalRoute, FilterOutcomes
from leporid.engine.routing.route cimport Route, make_route
from leporid.engine.selectors.filter_counters cimport FilterCounters
from leporid.engine.wire.hashing cimport hash_hidden, keep_secret
from leporid.engine.wire.record cimport Message, key_in, properties_bytes

from leporid.amqp.errors import PreconditionFailed

keep_secret()

# Routes remembered for one exchange. Keys are up to 255 bytes, so this bounds a publisher that
# never repeats a key to some 10 MB; past it, all are forgotten and asked again.
cdef enum:
    ROUTES_MAX = 32768
    # Routes that are looked at one by one when a binding with a filter comes or goes. Where there
    # are more, all are forgotten: each takes a microsecond or so.
    AMENDED_MAX = 64
    # Outcomes of filters that are remembered for one exchange, for all its keys, and what one takes
    # beside the lists of who passed and who gets it. Past it, all are forgotten and asked again.
    OUTCOMES_BYTES_MAX = 32 * 1024 * 1024
    OUTCOME_BYTES = 500


cdef str text_of(bytes key):
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise PreconditionFailed(f"routing key {key!r} is not valid UTF-8") from None


cdef class RouteCache:
    """One exchange as publishers see it; made by `Engine.route_cache`."""

    def __cinit__(self, str name, resolver, bint cacheable):
        self.name = name
        self.raw_name = name.encode()
        self.resolver = resolver
        self.cacheable = cacheable
        self.counters = FilterCounters()
        self.clear()

    cdef void clear(self):
        self.table = [None] * 16
        self.mask = 15
        self.count = 0
        self.outcomes_bytes = 0
        self.epoch += 1

    def forget(self):
        """Bindings changed here or further down."""
        self.clear()

    def forget_key(self, str key):
        """What one key leads to changed; cheaper than `forget` when that is common."""
        cdef bytes raw = key.encode()
        cdef const uint8_t *text = <const uint8_t *> PyBytes_AS_STRING(raw)
        cdef uint64_t h = hash_hidden(text, len(raw)), at = h & self.mask
        cdef Route route
        while True:
            route = <Route> self.table[at]
            if route is None:
                break
            if route.hash == h and route.key == raw:
                # Left in its place, so that probing past it still works, but never equal again.
                route.key = None
                route.hash = 0
                route.conditional = route.by_filters = route.outcomes = None
                break
            at = (at + 1) & self.mask
        self.epoch += 1

    def amend(self, meets, wanted, queue, bint comes):
        """A binding with a filter came or went that leads from here to a queue.

        Args:
            meets: says whether a message with a routing key meets it, apart from its filter.
            wanted: its filter.
            queue: where it leads.
            comes: it came.
        """
        cdef Route route
        cdef ConditionalRoute conditional
        if self.count > AMENDED_MAX:
            self.clear()
            return
        # A conditional route may be that of several keys, of which some do not meet the binding.
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
        """The exchange was deleted; whoever still holds this must ask for it by name again."""
        self.retired = True
        self.clear()

    cdef Route route_of(self, const Message *message, const uint8_t *key, size_t size):
        """Where a message goes that has that routing key."""
        cdef Route route = self.lookup(message, key, size)
        if route.conditional is not None:
            return (<ConditionalRoute> route.conditional).route_of(self.counters, message)
        if route.by_filters is not None:
            return self.outcome_of(route, message)
        return route

    cdef Route outcome_of(self, Route route, const Message *message):
        """Where a message goes by the filters that it passes; asked for once for the same ones."""
        cdef FilterOutcomes outcomes = <FilterOutcomes> route.by_filters
        cdef bytes passed = outcomes.passed_by(message)
        cdef Route outcome = route.outcomes.get(passed)
        if outcome is not None:
            outcomes.note(self.counters)
            return outcome
        # The control plane asks the filters once more, and counts that.
        outcome = self.ask(route.key, properties_bytes(message))
        outcome.key = None              # it is not that of all messages with this key
        self.outcomes_bytes += OUTCOME_BYTES + len(passed) + 8 * len(outcome.queues)
        if self.outcomes_bytes > OUTCOMES_BYTES_MAX:
            self.clear()
        else:
            route.outcomes[passed] = outcome
        return outcome

    cdef Route lookup(self, const Message *message, const uint8_t *key, size_t size):
        """The route of a key; asks the control plane when it is not remembered."""
        cdef uint64_t h, at
        cdef Route route
        if not self.cacheable:
            return self.ask(key[:size], properties_bytes(message))
        h = hash_hidden(key, size)
        at = h & self.mask
        while True:
            route = <Route> self.table[at]
            if route is None:
                break
            if (route.hash == h and route.key is not None
                    and <size_t> PyBytes_GET_SIZE(route.key) == size
                    and memcmp(PyBytes_AS_STRING(route.key), key, size) == 0):
                return route
            at = (at + 1) & self.mask
        route = self.ask(key[:size], None)
        route.hash = h
        self.remember(route)
        return route

    cdef int check(self, const uint8_t *key, size_t size, list copies) except -1:
        """Check the keys of a message that is not routed yet, as routing it would."""
        text = text_of(key[:size])
        if self.check_key is not None:
            for each in [text, *copies]:
                self.check_key(each)
        return 0

    cdef Route ask(self, bytes key, bytes properties):
        cdef Route route
        found = self.resolver(text_of(key), properties)
        if type(found) is ConditionalRoute:
            route = Route()
            route.conditional = found
        elif type(found) is FilterOutcomes:
            route = Route()
            route.by_filters, route.outcomes = found, {}
        else:
            route = make_route(found)
        route.key = key
        return route

    cdef int remember(self, Route route) except -1:
        cdef uint64_t at
        cdef list old
        cdef Route other
        if self.count >= ROUTES_MAX:
            self.clear()
        elif self.count * 2 > self.mask:
            old = self.table
            self.mask = self.mask * 2 + 1
            self.table = [None] * (self.mask + 1)
            self.count = 0
            for other in old:
                if other is not None and other.key is not None:
                    self.remember(other)
        at = route.hash & self.mask
        while self.table[at] is not None:
            at = (at + 1) & self.mask
        self.table[at] = route
        self.count += 1
        return 0


cdef class LastRoute:
    """The exchange and the route of a publisher's last message; the usual one repeats itself."""

    cdef bint is_to(self, const Message *message):
        """Whether a message goes to the same exchange, which still exists."""
        return (self.routes is not None and not self.routes.retired
                and PyBytes_GET_SIZE(self.routes.raw_name) == message.names[0]
                and memcmp(PyBytes_AS_STRING(self.routes.raw_name), message.names + 1,
                           message.names[0]) == 0)

    cdef Route route_of(self, const Message *message):
        """Where a message goes from that exchange."""
        cdef const uint8_t *key = key_in(message)
        cdef Route route
        if (self.route is not None and self.epoch == self.routes.epoch
                and PyBytes_GET_SIZE(self.route.key) == key[0]
                and memcmp(PyBytes_AS_STRING(self.route.key), key + 1, key[0]) == 0):
            return self.route
        route = self.routes.route_of(message, key + 1, key[0])
        if route.key is not None and self.routes.cacheable:
            self.route = route
            self.epoch = self.routes.epoch
        return route
