"""What was published on a channel and is not confirmed yet.

Responsible for matching confirms and returns with publishes, and for keeping what is needed to
publish again after a connection was lost. It must not know sockets or connections: it outlives
them. Invariant: the publishes with the delivery tags from `base` to before `next_tag` stand in the
ring at their tag, their numbers ascending; so do, from `resend_from` to before `resend_to`, those
of an earlier connection that were not written again; those that are `open` own their references.
"""

from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport uint64_t

from leporid.client.encoder cimport EncodedProperties

from leporid.amqp.properties import decode_properties
from leporid.client.errors import Nacked, RemoteProtocolError, Returned, fresh
from leporid.client.message import decoded_message

cdef extern from *:
    """
    #define MESSAGE_ID 0x0080
    """
    int MESSAGE_ID

cdef enum:
    RING_SLOTS = 64


cdef class Batch:
    """Publishes that one caller waits for together.

    Attributes:
        window: how many may be unconfirmed at a time.
        bytes_max: how many bytes of bodies these may have; the last of them may pass it.
        in_flight: how many are unconfirmed.
        bytes: how many bytes their bodies have.
        published: how many were written.
        failures: an error for each that was returned or refused.
        error: why none of the others will be confirmed, or None.
        abandoned: nobody waits any more.
    """

    def __init__(self, size_t window, size_t bytes_max):
        self.window, self.bytes_max = window, bytes_max
        self.failures = []

    @property
    def is_full(self):
        """Whether no more may be written for now."""
        return self.in_flight >= self.window or self.bytes >= self.bytes_max

    cdef int done(self, object error, size_t size) except -1:
        """Count one that was confirmed (None), or failed."""
        self.in_flight -= 1
        self.bytes -= size
        if error is not None:
            self.failures.append(error)
        if self.waiter is not None and self.in_flight <= self.wanted and \
                self.bytes <= self.wanted_bytes:
            if not self.waiter.done():
                self.waiter.set_result(None)
            self.waiter = None
        return 0

    def fail(self, error):
        """None of the others will be confirmed."""
        self.error = error
        if self.waiter is not None:
            if not self.waiter.done():
                self.waiter.set_result(None)
            self.waiter = None

    def until(self, size_t wanted, size_t wanted_bytes, future):
        """Have a future done when at most that many, and bytes, are unconfirmed; return it."""
        if self.error is not None or (self.in_flight <= wanted and self.bytes <= wanted_bytes):
            future.set_result(None)
        else:
            self.wanted, self.wanted_bytes, self.waiter = wanted, wanted_bytes, future
        return future


