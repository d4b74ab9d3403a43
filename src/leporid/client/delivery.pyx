"""Deliveries, and where they lie until somebody takes them.

    Inbox       the deliveries of a consumer that nobody took yet; outlives connections
    Deliveries  the iterator over it
    Delivery    a message; its properties are decoded when they are asked for
    Settler     what a delivery is settled with: its channel on one connection

It must not know frames or sockets. Invariant: a delivery is settled at most once.
"""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from collections import deque
from dataclasses import replace

from leporid.amqp.errors import Fault
from leporid.amqp.properties import decode_properties
from leporid.client.errors import LocalProtocolError, RemoteProtocolError
from leporid.client.message import deaths_of, moment_of, tag_of

cdef enum:
    # Deliveries that a loop over a consumer takes before others have their turn.
    STREAK_MAX = 64
    SLOTS = 64

# Headers that a broker sets anew with each delivery of a message.
cdef frozenset OF_DELIVERIES = frozenset(("x-delivery-count", "x-acquired-count"))

cdef Settled SETTLED_ALREADY = Settled()


def settled():
    """What `Delivery.ack` and its like return: it is done at once when it is awaited."""
    return SETTLED_ALREADY


@cython.final
cdef class Settled:
    """An awaitable that is done."""

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration


@cython.final
cdef class Inbox:
    """The deliveries of a consumer that nobody took yet.

    Args:
        consumer_tag: the consumer's.
        no_ack: nothing is to be acknowledged.
        remembered: how many acks are remembered, as they may be lost with the connection; 0: none,
            and each message that comes again is handed out again.
        loop: makes the futures of who waits.
    """

    def __cinit__(self, str consumer_tag, bint no_ack, int remembered, loop):
        self.consumer_tag, self.no_ack, self.loop = consumer_tag, no_ack, loop
        self.items = <PyObject **> PyMem_Malloc(SLOTS * sizeof(PyObject *))
        if self.items == NULL:
            raise MemoryError
        self.mask = SLOTS - 1
        self.waiters = deque()
        self.acked = deque(maxlen=remembered) if remembered and not no_ack else None
        self.repeatable = {}

    def __dealloc__(self):
        while self.count:
            self.take()
        PyMem_Free(self.items)

    def __len__(self):
        return self.count

    def __repr__(self):
        return f"<Inbox {self.consumer_tag!r} with {self.count} deliveries>"

    cdef int push(self, Delivery delivery) except -1:
        cdef PyObject **items
        cdef size_t i
        if self.count > self.mask:
            items = <PyObject **> PyMem_Malloc(2 * self.count * sizeof(PyObject *))
            if items == NULL:
                raise MemoryError
            for i in range(self.count):
                items[i] = self.items[(self.head + i) & self.mask]
            PyMem_Free(self.items)
            self.items, self.head, self.mask = items, 0, 2 * self.count - 1
        Py_INCREF(delivery)
        self.items[(self.head + self.count) & self.mask] = <PyObject *> delivery
        self.count += 1
        if self.waiters:
            self.wake()
        return 0

    cdef Delivery take(self):
        """The first delivery; there is one."""
        cdef Delivery delivery = <Delivery> self.items[self.head]
        Py_DECREF(delivery)
        self.head = (self.head + 1) & self.mask
        self.count -= 1
        return delivery

    cdef int wake(self) except -1:
        """Wake one who waits."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break
        return 0

    def pop(self):
        """Take the first delivery; None: there is none."""
        return self.take() if self.count else None

    def rest(self):
        """The loop over the consumer gives way; say whether it has to, as something is there."""
        self.streak = 0
        return self.count > 0

    def wait(self):
        """Return a future that is done when there is something to look at."""
        waiter = self.loop.create_future()
        self.waiters.append(waiter)
        return waiter

    def woken(self):
        """One who was woken goes without taking anything: wake the next one."""
        if self.count:
            self.wake()

    def end(self, error):
        """Nothing more comes; an error is for who iterates, None means that it was asked for."""
        self.ended, self.error = True, error
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def begin(self):
        """Deliveries may come (again)."""
        self.ended, self.error = False, None

    def lose(self):
        """The connection is gone: what lies here comes again, and acks may not have arrived.

        Returns:
            How many deliveries were dropped.
        """
        cdef size_t dropped = self.count
        while self.count:
            self.take()
        if self.acked is not None:
            self.repeatable = {}
            for raw, exchange, key, body_hash in self.acked:
                known = message_of(raw, exchange, key, body_hash)
                if known is not None:
                    self.repeatable[known[0].message_id] = known
            self.acked.clear()
        return dropped

    cdef int note_acked(self, Delivery delivery) except -1:
        """Remember an ack; of the body a hash of 64 bits, which nobody outside can foresee."""
        self.acked.append((delivery.raw, delivery.exchange, delivery.key, hash(delivery.body)))
        return 0

    cdef bint is_repeated(self, Delivery delivery) except -1:
        """Whether a message was acknowledged on a connection that was lost before that arrived."""
        # One that was never delivered is another message, with the id of an earlier one.
        if not delivery.redelivered:
            return False
        found = message_of(delivery.raw, delivery.exchange, delivery.key, hash(delivery.body))
        return found is not None and self.repeatable.pop(found[0].message_id, None) == found


cdef object message_of(bytes raw, str exchange, str key, body_hash):
    """What a message with an id is known by when it is delivered again; None: it has no id."""
    try:
        properties = decode_properties(raw)
    except Fault:
        return None
    if properties.message_id is None:
        return None
    headers = {name: value for name, value in (properties.headers or {}).items()
               if name not in OF_DELIVERIES}
    return replace(properties, headers=headers), exchange, key, body_hash


@cython.final
cdef class Deliveries:
    """Iterates over a consumer; without a pause while there is something to take.

    Args:
        inbox: what is taken from.
        consumer: kept alive; its `next_delivery()` waits.
    """

    def __init__(self, Inbox inbox, consumer):
        self.inbox, self.consumer = inbox, consumer

    def __aiter__(self):
        return self

    def __anext__(self):
        if self.inbox.count and self.inbox.streak < STREAK_MAX and self.waiting is None:
            return self
        return self.consumer.next_delivery()

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        # The delivery is taken when it is awaited, so that none is lost when nobody does.
        if self.waiting is None:
            if self.inbox.count:
                self.inbox.streak += 1
                raise StopIteration(self.inbox.take())
            self.waiting = self.consumer.next_delivery().__await__()
        try:
            return next(self.waiting)
        except BaseException:
            self.waiting = None
            raise

    def throw(self, *error):
        """Pass an exception on to what waits, as when a task is cancelled."""
        waiting, self.waiting = self.waiting, None
        if waiting is None:
            raise error[0]
        return waiting.throw(*error)


@cython.final
cdef class Processing:
    """Settles a delivery by how a block ends: `async with delivery.process():`."""

    def __cinit__(self, Delivery delivery, bint requeue, bint ignore_processed):
        self.delivery, self.requeue = delivery, requeue
        self.ignore_processed = ignore_processed

    async def __aenter__(self):
        return self.delivery

    async def __aexit__(self, kind, error, trace):
        if self.ignore_processed and self.delivery.state != UNSETTLED:
            return
        if kind is None:
            self.delivery.settle(ACK, False, False)
        elif issubclass(kind, Exception):
            self.delivery.settle(NACK, self.requeue, False)
        else:
            # Cancelled, or the program ends: the message was not at fault.
            self.delivery.settle(NACK, True, False)


cdef class Settler:
    """What deliveries are settled with: their channel on one connection.

    Attributes:
        lost: why it is gone, or None.
    """

    cdef int settle(self, Delivery delivery, int how, bint requeue, bint multiple) except -1:
        """Tell the broker what became of a delivery that is unsettled."""
        raise NotImplementedError

    cdef int give_back(self, Delivery delivery) except -1:
        """Requeue a delivery that nobody has seen, if it is unsettled."""
        raise NotImplementedError


def give_back(Delivery delivery):
    """Requeue a delivery whose caller or consumer is gone; nothing if it is settled.

    Unlike `nack` it holds after a rollback, too: nobody is there who could settle it once more.
    """
    delivery.channel.give_back(delivery)


# Without the collector's 16 bytes for each: nothing that a delivery refers to refers to it, but the
# slots of its channel, which the collector does not see into.
@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Delivery:
    """A message that the broker delivered. Its properties are decoded when they are asked for.

    Attributes:
        body: the content.
        exchange: where it was published to; "" is the default exchange.
        key: the routing key.
        delivery_tag: its number on its channel.
        redelivered: whether the broker has delivered it before.
    """

    def __repr__(self):
        state = ("unsettled", "acked", "settled", "delivered without ack", "given back")[self.state]
        return (f"<Delivery {self.delivery_tag} with key {self.key!r}, "
                f"{PyBytes_GET_SIZE(self.body)} bytes, {state}>")

    cdef object known_properties(self):
        if self.decoded is None:
            try:
                self.decoded = decode_properties(self.raw)
            except Fault as fault:
                raise RemoteProtocolError(
                    f"the properties of delivery {self.delivery_tag} cannot be decoded: {fault}"
                ) from None
        return self.decoded

    @property
    def properties(self):
        """All properties of the message, as `leporid.amqp.properties.Properties`.

        Raises:
            RemoteProtocolError: they are malformed.
        """
        return self.known_properties()

    @property
    def raw_properties(self):
        """The properties as they came, encoded."""
        return self.raw

    @property
    def headers(self):
        """The headers; empty without any."""
        return self.known_properties().headers or {}

    @property
    def content_type(self):
        """The MIME type of the body, or None."""
        return self.known_properties().content_type

    @property
    def content_encoding(self):
        """The MIME encoding of the body, or None."""
        return self.known_properties().content_encoding

    @property
    def persistent(self):
        """Whether it outlives a restart of the broker in a durable queue."""
        return self.known_properties().delivery_mode == 2

    @property
    def priority(self):
        """The priority, or None."""
        return self.known_properties().priority

    @property
    def correlation_id(self):
        """What ties a reply to its request, or None."""
        return self.known_properties().correlation_id

    @property
    def reply_to(self):
        """The queue that a reply is wanted in, or None."""
        return self.known_properties().reply_to

    @property
    def expiration(self):
        """The time to live that it was published with, in milliseconds as text, or None."""
        return self.known_properties().expiration

    @property
    def message_id(self):
        """The id that the publisher gave it, or None."""
        return self.known_properties().message_id

    @property
    def timestamp(self):
        """When it was published, says the publisher: a datetime in UTC, or None."""
        return moment_of(self.known_properties().timestamp)

    @property
    def type(self):
        """What kind of message it is, or None."""
        return self.known_properties().type

    @property
    def user_id(self):
        """The publisher's user, checked by the broker, or None."""
        return self.known_properties().user_id

    @property
    def app_id(self):
        """The publisher's application, or None."""
        return self.known_properties().app_id

    @property
    def offset(self):
        """Its offset in its stream; None if it comes from no stream."""
        return self.headers.get("x-stream-offset")

    @property
    def tag(self):
        """The tag that filters know it by, or None."""
        return tag_of(self.headers)

    @property
    def delivery_count(self):
        """How many deliveries failed before this one, as far as the broker counts them."""
        return self.headers.get("x-delivery-count", 0)

    @property
    def deaths(self):
        """Where it was dead-lettered, the last time first: the header x-death, or []."""
        return deaths_of(self.headers)

    @property
    def consumer_tag(self):
        """The consumer that it was delivered to; "" for one that was got."""
        return "" if self.inbox is None else self.inbox.consumer_tag

    @property
    def settled(self):
        """Whether it was acked, nacked or rejected, or needs none of these."""
        return self.state != UNSETTLED

    @property
    def is_current(self):
        """Whether the connection that delivered it is still there."""
        return self.channel.lost is None

    cdef int settle(self, int how, bint requeue, bint multiple) except -1:
        if self.state != UNSETTLED:
            if self.state == NO_ACK:
                raise LocalProtocolError(
                    f"delivery {self.delivery_tag} was delivered with no_ack: it is settled already"
                )
            raise LocalProtocolError(
                f"delivery {self.delivery_tag} was settled before; settle each delivery once"
            )
        return self.channel.settle(self, how, requeue, multiple)

    def ack(self, bint multiple=False):
        """Tell the broker that it is done with.

        Args:
            multiple: and so are all deliveries before it on its channel.

        Raises:
            LocalProtocolError: it was settled before, its channel is closed, or this is another
                thread. One of a connection that was lost is left alone: it comes again.
        """
        self.settle(ACK, False, multiple)
        return SETTLED_ALREADY

    def nack(self, bint requeue=True, bint multiple=False):
        """Tell the broker that it was not done; without `requeue` it is dropped or dead-lettered.

        Args:
            requeue: put it back into its queue.
            multiple: and likewise all deliveries before it on its channel.

        Raises:
            LocalProtocolError: as for `ack`.
        """
        self.settle(NACK, requeue, multiple)
        return SETTLED_ALREADY

    def reject(self, bint requeue=False):
        """Tell the broker that it cannot be done: it is dropped or dead-lettered.

        Args:
            requeue: put it back into its queue instead.

        Raises:
            LocalProtocolError: as for `ack`.
        """
        self.settle(REJECT, requeue, False)
        return SETTLED_ALREADY

    def process(self, bint requeue=False, bint ignore_processed=False):
        """Settle it by how a block ends: acked, or nacked after an exception.

        Args:
            requeue: after an exception put it back into its queue; it is dropped or dead-lettered
                otherwise. When the block's task is cancelled it is always put back.
            ignore_processed: leave it alone if the block has settled it.
        """
        return Processing(self, requeue, ignore_processed)

    async def reply(self, body, **properties):
        """Publish to `reply_to`, with the correlation id of this message.

        Args:
            body: of the reply.
            properties: those of `Exchange.publish`.

        Raises:
            LocalProtocolError: it has no `reply_to`.
            PublishError: nobody waits for the reply any more.
        """
        if self.reply_to is None:
            raise LocalProtocolError(
                f"delivery {self.delivery_tag} has no reply_to: its publisher wants no reply"
            )
        properties.setdefault("correlation_id", self.correlation_id)
        await self.channel.replier.publish_reply(self.reply_to, body, properties)
