"""Publishes encoded rows on the broker's thread.

Responsible for routing them and for counting what became of each. It does not know who asks, nor
HTTP. Invariant: `generation` is the one that has the last durable message; whoever says that rows
were accepted waits until it is on disk.
"""

from libc.stdint cimport uint8_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING

from zlib import crc32

from leporid.engine.queue.unique_queue cimport without_duplicates
from leporid.engine.queue.delays cimport Delays, postponed
from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport Queue
from leporid.engine.tables.rows cimport Row, Rows
from leporid.engine.connection.sender cimport Sender, open_queues
from leporid.engine.routing.route_cache cimport Route, RouteCache
from leporid.engine.log.storing cimport store, store_produced
from leporid.engine.wire.wire cimport HAS_DELAY, HAS_DELIVER_AT, Props, walk_properties

cdef enum:
    PUBLISHED = 0           # in a queue or a stream
    DUPLICATE = 1           # it was there already
    UNROUTABLE = 2
    REFUSED = 3             # by a queue that is full
    PERSISTENT = 2


cdef class Publisher(Sender):
    """Publishes the rows of one request; used on the broker's thread.

    Args:
        routes_of: gives the routes of an exchange by its name, or raises a fault.
        producer: who publishes, so that what was published before is left out; None: nobody says.
        sequence: the number of the first row, each further row has the next.
    """

    def __cinit__(self, Plane plane not None, routes_of not None, bytes producer=None,
                  uint64_t sequence=0):
        self.plane = plane
        self.routes_of = routes_of
        self.producer = producer
        self.sequence = sequence

    def __repr__(self):
        return (f"<Publisher accepted={self.accepted} duplicates={self.duplicates} "
                f"unroutable={self.unroutable} refused={self.refused}>")

    cdef RouteCache routes_of_exchange(self, str name):
        return self.routes_of(name)

    def publish(self, Rows rows not None, size_t start, size_t count):
        """Publish some rows of a batch; returns where the next ones start.

        Raises:
            Fault: the exchange is gone, or may not be written to any more.
        """
        cdef size_t at, end = min(rows.count, start + count)
        cdef Row *row
        cdef int outcome
        cdef const uint8_t *names
        for at in range(start, end):
            row = &rows.rows[at]
            names = rows.encoded.data + row.names
            outcome = self.publish_row(names, row.names_len, names + row.names_len,
                                       row.properties_len, row.body, row.body_len,
                                       self.sequence, row.keyless)
            self.sequence += 1
            self.row += 1
            if outcome == PUBLISHED:
                self.accepted += 1
            elif outcome == DUPLICATE:
                self.duplicates += 1
            elif outcome == UNROUTABLE:
                self.unroutable += 1
            else:
                self.refused += 1
        return end

    cdef Route spread_route(self, const uint8_t *names, size_t names_len,
                            const uint8_t *properties, size_t properties_len, uint64_t sequence):
        """Where a row without a key goes: to the partitions in turn."""
        cdef RouteCache routes = self.routes
        cdef bytes key
        cdef uint64_t at
        if routes is not self.spread_routes or routes.epoch != self.spread_epoch:
            self.spread_routes, self.spread_epoch = routes, routes.epoch
            self.spread_keys = [text.encode() for text in routes.spread_keys()]
        if not self.spread_keys:
            return self.route_of(names + 1 + names[0], properties, properties_len)
        at = self.spread_number(sequence) % <uint64_t> len(self.spread_keys)
        key = self.spread_keys[at]
        return routes.route_of(names, names_len, <const uint8_t *> PyBytes_AS_STRING(key),
                               len(key), properties, properties_len)

    cdef uint64_t spread_number(self, uint64_t sequence) except? 0:
        """A number whose remainder is the row's turn.

        Each log knows the repetitions of its own rows only. So a row of a producer has the same
        number each time it is published, also after a restart. A streaming query in Spark begins
        each batch with another upper half of the sequence number, and so with another partition.
        """
        if self.producer is None:
            self.routes.spread += 1
            return self.routes.spread - 1
        if self.run != sequence >> 32 or self.run_start == 0:
            self.run = sequence >> 32
            self.run_start = 1 + <uint64_t> crc32(self.producer + self.run.to_bytes(8, "little"))
        return self.run_start + (sequence & 0xffffffff)

    cdef int publish_row(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                         size_t properties_len, const uint8_t *body, size_t body_len,
                         uint64_t sequence, bint keyless) except -1:
        """One message on its way; returns what became of it."""
        cdef Props props
        cdef Route route = None
        cdef list refusing_queues = None, stores = None
        cdef bint fresh = True
        cdef bytes intercepted
        if walk_properties(properties, properties_len, &props):
            raise AssertionError("encoded properties do not parse")
        if self.plane.interceptor is not None:
            intercepted = self.plane.interceptor.intercept(properties, properties_len,
                                                           self.plane.wall_ms)
            properties = <const uint8_t *> PyBytes_AS_STRING(intercepted)
            properties_len = len(intercepted)
        self.find_routes(names)
        if props.marks & (HAS_DELAY | HAS_DELIVER_AT):
            route = postponed(self.routes, &props, self.plane.wall_ms)
        if route is not None:
            self.routes.check(names + 2 + names[0], names[1 + names[0]], [])
        elif keyless and self.routes.spread_keys is not None:
            route = self.spread_route(names, names_len, properties, properties_len, sequence)
        else:
            route = self.route_of(names + 1 + names[0], properties, properties_len)
        # What was there already may not be on disk yet, either.
        if route.apart is not None or props.delivery_mode == PERSISTENT and route.durable:
            self.generation = self.plane.generation
            self.plane.awaited = True
        if route.deduplicates:
            route = without_duplicates(route, &props)
        if route.unroutable:
            self.plane.unroutable += not route.duplicate
            if route.queues:
                store(self.plane, route, names, names_len, properties, properties_len, body,
                      body_len, &props, 0)
            return DUPLICATE if route.duplicate else UNROUTABLE
        if route.refusing:
            refusing_queues = []
            route = open_queues(route, body_len, refusing_queues)
        if self.waiting is not None and route.apart is not None:
            stores = [(each, (<Queue> each).next_seq) for each in route.apart
                      if type(each) is Delays]
        if not route.queues and route.apart is None:
            pass
        elif self.producer is None:
            store(self.plane, route, names, names_len, properties, properties_len, body, body_len,
                  &props, 0)
        else:
            fresh = store_produced(self.plane, route, names, names_len, properties,
                                   properties_len, body, body_len, &props, self.producer,
                                   sequence)
        if refusing_queues:
            self.plane.dead_lettering.dead_letter_refused(refusing_queues, names[:names_len],
                                            properties[:properties_len], body[:body_len])
        for each, number in stores or ():
            if (<Queue> each).next_seq > number:
                due_ms = (<Delays> each).message(number)[0]
                self.waiting.append((self.row, (<Queue> each).name, due_ms, number))
        return REFUSED if route.refused else PUBLISHED if fresh else DUPLICATE
