"""Storing: a message whose queues are known becomes one record, and an entry in each of them.

Responsible for what a publish leaves behind: the record in the log that its durability asks for,
one in the log of each stream, entries with their time to live. It does not look routes up, nor
refuse anything. Invariant: the record names every queue that has an entry for it, by the sequence
number that the entry has.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.queue.unique_queue cimport without_duplicates, without_caches
from leporid.engine.queue.delays cimport Delays
from leporid.engine.log.log cimport FLAG_PRODUCED, KIND_PUBLISH, Log
from leporid.engine.plane cimport Plane
from leporid.engine.log.producers cimport Producer
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route_cache cimport Route, make_route, narrowed
from leporid.engine.stream.stream cimport Stream
from leporid.engine.wire.wire cimport TTL_SET, Props, Record, Target, parse_ttl

cdef extern from *:
    """
    #define NO_LIMIT UINT64_MAX
    """
    uint64_t NO_LIMIT


cdef uint64_t store(Plane plane, Route route, const uint8_t *names, size_t names_len,
                    const uint8_t *properties, size_t properties_len, const uint8_t *body,
                    size_t body_len, const Props *props, uint8_t flags) except? 0:
    """Append one record, and one entry in each queue of the route; one to each stream.

    Returns the ready messages of the longest of these queues that has consumers.
    """
    cdef Queue queue
    if route.deduplicates:
        route = without_duplicates(route, props)
        if not route.queues and route.apart is None:
            return 0
    if route.apart is not None and route.caching:
        route = remember_apart(plane, route, names, names_len, properties, properties_len, props)
    if route.apart is not None:
        for queue in route.apart:
            if type(queue) is Stream:
                (<Stream> queue).append_message(names, names_len, properties, properties_len, body,
                                                body_len, props.marks, None, 0)
            elif route.with_bcc is not None:
                (<Delays> queue).take(
                    names, names_len, <const uint8_t *> PyBytes_AS_STRING(route.with_bcc),
                    len(route.with_bcc), body, body_len, props, flags, None, 0)
            else:
                (<Delays> queue).take(names, names_len, properties, properties_len, body,
                                      body_len, props, flags, None, 0)
        if not route.queues:
            plane.published += 1
            return 0
    return enqueue(plane, route, names, names_len, properties, properties_len, body, body_len,
                   props, flags, None, 0)


cdef Route remember_apart(Plane plane, Route route, const uint8_t *names, size_t names_len,
                          const uint8_t *properties, size_t properties_len, const Props *props):
    """Have caches of exchanges remember a message that goes to a stream until the next restart.

    A stream has a log of its own: a crash might keep the memory and lose the message, which would
    then be refused for ever. Twice is better than never.
    """
    cdef Props passing = props[0]
    cdef list queues = without_caches(route.queues)
    cdef Route rest = narrowed(route, queues)
    cdef Queue queue
    passing.delivery_mode = 1
    enqueue(plane, make_route([queue for queue in route.queues if queue not in queues]), names,
            names_len, properties, properties_len, NULL, 0, &passing, 0, None, 0)
    return rest


cdef bint store_produced(Plane plane, Route route, const uint8_t *names, size_t names_len,
                         const uint8_t *properties, size_t properties_len,
                         const uint8_t *body, size_t body_len, const Props *props,
                         bytes reference, uint64_t sequence) except -1:
    """The same for a producer that says which of its messages this is.

    Returns whether it was new anywhere; each log leaves out what it has.
    """
    cdef Queue queue
    cdef Stream stream
    cdef Delays delays
    cdef Producer producer
    cdef bint fresh = False
    cdef list waiting = []
    if route.deduplicates:
        route = without_duplicates(route, props)
    if route.apart is not None and route.caching:
        route = remember_apart(plane, route, names, names_len, properties, properties_len, props)
    for queue in route.apart or ():
        if type(queue) is not Stream:
            waiting.append(queue)
            continue
        stream = <Stream> queue
        producer = stream.producers.get(stream.log, reference, plane.wall_ms)
        if sequence >= producer.next:
            stream.append_message(names, names_len, properties, properties_len, body,
                                  body_len, props.marks, producer, sequence)
            fresh = True
    if not route.queues and not waiting:
        return fresh
    producer = plane.producers.get(plane.durable, reference, plane.wall_ms)
    if sequence < producer.next:
        return fresh
    # The last of several records says who published them: a crash between them loses none.
    if route.queues:
        enqueue(plane, route, names, names_len, properties, properties_len, body, body_len,
                props, 0, None if waiting else producer, sequence)
    while waiting:
        delays = waiting.pop()
        delays.take(names, names_len, properties, properties_len, body, body_len, props, 0,
                    None if waiting else producer, sequence)
        plane.published += not route.queues and not waiting
    return True


cdef uint64_t enqueue(Plane plane, Route route, const uint8_t *names, size_t names_len,
                      const uint8_t *properties, size_t properties_len, const uint8_t *body,
                      size_t body_len, const Props *props, uint8_t flags,
                      Producer producer, uint64_t sequence) except? 0:
    cdef bint durable = props.delivery_mode == 2 and route.durable
    cdef Log log = plane.durable if durable else plane.transient
    cdef size_t queues = len(route.queues), at
    cdef size_t targets = queues + (durable and producer is not None)
    cdef size_t size = (sizeof(Record) + targets * sizeof(Target) + names_len
                        + properties_len + body_len + 7) & ~<size_t> 7
    cdef Record *record = log.begin(size)
    cdef Target *target = <Target *> (<uint8_t *> record + sizeof(Record))
    cdef uint8_t *p = <uint8_t *> (target + targets)
    cdef Queue queue
    cdef uint64_t position, ttl_ms, deepest = 0
    memset(<uint8_t *> record + size - 8, 0, 8)
    record.size = <uint32_t> size
    record.kind = KIND_PUBLISH
    record.flags = flags if log.durable else 0
    record.targets = <uint16_t> targets
    record.properties_len = <uint32_t> properties_len
    record.timestamp_ms = plane.wall_ms
    record.body_len = <uint32_t> body_len
    record.names_len = <uint16_t> names_len
    for at in range(queues):
        queue = <Queue> route.queues[at]
        target[at].queue = queue.id
        target[at].seq = queue.next_seq
    if producer is not None:
        producer.next = sequence + 1
        if durable:
            record.flags |= FLAG_PRODUCED
            target[queues].queue, target[queues].seq = producer.number, sequence
    memcpy(p, names, names_len)
    p += names_len
    memcpy(p, properties, properties_len)
    memcpy(p + properties_len, body, body_len)
    position = log.finish(record)
    log.hold(position, <uint32_t> queues)
    if log.durable:
        plane.dirty = True
    if not route.unroutable:
        plane.published += 1
    for at in range(queues):
        queue = <Queue> route.queues[at]
        queue.push(position, <uint32_t> body_len, props.priority)
        if props.expiration != NULL or queue.ttl != NO_LIMIT:
            if parse_ttl(props, &ttl_ms) != TTL_SET:
                ttl_ms = NO_LIMIT
            ttl_ms = min(ttl_ms, queue.ttl)
            if ttl_ms != NO_LIMIT:
                queue.set_ttl(queue.next_seq - 1, ttl_ms)
        if queue.ready_count > deepest and queue.consumer_count:
            deepest = queue.ready_count
    return deepest
