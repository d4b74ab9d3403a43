"""Messages from Arrow columns, encoded as in AMQP.

Responsible for making names and content headers out of columns, on any thread. It must not know
pyarrow or HTTP, nor the layout of a column (`columns`); `publisher` publishes the rows.

Invariant: a `Rows` exists only if every one of its messages may be published; so a request that
breaks a rule publishes nothing.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memset
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.tables.columns cimport (
    MAP, STRUCT, TEXT, WRONG_LAYOUT, Column, is_there, open_column, text_at,
)
from leporid.engine.wire.due_time cimport DELAY_MS_MAX, WHEN_INVALID, WHEN_TOO_FAR, find_due
from leporid.engine.wire.text cimport Bytes, bytes_room, put, put_byte
from leporid.engine.wire.codec cimport (
    HAS_DELAY, HAS_DELIVER_AT, TTL_INVALID, Props, parse_ttl, store16, store32, store64,
    walk_properties,
)

# In the order of `arrow.PROPERTIES`.
cdef enum:
    PROPERTY_COUNT = 13
    AT_DELIVERY_MODE = 2
    AT_PRIORITY = 3
    AT_REPLY_TO = 5
    AT_EXPIRATION = 6
    AT_TIMESTAMP = 8
    AT_USER_ID = 10
    SHORTSTR_MAX = 255
    # A content header is one frame; this is what fits into one of the usual 131,072 bytes.
    PROPERTIES_BYTES_MAX = 131072 - 8 - 14
    # Lengths of two names, flags, two numbers, a timestamp, lengths of ten texts, the length of the
    # headers, and x-deliver-at.
    ROW_ROOM = 2 + 2 + 2 + 8 + 10 + 4 + 22
    HEADER_ROOM = 1 + 5             # length of a name; type and length of its value
    HAS_HEADERS = 0x2000
    HAS_DELIVERY_MODE = 0x1000
    PERSISTENT = 2
    # A table of more is a mistake. Each has its permission checked on the broker's thread.
    MOST_EXCHANGES = 256
    EXCHANGE_SLOTS = 1024           # of a hash table that is at most a quarter full

# The errors of a row, besides WRONG_LAYOUT.
cdef enum:
    NO_MEMORY = 2
    NO_BODY = 3
    BODY_TOO_LARGE = 4
    EXCHANGE_TOO_LONG = 5
    KEY_TOO_LONG = 6
    PROPERTY_TOO_LONG = 7
    MODE_OUT_OF_RANGE = 8
    PRIORITY_OUT_OF_RANGE = 9
    TIME_OUT_OF_RANGE = 10
    HEADER_TOO_LONG = 11
    HEADER_RESERVED = 12
    PROPERTIES_TOO_LARGE = 13
    WRONG_USER = 14
    WRONG_EXPIRATION = 15
    REPLY_TO_RESERVED = 16
    TWO_MOMENTS = 17
    WRONG_MOMENT = 18
    MOMENT_TOO_FAR = 19
    TOO_MANY_EXCHANGES = 20

EXCHANGES_MAX = MOST_EXCHANGES

REASONS = {
    WRONG_LAYOUT: "the column's offsets lead out of its buffer",
    NO_MEMORY: "there is no memory for it",
    NO_BODY: "body is null",
    BODY_TOO_LARGE: "body is larger than a message may be",
    EXCHANGE_TOO_LONG: "exchange has more than 255 bytes",
    KEY_TOO_LONG: "routing_key has more than 255 bytes",
    PROPERTY_TOO_LONG: "a property has more than 255 bytes",
    MODE_OUT_OF_RANGE: "delivery_mode must be 1 or 2",
    PRIORITY_OUT_OF_RANGE: "priority must be from 0 to 255",
    TIME_OUT_OF_RANGE: "timestamp must not be before 1970",
    HEADER_TOO_LONG: "the name of a header has more than 255 bytes",
    HEADER_RESERVED: "CC and BCC are lists, which this column cannot hold",
    PROPERTIES_TOO_LARGE: "properties and headers do not fit into a content header",
    WRONG_USER: "user_id is not the name of the user who publishes",
    WRONG_EXPIRATION: "expiration must be a number of milliseconds",
    REPLY_TO_RESERVED: "reply_to must not be that of direct reply-to: there is no channel",
    TWO_MOMENTS: "only one of delay_ms, deliver_at and the header x-deliver-at can be",
    WRONG_MOMENT: "the header x-deliver-at must be a number of milliseconds since 1970",
    MOMENT_TOO_FAR: "a message may wait for ten years at most",
    TOO_MANY_EXCHANGES: f"more than {EXCHANGES_MAX} exchanges in one request",
}


class BadRow(ValueError):
    """A row is not a valid message; no row was published.

    Attributes:
        row: its number in the batch, from 0.
        reason: its error.
    """

    row = 0
    reason = ""

    def __init__(self, row, reason):
        super().__init__(f"row {row}: {reason}")
        self.row = row
        self.reason = reason


cdef struct Columns:
    Column body, key, exchange, properties, map, keys, values, delay_ms, deliver_at
    uint64_t wall_ms
    Column fields[PROPERTY_COUNT]
    const uint8_t *default_exchange
    size_t default_exchange_len
    const uint8_t *user_id              # that a message may carry; NULL: any
    size_t user_id_len
    size_t body_bytes_max
    uint32_t exchanges[EXCHANGE_SLOTS]  # hash table of the first row of each, counted from 1
    uint32_t exchange_count


cdef int note_exchange(Rows rows, Columns *columns, size_t at) noexcept nogil:
    """Note the exchange of a row that was encoded, if it is not that of an earlier one."""
    cdef const uint8_t *name = rows.encoded.data + rows.rows[at].names
    cdef const uint8_t *other
    cdef uint32_t hash = 2166136261     # FNV-1a
    cdef uint32_t byte, slot
    if at:
        other = rows.encoded.data + rows.rows[at - 1].names
        if not memcmp(name, other, 1 + name[0]):
            return 0
    for byte in range(1, 1 + <uint32_t> name[0]):
        hash = (hash ^ name[byte]) * 16777619
    slot = (hash ^ hash >> 16) % EXCHANGE_SLOTS
    while columns.exchanges[slot]:
        other = rows.encoded.data + rows.rows[columns.exchanges[slot] - 1].names
        if not memcmp(name, other, 1 + name[0]):
            return 0
        slot = (slot + 1) % EXCHANGE_SLOTS
    if columns.exchange_count == MOST_EXCHANGES:
        return TOO_MANY_EXCHANGES
    columns.exchanges[slot] = <uint32_t> at + 1
    columns.exchange_count += 1
    return 0


cdef int encode_names(Rows rows, const Columns *columns, size_t at) noexcept nogil:
    cdef const uint8_t *exchange
    cdef const uint8_t *key
    cdef size_t exchange_len, key_len
    if text_at(&columns.exchange, at, &exchange, &exchange_len) or text_at(
            &columns.key, at, &key, &key_len):
        return WRONG_LAYOUT
    if exchange == NULL:
        exchange, exchange_len = columns.default_exchange, columns.default_exchange_len
    if exchange_len > SHORTSTR_MAX:
        return EXCHANGE_TOO_LONG
    if key_len > SHORTSTR_MAX:
        return KEY_TOO_LONG
    rows.rows[at].keyless = key == NULL
    rows.rows[at].names = rows.encoded.used
    rows.rows[at].names_len = <uint32_t> (exchange_len + key_len + 2)
    if (put_byte(&rows.encoded, <uint8_t> exchange_len)
            or put(&rows.encoded, exchange, exchange_len)
            or put_byte(&rows.encoded, <uint8_t> key_len)
            or put(&rows.encoded, key, key_len)):
        return NO_MEMORY
    return 0


cdef int moment_of(const Columns *columns, size_t row, bint *present,
                   int64_t *moment_ms) noexcept nogil:
    """When a row's message is due, if it is delayed."""
    cdef int64_t value
    present[0] = is_there(&columns.deliver_at, row)
    if is_there(&columns.delay_ms, row):
        if present[0]:
            return TWO_MOMENTS
        present[0] = True
        value = (<const int64_t *> columns.delay_ms.data)[row]
        if value > DELAY_MS_MAX:
            return MOMENT_TOO_FAR
        moment_ms[0] = <int64_t> columns.wall_ms + max(<int64_t> 0, value)
    elif present[0]:
        value = (<const int64_t *> columns.deliver_at.data)[row]
        # Rounded up to milliseconds, so that the message is not early.
        moment_ms[0] = value // 1000 + (value % 1000 > 0)
    return 0


