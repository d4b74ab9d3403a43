"""The client's end of a connection, as bytes: frames in, frames out.

    ConnectionCodec  finds frames, has the one output buffer
    ChannelCodec     puts content together, knows what must be settled; one connection long

Responsible for what every message costs. It must not know sockets, clocks, nor what any method but
deliver, get-ok, return, ack and nack means: their payload goes to the owner's `on_method`.
Invariants: sizes that the broker names are compared with a limit before anything is allocated; a
delivery is in its channel's slots, or among its stragglers, exactly as long as the broker waits for
it to be settled.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove

from leporid.client.delivery cimport (
    ACK, ACK_PENDING, GIVEN_BACK, NACK, NO_ACK, REJECT, SETTLED, UNSETTLED, Delivery, Inbox,
    Settler,
)
from leporid.client.encoder cimport EncodedProperties, Output, short_name
from leporid.client.publishes cimport Batch, Publish
from leporid.engine.wire.codec cimport load16, load32, load64

from leporid.client.errors import LocalProtocolError, RemoteProtocolError, fresh
from leporid.client.message import Message, decoded_message

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    void *PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef extern from *:
    """
    #define FRAME_END 0xce
    #define FRAME_OVERHEAD 8
    """
    int FRAME_END
    int FRAME_OVERHEAD

cdef enum:
    METHOD = 1
    HEADER = 2
    BODY = 3
    HEARTBEAT = 8
    # Method ids, class in the upper half.
    DELIVER = 60 << 16 | 60
    GET_OK = 60 << 16 | 71
    RETURN = 60 << 16 | 50
    # What is read at once; a frame of the usual largest size fits twice.
    READ_BYTES = 256 * 1024
    # Output that is sent before the turn of the loop ends.
    FLUSH_BYTES = 64 * 1024
    # A body is allocated at once up to this size; a larger one grows with what arrives.
    BODY_BYTES_AT_ONCE = 1024 * 1024
    # Delivery tags that a broker may leave out.
    TAG_GAP_MAX = 65536
    SLOTS = 64


@cython.final
cdef class ChannelCodec(Settler):
    """A channel on one connection.

    Args:
        connection: writes what the channel says.
        number: the channel's.
        owner: its `on_method(payload)` gets other methods, `on_got(delivery, ready)` what was got,
            `on_return(body, key, exchange, properties, code, text)` what came back and waits for no
            confirm, `on_repeated(delivery)` what was acked before; `on_late_settle()` may refuse to
            settle what belongs to a lost connection.
    """

    def __cinit__(self, ConnectionCodec connection, uint16_t number, owner):
        self.connection, self.number, self.owner = connection, number, owner
        self.inboxes = {}
        self.stragglers = {}
        self.ending = []
        self.last_tag = b""
        self.last_raw = b""
        self.slots = <PyObject **> PyMem_Calloc(SLOTS, sizeof(PyObject *))
        if self.slots == NULL:
            raise MemoryError
        self.mask = SLOTS - 1
        self.base = self.next_tag = 1
        self.expects = METHOD
        while len(connection.channels) <= number:
            connection.channels.append(None)
        connection.channels[number] = self

    def __dealloc__(self):
        self.clear_slots()
        PyMem_Free(self.slots)
        PyMem_Free(self.pending)

    def __repr__(self):
        return f"<ChannelCodec {self.number} with {self.unsettled} unsettled deliveries>"

    @property
    def unsettled(self):
        """How many deliveries the broker waits for."""
        return self.live + len(self.stragglers)

    @property
    def replier(self):
        """What publishes replies: the owner."""
        return self.owner

    cdef void clear_slots(self):
        cdef uint64_t tag
        cdef PyObject *delivery
        if self.slots == NULL:
            return
        for tag in range(self.base, self.next_tag):
            delivery = self.slots[tag & self.mask]
            self.slots[tag & self.mask] = NULL
            if delivery != NULL:
                Py_DECREF(<object> delivery)
        self.base = self.next_tag
        self.live = 0

    def attach(self, Inbox inbox):
        """Take deliveries for a consumer."""
        self.inboxes[inbox.consumer_tag.encode()] = inbox
        self.last_inbox = None

    def detach(self, Inbox inbox, bint requeue):
        """Take no deliveries for a consumer any more; those that come are requeued.

        Args:
            requeue: have the broker deliver again what nobody took.
        """
        self.inboxes.pop(inbox.consumer_tag.encode(), None)
        self.last_inbox = None
        cdef Delivery delivery
        while requeue and inbox.count:
            delivery = inbox.take()
            if delivery.channel is self:
                self.give_back(delivery)

    def end(self, error):
        """The channel is closed, by its owner (LocalProtocolError) or with its connection."""
        if self.lost is not None:
            return
        self.lost = error
        self.clear_slots()
        self.stragglers = {}
        self.undoable = None
        self.ending = []
        self.pending_count = 0
        self.inboxes = {}
        self.last_inbox = None
        self.delivery = None
        self.parts = None
        self.body = None

    def free(self):
        """The number may be given to another channel."""
        if self.connection.channels[self.number] is self:
            self.connection.channels[self.number] = None

    # ------------------------------------------------------------------ in

    cdef int take(self, int kind, const uint8_t *p, uint32_t n) except -1:
        """Heed a frame."""
        cdef uint32_t ids
        if self.lost is not None:
            # It crossed the end; the answer to a close is all that counts.
            ids = load32(p) if kind == METHOD and n >= 4 else DELIVER
            if ids == DELIVER or ids == GET_OK or ids == RETURN or ids == ACK or ids == NACK:
                return 0
            self.owner.on_method(PyBytes_FromStringAndSize(<char *> p, n))
            return 0
        if kind == METHOD:
            return self.take_method(p, n)
        if kind == HEADER:
            return self.take_header(p, n)
        return self.take_body(p, n)

    cdef int take_method(self, const uint8_t *p, uint32_t n) except -1:
        cdef uint32_t ids
        if self.expects != METHOD:
            raise RemoteProtocolError(
                f"channel {self.number}: a method came where content was due")
        if n < 4:
            raise RemoteProtocolError(f"channel {self.number}: a method frame of {n} bytes")
        ids = load32(p)
        if ids == DELIVER or ids == GET_OK or ids == RETURN:
            return self.begin_delivery(p + 4, p + n, ids)
        if (ids == ACK or ids == NACK) and self.lost is not None:
            return 0  # nobody waits for it any more
        if (ids == ACK or ids == NACK) and self.unconfirmed is not None:
            # basic.nack to a client has no requeue, but its octet has room for one.
            if n != 13:
                raise RemoteProtocolError(f"channel {self.number}: a confirm of {n} bytes")
            self.unconfirmed.confirm(load64(p + 4), p[12] & 1, ids == NACK)
            return 0
        self.owner.on_method(PyBytes_FromStringAndSize(<char *> p, n))
        return 0

    cdef int begin_delivery(self, const uint8_t *p, const uint8_t *end, int kind) except -1:
        """Read the method in front of a message."""
        cdef Delivery delivery = Delivery.__new__(Delivery)
        cdef Inbox inbox = None
        cdef size_t n
        if kind == DELIVER:
            n = p[0] if p < end else 0
            if p + 1 + n > end:
                raise RemoteProtocolError(f"channel {self.number}: basic.deliver is cut short")
            inbox = self.inbox_of(p + 1, n)
            p += 1 + n
        delivery.inbox = inbox
        delivery.channel = self
        if kind == RETURN:
            if end - p < 2 or end - p < 3 + p[2]:
                raise RemoteProtocolError(f"channel {self.number}: basic.return is cut short")
            self.returned = (load16(p), (<char *> p)[3:3 + p[2]].decode("utf-8", "replace"))
            p += 3 + p[2]
        else:
            if end - p < 9:
                raise RemoteProtocolError(f"channel {self.number}: a delivery is cut short")
            delivery.delivery_tag, delivery.redelivered = load64(p), p[8] & 1
            p += 9
        if p >= end or p + 1 + p[0] >= end or p + 2 + p[0] + p[1 + p[0]] > end:
            raise RemoteProtocolError(f"channel {self.number}: a delivery is cut short")
        self.last_exchange = delivery.exchange = name_at(p, self.last_exchange)
        p += 1 + p[0]
        self.last_key = delivery.key = name_at(p, self.last_key)
        p += 1 + p[0]
        if kind == GET_OK:
            if end - p < 4:
                raise RemoteProtocolError(f"channel {self.number}: basic.get-ok is cut short")
            self.message_count = load32(p)
        self.delivery, self.kind, self.expects = delivery, kind, HEADER
        return 0

    cdef Inbox inbox_of(self, const uint8_t *tag, size_t n):
        """The consumer of that tag; None if it is gone."""
        if self.last_inbox is not None and <size_t> PyBytes_GET_SIZE(self.last_tag) == n and \
                memcmp(PyBytes_AS_STRING(self.last_tag), tag, n) == 0:
            return self.last_inbox
        self.last_tag = PyBytes_FromStringAndSize(<char *> tag, n)
        self.last_inbox = self.inboxes.get(self.last_tag)
        return self.last_inbox

    cdef int take_header(self, const uint8_t *p, uint32_t n) except -1:
        cdef bytes raw = self.last_raw
        if self.expects != HEADER:
            raise RemoteProtocolError(
                f"channel {self.number}: a content header came where none was due")
        if n < 14 or load16(p) != 60:
            raise RemoteProtocolError(f"channel {self.number}: malformed content header")
        self.body_size, self.body_at = load64(p + 4), 0
        if self.body_size > self.connection.message_bytes_max:
            raise RemoteProtocolError(
                f"channel {self.number}: a message of {self.body_size} bytes, more than the "
                f"limit of {self.connection.message_bytes_max}; see Settings.message_bytes_max")
        if <uint32_t> PyBytes_GET_SIZE(raw) != n - 12 or \
                memcmp(PyBytes_AS_STRING(raw), p + 12, n - 12):
            self.last_raw = raw = PyBytes_FromStringAndSize(<char *> p + 12, n - 12)
        self.delivery.raw = raw
        self.expects = BODY
        if self.body_size <= BODY_BYTES_AT_ONCE:
            self.body = PyBytes_FromStringAndSize(NULL, self.body_size) if self.body_size else b""
        else:
            self.parts = []
        return self.end_content() if self.body_size == 0 else 0

    cdef int take_body(self, const uint8_t *p, uint32_t n) except -1:
        if self.expects != BODY:
            raise RemoteProtocolError(
                f"channel {self.number}: a content body came where none was due")
        if n > self.body_size - self.body_at:
            raise RemoteProtocolError(f"channel {self.number}: a body is longer than announced")
        if self.body is not None:
            memcpy(PyBytes_AS_STRING(self.body) + self.body_at, p, n)
        else:
            self.parts.append(PyBytes_FromStringAndSize(<char *> p, n))
        self.body_at += n
        return self.end_content() if self.body_at == self.body_size else 0

    cdef int end_content(self) except -1:
        """A message is complete."""
        cdef Delivery delivery = self.delivery
        self.expects = METHOD
        if self.parts is not None:
            self.body, self.parts = b"".join(self.parts), None
        delivery.body, self.body = self.body, None
        if self.kind == RETURN:
            self.delivery = None
            returned, self.returned = self.returned, None
            if self.lost is not None:
                return 0
            if self.unconfirmed is None or not self.unconfirmed.note_return(
                    delivery.exchange, delivery.key, delivery.raw, returned):
                message = decoded_message(delivery.body, delivery.key, delivery.raw)
                self.owner.on_return(message, delivery.exchange, *returned)
            return 0
        return self.end_delivery()

    cdef int end_delivery(self) except -1:
        cdef Delivery delivery = self.delivery
        cdef Inbox inbox = delivery.inbox
        if self.kind == GET_OK:
            # Whether it was got without ack, the owner knows.
            self.add(delivery, delivery.delivery_tag)
            self.owner.on_got(delivery, self.message_count)
            return 0
        if inbox is None:
            # Its consumer was cancelled meanwhile.
            self.add(None, delivery.delivery_tag)
            self.owner.on_unwanted(delivery.delivery_tag, self.last_tag.decode("utf-8", "replace"))
            return 0
        if inbox.no_ack:
            delivery.state = NO_ACK
            self.add(None, delivery.delivery_tag)
        else:
            self.add(delivery, delivery.delivery_tag)
        if inbox.repeatable and inbox.is_repeated(delivery):
            self.settle(delivery, ACK, False, False)
            self.owner.on_repeated(delivery)
            return 0
        return inbox.push(delivery)

    # ------------------------------------------------------------------ what must be settled

    cdef int add(self, Delivery delivery, uint64_t tag) except -1:
        """Note a delivery that the broker waits for; None: it does not wait for that one."""
        if tag and tag == self.reusable_tag:
            # A direct reply has the tag of the next delivery, in RabbitMQ (3.10) as in Leporid.
            if delivery is None:
                return 0
            self.next_tag = tag
            if self.base > tag:
                self.base = tag
        if delivery is None and tag < self.next_tag:
            # LavinMQ (1.0 to 2.9) gives each direct reply the tag 1.
            return 0
        if tag < self.next_tag or tag - self.next_tag > TAG_GAP_MAX:
            raise RemoteProtocolError(
                f"channel {self.number}: delivery tag {tag} where {self.next_tag} was due")
        self.reusable_tag = tag if delivery is None else 0
        if self.base == self.next_tag:
            self.base = self.next_tag = tag
            if delivery is None:
                self.base = self.next_tag = tag + 1
                return 0
        if tag - self.base > self.mask:
            self.make_room(tag)
        while self.next_tag < tag:
            self.slots[self.next_tag & self.mask] = NULL
            self.next_tag += 1
        self.slots[tag & self.mask] = NULL
        if delivery is not None:
            Py_INCREF(delivery)
            self.slots[tag & self.mask] = <PyObject *> delivery
            self.live += 1
        self.next_tag = tag + 1
        return 0

    cdef int make_room(self, uint64_t tag) except -1:
        """Have a slot for a tag: more slots, or without those at the front if most are empty.

        One delivery that takes hours must not keep a slot for each that came later.
        """
        cdef uint64_t each
        cdef size_t slots = self.mask + 1
        cdef PyObject *delivery
        cdef PyObject **grown
        if self.live * 4 < slots and tag - self.next_tag < slots:
            while tag - self.base > self.mask:
                delivery = self.slots[self.base & self.mask]
                if delivery != NULL:
                    self.stragglers[self.base] = <Delivery> delivery
                    self.slots[self.base & self.mask] = NULL
                    Py_DECREF(<object> delivery)
                    self.live -= 1
                self.base += 1
            return 0
        while tag - self.base >= slots:
            slots *= 2
        grown = <PyObject **> PyMem_Calloc(slots, sizeof(PyObject *))
        if grown == NULL:
            raise MemoryError
        for each in range(self.base, self.next_tag):
            grown[each & (slots - 1)] = self.slots[each & self.mask]
        PyMem_Free(self.slots)
        self.slots, self.mask = grown, slots - 1
        return 0

    cdef int forget(self, uint64_t tag, int state) except -1:
        """The broker does not wait for a delivery any more."""
        cdef Delivery delivery
        cdef PyObject *slot
        if tag < self.base:
            delivery = self.stragglers.pop(tag)
            delivery.state = state
            self.note_settled(delivery)
            return 0
        slot = self.slots[tag & self.mask]
        self.slots[tag & self.mask] = NULL
        self.live -= 1
        delivery = <Delivery> slot
        Py_DECREF(delivery)
        delivery.state = state
        self.note_settled(delivery)
        while self.base < self.next_tag and self.slots[self.base & self.mask] == NULL:
            self.base += 1
        return 0

    def no_ack(self, Delivery delivery):
        """A delivery that was got needs no ack."""
        self.forget(delivery.delivery_tag, NO_ACK)

    cdef int settle(self, Delivery delivery, int how, bint requeue, bint multiple) except -1:
        self.connection.check_thread()
        if self.lost is not None:
            if isinstance(self.lost, LocalProtocolError):
                raise fresh(self.lost)
            # The broker has it again, and will deliver it anew.
            self.owner.on_late_settle()
            delivery.state = SETTLED
            return 0
        if self.interrupted is not None:
            raise fresh(self.interrupted)
        if how == ACK and not multiple:
            return self.acknowledge(delivery)
        self.flush_acks()
        self.connection.output.settle(
            self.number, how & 0xffff, delivery.delivery_tag,
            requeue if how == REJECT else multiple | requeue << 1)
        self.connection.schedule()
        if multiple:
            return self.settle_until(delivery.delivery_tag, how == ACK)
        return self.forget(delivery.delivery_tag, SETTLED)

    cdef int acknowledge(self, Delivery delivery) except -1:
        """Ack a delivery, at the end of the turn, with others if that says the same."""
        cdef size_t capacity
        cdef uint64_t *pending
        if self.pending_count == self.pending_capacity:
            capacity = max(SLOTS, self.pending_capacity * 2)
            pending = <uint64_t *> PyMem_Realloc(self.pending, capacity * sizeof(uint64_t))
            if pending == NULL:
                raise MemoryError
            self.pending, self.pending_capacity = pending, capacity
        if self.pending_count == 0:
            self.connection.acking.append(self)
            self.connection.schedule()
        self.pending[self.pending_count] = delivery.delivery_tag
        self.pending_count += 1
        delivery.state = ACK_PENDING
        if delivery.inbox is not None and delivery.inbox.acked is not None:
            delivery.inbox.note_acked(delivery)
        return 0

    cdef int flush_acks(self) except -1:
        """Write the acks of this turn.

        Those up to the first delivery that is not acked leave as one: everything before it is
        settled, so that `multiple` says neither more nor less. The others leave one by one.
        """
        cdef uint64_t last = 0
        cdef size_t count = 0, i
        cdef PyObject *slot
        cdef Output output = self.connection.output
        while self.pending_count and not self.stragglers and self.base < self.next_tag:
            slot = self.slots[self.base & self.mask]
            if slot != NULL:
                if (<Delivery> slot).state == UNSETTLED:
                    break
                (<Delivery> slot).state = SETTLED
                self.note_settled(<Delivery> slot)
                self.slots[self.base & self.mask] = NULL
                self.live -= 1
                last = self.base
                count += 1
                Py_DECREF(<object> slot)
            self.base += 1
        if count:
            output.settle(self.number, 80, last, count > 1)
        for i in range(self.pending_count if count < self.pending_count else 0):
            if self.pending[i] > last:
                output.settle(self.number, 80, self.pending[i], 0)
                self.forget(self.pending[i], SETTLED)
        self.pending_count = 0
        return 0

    cdef int settle_until(self, uint64_t last, bint acked) except -1:
        """All deliveries up to this one are settled; their acks have been written."""
        cdef Delivery each
        cdef PyObject *slot
        cdef list settled = [self.stragglers.pop(tag) for tag in sorted(self.stragglers)
                             if tag <= last]
        while self.base < self.next_tag and self.base <= last:
            slot = self.slots[self.base & self.mask]
            self.slots[self.base & self.mask] = NULL
            self.base += 1
            if slot != NULL:
                settled.append(<Delivery> slot)
                Py_DECREF(<object> slot)
                self.live -= 1
        for each in settled:
            each.state = SETTLED
            self.note_settled(each)
            if acked and each.inbox is not None and each.inbox.acked is not None:
                each.inbox.note_acked(each)
        return 0

    cdef int note_settled(self, Delivery delivery) except -1:
        if self.undoable is not None and delivery.state == SETTLED:
            self.undoable.append(delivery)
        return 0

    def begin_transaction(self):
        """Transactions were asked for: what is settled from now on takes effect with a commit."""
        if self.undoable is None:
            self.undoable = []

    def close_transaction(self):
        """A commit or rollback was written; what follows belongs to the next one."""
        self.ending.append(self.undoable)
        self.undoable = []

    def end_transaction(self, bint committed):
        """The first of these was answered: after a rollback, what was settled is not.

        Returns:
            Whether it takes another commit, as what nobody holds has been given back once more.
        """
        settled = self.ending.pop(0) or ()
        given_back = False
        if committed:
            return False
        for each in settled:
            if type(each) is Delivery:
                self.unsettle(each)
            else:
                self.requeue(each)
                given_back = True
        return given_back

    cdef int unsettle(self, Delivery delivery) except -1:
        """The broker waits for a delivery again."""
        delivery.state = UNSETTLED
        if delivery.delivery_tag < self.base:
            self.stragglers[delivery.delivery_tag] = delivery
            return 0
        Py_INCREF(delivery)
        self.slots[delivery.delivery_tag & self.mask] = <PyObject *> delivery
        self.live += 1
        return 0

    cdef int give_back(self, Delivery delivery) except -1:
        if delivery.state != UNSETTLED or self.lost is not None:
            return 0
        self.flush_acks()
        self.forget(delivery.delivery_tag, GIVEN_BACK)
        self.requeue(delivery.delivery_tag)
        return 0

    def requeue(self, uint64_t tag):
        """Give a delivery back that belongs to no consumer any more."""
        if self.undoable is not None:
            self.undoable.append(tag)
        self.connection.output.settle(self.number, 120, tag, 2)
        self.connection.schedule()

    # ------------------------------------------------------------------ out

    def write(self, bytes payload):
        """Write a method."""
        self.flush_acks()
        self.connection.output.frame(
            METHOD, self.number, <const uint8_t *> PyBytes_AS_STRING(payload),
            PyBytes_GET_SIZE(payload))
        self.connection.schedule()

    def publish(self, str exchange, key, EncodedProperties properties, bytes body,
                bint mandatory, waiter):
        """Write a publish.

        Args:
            exchange, key, properties, body, mandatory: what is published.
            waiter: a future or a `Batch`, told what becomes of it; None without confirms.

        Raises:
            LocalProtocolError: it cannot be sent; nothing was written.
        """
        cdef ConnectionCodec connection = self.connection
        cdef uint64_t number = 0
        cdef bytes prefix = None
        key = short_name(key, "routing key")
        if properties.bytes_left() + 300 > connection.payload_max:
            raise LocalProtocolError(
                f"the properties have {properties.bytes_left()} bytes: they must fit one frame of "
                f"{connection.payload_max + FRAME_OVERHEAD} bytes (Settings.frame_bytes_max)")
        if self.unconfirmed is not None and waiter is not None:
            number, prefix = self.unconfirmed.reserve(), self.unconfirmed.prefix
        # What fails has written nothing, and must not count: the broker counts what it gets.
        connection.output.publish(
            self.number, exchange, key, mandatory, properties, prefix, number, body,
            connection.payload_max)
        if prefix is not None:
            self.unconfirmed.add(exchange, key, properties, body, mandatory, waiter)
        connection.schedule()
        if connection.output.size >= FLUSH_BYTES:
            connection.flusher()

    def publish_run(self, Batch batch, messages, str exchange, key,
                    EncodedProperties properties, bint mandatory, size_t most):
        """Write publishes of an iterator, until it ends, the window is full, or `most` are written.

        Returns:
            Whether the iterator has ended.
        """
        cdef size_t _i
        cdef ConnectionCodec connection = self.connection
        for _i in range(most):
            if batch.in_flight >= batch.window or batch.bytes >= batch.bytes_max or \
                    connection.paused or self.lost is not None:
                return False
            try:
                message = next(messages)
            except StopIteration:
                return True
            self.publish_one(batch, message, exchange, key, properties, mandatory)
        return False

    def publish_one(self, Batch batch, message, str exchange, key,
                    EncodedProperties properties, bint mandatory):
        """Write a publish of a batch: a body, or a `Message`."""
        if type(message) is not bytes:
            message, key, properties = message_parts(message, key, properties)
        self.publish(exchange, key, properties, message, mandatory, batch)
        if self.unconfirmed is not None:
            batch.in_flight += 1
            batch.bytes += PyBytes_GET_SIZE(message)
        batch.published += 1

    def republish(self):
        """Write again what was published on an earlier connection and not confirmed: a piece of it.

        A piece has as much as leaves at a time, and one body more.

        Returns:
            How many publishes were written.
        """
        cdef Unconfirmed unconfirmed = self.unconfirmed
        cdef Output output = self.connection.output
        cdef Publish *entry
        cdef size_t count = 0
        while output.size < FLUSH_BYTES:
            entry = unconfirmed.resent()
            if entry == NULL:
                break
            output.publish(
                self.number, <str> <object> entry.exchange, <str> <object> entry.key, entry.bits,
                <EncodedProperties> <object> entry.properties, unconfirmed.prefix, entry.number,
                <bytes> <object> entry.body, self.connection.payload_max)
            count += 1
        self.connection.schedule()
        return count


cdef tuple message_parts(object message, object key, EncodedProperties properties):
    """Body, key and properties of what `publish_many` was given."""
    if isinstance(message, Message):
        if message.key is not None:
            key = message.key
        return message.body, key, message.encoded()
    if isinstance(message, (bytearray, memoryview, bytes)):
        return bytes(message), key, properties
    raise LocalProtocolError(
        f"a message must be bytes or a Message, not {type(message).__name__}; "
        "text is encoded with text.encode()")


cdef str name_at(const uint8_t *p, str last):
    """The short string at p, or the last one if it is equal; not UTF-8 as surrogate escapes."""
    if last is not None and PyUnicode_IS_COMPACT_ASCII(last) and \
            PyUnicode_GET_LENGTH(last) == p[0] and memcmp(PyUnicode_DATA(last), p + 1, p[0]) == 0:
        return last
    return PyUnicode_DecodeUTF8(<char *> p + 1, p[0], "surrogateescape")


@cython.final
cdef class ConnectionCodec:
    """The bytes of one connection.

    Args:
        owner: its `on_method(payload)` gets the methods of channel 0.
        loop: has the end of a turn.
        flusher: called at the end of a turn in which something was written; sends `output_bytes`.
        frame_bytes_max: the largest frame that is taken.
        message_bytes_max: the largest body that is taken.
    """

    def __cinit__(self, owner, loop, flusher, uint32_t frame_bytes_max,
                  uint64_t message_bytes_max):
        self.owner, self.loop, self.flusher = owner, loop, flusher
        self.output = Output()
        self.channels = [None]
        self.acking = []
        self.payload_max = frame_bytes_max - FRAME_OVERHEAD
        self.message_bytes_max = message_bytes_max
        self.capacity = max(READ_BYTES, 2 * frame_bytes_max)
        self.buffer = bytearray(self.capacity)
        self.data = <uint8_t *> <char *> self.buffer
        self.thread = PyThread_get_thread_ident()

    def __repr__(self):
        return f"<ConnectionCodec {self.received} bytes in, {len(self.output)} to send>"

    def tune(self, uint32_t frame_bytes_max):
        """Set how large frames may be, both ways."""
        self.payload_max = frame_bytes_max - FRAME_OVERHEAD

    cdef int check_thread(self) except -1:
        if PyThread_get_thread_ident() != self.thread:
            raise LocalProtocolError(
                "this connection belongs to another thread: use loop.call_soon_threadsafe or "
                "leporid.client.blocking")
        return 0

    # ------------------------------------------------------------------ in

    def get_buffer(self):
        """Where bytes may be put that came in; `buffer_updated` says how many."""
        if self.begin == self.end:
            self.begin = self.end = 0
        elif self.capacity - self.end < self.capacity // 2:
            memmove(self.data, self.data + self.begin, self.end - self.begin)
            self.begin, self.end = 0, self.end - self.begin
        return memoryview(self.buffer)[self.end:]

    def buffer_updated(self, size_t n):
        """Bytes have been put there.

        Raises:
            RemoteProtocolError: they are not what AMQP allows.
        """
        self.end += n
        self.received += n
        self.scan()

    cdef int scan(self) except -1:
        """Heed the frames that are complete."""
        cdef const uint8_t *p
        cdef uint32_t size
        cdef uint16_t number
        cdef ChannelCodec channel
        while self.end - self.begin >= 7:
            p = self.data + self.begin
            number, size = load16(p + 1), load32(p + 3)
            if p[0] == 65 and memcmp(p, b"AMQP", 4) == 0:
                raise RemoteProtocolError(
                    f"the broker does not speak AMQP 0-9-1: it answered {p[:8]!r}")
            if p[0] != METHOD and p[0] != HEADER and p[0] != BODY and p[0] != HEARTBEAT:
                raise RemoteProtocolError(f"not AMQP: a frame of type {p[0]}")
            if size > self.payload_max:
                raise RemoteProtocolError(
                    f"a frame of {size} bytes, more than the {self.payload_max} agreed upon")
            if self.end - self.begin < size + FRAME_OVERHEAD:
                break
            if p[7 + size] != FRAME_END:
                raise RemoteProtocolError("a frame does not end where it says")
            self.begin += size + FRAME_OVERHEAD
            if p[0] == HEARTBEAT:
                continue
            if number == 0:
                if p[0] != METHOD:
                    raise RemoteProtocolError("content on channel 0")
                self.owner.on_method(PyBytes_FromStringAndSize(<char *> p + 7, size))
                continue
            channel = self.channels[number] if number < len(self.channels) else None
            if channel is not None:
                channel.take(p[0], p + 7, size)
            elif number >= len(self.channels):
                raise RemoteProtocolError(f"a frame for channel {number}, which is not open")
            # RabbitMQ may send deliveries behind the close of their channel.
        return 0

    # ------------------------------------------------------------------ out

    cdef int schedule(self) except -1:
        """Have what was written sent at the end of the turn."""
        if not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.flusher)
        return 0

    def write(self, bytes payload):
        """Write a method of channel 0, behind what channels have said before."""
        self.flush_acks()
        self.output.frame(METHOD, 0, <const uint8_t *> PyBytes_AS_STRING(payload),
                          PyBytes_GET_SIZE(payload))
        self.schedule()

    def write_heartbeat(self):
        """Write a heartbeat."""
        self.output.frame(HEARTBEAT, 0, NULL, 0)
        self.schedule()

    def write_octets(self, bytes octets):
        """Write octets that are no frame: the protocol header."""
        memcpy(self.output.room(PyBytes_GET_SIZE(octets)), PyBytes_AS_STRING(octets),
               PyBytes_GET_SIZE(octets))
        self.output.size += PyBytes_GET_SIZE(octets)
        self.schedule()

    def pause(self, bint paused):
        """The transport has (not) more to send than it should."""
        self.paused = paused

    cdef int flush_acks(self) except -1:
        """Write the acks of this turn."""
        cdef ChannelCodec channel
        for channel in self.acking:
            if channel.lost is None:
                channel.flush_acks()
        self.acking.clear()
        return 0

    def output_bytes(self):
        """Everything that was written since the last call."""
        self.scheduled = False
        self.flush_acks()
        self.sent += self.output.size
        return self.output.take()
