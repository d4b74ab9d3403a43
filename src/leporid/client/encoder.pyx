"""What the client writes for every message: properties, publishes and settlements.

Responsible for encoding straight into one output buffer, and for refusing what AMQP cannot say
before anything is written. It must not know sockets, nor what waits for an answer. Invariant: the
buffer holds whole frames only.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leporid.engine.wire.codec cimport store16, store32, store64

from leporid.amqp.tables import encode_table
from leporid.client.errors import LocalProtocolError

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef extern from *:
    """
    #define FRAME_END 0xce
    #define MESSAGE_ID 0x0080
    """
    int FRAME_END
    int MESSAGE_ID

cdef enum:
    SHORT_BYTES_MAX = 255
    # A buffer that once held more is given back when it is empty.
    KEPT_BYTES = 256 * 1024
    # Digits of 2**64 and the hyphen in front.
    NUMBER_BYTES_MAX = 21

TEXTS = {
    "content_type": 0x8000, "content_encoding": 0x4000, "correlation_id": 0x0400,
    "reply_to": 0x0200, "expiration": 0x0100, "type": 0x0020, "user_id": 0x0010, "app_id": 0x0008,
}


cdef int check_short(str text, str what) except -1:
    """Refuse a text that is no short string."""
    cdef Py_ssize_t size
    try:
        PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"{what} {text!r} cannot be encoded as UTF-8: {error}") from None
    if size > SHORT_BYTES_MAX:
        raise LocalProtocolError(
            f"{what} has {size} bytes, AMQP allows {SHORT_BYTES_MAX}: {text[:40]!r}…"
        )
    return 0


cdef str short_name(object text, str what):
    """A text that fits a short string."""
    if type(text) is not str:
        if not isinstance(text, str):
            raise LocalProtocolError(f"{what} must be a str, not {type(text).__name__}")
        text = str.__str__(text)
    check_short(text, what)
    return text


def check_name(text, what):
    """Refuse what is no short string; `what` names it in the error."""
    short_name(text, what)


cdef class EncodedProperties:
    """The properties of a message, encoded, with a gap where a message id may be put.

    Attributes:
        flags: which properties there are.
        head: the values in front of where the message id stands, and the id if there is one.
        tail: the values behind it.
    """

    def __repr__(self):
        return f"<EncodedProperties of {len(self.raw())} bytes>"

    cdef size_t bytes_left(self):
        return PyBytes_GET_SIZE(self.head) + PyBytes_GET_SIZE(self.tail)

    def raw(self):
        """Flags and values, as a content header has them."""
        return self.flags.to_bytes(2, "big") + self.head + self.tail


cdef object short_text(object value, str name):
    """The short string of a property."""
    if type(value) is not str:
        if not isinstance(value, str):
            raise LocalProtocolError(
                f"property {name} must be a str, not {type(value).__name__}"
            )
        value = str(value)
    # Text that is not UTF-8 came in as surrogates, and goes out as it came.
    cdef bytes octets = (<str> value).encode("utf-8", "surrogateescape")
    if PyBytes_GET_SIZE(octets) > SHORT_BYTES_MAX:
        raise LocalProtocolError(
            f"property {name} has {len(octets)} bytes, AMQP allows {SHORT_BYTES_MAX}: "
            f"{value[:40]!r}…"
        )
    return (<int> PyBytes_GET_SIZE(octets)).to_bytes(1, "big") + octets


cdef object octet(object value, str name, int largest):
    if not isinstance(value, int) or not 0 <= value <= largest:
        raise LocalProtocolError(f"property {name} must be a whole number from 0 to {largest}, "
                                 f"not {value!r}")
    return int(value).to_bytes(1, "big")


def encode_properties(
        *, content_type=None, content_encoding=None, headers=None, delivery_mode=None,
        priority=None, correlation_id=None, reply_to=None, expiration=None, message_id=None,
        timestamp=None, type=None, user_id=None, app_id=None):
    """Encode properties; None is one that is not sent.

    Args:
        timestamp: in seconds since 1970.
        headers: what `leporid.amqp.tables` can encode.

    Raises:
        LocalProtocolError: a value has no encoding.
    """
    cdef EncodedProperties made = EncodedProperties.__new__(EncodedProperties)
    cdef int flags = 0
    cdef bytes head = b"", tail = b""
    if content_type is not None:
        flags |= 0x8000
        head += short_text(content_type, "content_type")
    if content_encoding is not None:
        flags |= 0x4000
        head += short_text(content_encoding, "content_encoding")
    if headers is not None:
        flags |= 0x2000
        try:
            head += encode_table(headers)
        except (ValueError, AttributeError, TypeError) as error:
            raise LocalProtocolError(f"headers cannot be encoded: {error}") from None
    if delivery_mode is not None:
        flags |= 0x1000
        head += octet(delivery_mode, "delivery_mode", 2)
    if priority is not None:
        flags |= 0x0800
        head += octet(priority, "priority", 255)
    if correlation_id is not None:
        flags |= 0x0400
        head += short_text(correlation_id, "correlation_id")
    if reply_to is not None:
        flags |= 0x0200
        head += short_text(reply_to, "reply_to")
    if expiration is not None:
        flags |= 0x0100
        head += short_text(expiration, "expiration")
    if message_id is not None:
        flags |= MESSAGE_ID
        head += short_text(message_id, "message_id")
    if timestamp is not None:
        if not isinstance(timestamp, int) or not 0 <= timestamp < 1 << 64:
            raise LocalProtocolError(f"timestamp must be seconds since 1970, not {timestamp!r}")
        flags |= 0x0040
        tail += int(timestamp).to_bytes(8, "big")
    if type is not None:
        flags |= 0x0020
        tail += short_text(type, "type")
    if user_id is not None:
        flags |= 0x0010
        tail += short_text(user_id, "user_id")
    if app_id is not None:
        flags |= 0x0008
        tail += short_text(app_id, "app_id")
    made.flags, made.head, made.tail = flags, head, tail
    return made


cdef inline uint8_t *frame_head(uint8_t *p, int kind, uint16_t channel, uint32_t size) noexcept:
    p[0] = kind
    store16(p + 1, channel)
    store32(p + 3, size)
    return p + 7


cdef inline uint8_t *put(uint8_t *p, const char *octets, Py_ssize_t n) noexcept:
    memcpy(p, octets, n)
    return p + n


cdef int number_text(uint8_t *to, uint64_t number) noexcept:
    """Write a hyphen and a number in decimal; return how many bytes that took."""
    cdef uint8_t digits[NUMBER_BYTES_MAX]
    cdef int n = 0, i
    while True:
        digits[n] = 48 + number % 10
        n += 1
        number //= 10
        if number == 0:
            break
    to[0] = 45
    for i in range(n):
        to[1 + i] = digits[n - 1 - i]
    return n + 1


cdef class Output:
    """The frames that have been written and not sent."""

    def __dealloc__(self):
        PyMem_Free(self.data)

    def __len__(self):
        return self.size

    cdef uint8_t *room(self, size_t n) except NULL:
        """Where `n` more bytes may be written; the caller adds them to `size`."""
        cdef size_t wanted = self.size + n, capacity
        cdef uint8_t *data
        if wanted > self.capacity:
            capacity = max(wanted, self.capacity * 2, 4096)
            data = <uint8_t *> PyMem_Realloc(self.data, capacity)
            if data == NULL:
                raise MemoryError
            self.data, self.capacity = data, capacity
        return self.data + self.size

    cdef bytes take(self):
        """Everything, which is not here any more."""
        cdef bytes taken = PyBytes_FromStringAndSize(<char *> self.data, self.size)
        self.size = 0
        if self.capacity > KEPT_BYTES:
            PyMem_Free(self.data)
            self.data, self.capacity = NULL, 0
        return taken

    cdef int frame(self, uint8_t kind, uint16_t channel, const uint8_t *payload,
                   size_t n) except -1:
        """Write a frame."""
        cdef uint8_t *p = self.room(n + 8)
        p = frame_head(p, kind, channel, <uint32_t> n)
        if n:       # else there may be no payload, which memcpy must not be given
            memcpy(p, payload, n)
        p[n] = FRAME_END
        self.size += n + 8
        return 0

    cdef int settle(self, uint16_t channel, uint16_t method, uint64_t tag, int bits) except -1:
        """Write basic.ack (80), basic.reject (90) or basic.nack (120)."""
        cdef uint8_t *p = self.room(21)
        p = frame_head(p, 1, channel, 13)
        store16(p, 60)
        store16(p + 2, method)
        store64(p + 4, tag)
        p[12] = bits
        p[13] = FRAME_END
        self.size += 21
        return 0

    cdef int publish(self, uint16_t channel, str exchange, str key, int bits,
                     EncodedProperties properties, bytes prefix, uint64_t number, bytes body,
                     size_t payload_max) except -1:
        """Write basic.publish with its content.

        Args:
            prefix, number: make up the message id, if the properties have none; prefix may be None.
            payload_max: how much of the body a frame may have.
        """
        cdef Py_ssize_t exchange_size, key_size, body_size = PyBytes_GET_SIZE(body)
        cdef const char *exchange_text = PyUnicode_AsUTF8AndSize(exchange, &exchange_size)
        cdef const char *key_text = PyUnicode_AsUTF8AndSize(key, &key_size)
        cdef const char *body_octets = PyBytes_AS_STRING(body)
        cdef size_t left = body_size, part, frames = (left + payload_max - 1) // payload_max
        cdef uint16_t flags = properties.flags
        cdef uint8_t numbered[NUMBER_BYTES_MAX]
        cdef int number_size = 0
        cdef size_t id_size = 0
        if prefix is not None and not flags & MESSAGE_ID:
            flags |= MESSAGE_ID
            number_size = number_text(numbered, number)
            id_size = 1 + PyBytes_GET_SIZE(prefix) + number_size
        cdef size_t method_size = 9 + exchange_size + key_size
        cdef size_t header_size = 14 + properties.bytes_left() + id_size
        cdef size_t total = 16 + method_size + header_size + left + 8 * frames
        cdef uint8_t *p = self.room(total)

        p = frame_head(p, 1, channel, <uint32_t> method_size)
        store32(p, 60 << 16 | 40)
        store16(p + 4, 0)
        p[6] = <uint8_t> exchange_size
        p = put(p + 7, exchange_text, exchange_size)
        p[0] = <uint8_t> key_size
        p = put(p + 1, key_text, key_size)
        p[0] = bits
        p[1] = FRAME_END

        p = frame_head(p + 2, 2, channel, <uint32_t> header_size)
        store32(p, 60 << 16)
        store64(p + 4, left)
        store16(p + 12, flags)
        p = put(p + 14, PyBytes_AS_STRING(properties.head), PyBytes_GET_SIZE(properties.head))
        if id_size:
            p[0] = <uint8_t> (id_size - 1)
            p = put(p + 1, PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix))
            p = put(p, <char *> numbered, number_size)
        p = put(p, PyBytes_AS_STRING(properties.tail), PyBytes_GET_SIZE(properties.tail))
        p[0] = FRAME_END
        p += 1

        while left:
            part = min(left, payload_max)
            p = frame_head(p, 3, channel, <uint32_t> part)
            p = put(p, body_octets, part)
            p[0] = FRAME_END
            p += 1
            body_octets += part
            left -= part
        self.size += total
        return 0
