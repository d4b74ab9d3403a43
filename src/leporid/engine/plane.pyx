"""The data plane of one broker: what its connections, queues and logs share, and their turns.

Responsible for the order of work within a turn (`run`), for sync generations and for cleaning the
durable log. It never opens a file, reads a clock or draws a random number: the server sets
`now_ms`, writes what `begin_sync` hands out and says `end_sync`.

Everything durable that happens belongs to the current `generation`. `begin_sync` closes it and
opens the next; when it is on disk, `end_sync` makes it `synced`, and whatever waited for it (a
confirm, a held answer) goes on. Invariant: nothing that waits for a generation leaves before
every byte and every definition of that generation is on disk.
"""

from libc.stdint cimport UINT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.queue.dead_lettering cimport DeadLettering
from leporid.engine.queue.exchange_cache cimport Cache
from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.credit cimport Credit
from leporid.engine.stream.choice cimport tally_of
from leporid.engine.log.cleaning cimport clean, compact
from leporid.engine.connection.connection cimport Connection
from leporid.engine.queue.unique_queue cimport UniqueQueue, without_duplicates
from leporid.engine.queue.delays cimport Delays
from leporid.engine.connection.group_retries cimport GroupRetries
from leporid.engine.log.facts cimport flush_settles, make_room, mark_clean
from leporid.engine.routing.conditional_routes cimport FilterOutcomes, ConditionalRoute
from leporid.engine.queue.index cimport BlockPool
from leporid.engine.queue.consumer_verdicts cimport renew_class, waiting_for
from leporid.engine.log.log cimport Log, Segment
from leporid.engine.log.producers cimport Producers
from leporid.engine.queue.republish cimport without_full_queues
from leporid.engine.selectors.filter_counters cimport FilterCounters
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.retries cimport Retries
from leporid.engine.stream.scanning cimport scan
from leporid.engine.routing.route_cache cimport Route, RouteCache, make_route
from leporid.engine.queue.verdict_queue cimport VerdictQueue
from leporid.engine.log.storing cimport store, store_produced
from leporid.engine.stream.stream cimport Stream
from leporid.engine.connection.timeouts cimport Timeouts
from leporid.engine.queue.timed_queue cimport run_timed
from leporid.engine.queue.timers cimport Timer, Timers
from leporid.engine.wire.wire cimport Props, Record, walk_properties
from leporid.engine.queue.filtered_consumers cimport search_on

from leporid.engine.queue.snapshot import snapshot

# One message at most (RabbitMQ 3.13's max_message_size).
MESSAGE_BYTES_MAX = 128 * 1024 * 1024

cdef enum:
    TRANSIENT_SEGMENT_BYTES = 1024 * 1024
    DURABLE_SEGMENT_BYTES = 16 * 1024 * 1024
    # Everything of one connection that may wait for its next frame (a method, a header and a body
    # frame with a payload of 128 KiB) and one turn's reading behind it.
    INBOX_BYTES = 512 * 1024
    # Of filters that look through queues, in units of one to three nanoseconds: so much longer is a
    # turn when somebody looks through a long queue.
    SEARCH_WORK = 400_000
    TRANSIENT_IDS = 0x80000000      # ids of queues that the definitions do not know
    CLEAN_EVERY_MS = 100
    RETAIN_EVERY_MS = 1000          # streams that nobody writes to age, too
    TIMERS_SLACK = 1024             # of settled entries, kept before it is worth looking for them


