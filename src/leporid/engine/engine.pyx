"""The engine: the data plane of one broker, and the order in which its parts work.

Responsible for making the parts, and the objects that the control plane asks for; for the order of
work within a turn (`run`); and for the steps of a sync. It has no state but its parts. It must not
open files, read a clock or draw random numbers: the server sets `clock`, writes what `begin_sync`
returns and calls `end_sync`.

Invariant: nothing that waits for a generation (a confirm, a held answer) leaves before every byte
and every definition of that generation is on disk.
"""

from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t

from leporid.engine.bounds.jobs cimport Jobs
from leporid.engine.bounds.large_memory cimport give_back, is_leaving
from leporid.engine.connection.connection cimport Connection
from leporid.engine.connection.connections cimport Connections
from leporid.engine.connection.group_retries cimport GroupRetries
from leporid.engine.internal.backlog cimport make_backlog
from leporid.engine.internal.delays cimport Delays
from leporid.engine.internal.verdict_queue cimport VerdictQueue
from leporid.engine.log.cleaning cimport clean, compact, go_on_relocating, is_relocating
from leporid.engine.log.facts cimport append_clean, flush_settles
from leporid.engine.log.logs cimport Logs
from leporid.engine.publishing.publishing cimport Publishing, message_with
from leporid.engine.queue.exchange_cache cimport ExchangeCache
from leporid.engine.queue.counters cimport Totals
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues
from leporid.engine.queue.timed_queue cimport run_timed
from leporid.engine.queue.unique_queue cimport UniqueQueue
from leporid.engine.routing.conditional_routes cimport ConditionalRoute, FilterOutcomes
from leporid.engine.routing.route cimport make_route
from leporid.engine.routing.route_cache cimport CachedRoutes, RouteCache
from leporid.engine.selecting.filtered_consumers cimport Searches
from leporid.engine.selecting.verdicts cimport Verdicts
from leporid.engine.stream.scanning cimport scan
from leporid.engine.stream.stream cimport Streams
from leporid.engine.wire.codec cimport Props, walk_properties
from leporid.engine.wire.record cimport Message

from functools import partial

from leporid.engine.log.logs import mapping
from leporid.engine.publishing.publishing import storing

cdef enum:
    TRANSIENT_SEGMENT_BYTES = 1024 * 1024
    DURABLE_SEGMENT_BYTES = 16 * 1024 * 1024
    CLEAN_EVERY_MS = 100
    # How long a turn works on what all peers have sent, and on each of the things that it does by
    # itself. All of them together stay below the 10 ms that a turn may take.
    INPUT_NS = 1_500_000
    DELIVERIES_NS = 1_000_000       # half of it for those who waited for a shared limit
    STAGE_NS = 500_000


cdef bytes names_of(str exchange, str key):
    return b"".join([bytes((len(raw),)) + raw for raw in (exchange.encode(), key.encode())])


def _make_backlog(Publishing publishing, Queue queue):
    """Makes backlogs for `Queues`, which must not know their class."""
    return make_backlog(publishing, queue)


