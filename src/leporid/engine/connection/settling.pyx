"""What a channel had delivered is settled, or goes back (AMQP 0-9-1 1.8.3.13 to 1.8.3.16).

Responsible for which deliveries an ack, a nack or a recover means, for what may not be done to
them, and for the credit that comes free. It does not know how frames are read, nor what a queue
does with what comes back. Invariants: what is taken out of a channel's unacked is settled, given
back, or kept for its commit, once; credit that was full is offered again.
"""

from libc.stdint cimport uint64_t
from cpython.ref cimport Py_DECREF

from leporid.engine.connection.channel cimport (
    SETTLE_ACK, SETTLE_DROP, SETTLE_FAIL, SETTLE_REQUEUE, Channel,
)
from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.queue.index cimport UNACKED, Slot
from leporid.engine.connection.unacked cimport UnackedDelivery
from leporid.engine.queue.queue cimport Queue
from leporid.engine.connection.stream_consumer cimport StreamConsumer
from leporid.engine.stream.stream cimport Stream

from leporid.amqp.errors import NotImplementedFault, PreconditionFailed


cdef int settle(Channel channel, uint64_t tag, bint multiple, int how) except -1:
    """basic.ack, basic.reject, basic.nack (RabbitMQ's basic.nack)."""
    cdef ssize_t upto
    cdef size_t at
    if multiple and tag == 0:
        upto = <ssize_t> channel.unacked.end - 1
    else:
        upto = channel.unacked.find(tag)
        if upto < 0:
            if not channel.late_acks.has(tag):
                raise PreconditionFailed(f"unknown delivery tag {tag}")
            if not multiple:
                return 0
            upto = channel.unacked.upto(tag)
    if how >= SETTLE_REQUEUE:
        keep_rejected(channel, channel.unacked.start if multiple else upto, upto)
    if multiple and how >= SETTLE_REQUEUE and not channel.transactional:
        return requeue_upto(channel, upto, how)
    if multiple:
        at = channel.unacked.start
        channel.unacked.walks += 1
        while <ssize_t> at <= upto:
            if channel.unacked.entries[at].queue != NULL:
                settle_at(channel, at, how)
            at += 1
        channel.unacked.walks -= 1
    else:
        settle_at(channel, upto, how)
    channel.unacked.trim()
    return 0


cdef int take_back(Channel channel, size_t at) except -1:
    """A delivery is overdue and goes back alone; settling it later is no fault, once."""
    cdef bint transactional = channel.transactional
    channel.late_acks.add(channel.unacked.entries[at].tag)
    channel.transactional = False
    settle_at(channel, at, SETTLE_REQUEUE)
    channel.transactional = transactional
    return 0


cdef int recover(Channel channel) except -1:
    """basic.recover with requeue: everything unsettled goes back to its place."""
    cdef ssize_t last = <ssize_t> channel.unacked.end - 1
    refuse_streams(channel, last)
    return requeue_upto(channel, last, SETTLE_REQUEUE)


cdef int requeue_upto(Channel channel, ssize_t upto, int how) except -1:
    """Give back all deliveries up to one of the unacked, not only when a transaction commits.

    Queue by queue and consumer by consumer, in the order of their names and tags as in RabbitMQ,
    and offered again before the next one's goes back: a queue may have room for either, and not for
    both.
    """
    cdef Queue queue
    cdef ssize_t at
    cdef UnackedDelivery taken
    cdef dict given = {}
    channel.unacked.walks += 1
    for at in range(<ssize_t> channel.unacked.start, upto + 1):
        if channel.unacked.entries[at].queue != NULL:
            taken = channel.unacked.take(at)
            consumer = <object> taken.consumer if taken.consumer != NULL else None
            given.setdefault((<object> taken.queue, consumer), []).append(taken.seq)
            Py_DECREF(<object> taken.queue)
            if consumer is not None:
                Py_DECREF(consumer)
    channel.unacked.walks -= 1
    channel.unacked.trim()
    for queue, consumer in sorted(given, key=name_and_tag):
        channel.plane.offer()
        queue.deliver()  # what the one before gave back
        for seq in given[queue, consumer]:
            settle_entry(channel, queue, seq, consumer, how)
    return 0


cdef tuple name_and_tag(tuple given):
    """Sorts as RabbitMQ does: what was got, by basic.get, before what was consumed."""
    cdef Queue queue = given[0]
    cdef Consumer consumer = given[1]
    return queue.name, consumer is not None, "" if consumer is None else consumer.tag