cdef class Plane:
    """All state of the data plane; one thread uses it.

    Args:
        seed: any 32-bit number, different for each data directory; it makes records of another
            log invalid in this one.
    """

    def __cinit__(self, uint32_t seed=0, *, size_t durable_segment_bytes=DURABLE_SEGMENT_BYTES,
                  size_t transient_segment_bytes=TRANSIENT_SEGMENT_BYTES):
        self.transient = Log(False, transient_segment_bytes, seed)
        self.durable = Log(True, durable_segment_bytes, seed)
        self.generation = 1
        self.message_bytes_max = MESSAGE_BYTES_MAX
        self.listed = []
        self.offers = []
        self.touched = []
        self.confirming = []
        self.settling = []
        self.dead_lettering = DeadLettering(self)
        self.unsynced = []
        self.syncing_streams = []
        self.dropped_streams = []
        self.streams = {}
        self.producers = Producers()
        self.incarnation_prefix = f"{seed:08x}"
        self.held = []
        self.resuming = []
        self.dropped = []
        self.zero_ttl = []
        self.is_due = []
        self.judging = {}
        self.all_verdicts = {}
        self.scanning = []
        self.searching = []
        self.search_work = SEARCH_WORK
        self.timers = Timers()
        self.retries = Retries(self)
        self.timeouts = Timeouts(self)
        self.blocks = BlockPool()
        self.queues = {}
        self.counters = {}
        self.next_transient_id = TRANSIENT_IDS
        self.inbox_bytes = INBOX_BYTES
        self.inbox = <uint8_t *> malloc(INBOX_BYTES)
        if self.inbox == NULL:
            raise MemoryError("no memory for the input buffer")

    def __dealloc__(self):
        free(self.inbox)
        for at in range(self.spare_output_count):
            free(self.spare_outputs[at])

    def __repr__(self):
        return (f"<Plane generation={self.generation} synced={self.synced} "
                f"queues={len(self.queues)}>")

    # ------------------------------------------------------------- parts

    def queue(self, uint32_t queue_id, str name not None, bint durable):
        """A queue; `queue_id` is the definition's, or 0 for one that a restart forgets.

        Durable queues are made before replay, which gives them their messages.
        """
        cdef Queue queue = Queue(self, queue_id or self.new_transient_id(), name, durable)
        self.queues[queue.id] = queue
        return queue

    cdef uint32_t new_transient_id(self):
        cdef uint32_t number = self.next_transient_id
        self.next_transient_id = max(TRANSIENT_IDS, number + 1)
        return number

    def unique_queue(self, uint32_t queue_id, str name not None, bint durable):
        """A queue that takes no message twice (x-message-deduplication)."""
        cdef Queue queue = UniqueQueue(
            self, queue_id or self.new_transient_id(), name, durable)
        self.queues[queue.id] = queue
        return queue

    def cache(self, uint32_t queue_id, str name not None, bint durable, *, size, ttl_ms):
        """What an exchange remembers; `size` and `ttl_ms` bound it (None: no time)."""
        cdef Cache cache = Cache(self, queue_id or self.new_transient_id(), name, durable)
        self.queues[cache.id] = cache
        cache.set_cache(size, ttl_ms)
        return cache

    def stream(self, uint32_t queue_id, str name not None):
        """A stream; made before replay, which gives it its messages."""
        cdef Stream stream = Stream(self, queue_id, name, True)
        self.queues[queue_id] = self.streams[queue_id] = stream
        return stream

    def delays(self, uint32_t queue_id, RouteCache routes not None, routed not None, elsewhere=None):
        """What waits in an exchange; made when something does, or before replay.

        Args:
            queue_id: the definition's, or 0 for an exchange that a restart forgets.
            routes: of the exchange.
            routed: gives the queues for (exchange, keys, properties): of what it was published
                to, which may be an exchange above.
            elsewhere: gives those of its alternate exchange, for what full queues refuse.
        """
        cdef Delays delays = Delays(
            self, queue_id or self.new_transient_id(), routes.name, queue_id != 0)
        delays.routes, delays.routed, delays.elsewhere = routes, routed, elsewhere
        self.queues[delays.id] = routes.delays = delays
        return delays

    def verdict_queue(self, uint32_t queue_id, str name not None, Queue queue, routed=None,
                elsewhere=None):
        """What of a binding waits for a filter class; made with the binding, or before replay.

        Args:
            queue_id: the definition's, or 0 for a binding that a restart forgets.
            queue: where it leads, or None for an exchange.
            routed: gives the queues of that exchange for (exchange, keys, properties).
            elsewhere: gives those of an alternate exchange, for what full queues refuse.
        """
        cdef VerdictQueue verdict_queue = VerdictQueue(
            self, queue_id or self.new_transient_id(), name, queue_id != 0)
        verdict_queue.routed, verdict_queue.elsewhere = routed, elsewhere
        verdict_queue.way = None if queue is None else make_route([queue])
        self.queues[verdict_queue.id] = verdict_queue
        return verdict_queue

    def group_retries(self, uint32_t queue_id, str name not None):
        """What members of a group gave back; made with its first option, or before replay."""
        cdef GroupRetries retries = GroupRetries(self, queue_id, name, True)
        self.queues[queue_id] = retries
        return retries

    def take_judging(self):
        """Who has something to ask a filter class since the last call; some may be gone."""
        if not self.judging:
            return []
        judging, self.judging = list(self.judging), {}
        for each in judging:
            if isinstance(each, VerdictQueue):
                (<VerdictQueue> each).listed = False
        return judging

    def renew_filter_class(self, str name not None):
        """Another version counts: consumers of queues have it look at everything that is there."""
        renew_class(self, name)

    def waiting_for(self, str name not None):
        """How many messages of queues wait for a filter class, as far as consumers have looked."""
        return waiting_for(self, name)

    def route_cache(self, str name not None, resolve, bint cacheable):
        """The cache of routes for one exchange; `resolve(key, properties)` gives its queues."""
        return RouteCache(name, resolve, cacheable)

    def conditional_route(self, queues, filtered):
        """What a resolver answers for a key if some of its queues take some messages only: queues
        of every message; and (filter, queue), none of them among those."""
        return ConditionalRoute(self, queues, filtered)

    def filter_outcomes(self, filters):
        """What a resolver answers for a key if filters decide more than which queues take it."""
        return FilterOutcomes(self, filters)

    def note_filtered(self, uint64_t evaluated, uint64_t matched, uint64_t failed):
        """Filters were asked by somebody else about a message."""
        self.filters_asked += evaluated
        self.filters_evaluated += evaluated
        self.filters_matched += matched
        self.filters_failed += failed

    def counters_of_queue(self, Queue queue not None):
        """What filters were asked about a queue's messages; None: there were none."""
        return self.counters.get(queue.id)

    def note_browsed(self, Queue queue not None, counts):
        """A request for a table filtered some of a queue's messages, as `Chosen.filtering` says."""
        _, evaluated, matched, failed = counts
        self.wishes_asked += evaluated
        self.wishes_evaluated += evaluated
        self.wishes_matched += matched
        self.wishes_failed += failed
        if evaluated and not queue.retired:
            counters_of(self, queue.id).note(evaluated, evaluated, matched, failed)

    def connection(self, session=None):
        """A new connection; set its `session` before it reads."""
        return Connection(self, session)

    cdef Record *record(self, uint64_t position):
        if position >> 63:
            return self.durable.at(position)
        return self.transient.at(position)

    cdef int release(self, uint64_t position) except -1:
        if not position >> 63:
            self.transient.release(position)
        elif self.durable.release(position):
            self.idle_segments = True
        return 0

    # ------------------------------------------------------------- turns

    def run(self):
        """Expire, deliver and confirm what is due; after each turn."""
        cdef Channel channel
        cdef Stream stream
        cdef Connection connection
        if self.ended:
            return
        self.dead_lettering.turn()
        resuming, self.resuming = self.resuming, []
        for connection in resuming:
            if not connection.is_lost:
                connection.paused = False
                connection.resume_input()
                connection.touch()
        if self.now_ms - self.retained_ms >= RETAIN_EVERY_MS:
            self.retained_ms = self.now_ms
            for stream in self.streams.values():
                stream.retain()
        self.timers.close()
        if self.timers.count > TIMERS_SLACK + 2 * self.timed_count:
            self.prune_timers()
        self.timeouts.turn()
        if self.searching:
            search_on(self)
        self.work()
        if self.is_due:
            run_timed(self)
            self.work()
        if self.scanning:
            scan(self)
        if self.confirming:
            waiting, self.confirming = self.confirming, []
            for channel in waiting:
                if channel.confirm():
                    self.confirming.append(channel)
        if self.settling:
            flush_settles(self, 0)
        compact(self)

    cdef int work(self) except -1:
        """Let queues deliver what came, and drop what may not stay."""
        cdef Queue queue
        cdef uint64_t seq
        self.retries.turn()
        self.timers.close()
        if self.timers.count:
            self.expire()
        # What is dropped may become a dead letter in another queue, which then has a turn too.
        while self.listed or self.offers or self.zero_ttl:
            # A time to live of 0 means: now or never (RabbitMQ, TTL). What dies below and may not
            # wait itself is of the next round, after the queues that it comes to had their turn.
            zero_ttl, self.zero_ttl = self.zero_ttl, []
            # First, lest those of a lower priority take what these are to have.
            self.offer()
            listed, self.listed = self.listed, []
            for queue in listed:
                queue.listed = False
                queue.deliver()
            for queue, seq in zero_ttl:
                self.expired += queue.expire(seq)
        return 0

    cdef int offer(self) except -1:
        """Let those take that waited for credit of which there is some now."""
        cdef Credit credit
        while self.offers:
            offers, self.offers = self.offers, []
            for credit in offers:
                credit.offer()
        return 0

    cdef int expire(self) except -1:
        """Drop entries whose time to live is over, wherever they stand."""
        cdef Timer due
        cdef Queue queue
        while self.timers.count and self.timers.heap[0].at_ms <= self.now_ms:
            due = self.timers.pop()
            queue = self.queues.get(due.queue)
            while queue is not None and due.count:
                self.expired += queue.expire(due.seq)
                due.seq += 1
                due.count -= 1
        return 0

    cdef int prune_timers(self) except -1:
        """Forget timers of entries that are gone; called when most of them are."""
        cdef size_t at, kept = 0
        cdef Timer *heap = self.timers.heap
        cdef Queue queue = None
        cdef int64_t looked_up = -1  # timers of one queue stand together as a rule
        for at in range(self.timers.count):
            if heap[at].queue != looked_up:
                looked_up = heap[at].queue
                queue = self.queues.get(looked_up)
            if queue is not None and (queue.is_timer(heap[at].seq, heap[at].at_ms)
                                      or heap[at].count > 1 and queue.shorten(&heap[at])):
                heap[kept] = heap[at]
                kept += 1
        self.timers.count = kept
        self.timers.rebuild()
        return 0

    @property
    def next_due_ms(self):
        """When `run` must be called although nothing came; 0: never."""
        self.timers.close()
        cdef uint64_t earliest_ms = min(self.timers.next_ms(), self.retries.timers.next_ms(),
                                        self.timeouts.timers.next_ms())
        return 0 if earliest_ms == UINT64_MAX else earliest_ms

    @property
    def busy(self):
        """Whether `run` would find something to do."""
        return bool(self.listed or self.offers or self.resuming or self.dead_lettering.waiting
                    or self.timeouts.changed or self.is_due or self.scanning or self.searching)

    @property
    def stream_filtering(self):
        """What filters made of all streams there were, as each of them has it."""
        return tally_of(&self.filtered)

    def take_touched(self):
        """Connections that have output or want to be closed, since the last call."""
        touched, self.touched = self.touched, []
        return touched

    # ------------------------------------------------------------- publishing

    def publish(self, queues, str exchange not None, str key not None, bytes properties not None,
                bytes body not None, bytes producer=None, uint64_t sequence=0, elsewhere=None):
        """A message of the broker's own, such as a dead letter, straight into queues.

        A queue that is full and refuses publishes gets it when it has room, unless it makes a dead
        letter of it, or no queue takes it and `elsewhere()` has some. Returns whether it is new
        anywhere; with a producer, what has it already leaves it out.
        """
        cdef Route route = make_route(queues)
        cdef Props props
        cdef list refusing_queues = []
        cdef bint fresh = True
        cdef bytes names = b"".join(
            bytes((len(raw),)) + raw for raw in (exchange.encode(), key.encode()))
        if walk_properties(<const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
                           &props):
            raise ValueError("properties do not parse")
        if route.deduplicates:
            route = without_duplicates(route, &props)
        if route.refusing:
            route = without_full_queues(self, route, len(body), &props, refusing_queues, elsewhere)
        if not route.queues and route.apart is None:
            fresh = False
        elif producer is not None:
            fresh = store_produced(
                self, route, <const uint8_t *> PyBytes_AS_STRING(names), len(names),
                <const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
                <const uint8_t *> PyBytes_AS_STRING(body), len(body), &props, producer, sequence)
        else:
            if self.dead_lettering.replacing:
                self.dead_lettering.replacing = False
                make_room(self, max(1, len(route.queues)),
                          len(names) + len(properties) + len(body))
            store(self, route, <const uint8_t *> PyBytes_AS_STRING(names), len(names),
                  <const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
                  <const uint8_t *> PyBytes_AS_STRING(body), len(body), &props, 0)
        self.dead_lettering.dead_letter_refused(refusing_queues, names, properties, body)
        return fresh

    def snapshot(self, Queue queue not None):
        """What is ready in a queue, to be published again; `engine.snapshot` says how it looks."""
        return snapshot(queue)

    # ------------------------------------------------------------- facts

    def note_change(self):
        """Something durable happened: it belongs to this generation, which is returned."""
        self.dirty = True
        return self.generation

    def mark_clean(self):
        """The last facts of an orderly shutdown; no turn comes after it that would add others."""
        mark_clean(self)
        self.ended = True

    # ------------------------------------------------------------- sync

    @property
    def segments(self):
        """Segments of the durable log that exist, oldest first."""
        return [segment for segment in self.durable.segments if segment is not None]

    def begin_sync(self):
        """Close the generation: (generation, writes, drops, streams), or None when there is
        nothing to do.

        `writes` are (segment number, file size, offset, bytes), oldest first; the bytes stay valid
        until `end_sync`. `drops` are numbers of segments whose files go, after the writes.
        `streams` are (stream id, writes, drops) of logs of their own; with None for both, the
        stream is gone and all its files go, after the definitions say so.
        """
        cdef Stream stream
        if self.settling:
            flush_settles(self, 0)
        if not (self.dirty or self.awaited or self.dropped):
            return None
        self.producers.begin_sync(self.durable, self.wall_ms)
        writes = self.durable.unwritten()
        unsynced, self.unsynced = self.unsynced, []
        self.syncing_streams = [stream for stream in unsynced if not stream.retired]
        streams = [(<Stream> stream).begin_sync() for stream in self.syncing_streams]
        streams += [(number, None, None) for number in self.dropped_streams]
        self.dropped_streams = []
        drops, self.dropped = self.dropped, []
        generation = self.generation
        self.generation += 1
        self.dirty = self.awaited = False
        self.syncing = True
        return generation, writes, drops, streams

    def end_sync(self, uint64_t generation, writes, streams=()):
        """That generation is on disk."""
        cdef Segment segment
        cdef Connection connection
        cdef Stream stream
        self.syncing = False
        self.synced = generation
        self.durable.mark_written(writes)
        written = {number: parts for number, parts, _ in streams}
        syncing, self.syncing_streams = self.syncing_streams, []
        for stream in syncing:
            stream.end_sync(written[stream.id])
        self.dead_lettering.end_sync(generation)
        for segment in self.segments:
            if (segment.sealed and not segment.mapped and segment.written == segment.used
                    and segment.live and not segment.readers and self.map_segment is not None):
                try:
                    segment.adopt(self.map_segment(segment.number), self.durable)
                except OSError:
                    pass  # no descriptor or mapping to be had: it stays in memory until next time
        held, self.held = self.held, []
        for connection in held:
            if connection.is_lost:
                continue
            if connection.held > generation:
                self.held.append(connection)
                self.awaited = True
            else:
                connection.release()
        if self.now_ms - self.cleaned_ms >= CLEAN_EVERY_MS:
            self.cleaned_ms = self.now_ms
            clean(self)


cdef FilterCounters counters_of(Plane plane, uint32_t queue_id):
    found = plane.counters.get(queue_id)
    if found is None:
        found = plane.counters[queue_id] = FilterCounters()
    return found