cdef class Unconfirmed:
    """The unconfirmed publishes of a channel, over all its connections.

    Args:
        prefix: what the message ids that the client makes begin with.
        single_max: how many publishes that are waited for one by one, not in a `Batch`, there
            should be; who publishes looks at `single_room`.
        bytes_max: how many bytes the bodies of these should have; the last of them may pass it.
        on_room: called when there is room for some again.
    """

    def __cinit__(self, bytes prefix, size_t single_max, size_t bytes_max, on_room):
        self.prefix, self.single_max, self.bytes_max = prefix, single_max, bytes_max
        self.on_room = on_room
        self.base = self.next_tag = self.returns_from = 1
        self.next_number = 1
        self.ring = <Publish *> PyMem_Calloc(RING_SLOTS, sizeof(Publish))
        if self.ring == NULL:
            raise MemoryError
        self.mask = RING_SLOTS - 1

    def __dealloc__(self):
        cdef uint64_t tag
        if self.ring != NULL:
            for tag in range(self.base, self.end()):
                if self.ring[tag & self.mask].open:
                    self.release(&self.ring[tag & self.mask])
        PyMem_Free(self.ring)

    def __len__(self):
        cdef uint64_t tag
        cdef size_t count = 0
        for tag in range(self.base, self.end()):
            count += self.ring[tag & self.mask].open
        return count

    cdef uint64_t end(self) noexcept:
        """Behind the last of them; between those written and those to resend, none is open."""
        return self.resend_to if self.resend_from < self.resend_to else self.next_tag

    def __repr__(self):
        return f"<Unconfirmed {len(self)} publishes>"

    @property
    def single_room(self):
        """For how many more publishes there is room."""
        return 0 if self.is_full() else self.single_max - self.singles

    @property
    def to_resend(self):
        """Whether publishes of an earlier connection have not been written again."""
        return self.resend_from < self.resend_to

    cdef bint is_full(self) noexcept:
        return self.singles >= self.single_max or self.single_bytes >= self.bytes_max

    cdef int grow(self) except -1:
        cdef size_t slots = (self.mask + 1) * 2
        cdef Publish *ring = <Publish *> PyMem_Calloc(slots, sizeof(Publish))
        cdef uint64_t tag
        if ring == NULL:
            raise MemoryError
        for tag in range(self.base, self.next_tag):
            ring[tag & (slots - 1)] = self.ring[tag & self.mask]
        PyMem_Free(self.ring)
        self.ring, self.mask = ring, slots - 1
        return 0

    cdef uint64_t reserve(self) except 0:
        """Make room for one publish, so that `add` cannot fail; return the number it will have."""
        assert self.resend_from >= self.resend_to, "what is resent comes first"
        if self.next_tag - self.base > self.mask:
            self.grow()
        return self.next_number

    cdef void add(self, str exchange, str key, EncodedProperties properties, bytes body,
                  int bits, object waiter):
        """Remember a publish that was written; `reserve` was called."""
        cdef Publish *entry = &self.ring[self.next_tag & self.mask]
        Py_INCREF(exchange)
        Py_INCREF(key)
        Py_INCREF(properties)
        Py_INCREF(body)
        Py_INCREF(waiter)
        entry.exchange, entry.key = <PyObject *> exchange, <PyObject *> key
        entry.properties, entry.body = <PyObject *> properties, <PyObject *> body
        entry.waiter, entry.returned = <PyObject *> waiter, NULL
        entry.number, entry.bits, entry.open = self.next_number, bits, True
        if type(waiter) is not Batch:
            self.singles += 1
            self.single_bytes += PyBytes_GET_SIZE(body)
        self.next_tag += 1
        self.next_number += 1

    cdef int release(self, Publish *entry) except -1:
        entry.open = False
        if type(<object> entry.waiter) is not Batch:
            self.singles -= 1
            self.single_bytes -= PyBytes_GET_SIZE(<object> entry.body)
        Py_DECREF(<object> entry.exchange)
        Py_DECREF(<object> entry.key)
        Py_DECREF(<object> entry.properties)
        Py_DECREF(<object> entry.body)
        Py_DECREF(<object> entry.waiter)
        Py_XDECREF(entry.returned)
        entry.returned = NULL
        return 0

    cdef int confirm(self, uint64_t tag, bint multiple, bint nacked) except -1:
        """Heed basic.ack or basic.nack; tag 0 with `multiple` means all (AMQP 0-9-1, 1.8.3.13)."""
        cdef uint64_t first = self.base if multiple else tag, last = tag
        cdef Publish *entry
        cdef bint was_full = self.is_full()
        if tag == 0 and multiple:
            last = self.next_tag - 1
        elif tag == 0 or tag >= self.next_tag:
            raise RemoteProtocolError(f"the broker confirmed publish {tag}, which there is not")
        if first < self.base:
            return 0
        while first <= last:
            entry = &self.ring[first & self.mask]
            if entry.open:
                self.complete(entry, nacked)
            first += 1
        while self.base < self.next_tag and not self.ring[self.base & self.mask].open:
            self.base += 1
        if was_full and not self.is_full():
            self.on_room()
        return 0

    cdef int complete(self, Publish *entry, bint nacked) except -1:
        """Tell who waits for a publish what became of it."""
        cdef object error = None, waiter = <object> entry.waiter
        cdef size_t size = PyBytes_GET_SIZE(<object> entry.body)
        if entry.returned != NULL:
            error = <object> entry.returned
        elif nacked:
            error = Nacked(self.failure(entry), <object> entry.exchange)
        self.release(entry)
        if type(waiter) is Batch:
            return (<Batch> waiter).done(error, size)
        if not waiter.done():
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        return 0

    cdef object failure(self, Publish *entry):
        """The message of a publish, as errors carry it."""
        cdef EncodedProperties properties = <EncodedProperties> entry.properties
        made = decoded_message(<object> entry.body, <object> entry.key, properties.raw())
        if made.message_id is None:
            made.message_id = f"{self.prefix.decode()}-{entry.number}"
        return made

    cdef int note_return(self, str exchange, str key, bytes raw, object problem) except -1:
        """Remember that a message came back; its confirm follows (RabbitMQ, confirms).

        Returns:
            Whether it was one of ours that waits.
        """
        cdef Publish *entry
        message_id = decode_properties(raw).message_id
        entry = self.numbered(message_id)
        if entry == NULL:
            entry = self.alike(exchange, key, message_id)
        if entry == NULL:
            return 0
        code, text = problem
        error = Returned(self.failure(entry), exchange, code, text)
        Py_INCREF(error)
        entry.returned = <PyObject *> error
        return 1

    cdef Publish *numbered(self, message_id) except? NULL:
        """The publish whose message id the client made; NULL: none."""
        cdef uint64_t low = self.base, high = self.next_tag, middle, number
        cdef Publish *entry
        made = f"{self.prefix.decode()}-"
        if message_id is None or not message_id.startswith(made):
            return NULL
        digits = message_id[len(made):]
        if not digits.isdecimal() or len(digits) > 19:
            return NULL
        number = int(digits)
        if str(number) != digits:
            return NULL
        while low < high:
            middle = (low + high) // 2
            if self.ring[middle & self.mask].number < number:
                low = middle + 1
            else:
                high = middle
        entry = &self.ring[low & self.mask]
        if low == self.next_tag or entry.number != number or not entry.open or \
                entry.returned != NULL or \
                (<EncodedProperties> entry.properties).flags & MESSAGE_ID:
            return NULL
        return entry

    cdef Publish *alike(self, str exchange, str key, message_id) except? NULL:
        """The first publish with these that has not come back; NULL: none.

        Messages come back in the order in which they were published: the search goes on behind the
        last one that was found, and looks at the others only if there is none.
        """
        cdef uint64_t tag
        cdef uint64_t start = max(self.base, self.returns_from)
        if message_id is None:
            return NULL
        for part in ((start, self.next_tag), (self.base, min(start, self.next_tag))):
            for tag in range(part[0], part[1]):
                if self.has_id(&self.ring[tag & self.mask], exchange, key, message_id):
                    self.returns_from = tag + 1
                    return &self.ring[tag & self.mask]
        return NULL

    cdef bint has_id(self, Publish *entry, str exchange, str key, str message_id) except -1:
        cdef EncodedProperties properties
        if not entry.open or entry.returned != NULL:
            return False
        properties = <EncodedProperties> entry.properties
        # The id, if there is one, is the last of the values in `head`.
        if not properties.flags & MESSAGE_ID or \
                not properties.head.endswith(message_id.encode("utf-8", "surrogateescape")):
            return False
        return (
            <object> entry.exchange == exchange and <object> entry.key == key
            and decode_properties(properties.raw()).message_id == message_id
        )

    def fail(self, error):
        """Tell everybody who waits; nothing is unconfirmed afterwards."""
        cdef uint64_t tag
        cdef Publish *entry
        for tag in range(self.base, self.end()):
            entry = &self.ring[tag & self.mask]
            if not entry.open:
                continue
            waiter = <object> entry.waiter
            self.release(entry)
            if type(waiter) is Batch:
                (<Batch> waiter).fail(error)
            elif not waiter.done():
                waiter.set_exception(fresh(error))
        self.base = self.next_tag = self.returns_from = 1
        self.resend_from = self.resend_to = 0

    def rewind(self):
        """Prepare for another connection: `resent` takes what is to be written again.

        Returns:
            How many these are; those that nobody waits for are dropped.
        """
        cdef uint64_t tag, to = 1
        cdef Publish *entry
        cdef Publish *ring = <Publish *> PyMem_Calloc(self.mask + 1, sizeof(Publish))
        if ring == NULL:
            raise MemoryError
        for tag in range(self.base, self.end()):
            entry = &self.ring[tag & self.mask]
            if not entry.open:
                continue
            if self.is_given_up(entry):
                self.release(entry)
                continue
            # It was returned by a broker that did not confirm it: that is decided anew.
            Py_XDECREF(entry.returned)
            entry.returned = NULL
            ring[to & self.mask] = entry[0]
            to += 1
        PyMem_Free(self.ring)
        self.ring, self.base, self.next_tag, self.returns_from = ring, 1, 1, 1
        self.resend_from, self.resend_to = 1, to
        return to - 1

    cdef bint is_given_up(self, Publish *entry) except -1:
        waiter = <object> entry.waiter
        return (<Batch> waiter).abandoned if type(waiter) is Batch else waiter.done()

    cdef Publish *resent(self) except? NULL:
        """Give the next publish of an earlier connection its tag here; NULL: there is none."""
        cdef Publish *entry
        cdef Publish *place
        while self.resend_from < self.resend_to:
            entry = &self.ring[self.resend_from & self.mask]
            self.resend_from += 1
            if self.is_given_up(entry):
                self.release(entry)
                continue
            place = &self.ring[self.next_tag & self.mask]
            if place != entry:
                place[0] = entry[0]
                entry.open = False
            self.next_tag += 1
            return place
        return NULL