cdef int drop_unsettled(Channel channel, Consumer consumer) except -1:
    """What a consumer of a stream has not settled is nobody's; settling it is no fault."""
    cdef size_t at
    (<StreamConsumer?> consumer).retries = None     # it is not given back
    cdef bint transactional = channel.transactional
    channel.transactional = False
    channel.unacked.walks += 1
    for at in range(channel.unacked.start, channel.unacked.end):
        if channel.unacked.entries[at].consumer == <void *> consumer:
            channel.late_acks.add(channel.unacked.entries[at].tag)
            settle_at(channel, at, SETTLE_REQUEUE)
    channel.unacked.walks -= 1
    channel.unacked.trim()
    channel.transactional = transactional
    settles, channel.tx_settles = channel.tx_settles, []
    for kept in settles:
        if kept[3] is consumer:
            settle_entry(channel, kept[1], kept[2], consumer, SETTLE_REQUEUE)
        else:
            channel.tx_settles.append(kept)
    return 0


cdef int give_back_unsettled(Channel channel, int how) except -1:
    """The channel ends, or fails: all it had goes back, now and not at a commit."""
    cdef size_t at
    cdef bint transactional = channel.transactional
    channel.transactional = False
    channel.unacked.walks += 1
    for at in range(channel.unacked.start, channel.unacked.end):
        if channel.unacked.entries[at].queue != NULL:
            settle_at(channel, at, how)
    channel.unacked.walks -= 1
    channel.unacked.trim()
    channel.transactional = transactional
    return 0


cdef int refuse_streams(Channel channel, ssize_t upto) except -1:
    """What is read from a stream is not delivered again."""
    cdef ssize_t at
    cdef Queue queue
    for at in range(<ssize_t> channel.unacked.start, upto + 1):
        if channel.unacked.entries[at].queue != NULL:
            queue = <Queue> channel.unacked.entries[at].queue
            if type(queue) is Stream:
                raise NotImplementedFault("basic.recover not supported by stream queues "
                                          f"{(<Stream> queue).title}")
    return 0


cdef int keep_rejected(Channel channel, ssize_t first, ssize_t last) except -1:
    """What goes back into a stream gives credit, and is for who reads there next in that name.

    At once, also in a transaction: one that is rolled back has a message read twice at worst.
    """
    cdef ssize_t at
    cdef StreamConsumer reader
    for at in range(first, last + 1):
        if channel.unacked.entries[at].queue == NULL or channel.unacked.entries[at].consumer == NULL:
            continue
        if type(<object> channel.unacked.entries[at].queue) is Stream:
            reader = <StreamConsumer> channel.unacked.entries[at].consumer
            if reader.retries is None:
                reader.leave_to_next(channel.unacked.entries[at].seq)
    return 0


cdef int settle_at(Channel channel, size_t at, int how) except -1:
    """Settle one delivery of the unacked; in a transaction, when it commits."""
    cdef UnackedDelivery taken = channel.unacked.take(at)
    cdef Queue queue = <Queue> taken.queue
    cdef Consumer consumer = None
    Py_DECREF(queue)
    if taken.consumer != NULL:
        consumer = <Consumer> taken.consumer
        Py_DECREF(consumer)
    if channel.transactional:
        channel.tx_settles.append((taken.tag, queue, taken.seq, consumer, taken.since_ms, how))
        return 0
    return settle_entry(channel, queue, taken.seq, consumer, how)


cdef int settle_entry(Channel channel, Queue queue, uint64_t seq, Consumer taker,
                      int how) except -1:
    """Settle what is out of the unacked, and have its credit used."""
    cdef Slot *slot
    channel.unacked_count -= 1
    if taker is not None:
        taker.unacked_count -= 1
        if taker.credit is not None:
            taker.credit.give_one()
        channel.outstanding -= 1
        if channel.global_limit:
            channel.global_credit.freed()
        if taker.level is None and taker.active:
            queue.resume(taker)
    if queue.retired:
        return 0
    slot = queue.slot_of(seq)
    if slot == NULL or slot.state != UNACKED:
        if type(queue) is Stream:
            if how == SETTLE_ACK:
                channel.plane.acked += 1
            elif taker is not None and (<StreamConsumer> taker).retries is not None:
                return (<StreamConsumer> taker).retries.take_back(taker, seq, how)
        return 0
    if how >= SETTLE_REQUEUE:
        return queue.requeue(seq, slot, how == SETTLE_FAIL)
    channel.plane.acked += 1
    if how == SETTLE_DROP:
        return queue.drop(seq, slot, "rejected")
    return queue.settle(seq, slot)