cdef class Engine:
    """The data plane of one broker; one thread uses it.

    Args:
        seed: any 32-bit number, different for each data directory; it makes records of another
            log invalid in this one.
    """

    def __cinit__(self, uint32_t seed=0, *, size_t durable_segment_bytes=DURABLE_SEGMENT_BYTES,
                  size_t transient_segment_bytes=TRANSIENT_SEGMENT_BYTES):
        self.logs = Logs(seed, durable_segment_bytes, transient_segment_bytes)
        self.clock = self.logs.clock
        self.jobs = Jobs(self.clock)
        self.queues = Queues(self.logs, self.jobs)
        self.streams = Streams(self.queues, f"{seed:08x}")
        self.verdicts = Verdicts()
        self.searches = Searches(self.verdicts)
        self.publishing = Publishing(self.queues)
        self.cached_routes = CachedRoutes(self.jobs)
        self.queues.make_backlog = partial(_make_backlog, self.publishing)
        self.connections = Connections(self.jobs, self.publishing, self.streams, self.searches)

    def __repr__(self):
        return (f"<Engine generation={self.logs.generation} synced={self.logs.synced} "
                f"queues={len(self.queues.by_id)}>")

    # ------------------------------------------------------------- making objects

    def queue(self, uint32_t queue_id, str name not None, bint durable):
        """Make a queue; `queue_id` is its definition's, or 0 for a queue that a restart forgets.

        Durable queues are made before replay, which restores their messages.
        """
        return self.queues.add(Queue(self.queues, self.queues.id_of(queue_id), name, durable))

    def unique_queue(self, uint32_t queue_id, str name not None, bint durable):
        """Make a queue that takes no message twice (x-message-deduplication)."""
        return self.queues.add(
            UniqueQueue(self.queues, self.queues.id_of(queue_id), name, durable))

    def cache(self, uint32_t queue_id, str name not None, bint durable, *, size, ttl_ms):
        """Make the deduplication cache of an exchange, bounded by `size` and `ttl_ms` (None: no
        limit of time)."""
        cdef ExchangeCache cache = ExchangeCache(
            self.queues, self.queues.id_of(queue_id), name, durable)
        cache.set_cache(size, ttl_ms)
        return self.queues.add(cache)

    def stream(self, uint32_t queue_id, str name not None):
        """Make a stream; before replay, which restores its messages."""
        return self.streams.add(queue_id, name)

    def delays(self, uint32_t queue_id, RouteCache routes not None, routed not None,
               elsewhere=None):
        """Make the queue of an exchange's delayed messages: with the first of them, or before
        replay.

        Args:
            queue_id: the definition's, or 0 for an exchange that a restart forgets.
            routes: the exchange's route cache.
            routed: gives the queues for (exchange, keys, properties), where `exchange` is the one
                that the message was published to: this one, or one that is bound to it.
            elsewhere: gives the alternate exchange's queues, for messages that full queues refuse.
        """
        cdef Delays delays = Delays(
            self.queues, self.queues.id_of(queue_id), routes.name, queue_id != 0)
        delays.publishing = self.publishing
        delays.routes, delays.routed, delays.elsewhere = routes, routed, elsewhere
        routes.delays = delays
        return self.queues.add(delays)

    def verdict_queue(self, uint32_t queue_id, str name not None, Queue queue, routed=None,
                      elsewhere=None):
        """Make the queue of a binding's messages that wait for a filter class: with the binding,
        or before replay.

        Args:
            queue_id: the definition's, or 0 for a binding that a restart forgets.
            queue: the binding's destination; None if that is an exchange.
            routed: finds the queues of that exchange for (exchange, keys, properties), in steps.
            elsewhere: gives the alternate exchange's queues, for messages that full queues refuse.
        """
        cdef VerdictQueue verdict_queue = VerdictQueue(
            self.queues, self.queues.id_of(queue_id), name, queue_id != 0)
        verdict_queue.publishing, verdict_queue.verdicts = self.publishing, self.verdicts
        verdict_queue.routed, verdict_queue.elsewhere = routed, elsewhere
        verdict_queue.route_to_queue = None if queue is None else make_route([queue])
        return self.queues.add(verdict_queue)

    def group_retries(self, uint32_t queue_id, str name not None):
        """Make the queue of messages that members of a group returned: with the group's first
        option, or before replay."""
        cdef GroupRetries retries = GroupRetries(self.queues, queue_id, name, True)
        retries.count_as("stream")
        retries.publishing = self.publishing
        return self.queues.add(retries)

    def route_cache(self, str name not None, resolve, bint cacheable, Totals totals=None):
        """Make the route cache of an exchange; `resolve(key, properties)` gives the queues.

        `totals` counts what clients publish; None: nobody asks.
        """
        return RouteCache(name, resolve, cacheable, self.clock, self.cached_routes,
                          self.queues.uncounted if totals is None else totals)

    def forget_deliveries(self, str vhost not None):
        """A virtual host is gone: its deliveries stay in the totals."""
        self.queues.forget_counts(vhost)

    def conditional_route(self, queues, filtered):
        """Make what a resolver returns for a key of which some bindings have filters.

        Args:
            queues: take every message.
            filtered: (filter, queue); none of these queues is among `queues`.
        """
        return ConditionalRoute(self.publishing.filters, queues, filtered)

    def filter_outcomes(self, filters):
        """Make what a resolver returns for a key if filters decide more than which queues take a
        message."""
        return FilterOutcomes(self.publishing.filters, filters)

    def connection(self, session=None):
        """Make a connection; set its `session` before it reads."""
        return Connection(self.connections, session)

    # ------------------------------------------------------------- publishing

    def storing(self, queues, str exchange not None, str key not None, bytes properties not None,
                body not None):
        """The steps of what takes longer than a slice before such a message is published: copies
        of a large body, records in many streams.

        Returns what is left for `publish`: the queues that do not have the message yet, and its
        body. Without any step, that may be all.
        """
        return storing(self.publishing, list(queues), names_of(exchange, key), properties, body)

    def publish(self, queues, str exchange not None, str key not None, bytes properties not None,
                body not None, bytes producer=None, uint64_t sequence=0, elsewhere=None):
        """Publish a message of the broker itself, such as a dead letter, straight to queues.

        A full queue that refuses publishes gets the message when it has room, unless it
        dead-letters the message, or no queue takes it and `elsewhere()` gives some that do.
        With a producer, logs that have the message already leave it out. Returns whether it is
        new to any log.
        """
        cdef Props props
        cdef Message message
        cdef list refusing = []
        cdef bint fresh
        cdef bytes names = names_of(exchange, key)
        message = message_with(names, properties, body)
        if walk_properties(message.properties, message.properties_len, &props):
            raise ValueError("properties do not parse")
        self.publishing.publish_own(make_route(queues), &message, &props, producer, sequence,
                                    elsewhere, self.queues.dead_lettering.replacing, refusing)
        fresh = self.publishing.fresh   # dead letters are published, too
        self.queues.dead_lettering.dead_letter_refused(refusing, &message)
        return fresh

    # ------------------------------------------------------------- turns

    def run(self):
        """Expire, deliver and confirm what is due; called after each turn's input."""
        if self.ended:
            return
        self.clock.begin_stage(STAGE_NS)
        self.queues.dead_lettering.turn()
        self.clock.begin_stage(STAGE_NS)
        self.connections.resume_input()
        if self.jobs.lines.count:
            self.jobs.run(STAGE_NS)
        self.clock.begin_stage(STAGE_NS)
        self.streams.retain()
        self.clock.begin_stage(STAGE_NS)
        # First, so that what comes back and has expired meanwhile is dropped, not delivered.
        self.connections.timeouts.turn()
        self.queues.turn()
        self.searches.turn()
        self.clock.begin_stage(DELIVERIES_NS)
        self.queues.offer()
        self.clock.begin_slice(None)
        self.queues.serve()
        if self.queues.due_queues:
            self.clock.begin_stage(STAGE_NS)
            run_timed(self.queues)
            self.clock.begin_slice(None)
            self.queues.serve()
        if self.streams.written is not None:
            self.clock.begin_stage(STAGE_NS)
            self.streams.note_written(False)
        if self.streams.scanning:
            self.clock.begin_stage(STAGE_NS)
            scan(self.streams)
        self.connections.confirm()
        if self.logs.unsettled:
            flush_settles(self.logs, 0)
        compact(self.logs)
        if self.logs.relocating is not None or is_leaving():
            self.clock.begin_stage(STAGE_NS)
            if self.logs.relocating is not None:
                go_on_relocating(self.logs)
            give_back(self.clock)
        self.clock.begin_stage(INPUT_NS)

    @property
    def next_due_ms(self):
        """When `run` must be called even if there is no input; 0: never."""
        cdef uint64_t earliest_ms = min(self.queues.next_due_ms,
                                        self.connections.timeouts.timers.next_ms())
        return 0 if earliest_ms == UINT64_MAX else earliest_ms

    @property
    def busy(self):
        """Whether `run` would find something to do, or streams are still to be collected."""
        if self.ended:
            return False
        return bool(self.queues.ready_queues or self.queues.offers
                    or self.connections.resuming.count
                    or self.queues.dead_lettering.has_work()
                    or self.queues.timeouts_changed
                    or self.queues.due_queues or self.streams.scanning or self.searches.queues
                    or self.streams.retaining
                    or self.streams.work is not None or self.streams.written is not None
                    or self.jobs.lines.count or self.queues.late or self.connections.timeouts.late
                    or is_relocating(self.logs) or is_leaving())

    # ------------------------------------------------------------- sync

    @property
    def noting_streams(self):
        """Whether messages of streams are on disk, and there was no time yet to let them be read.
        """
        return self.streams.written is not None

    def mark_clean(self):
        """Append the last facts of an orderly shutdown; from now on `run` does nothing."""
        flush_settles(self.logs, 0)
        self.queues.append_delivered()
        append_clean(self.logs)
        self.ended = True

    def begin_sync(self):
        """Close the generation: (generation, writes, drops, streams), or None when there is
        nothing to do.

        `writes` are (segment number, file size, offset, bytes), oldest first; the bytes stay valid
        until `end_sync`. `drops` are the numbers of segments whose files are deleted after the
        writes. `streams` are (stream id, writes, drops) for the logs of streams; None for both
        means that the stream was deleted: all its files are deleted once the definitions on disk
        say so.
        """
        closed = self.close_generation()
        return None if closed is None else (*closed, self.collected_streams(whole=True))

    def close_generation(self):
        """Begin a sync whose streams are collected in steps: (generation, writes, drops), or None.

        `collected_streams` gives the rest, in this turn or a later one.
        """
        if self.logs.unsettled:
            flush_settles(self.logs, 0)
        if not (self.logs.dirty or self.logs.awaited or self.logs.dropped):
            return None
        self.streams.note_written(True)
        self.streams.begin_sync()
        return self.logs.begin_sync()

    def collected_streams(self, *, bint whole=False):
        """The streams of the closed generation, as `begin_sync` gives them; None: there was no time
        for all of them yet."""
        self.clock.begin_stage(STAGE_NS)
        streams = self.streams.collected(whole)
        self.clock.begin_stage(INPUT_NS)
        return streams

    def end_sync(self, uint64_t generation, writes, streams=None, *, bint whole=True):
        """The generation is on disk.

        Unless that is to be `whole`, messages of streams for which there is no time may be read
        some turns later.
        """
        self.logs.end_sync(generation, writes)
        if self.logs.begin_mapping():
            self.jobs.start(mapping(self.logs))
        if streams is not None:
            self.streams.end_sync(streams)
            self.clock.begin_stage(STAGE_NS)
            self.streams.note_written(whole)
            self.clock.begin_stage(INPUT_NS)
        self.queues.dead_lettering.end_sync(generation)
        self.connections.end_sync(generation)
        if self.clock.now_ms - self.logs.cleaned_ms >= CLEAN_EVERY_MS:
            self.logs.cleaned_ms = self.clock.now_ms
            clean(self.logs)
