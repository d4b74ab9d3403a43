"""When a message is due: the headers x-delay and x-deliver-at, read and rewritten as encoded.

It does not know where delayed messages wait. Properties were checked before, so that lengths lie
within them. Invariant: numbers are converted as RabbitMQ's plugin for delayed messages does it.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.wire.codec cimport (
    HAS_DELAY, HAS_DELIVER_AT, Props, as_integer, as_real, find_header, load64, store16, store32,
    store64, walk_properties,
)

cdef extern from *:
    # A number between these would be a moment of 1970 to 1973: somebody meant seconds.
    int64_t SECONDS_MIN "100000000ll"
    int64_t SECONDS_MAX "100000000000ll"
    double INT64_LIMIT "9e18"


cdef bint text_number(const uint8_t *p, const uint8_t *end, int64_t *number) noexcept nogil:
    """Digits, with a sign or without; what is larger than any moment becomes the largest number."""
    cdef bint negative = p < end and p[0] == c"-"
    cdef int64_t value = 0
    if p < end and (p[0] == c"+" or p[0] == c"-"):
        p += 1
    if p == end:
        return False
    while p < end:
        if not c"0" <= p[0] <= c"9":
            return False
        if value > INT64_MAX // 10 - 1:
            value = INT64_MAX // 10
        else:
            value = value * 10 + (p[0] - c"0")
        p += 1
    number[0] = -value if negative else value
    return True


cdef int64_t whole_number(double value) noexcept nogil:
    if value >= INT64_LIMIT:
        return INT64_MAX
    if value <= -INT64_LIMIT:
        return INT64_MIN
    return <int64_t> value


cdef bint value_number(uint8_t type, const uint8_t *content, uint32_t size,
                       int64_t *number) noexcept nogil:
    """A value as a whole number; False: it is none."""
    cdef double real = 0
    if type == c"S" or type == c"x":
        return text_number(content, content + size, number)
    if as_real(type, content, &real):
        number[0] = whole_number(real)
        return True
    return type != c"T" and as_integer(type, content, number)


cdef bint value_moment(uint8_t type, const uint8_t *content, uint32_t size,
                       int64_t *moment_ms) noexcept nogil:
    """Milliseconds since 1970. An AMQP timestamp has seconds, all other numbers milliseconds."""
    cdef uint64_t seconds
    if type != c"T":
        return value_number(type, content, size, moment_ms)
    seconds = load64(content)
    moment_ms[0] = INT64_MAX if seconds > INT64_MAX // 1000 else <int64_t> seconds * 1000
    return True


cdef int find_delay(const Props *props, uint64_t came_ms, int64_t *due_ms) noexcept nogil:
    """When a message that came at that time is due by its x-delay."""
    cdef const uint8_t *value = NULL
    cdef uint8_t type = 0
    cdef uint32_t size = 0
    cdef int64_t number = 0, came = <int64_t> came_ms
    if (not props.marks & HAS_DELAY
            or not find_header(props, b"x-delay", 7, &type, &value, &size)
            or not value_number(type, value, size, &number) or number <= 0):
        return WHEN_NOW
    due_ms[0] = INT64_MAX if number > INT64_MAX - came else came + number
    return WHEN_TOO_FAR if number > DELAY_MS_MAX else WHEN_DUE


cdef int find_due(const Props *props, uint64_t came_ms, bint delaying,
                  int64_t *due_ms) noexcept nogil:
    """When a message is due; its x-delay counts if its exchange is `delaying`.

    An x-deliver-at takes precedence, unless that moment has passed, which a minus also marks.
    """
    cdef const uint8_t *value = NULL
    cdef uint8_t type = 0
    cdef uint32_t size = 0
    cdef int64_t number = 0, came = <int64_t> came_ms
    if props.marks & HAS_DELIVER_AT:
        if (not find_header(props, b"x-deliver-at", 12, &type, &value, &size)
                or not value_moment(type, value, size, &number)):
            return WHEN_INVALID
        if type != c"T" and SECONDS_MIN <= number < SECONDS_MAX and came >= SECONDS_MAX:
            return WHEN_INVALID
        if number > came:
            due_ms[0] = number
            return WHEN_TOO_FAR if number - came > DELAY_MS_MAX else WHEN_DUE
    return find_delay(props, came_ms, due_ms) if delaying else WHEN_NOW


cdef uint8_t *put_negative(uint8_t *q, uint8_t type, int64_t number) noexcept nogil:
    """Write -number, in its own width if it fits, else as an 'l'; returns its end."""
    if (type == c"b" or type == c"B") and number <= 128:
        q[0] = c"b"
        q[1] = <uint8_t> -number
        return q + 2
    if (type == c"s" or type == c"u") and number <= 32768:
        q[0] = c"s"
        store16(q + 1, <uint16_t> -number)
        return q + 3
    if (type == c"I" or type == c"i") and number <= <int64_t> 1 << 31:
        q[0] = c"I"
        store32(q + 1, <uint32_t> -number)
        return q + 5
    q[0] = c"L" if type == c"L" else c"l"
    store64(q + 1, <uint64_t> -number)
    return q + 9


cdef size_t negated(uint8_t *to, const uint8_t *properties, size_t n, const Props *props,
                    int mark) noexcept nogil:
    """Copy properties with one of the two headers negated; returns their new length.

    A moment becomes milliseconds.
    """
    cdef const uint8_t *value = NULL
    cdef const uint8_t *stop
    cdef uint8_t *q
    cdef uint8_t type = 0
    cdef uint32_t size = 0
    cdef int64_t number = 0
    cdef size_t before, rest
    cdef bint found
    if mark == HAS_DELAY:
        found = (find_header(props, b"x-delay", 7, &type, &value, &size)
                 and value_number(type, value, size, &number))
    else:
        found = (find_header(props, b"x-deliver-at", 12, &type, &value, &size)
                 and value_moment(type, value, size, &number))
    if not found or number <= 0:
        memcpy(to, properties, n)
        return n
    stop = value + size
    value -= 5 if type == c"S" or type == c"x" else 1   # its type, and its length if it has one
    before = value - properties
    rest = n - (stop - properties)
    memcpy(to, properties, before)
    q = put_negative(to + before, type, number)
    store32(to + (props.headers - 4 - properties),
            props.headers_len + <uint32_t> (q - to - before) - <uint32_t> (stop - value))
    memcpy(q, stop, rest)
    return (q - to) + rest


def due_ms_of(bytes properties not None, uint64_t came_ms, bint delaying=True):
    """When a message with these encoded properties is due; None: at once.

    ValueError when the properties or the moment are malformed, or the moment is too far away.
    """
    cdef Props props
    cdef int64_t due_ms = 0
    cdef int when
    if walk_properties(<const uint8_t *> PyBytes_AS_STRING(properties),
                       PyBytes_GET_SIZE(properties), &props):
        raise ValueError("malformed properties")
    when = find_due(&props, came_ms, delaying, &due_ms)
    if when < 0:
        raise ValueError("moment too far away" if when == WHEN_TOO_FAR else "invalid moment")
    return due_ms if when == WHEN_DUE else None


def past_of(bytes properties not None, bint of_delay):
    """Properties with the x-delay, else the x-deliver-at, negated: what a delivery shows of it."""
    cdef Props props
    cdef bytes made = bytes(PyBytes_GET_SIZE(properties) + NEGATED_BYTES)
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(properties)
    if walk_properties(p, PyBytes_GET_SIZE(properties), &props):
        raise ValueError("malformed properties")
    return made[:negated(<uint8_t *> PyBytes_AS_STRING(made), p, PyBytes_GET_SIZE(properties),
                         &props, HAS_DELAY if of_delay else HAS_DELIVER_AT)]
