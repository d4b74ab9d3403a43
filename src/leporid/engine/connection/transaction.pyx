"""Transactions of a channel (AMQP 0-9-1 1.9): commit and rollback.

The facts of one transaction lie next to each other in one segment of the log and count only when
the COMMIT fact after them, which counts them, is there. So a crash leaves all of it or nothing.
Invariant: between the first of these facts and COMMIT nothing else is appended.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.queue.exchange_cache cimport Cache, reserve, routed_anew
from leporid.engine.connection.channel cimport SETTLE_ACK, SETTLE_DROP, SETTLE_REQUEUE, Channel
from leporid.engine.queue.unique_queue cimport without_duplicates
from leporid.engine.connection.unacked cimport UnackedDelivery
from leporid.engine.log.facts cimport append_commit, flush_settles
from leporid.engine.log.log cimport COMMIT_PUBLISHES, FLAG_IN_TX
from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport Queue
from leporid.engine.connection.settling cimport settle_entry
from leporid.engine.routing.route_cache cimport Route, make_route
from leporid.engine.stream.stream cimport Stream
from leporid.engine.wire.wire cimport Props, Record, Target, walk_properties


cdef uint64_t commit(Channel channel) except? 0:
    """tx.commit: all publishes and acks of the transaction, or after a crash none.

    The facts of one transaction lie next to each other in one segment and count only when the
    COMMIT fact after them is there. What a queue is too full for is left out, as by RabbitMQ, and
    `tx_refused` is set. Returns the generation to wait for, 0 for none.
    """
    cdef Plane plane = channel.plane
    cdef Cache cache
    cdef list reserving = []
    cdef uint64_t noted = plane.noted
    cdef bint durable
    channel.tx_refused = False
    # What is delivered may have dead letters made, whose facts must not come between those of the
    # transaction; a full queue would do this before it refuses.
    plane.offer()
    publishes = routed_publishes(channel, reserving)
    acks, others = [], []
    for settle in channel.tx_settles:
        (acks if is_fact(settle) else others).append(settle)
    channel.tx_publishes, channel.tx_settles, channel.tx_bytes = [], [], 0
    try:
        durable = append_all(channel, publishes, acks)
    finally:
        # What came to no queue in the end may come again.
        for cache in reserving:
            cache.reserved.clear()
        letters, channel.tx_letters = channel.tx_letters, []
    for refusing_queues, names, properties, body in letters:
        plane.dead_lettering.dead_letter_refused(refusing_queues, names, properties, body)
    for _, queue, seq, consumer, _, how in others:
        # What answers the commit promises them, so none waits for another turn.
        plane.dead_lettering.count = 0
        settle_entry(channel, queue, seq, consumer, how)
    if channel.tx_refused:
        plane.work()    # the channel will be closed: as in RabbitMQ, what it requeued came before
    if durable or letters:
        plane.note_change()
        return max(plane.generation, plane.noted_by)
    return plane.noted_by if plane.noted != noted else 0


cdef bint is_fact(tuple settle):
    """Whether a settle is one fact of the log: no requeue, and without a dead letter.

    Others come after COMMIT, as they may append facts of their own: a crash may double a dead
    letter, and loses none. Publishes come before them, as in RabbitMQ: what goes back may fill a
    queue.
    """
    cdef Queue queue = settle[1]
    cdef int how = settle[5]
    return how < SETTLE_REQUEUE and not (how == SETTLE_DROP and (
        queue.dead_letters is not None or type(queue) is Stream))


cdef bint append_all(Channel channel, list publishes, list acks) except -1:
    """Append what is whole or not there after a crash; returns whether anything lasts."""
    cdef Plane plane = channel.plane
    cdef Route route
    cdef Props props
    cdef size_t size = 2 * sizeof(Record)
    cdef bytes names, properties, body
    cdef Queue queue
    cdef uint64_t before
    cdef bint durable = False
    for route, names, properties, body, _ in publishes:
        # That what a duplicate is one of is on disk is promised as well.
        durable = durable or route.durable or route.duplicate or route.apart is not None
        # One record for the queues, and one for each that keeps its own.
        size += (1 + len(route.apart or ())) * (
            sizeof(Record) + sizeof(Target) + 8 + len(names) + len(body)
            + len(route.with_bcc or properties))
        size += len(route.queues) * sizeof(Target)
        if route.caching or route.refusing:
            # What caches forget for it; and what is settled of a queue whose consumers take without
            # acknowledging, which a queue that may be full lets them do before it refuses.
            size += len(route.queues) * (2 * sizeof(Record) + 32)
    for _, queue, _, _, _, _ in acks:
        durable = durable or queue.durable
        size += 2 * sizeof(Record) + 32
    if durable:
        flush_settles(plane, 0)
        plane.durable.begin((size + 7) & ~<size_t> 7)  # so that all of it is in one segment
    before = plane.durable.appended
    for route, names, properties, body, mandatory in publishes:
        walk_properties(<const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
                        &props)
        channel.accept(
            route, <const uint8_t *> PyBytes_AS_STRING(names), len(names),
            <const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
            <const uint8_t *> PyBytes_AS_STRING(body), len(body), &props, mandatory, FLAG_IN_TX)
    for _, queue, seq, consumer, _, _ in acks:
        settle_entry(channel, queue, seq, consumer, SETTLE_ACK)
    if durable:
        flush_settles(plane, FLAG_IN_TX)
        append_commit(plane, <uint32_t> (plane.durable.appended - before), COMMIT_PUBLISHES)
    return durable


cdef list routed_publishes(Channel channel, list reserving):
    """What a commit publishes, with the routes of now: they may have changed since the publish."""
    cdef Queue queue
    cdef Route route
    cdef Props props
    cdef bytes names, properties, body, with_bcc
    publishes = []
    for route, names, properties, body, mandatory in channel.tx_publishes:
        with_bcc = route.with_bcc
        if route.caching:
            walk_properties(<const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
                            &props)
            route = without_duplicates(routed_anew(channel, route, names, properties), &props)
        else:
            route = make_route([queue for queue in route.queues + (route.apart or [])
                                if not queue.retired])
        route.with_bcc = with_bcc
        if route.refusing:
            for queue in route.queues:
                # What consumers are given of a backlog without acknowledging it is settled before
                # the size of the transaction is known.
                queue.deliver()
        if route.caching:
            reserve(route, properties, reserving)
        publishes.append((route, names, properties, body, mandatory))
    return publishes


cdef int rollback(Channel channel) except -1:
    """tx.rollback: publishes are forgotten; what was settled is unsettled again."""
    cdef size_t at
    cdef UnackedDelivery taken
    channel.tx_publishes, channel.tx_bytes = [], 0
    settles, channel.tx_settles = channel.tx_settles, []
    if not settles:
        return 0
    entries = [(tag, seq, queue, consumer, since_ms)
               for tag, queue, seq, consumer, since_ms, _ in settles]
    for at in range(channel.unacked.start, channel.unacked.end):
        taken = channel.unacked.entries[at]
        if taken.queue != NULL:
            entries.append((taken.tag, taken.seq, <object> taken.queue,
                            <object> taken.consumer if taken.consumer != NULL else None,
                            taken.since_ms))
    channel.unacked.forget()
    entries.sort(key=tag_of)
    for tag, seq, queue, consumer, since_ms in entries:
        channel.unacked.add(tag, seq, queue, consumer, since_ms)
    return 0


def tag_of(entry):
    return entry[0]
