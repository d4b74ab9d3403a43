"""Publishing encoded rows, on the broker's thread.

Responsible for routing them, for counting the outcomes and what they take, and for leaving the rest
for later when the slice of time is over. It must not know HTTP. Invariant: `generation` is the one
that has the last durable message; a caller that confirms rows waits until it is on disk.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING

from zlib import crc32

from leporid.engine.bounds.clock cimport Clock, spend
from leporid.engine.internal.delays cimport Delays, postponed
from leporid.engine.log.logs cimport Logs
from leporid.engine.publishing.publishing cimport Publishing
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route cimport Route
from leporid.engine.routing.route_cache cimport LastRoute, RouteCache
from leporid.engine.tables.rows cimport Row, Rows
from leporid.engine.wire.codec cimport HAS_DELAY, HAS_DELIVER_AT, Props, walk_properties
from leporid.engine.wire.record cimport Message, exchange_name, routing_key, set_properties

cdef enum:
    PUBLISHED = 0           # in a queue or a stream
    DUPLICATE = 1           # published before
    UNROUTABLE = 2
    REFUSED = 3             # by a full queue
    UNROUTED = 4            # it is to be published once more: its route is not found yet
    PERSISTENT = 2
    # For the rows of a table, while others wait: as long as a job has.
    SLICE_NS = 1_000_000
    # Of work for each row: each may have a key whose route must be looked up.
    ROW_UNITS = 8
    # Of a body that costs as much as a unit of work, which is copied to the log.
    UNIT_BODY_BYTES = 4096
    # What a message takes beside its names, properties and body: a record and its targets in a
    # log, and a slot in each queue.
    RECORD_BYTES = 64
    ENTRY_BYTES = 32


cdef class Publisher:
    """Publishes the rows of one request; used on the broker's thread.

    Args:
        publishing: stores the messages.
        routes_of: (name) gives the route cache of an exchange, or raises a fault; None: the right
            to publish there is not known yet, and the same row is to be published again.
        producer: the producer's reference, so that repeated publishes are skipped; None: none.
        sequence: the number of the first row; each further row has the next.
        check_of: (name) gives what raises a fault for a key that must not be used with an
            exchange, and returns True if that is not known yet; or None, as all may be used. None:
            all keys may be used with all exchanges.
    """

    def __cinit__(self, Publishing publishing not None, routes_of not None, bytes producer=None,
                  uint64_t sequence=0, check_of=None):
        self.publishing = publishing
        self.last = LastRoute()
        self.routes_of = routes_of
        self.check_of = check_of
        self.producer = producer
        self.sequence = sequence

    def __repr__(self):
        return (f"<Publisher accepted={self.accepted} duplicates={self.duplicates} "
                f"unroutable={self.unroutable} refused={self.refused}>")

    def publish(self, Rows rows not None, size_t start, size_t count):
        """Publish rows of a batch, `count` at most, until the slice is over.

        Returns the index of the next row, which is the first one again if its route was not found,
        or a right is not known yet.

        Raises:
            Fault: the exchange was deleted, or the permission to write to it was taken away.
        """
        cdef size_t at, end = min(rows.count, start + count)
        cdef Row *row
        cdef int outcome
        cdef Message message
        cdef Clock clock = self.publishing.logs.clock
        message.memory = NULL
        clock.begin_stage(SLICE_NS)
        for at in range(start, end):
            row = &rows.rows[at]
            message.names, message.names_len = rows.encoded.data + row.names, row.names_len
            message.properties = message.names + row.names_len
            message.properties_len = row.properties_len
            message.body, message.body_len = row.body, row.body_len
            outcome = self.publish_row(&message, self.sequence, row.keyless)
            if outcome == UNROUTED:
                return at
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
            if spend(clock, self.units):
                return at + 1
        return end

    def check(self, Rows rows not None, size_t start):
        """Check exchanges and keys of rows, publishing none, until the slice is over.

        Returns the index of the next row. Raises as `publish`.
        """
        cdef size_t at
        cdef Message message
        cdef Clock clock = self.publishing.logs.clock
        clock.begin_stage(SLICE_NS)
        for at in range(start, rows.count):
            message.names = rows.encoded.data + rows.rows[at].names
            if not self.last.is_to(&message) and self.find_routes(&message):
                return at
            if self.check_key is not None and self.check_key(routing_key(&message)):
                return at
            if spend(clock, ROW_UNITS):
                return at + 1
        return rows.count

    def forget_exchange(self):
        """Ask again at the next row: the user's permissions have changed."""
        self.last.routes = self.last.route = self.resolution = self.check_key = None

    cdef int find_routes(self, const Message *message) except -1:
        """Find the route cache of a row's exchange, which is not that of the last row; returns
        UNROUTED if the right to publish there is not known yet."""
        name = exchange_name(message)
        self.last.routes = self.routes_of(name)
        self.last.route = self.resolution = None
        if self.last.routes is None:
            return UNROUTED
        self.check_key = None if self.check_of is None else self.check_of(name)
        return 0

    cdef Route spread_route(self, const Message *message, uint64_t sequence):
        """The route of a row without a key: to the partitions in turn; None as `route_of`."""
        cdef RouteCache routes = self.last.routes
        cdef bytes key
        cdef uint64_t at
        if routes is not self.spread_routes or routes.epoch != self.spread_epoch:
            self.spread_routes, self.spread_epoch = routes, routes.epoch
            self.spread_keys = [text.encode() for text in routes.spread_keys()]
        if not self.spread_keys:
            return self.last.route_of(message)
        at = self.spread_number(sequence) % <uint64_t> len(self.spread_keys)
        key = self.spread_keys[at]
        return routes.route_of(message, <const uint8_t *> PyBytes_AS_STRING(key), len(key))

    cdef Route route_of(self, const Message *message, uint64_t sequence, bint keyless):
        """The route of a row; None: the slice was over, and `resolution` is what is left."""
        cdef Route route
        if self.resolution is not None:
            return self.resolution.go_on(message)
        if keyless and self.last.routes.spread_keys is not None:
            route = self.spread_route(message, sequence)
        else:
            route = self.last.route_of(message)
        if route is None:
            self.resolution = self.last.routes.take_unfinished()
        return route

    cdef uint64_t spread_number(self, uint64_t sequence) except? 0:
        """A number whose remainder chooses the partition of a row.

        Each log recognizes repeated publishes of its own rows only. So a row of a producer has the
        same number each time it is published, also after a restart. A streaming query in Spark
        begins each batch with another upper half of the sequence number, and so with another
        partition.
        """
        if self.producer is None:
            self.last.routes.spread += 1
            return self.last.routes.spread - 1
        if self.run != sequence >> 32 or self.run_start == 0:
            self.run = sequence >> 32
            self.run_start = 1 + <uint64_t> crc32(self.producer + self.run.to_bytes(8, "little"))
        return self.run_start + (sequence & 0xffffffff)

    cdef int publish_row(self, Message *message, uint64_t sequence, bint keyless) except -1:
        """Publish one message; returns its outcome."""
        cdef Publishing publishing = self.publishing
        cdef Logs logs = publishing.logs
        cdef Props props
        cdef Route route = None
        cdef list delayed = None
        cdef uint64_t evaluated = publishing.filters.evaluated
        cdef size_t records, entries
        if walk_properties(message.properties, message.properties_len, &props):
            raise AssertionError("encoded properties do not parse")
        if publishing.interceptor is not None:
            if self.resolution is None:
                self.intercepted = publishing.interceptor.intercept(
                    message.properties, message.properties_len, logs.clock.wall_ms)
            set_properties(message, self.intercepted)
        if not self.last.is_to(message) and self.find_routes(message):
            return UNROUTED
        if self.check_key is not None and self.check_key(routing_key(message)):
            return UNROUTED
        if props.marks & (HAS_DELAY | HAS_DELIVER_AT):
            route = postponed(self.last.routes, &props, logs.clock.wall_ms)
        if route is not None:
            self.last.routes.check(
                message.names + 2 + message.names[0], message.names[1 + message.names[0]], [])
        else:
            route = self.route_of(message, sequence, keyless)
            if route is None:
                return UNROUTED
            self.resolution = None
        if route.refusing and publishing.queues.dead_lettering.refused:
            return UNROUTED     # earlier messages are still being dead-lettered
        # Wait for a duplicate, too: its original may not be on disk yet.
        if route.own_records is not None or props.delivery_mode == PERSISTENT and route.durable:
            self.generation = logs.generation
            logs.awaited = True
        if self.waiting is not None and route.own_records is not None:
            delayed = [(each, (<Queue> each).next_seq) for each in route.own_records
                       if type(each) is Delays]
        records = 0 if route.own_records is None else len(route.own_records)
        entries = len(route.queues) + records
        self.units = <uint32_t> (ROW_UNITS + entries + publishing.filters.evaluated - evaluated
                                 + (1 + records) * message.body_len // UNIT_BODY_BYTES)
        route = publishing.publish(route, message, &props, 0, self.producer, sequence, None)
        for each, number in delayed or ():
            if (<Queue> each).next_seq > number:
                due_ms = (<Delays> each).message(number)[0]
                self.waiting.append((self.row, (<Queue> each).name, due_ms, number))
        if route.refused:
            return REFUSED
        if route.unroutable:
            return DUPLICATE if route.duplicate else UNROUTABLE
        if not publishing.fresh:
            return DUPLICATE
        self.stored_bytes += entries * ENTRY_BYTES + (records + (entries > records)) * (
            RECORD_BYTES + message.names_len + message.properties_len + message.body_len)
        return PUBLISHED
