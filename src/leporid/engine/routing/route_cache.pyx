"""The cache of an exchange's routes by routing key, valid until the topology changes.

Responsible for finding the route of a key in one probe. It must not know bindings, exchange types
or alternate exchanges: the control plane's resolver does. Invariant: a cached route is what the
resolver would return now; whoever changes a binding calls `forget` on every exchange it concerns.
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

# Routes cached for one exchange. Keys are up to 255 bytes, so a publisher that never repeats a key
# uses at most some 10 MB; beyond, the cache is cleared.
cdef enum:
    ROUTES_MAX = 32768
    # Routes that are updated one by one when a binding with a filter comes or goes. If there are
    # more, the cache is cleared: each takes a microsecond or so.
    AMENDED_MAX = 64
    # Memory of the outcomes of filters cached for one exchange, and of one outcome without its
    # lists of filters and queues. Beyond, the cache is cleared.
    OUTCOMES_BYTES_MAX = 32 * 1024 * 1024
    OUTCOME_BYTES = 500


cdef str text_of(bytes key):
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise PreconditionFailed(f"routing key {key!r} is not valid UTF-8") from None


cdef class RouteCache:
    """The routes of one exchange; made by `Engine.route_cache`."""

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
                # It stays in its slot, so that probing past it still works, but equals no key.
                route.key = None
                route.hash = 0
                route.conditional = route.by_filters = route.outcomes = None
                break
            at = (at + 1) & self.mask
        self.epoch += 1

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
        self.clear()

    cdef Route route_of(self, const Message *message, const uint8_t *key, size_t size):
        """The route of a message with a routing key."""
        cdef Route route = self.lookup(message, key, size)
        if route.conditional is not None:
            return (<ConditionalRoute> route.conditional).route_of(self.counters, message)
        if route.by_filters is not None:
            return self.outcome_of(route, message)
        return route

    cdef Route outcome_of(self, Route route, const Message *message):
        """The route of a message by the filters that it passes; resolved once for equal ones."""
        cdef FilterOutcomes outcomes = <FilterOutcomes> route.by_filters
        cdef bytes passed = outcomes.passed_by(message)
        cdef Route outcome = route.outcomes.get(passed)
        if outcome is not None:
            outcomes.note(self.counters)
            return outcome
        # The resolver evaluates the filters again, and counts that.
        outcome = self.ask(route.key, properties_bytes(message))
        outcome.key = None              # so that it is not taken for the route of the key
        self.outcomes_bytes += OUTCOME_BYTES + len(passed) + 8 * len(outcome.queues)
        if self.outcomes_bytes > OUTCOMES_BYTES_MAX:
            self.clear()
        else:
            route.outcomes[passed] = outcome
        return outcome

    cdef Route lookup(self, const Message *message, const uint8_t *key, size_t size):
        """The cached route of a key; it is resolved if it is not cached."""
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
        """Check the keys of a message that is routed later, as routing it now would."""
        text = text_of(key[:size])
        if self.check_key is not None:
            for each in [text, *copies]:
                self.check_key(each)
        return 0

    cdef Route ask(self, bytes key, bytes properties):
        """Have the control plane resolve a key."""
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
    """The exchange and the route of a publisher's last message: most publishers repeat both."""

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
