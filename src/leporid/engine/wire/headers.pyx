"""Headers of a message, read and rewritten as they are encoded.

128 KB of headers take 10 to 50 ms to decode, in one piece; to walk over them takes a fraction of a
millisecond, and a header that nobody asks for becomes no object. Takes properties that were checked
when the message came; what does not parse all the same is a ValueError. It does not know what a
header means, but for the deaths in x-death. Invariant: headers that are not named keep their bytes
and their order. Of several with one name the first counts, as in RabbitMQ.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from leporid.engine.wire.codec cimport (
    FIELD_BOOLEAN, FIELD_INTEGER, FIELD_TIME, Field, Props, Value, find_header, is_named,
    next_field, next_value, read_value, store16, store32, store64, walk_properties,
)
from leporid.engine.wire.text cimport ascii_length, utf8_step

cdef enum:
    FLAG_TYPE = 0x8000
    FLAG_ENCODING = 0x4000
    FLAG_HEADERS = 0x2000
    FLAG_REPLY_TO = 0x0200
    FLAG_EXPIRATION = 0x0100
    SIZE_BYTES = 4                  # of a text, a table, an array, before their content

cdef bytes REJECTED = b"rejected"       # by a consumer; other reasons are the broker's


cdef int parse(bytes properties, Props *props) except -1:
    if walk_properties(<const uint8_t *> PyBytes_AS_STRING(properties),
                       PyBytes_GET_SIZE(properties), props):
        raise ValueError("properties do not parse")
    return 0


cdef inline bytes between(const uint8_t *start, const uint8_t *end):
    return PyBytes_FromStringAndSize(<const char *> start, end - start)


cdef bytes sized(bytes letter, list parts):
    """A value whose length stands before its content."""
    content = b"".join(parts)
    return letter + len(content).to_bytes(SIZE_BYTES, "big") + content


# ---------------------------------------------------------------------- values


cdef bint is_valid(const uint8_t *p, size_t n) noexcept nogil:
    """Whether text is UTF-8."""
    cdef const uint8_t *end = p + n
    cdef bint bad = False
    p += ascii_length(p, n)
    while p < end and not bad:
        p += utf8_step(p, end, &bad)
    return not bad


cpdef bytes text_value(str text):
    """Text as the value of a field."""
    cdef bytes raw = text.encode()
    cdef bytes value = PyBytes_FromStringAndSize(NULL, 1 + SIZE_BYTES + len(raw))
    cdef uint8_t *to = <uint8_t *> PyBytes_AS_STRING(value)
    to[0] = c"S"
    store32(to + 1, <uint32_t> len(raw))
    memcpy(to + 1 + SIZE_BYTES, PyBytes_AS_STRING(raw), len(raw))
    return value


def array_value(list values not None):
    """An array of encoded values as the value of a field."""
    return sized(b"A", values)


def table_value(dict fields not None):
    """A table of encoded values, by name, as the value of a field."""
    return sized(b"F", [field_of(name, value) for name, value in fields.items()])


cpdef bytes number_value(int64_t number, bytes letter=b"l"):
    """A number of 64 bits as the value of a field: `l`, or `T` for a time in seconds."""
    cdef uint8_t value[9]
    value[0] = letter[0]
    store64(value + 1, <uint64_t> number)
    return between(value, value + 9)


def text_in(bytes value):
    """The text of an encoded value; None: it is none."""
    if value is None or value[0] != c"S":
        return None
    try:
        return value[1 + SIZE_BYTES:].decode()
    except UnicodeDecodeError:
        return None


def number_in(bytes value):
    """The number of an encoded value of any integer type; None: it has another one."""
    cdef Value found
    if value is None:
        return None
    found = read_value(value[0], <const uint8_t *> PyBytes_AS_STRING(value) + 1)
    return found.integer if found.kind in (FIELD_INTEGER, FIELD_TIME, FIELD_BOOLEAN) else None


def texts_in(bytes value):
    """The texts in an encoded array, without its other elements; [] if it is no array."""
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef const uint8_t *content = NULL
    cdef uint32_t size = 0
    cdef uint8_t type = 0
    cdef list found = []
    if value is None or value[0] != c"A":
        return found
    p = <const uint8_t *> PyBytes_AS_STRING(value)
    end = p + PyBytes_GET_SIZE(value)
    p += 1 + SIZE_BYTES
    while p < end:
        if next_value(&p, end, &type, &content, &size):
            raise ValueError("an array does not parse")
        if type == c"S" and is_valid(content, size):
            found.append((<const char *> content)[:size].decode())
    return found


def first_in(bytes value):
    """The first element of an encoded array, as it is encoded; None: it has none."""
    cdef const uint8_t *p
    cdef const uint8_t *begin
    cdef const uint8_t *end
    cdef const uint8_t *content = NULL
    cdef uint32_t size = 0
    cdef uint8_t type = 0
    if value is None or value[0] != c"A":
        return None
    p = <const uint8_t *> PyBytes_AS_STRING(value)
    end = p + PyBytes_GET_SIZE(value)
    p += 1 + SIZE_BYTES
    if p >= end:
        return None
    begin = p
    if next_value(&p, end, &type, &content, &size):
        raise ValueError("an array does not parse")
    return between(begin, p)


def field_in(bytes value, bytes name not None):
    """The encoded value of a field of an encoded table; None: it has none of that name."""
    cdef const uint8_t *p
    cdef const uint8_t *begin
    cdef const uint8_t *end
    cdef Field field
    if value is None or value[0] != c"F":
        return None
    p = <const uint8_t *> PyBytes_AS_STRING(value)
    end = p + PyBytes_GET_SIZE(value)
    p += 1 + SIZE_BYTES
    while p < end:
        begin = p + 1 + p[0]
        if next_field(&p, end, &field):
            raise ValueError("a table does not parse")
        if is_named(&field, PyBytes_AS_STRING(name), <uint8_t> len(name)):
            return between(begin, p)
    return None


# ---------------------------------------------------------------------- headers


def header_of(bytes properties not None, bytes name not None):
    """The encoded value of a header, its type first; None: there is none."""
    cdef Props props
    cdef const uint8_t *content = NULL
    cdef uint32_t size = 0
    cdef uint8_t type = 0
    parse(properties, &props)
    if props.headers == NULL or not find_header(
            &props, PyBytes_AS_STRING(name), <uint8_t> len(name), &type, &content, &size):
        return None
    return between(content - (1 + SIZE_BYTES if type in b"SxFA" else 1), content + size)


def with_headers(bytes properties not None, dict changes not None, bint expires=True):
    """The properties with other headers.

    Args:
        properties: as they were.
        changes: encoded values by name; None: there is no such header afterwards. Those that are
            new come last.
        expires: whether the property expiration stays.
    """
    cdef Props props
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(properties)
    cdef const uint8_t *end = p + PyBytes_GET_SIZE(properties)
    cdef const uint8_t *start = p + 2
    cdef const uint8_t *after
    cdef uint8_t flags[2]
    parse(properties, &props)
    if props.headers != NULL:
        start = props.headers - SIZE_BYTES
        after = props.headers + props.headers_len
        parts = changed_table(&props, changes)
    else:
        for flag in (FLAG_TYPE, FLAG_ENCODING):
            if props.flags & flag:
                start += 1 + start[0]
        after = start
        parts = [field_of(name, value) for name, value in changes.items() if value is not None]
    store16(flags, props.flags | FLAG_HEADERS)
    rest = [between(after, end)]
    if not expires and props.flags & FLAG_EXPIRATION:
        store16(flags, (props.flags | FLAG_HEADERS) & ~FLAG_EXPIRATION)
        rest = [between(after, props.expiration - 1),
                between(props.expiration + props.expiration_len, end)]
    return b"".join([between(flags, flags + 2), between(p + 2, start), sized(b"", parts), *rest])


cdef bytes field_of(bytes name, bytes value):
    return bytes((len(name),)) + name + value


cdef list changed_table(const Props *props, dict changes):
    """The fields of the headers after some changes."""
    cdef const uint8_t *p = props.headers
    cdef const uint8_t *end = p + props.headers_len
    cdef const uint8_t *kept = p            # what follows was not taken over yet
    cdef const uint8_t *begin
    cdef Field field
    cdef bint lengths[256]                  # of the names that change
    cdef list parts = []
    cdef dict left = dict(changes)
    memset(lengths, 0, sizeof(lengths))
    for name in changes:
        lengths[<uint8_t> len(name)] = True
    while p < end:
        begin = p
        if next_field(&p, end, &field):
            raise ValueError("headers do not parse")
        if not lengths[field.length]:
            continue
        name = between(field.name, field.name + field.length)
        if name not in changes:
            continue
        parts.append(between(kept, begin))
        kept = p
        value = left.pop(name, None)
        if value is not None:
            parts.append(field_of(name, value))
    parts.append(between(kept, end))
    parts += [field_of(name, value) for name, value in left.items() if value is not None]
    return parts


def expiration_of(bytes properties not None):
    """The property expiration; None: there is none."""
    cdef Props props
    parse(properties, &props)
    if not props.flags & FLAG_EXPIRATION:
        return None
    return between(props.expiration, props.expiration + props.expiration_len).decode(
        "utf-8", "surrogateescape")


def with_reply_to(bytes properties not None, str address not None):
    """The properties with another reply-to address in the place of the one that they have."""
    cdef Props props
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(properties)
    parse(properties, &props)
    if not props.flags & FLAG_REPLY_TO:
        raise ValueError("properties without a reply-to address")
    name = address.encode("utf-8", "surrogateescape")
    return b"".join([between(p, props.reply_to - 1), bytes((len(name),)), name,
                     between(props.reply_to + props.reply_to_len, p + len(properties))])


# ---------------------------------------------------------------------- x-death


cdef struct Death:
    const uint8_t *queue                # the value, from its type on; NULL: there is none
    const uint8_t *queue_end
    const uint8_t *reason
    const uint8_t *reason_end
    const uint8_t *count
    const uint8_t *count_end


cdef int read_death(const uint8_t *p, const uint8_t *end, Death *death) except -1:
    """Find what matters in the content of an entry."""
    cdef Field field
    cdef const uint8_t *value
    memset(death, 0, sizeof(Death))
    while p < end:
        value = p + 1 + p[0]
        if next_field(&p, end, &field):
            raise ValueError("an entry of x-death does not parse")
        if is_named(&field, b"queue", 5) and death.queue == NULL:
            death.queue, death.queue_end = value, p
        elif is_named(&field, b"reason", 6) and death.reason == NULL:
            death.reason, death.reason_end = value, p
        elif is_named(&field, b"count", 5) and death.count == NULL:
            death.count, death.count_end = value, p
    return 0


cdef bytes key_of(const Death *death):
    """What entries of one queue and reason have in common. A void is none, as in RabbitMQ."""
    cdef bytes queue = b"", reason = b""
    if death.queue != NULL and death.queue[0] != c"V":
        queue = b"q" + between(death.queue, death.queue_end)
    if death.reason != NULL and death.reason[0] != c"V":
        reason = b"r" + between(death.reason, death.reason_end)
    return queue + reason


cdef int64_t count_in(const Death *death) noexcept:
    """How often an entry says; 0: it does not."""
    cdef Value found
    if death.count == NULL:
        return 0
    found = read_value(death.count[0], death.count + 1)
    if found.kind == FIELD_TIME and found.seconds > <uint64_t> INT64_MAX:
        return INT64_MAX
    if found.kind in (FIELD_INTEGER, FIELD_TIME, FIELD_BOOLEAN):
        return found.integer
    return 0


cdef bytes counted(const uint8_t *p, const uint8_t *end, const Death *death, int64_t count):
    """An entry with another count in the place of its own, else at its end."""
    value = number_value(count)
    if death.count == NULL:
        return sized(b"F", [between(p, end), b"\x05count", value])
    return sized(b"F", [between(p, death.count), value, between(death.count_end, end)])


cdef class Deaths:
    """The header x-death of a message that dies once more.

    Entries of one queue and reason are folded into the first, as RabbitMQ 3 does when there are
    several: if it has no count, it gets the number of its entries. What is no table stays.

    Args:
        value: the encoded header; None, or no array: the message has not died before.
        queue: where it dies.
        reason: why.

    Attributes:
        first: whether it has not died before.
        own: its entry for this queue and reason, encoded, with this time counted; None: there was
            none.
        others: all other entries, one after the other.
        before: the queues in which it has died since a consumer rejected it, by their names.
    """

    def __init__(self, value, str queue not None, str reason not None):
        self.before = set()
        self.others = b""
        self.first = value is None or value[0] != c"A"
        if not self.first:
            self.fold(value, b"q" + text_value(queue) + b"r" + text_value(reason))

    def __repr__(self):
        return f"<Deaths first={self.first} before={len(self.before)}>"

    cdef int fold(self, bytes value, bytes own_key) except -1:
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(value) + 1 + SIZE_BYTES
        cdef const uint8_t *end = <const uint8_t *> PyBytes_AS_STRING(value) + len(value)
        cdef const uint8_t *kept = p            # what follows was not taken over yet
        cdef const uint8_t *begin
        cdef const uint8_t *content = NULL
        cdef uint32_t size = 0
        cdef uint8_t type = 0
        cdef Death death
        cdef int64_t count
        cdef size_t elements = 0
        cdef list parts = []
        cdef dict counts = self.count_all(p, end, &elements)
        while p < end:
            begin = p
            next_value(&p, end, &type, &content, &size)
            if type != c"F":
                continue
            read_death(content, content + size, &death)
            key = key_of(&death)
            entries = counts.pop(key, 0)        # 0: it was folded into an earlier one
            count = count_in(&death)
            if death.count == NULL and elements > 1:
                count = entries
            if entries and key != own_key and (death.count != NULL or elements == 1):
                continue
            parts.append(between(kept, begin))
            kept = p
            if entries and key == own_key:
                self.own = counted(content, content + size, &death,
                                   count + 1 if count < INT64_MAX else count)
            elif entries:
                parts.append(counted(content, content + size, &death, count))
        parts.append(between(kept, end))
        self.others = b"".join(parts)
        return 0

    cdef dict count_all(self, const uint8_t *p, const uint8_t *end, size_t *elements):
        """How many entries there are by queue and reason; notes `before`."""
        cdef const uint8_t *content = NULL
        cdef uint32_t size = 0
        cdef uint8_t type = 0
        cdef Death death
        cdef bint rejected = False
        cdef dict counts = {}
        while p < end:
            if next_value(&p, end, &type, &content, &size):
                raise ValueError("x-death does not parse")
            elements[0] += 1
            if type != c"F":
                continue
            read_death(content, content + size, &death)
            key = key_of(&death)
            counts[key] = counts.get(key, 0) + 1
            rejected = rejected or is_text(death.reason, death.reason_end, REJECTED)
            if not rejected and death.queue != NULL and death.queue[0] == c"S" and is_valid(
                    death.queue + 1 + SIZE_BYTES, death.queue_end - death.queue - 1 - SIZE_BYTES):
                self.before.add(between(death.queue + 1 + SIZE_BYTES, death.queue_end).decode())
        return counts


cdef bint is_text(const uint8_t *value, const uint8_t *end, bytes text) noexcept:
    return (value != NULL and value[0] == c"S"
            and end - value - 1 - SIZE_BYTES == PyBytes_GET_SIZE(text)
            and not memcmp(value + 1 + SIZE_BYTES, PyBytes_AS_STRING(text), len(text)))