cdef int encode_moment(Bytes *out, int64_t moment_ms) noexcept nogil:
    """Append the header x-deliver-at."""
    if bytes_room(out, 22):
        return NO_MEMORY
    put_byte(out, 12)
    put(out, b"x-deliver-atl", 13)
    store64(out.data + out.used, <uint64_t> moment_ms)
    out.used += 8
    return 0


cdef int encode_headers(Bytes *out, const Columns *columns, size_t row, bint timed,
                        int64_t moment_ms) noexcept nogil:
    """Append the headers table: x-deliver-at, then long strings and voids."""
    cdef size_t start = out.used
    if put(out, "\0\0\0\0", 4) or (timed and encode_moment(out, moment_ms)):
        return NO_MEMORY
    if is_there(&columns.map, row):
        failed = encode_map(out, columns, row, timed)
        if failed:
            return failed
    store32(out.data + start, <uint32_t> (out.used - start - 4))
    return 0


cdef int encode_map(Bytes *out, const Columns *columns, size_t row, bint timed) noexcept nogil:
    cdef int32_t at = columns.map.offsets[row], end = columns.map.offsets[row + 1]
    cdef size_t start = out.used, size, value_size
    cdef const uint8_t *text
    cdef const uint8_t *value
    if at < 0 or end < at or <size_t> end > columns.keys.rows:
        return WRONG_LAYOUT
    while at < end:
        if text_at(&columns.keys, at, &text, &size):
            return WRONG_LAYOUT
        if size > SHORTSTR_MAX:
            return HEADER_TOO_LONG
        if (size == 2 and text[0] == c"C" and text[1] == c"C") or (
                size == 3 and text[0] == c"B" and text[1] == c"C" and text[2] == c"C"):
            return HEADER_RESERVED
        if text_at(&columns.values, at, &value, &value_size):
            return WRONG_LAYOUT
        if timed and size == 12 and not memcmp(text, b"x-deliver-at", 12):
            if value == NULL or not value_size or value[0] != c"-":
                return TWO_MOMENTS
            at += 1                     # a delay that is over
            continue
        if put_byte(out, <uint8_t> size) or put(out, text, size):
            return NO_MEMORY
        if value == NULL:
            if put_byte(out, c"V"):
                return NO_MEMORY
        else:
            if bytes_room(out, value_size + 5):
                return NO_MEMORY
            out.data[out.used] = c"S"
            store32(out.data + out.used + 1, <uint32_t> value_size)
            out.used += 5
            put(out, value, value_size)
        if out.used - start > PROPERTIES_BYTES_MAX:
            return PROPERTIES_TOO_LARGE
        at += 1
    return 0


cdef int encode_field(Bytes *out, const Columns *columns, int at, size_t row,
                      bint *present) noexcept nogil:
    """Append one of the thirteen properties that are not headers."""
    cdef const Column *column = &columns.fields[at]
    cdef const uint8_t *text
    cdef size_t size
    cdef int64_t number = PERSISTENT
    present[0] = is_there(column, row) and is_there(&columns.properties, row)
    if at == AT_DELIVERY_MODE or at == AT_PRIORITY:
        if present[0]:
            number = (<const int32_t *> column.data)[row]
        elif at == AT_PRIORITY:
            return 0
        present[0] = True
        if at == AT_DELIVERY_MODE and number != 1 and number != 2:
            return MODE_OUT_OF_RANGE
        if number < 0 or number > 255:
            return PRIORITY_OUT_OF_RANGE
        return NO_MEMORY if put_byte(out, <uint8_t> number) else 0
    if not present[0]:
        return 0
    if at == AT_TIMESTAMP:
        number = (<const int64_t *> column.data)[row]
        if number < 0:
            return TIME_OUT_OF_RANGE
        if bytes_room(out, 8):
            return NO_MEMORY
        store64(out.data + out.used, <uint64_t> (number // 1000000))
        out.used += 8
        return 0
    if text_at(column, row, &text, &size):
        return WRONG_LAYOUT
    if size > SHORTSTR_MAX:
        return PROPERTY_TOO_LONG
    if at == AT_USER_ID and columns.user_id != NULL and (
            size != columns.user_id_len or memcmp(text, columns.user_id, size)):
        return WRONG_USER
    if at == AT_REPLY_TO and size >= 21 and not memcmp(text, b"amq.rabbitmq.reply-to", 21):
        return REPLY_TO_RESERVED
    return NO_MEMORY if put_byte(out, <uint8_t> size) or put(out, text, size) else 0


cdef int encode_properties(Rows rows, const Columns *columns, size_t at) noexcept nogil:
    """Append a content header's flags and values."""
    cdef Bytes *out = &rows.encoded
    cdef size_t start = out.used
    cdef uint32_t flags = 0
    cdef uint64_t ttl_ms
    cdef int field, failed
    cdef bint present, timed
    cdef int64_t moment_ms = 0
    cdef Props props
    if put(out, "\0\0", 2):
        return NO_MEMORY
    failed = moment_of(columns, at, &timed, &moment_ms)
    if failed:
        return failed
    for field in range(PROPERTY_COUNT):
        if field == AT_DELIVERY_MODE and (timed or is_there(&columns.map, at)):
            failed = encode_headers(out, columns, at, timed, moment_ms)
            if failed:
                return failed
            flags |= HAS_HEADERS
        failed = encode_field(out, columns, field, at, &present)
        if failed:
            return failed
        if present:
            flags |= <uint32_t> 1 << (15 - field - (field >= AT_DELIVERY_MODE))
    store16(out.data + start, <uint16_t> flags)
    if out.used - start > PROPERTIES_BYTES_MAX:
        return PROPERTIES_TOO_LARGE
    rows.rows[at].properties_len = <uint32_t> (out.used - start)
    if flags & HAS_HEADERS or is_there(&columns.fields[AT_EXPIRATION], at):
        walk_properties(out.data + start, out.used - start, &props)
        if parse_ttl(&props, &ttl_ms) == TTL_INVALID:
            return WRONG_EXPIRATION
        if props.marks & (HAS_DELAY | HAS_DELIVER_AT):
            failed = find_due(&props, columns.wall_ms, True, &moment_ms)
            if failed == WHEN_INVALID or failed == WHEN_TOO_FAR:
                return WRONG_MOMENT if failed == WHEN_INVALID else MOMENT_TOO_FAR
    return 0


cdef int encode_row(Rows rows, Columns *columns, size_t at) noexcept nogil:
    """Encode names and properties of one row; returns 0, or the number of its error."""
    cdef int failed
    cdef const uint8_t *body
    cdef size_t size
    if text_at(&columns.body, at, &body, &size):
        return WRONG_LAYOUT
    if body == NULL:
        return NO_BODY
    if size > columns.body_bytes_max:
        return BODY_TOO_LARGE
    rows.rows[at].body, rows.rows[at].body_len = body, <uint32_t> size
    failed = encode_names(rows, columns, at) or note_exchange(rows, columns, at)
    return failed if failed else encode_properties(rows, columns, at)


cdef int encode_all(Rows rows, Columns *columns, size_t room, size_t *at) noexcept nogil:
    cdef int failed
    at[0] = 0
    while at[0] < rows.count:
        failed = encode_row(rows, columns, at[0])
        # Rows that share texts or headers, which those of sound columns do not.
        if not failed and rows.encoded.used > room:
            failed = WRONG_LAYOUT
        if failed:
            return failed
        at[0] += 1
    return 0


cdef class Rows:
    """Messages of one batch, encoded; made by `encode`."""

    def __dealloc__(self):
        free(self.rows)
        free(self.encoded.data)

    def __repr__(self):
        return f"<Rows count={self.count}>"

    def __len__(self):
        return self.count

    @property
    def bytes(self):
        """What it takes of memory beside the bodies."""
        return self.count * sizeof(Row) + self.encoded.size


cdef set exchanges_of(Rows self, const Columns *columns):
    """The names of all exchanges, so that each is checked once before any row is published."""
    cdef const uint8_t *name
    cdef set found = set()
    for at in columns.exchanges:
        if at:
            name = self.encoded.data + self.rows[at - 1].names
            found.add(name[1:1 + name[0]])
    return found


cdef size_t encoded_room(const Columns *columns, size_t rows) noexcept nogil:
    """How many bytes encoded rows need at most: everything fixed of a row, and all texts."""
    cdef size_t room = rows * (ROW_ROOM + columns.default_exchange_len)
    cdef int field
    room += columns.key.size + columns.exchange.size
    room += columns.keys.rows * HEADER_ROOM + columns.keys.size + columns.values.size
    for field in range(PROPERTY_COUNT):
        if columns.fields[field].offsets != NULL:
            room += columns.fields[field].size
    return room


def encode(size_t rows, columns not None, *, bytes exchange not None, bytes user_id=None,
           size_t body_bytes_max, uint64_t wall_ms=0):
    """Check and encode a batch; safe on any thread.

    `columns` has, by name, (rows, buffers) of Arrow arrays without offset, in the layouts of
    `columns_of`: body, routing_key, exchange, headers with its parts headers.key and headers.value,
    properties, and properties.NAME; delay_ms and deliver_at (in microseconds). A column that is
    missing, or None, is null in every row.

    Args:
        rows: number of rows.
        columns: see above.
        exchange: of rows that name none.
        user_id: the only value that the property may have; None: any.
        body_bytes_max: the limit of a body's size.
        wall_ms: the time that delays are counted from.

    Raises:
        BadRow: a row is not a valid message.
        ValueError: a column does not have Arrow's layout.
        MemoryError: out of memory.
    """
    from leporid.engine.tables.arrow import PROPERTIES

    cdef Rows self = Rows()
    cdef Columns all
    cdef int failed, field
    cdef size_t at = 0, room
    cdef list held = []                 # until all is encoded; only bodies stay where they are
    self.held = []
    self.count = rows
    memset(&all, 0, sizeof(Columns))
    all.body = open_column(columns.get("body"), self.held, TEXT)
    all.key = open_column(columns.get("routing_key"), held, TEXT)
    all.exchange = open_column(columns.get("exchange"), held, TEXT)
    all.map = open_column(columns.get("headers"), held, MAP)
    all.keys = open_column(columns.get("headers.key"), held, TEXT)
    all.values = open_column(columns.get("headers.value"), held, TEXT)
    all.delay_ms = open_column(columns.get("delay_ms"), held, 8)
    all.deliver_at = open_column(columns.get("deliver_at"), held, 8)
    all.wall_ms = wall_ms
    all.properties = open_column(columns.get("properties"), held, STRUCT)
    for field in range(PROPERTY_COUNT):
        all.fields[field] = open_column(
            columns.get("properties." + PROPERTIES[field]), held,
            4 if field == AT_DELIVERY_MODE or field == AT_PRIORITY
            else 8 if field == AT_TIMESTAMP else TEXT)
    all.default_exchange = <const uint8_t *> PyBytes_AS_STRING(exchange)
    all.default_exchange_len = len(exchange)
    if user_id is not None:
        all.user_id, all.user_id_len = <const uint8_t *> PyBytes_AS_STRING(user_id), len(user_id)
    all.body_bytes_max = body_bytes_max
    if rows > all.body.rows:
        # Before memory is reserved for them: a number alone costs nothing to send.
        raise BadRow(all.body.rows, REASONS[NO_BODY])
    self.rows = <Row *> malloc(max(<size_t> 1, rows) * sizeof(Row))
    # At once: bytes that grow have up to the double of what they need.
    room = encoded_room(&all, rows)
    self.encoded.data = <uint8_t *> malloc(max(<size_t> 1, room))
    if self.rows == NULL or self.encoded.data == NULL:
        raise MemoryError("no memory for the rows of a request")
    self.encoded.size = room
    with nogil:
        failed = encode_all(self, &all, room, &at)
    if failed == NO_MEMORY:
        raise MemoryError("no memory for the rows of a request")
    if failed:
        raise BadRow(at, REASONS[failed])
    self.exchanges = exchanges_of(self, &all)
    return self
