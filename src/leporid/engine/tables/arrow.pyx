"""Columns in Arrow's layout, built from the records of a window with the interpreter lock released.

Responsible for the bytes of each column: offsets, validity bits, values. It must not know pyarrow,
streams or HTTP: the caller wraps the buffers. Any thread may call `columns_of`, as long as the
window stays open.

Invariant: whatever publishers sent, every text is valid UTF-8 and every offset lies in its buffer,
so that readers may trust the columns without validating them.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, strlen
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.log.window cimport Entry, Window
from leporid.engine.tables.arrays cimport (
    TEXT, Array, close_array, give, mark, open_array, put_row, reach,
)
from leporid.engine.wire.codec cimport DONE, headers_in, load16, load32, load64, next_value
from leporid.engine.wire.record cimport Record, content_of, targets_of
from leporid.engine.tables.chosen cimport Chosen
from leporid.engine.wire.text cimport (
    EXPANSION_MAX, NO_MEMORY, SECONDS_MAX, bytes_room, put, put_json_table, put_value,
)
from leporid.engine.log.window cimport Entry, Window

COLUMNS = ("stream", "partition", "offset", "timestamp", "exchange", "routing_key", "properties",
           "headers", "body", "headers_json")
# Of a queue's messages alone.
ENTRY_COLUMNS = ("redelivered", "state")

# In the order of their bits in a content header, highest first, without headers.
PROPERTIES = ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id",
              "reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id",
              "cluster_id")

cdef enum:
    BIT_HEADERS = 13
    BIT_DELIVERY_MODE = 12
    BIT_PRIORITY = 11
    BIT_TIMESTAMP = 6
    PROPERTY_COUNT = 13
    TEXT_EXPANSION_MAX = 3              # U+FFFD for each byte that is no UTF-8
    # Names and properties: of all messages of a window, which are no larger together; or of one
    # that is, whose content header is one frame.
    BESIDE_BODIES_MAX = 4 * 1024 * 1024
    # What all columns have of a row, beside its texts: numbers, offsets, bits, and a state.
    ROW_BYTES = 192
    # Header names of one message that are compared, so that a repeated name counts once; beyond,
    # which is never needed, names may be repeated.
    DISTINCT_KEYS_MAX = 64


# ------------------------------------------------------------------ records


cdef const uint8_t *headers_of(const Record *record, uint32_t *size) noexcept nogil:
    """The content of the headers table; NULL: there is none."""
    cdef const uint8_t *end
    cdef const uint8_t *p = headers_in(content_of(record) + record.names_len,
                                       record.properties_len, &end)
    if p != NULL:
        size[0] = <uint32_t> (end - p)
    return p


# ------------------------------------------------------------------ the columns


cdef class _Table:
    """The chosen rows while their columns are being built."""

    cdef uint32_t rows
    cdef const Record **records         # of `chosen`, as are the entries
    cdef const Entry **entries
    cdef Chosen chosen
    cdef Array *all
    cdef int count

    def __cinit__(self, Chosen chosen not None):
        self.chosen = chosen
        self.rows, self.records, self.entries = chosen.rows, chosen.records, chosen.entries
        self.all = <Array *> calloc(PROPERTY_COUNT, sizeof(Array))
        if self.all == NULL:
            raise MemoryError("no memory for columns")
        self.count = PROPERTY_COUNT

    def __dealloc__(self):
        for at in range(self.count):
            close_array(&self.all[at])
        free(self.all)

    cdef int fill_redelivered(self, Array *array) noexcept nogil:
        """One bit per row."""
        cdef uint32_t row
        if open_array(array, self.rows, 1, False):
            return NO_MEMORY
        for row in range(self.rows):
            if self.entries[row].redelivered:
                array.data.data[row >> 3] |= <uint8_t> (1 << (row & 7))
        return DONE

    cdef int fill_states(self, Array *array) noexcept nogil:
        cdef uint32_t row
        cdef const char *state
        if open_array(array, self.rows, TEXT, False):
            return NO_MEMORY
        for row in range(self.rows):
            state = "ready"
            if self.entries[row].unacked:
                state = "unacked"
            if put_row(array, row, <const uint8_t *> state, strlen(state)):
                return NO_MEMORY
        return DONE

    cdef int fill_numbers(self, Array *array, str name, int32_t partition) except -1:
        cdef uint32_t row
        cdef int64_t *values
        cdef int32_t *partitions
        cdef bint offset = name == "offset"
        cdef const Record *record
        if name == "partition":
            if open_array(array, self.rows, sizeof(int32_t), False):
                raise MemoryError("no memory for a column")
            partitions = <int32_t *> array.data.data
            for row in range(self.rows):
                partitions[row] = partition
            return 0
        if open_array(array, self.rows, sizeof(int64_t), False):
            raise MemoryError("no memory for a column")
        values = <int64_t *> array.data.data
        with nogil:
            for row in range(self.rows):
                record = self.records[row]
                if offset and self.entries != NULL:
                    values[row] = <int64_t> self.entries[row].seq
                elif offset:
                    values[row] = <int64_t> targets_of(record).seq
                else:
                    values[row] = <int64_t> record.timestamp_ms * 1000
        return 0

    cdef int fill_name(self, Array *array, const uint8_t *name, size_t size) noexcept nogil:
        """The same name in every row."""
        cdef uint32_t row
        if open_array(array, self.rows, TEXT, False) or bytes_room(&array.data, size * self.rows):
            return NO_MEMORY
        for row in range(self.rows):
            if put_row(array, row, name, size):
                return NO_MEMORY
        return DONE

    cdef int fill_names(self, Array *array, bint key) noexcept nogil:
        """Exchanges or routing keys."""
        cdef uint32_t row
        cdef const uint8_t *p
        if open_array(array, self.rows, TEXT, False):
            return NO_MEMORY
        for row in range(self.rows):
            p = content_of(self.records[row])
            if key:
                p += 1 + p[0]
            if put_row(array, row, p + 1, p[0]):
                return NO_MEMORY
        return DONE

    cdef int fill_bodies(self, Array *array) noexcept nogil:
        cdef uint32_t row
        cdef size_t total = 0
        cdef const Record *record
        if open_array(array, self.rows, TEXT, False):
            return NO_MEMORY
        for row in range(self.rows):
            total += self.records[row].body_len
        if bytes_room(&array.data, total):
            return NO_MEMORY
        for row in range(self.rows):
            record = self.records[row]
            if put(&array.data, content_of(record) + record.names_len + record.properties_len,
                   record.body_len):
                return NO_MEMORY
            reach(array, row + 1)
        return DONE

    cdef int fill_properties(self, Array *fields) noexcept nogil:
        """The thirteen properties that are not headers."""
        cdef uint32_t row, flags
        cdef int at, bit, width
        cdef const uint8_t *p
        cdef const uint8_t *end
        for at in range(PROPERTY_COUNT):
            bit = 15 - at - (at >= 2)
            width = (8 if bit == BIT_TIMESTAMP else
                     4 if bit == BIT_DELIVERY_MODE or bit == BIT_PRIORITY else TEXT)
            if open_array(&fields[at], self.rows, width, True):
                return NO_MEMORY
        for row in range(self.rows):
            p = content_of(self.records[row]) + self.records[row].names_len
            end = p + self.records[row].properties_len
            if end - p < 2:
                continue
            flags = load16(p)
            p += 2
            if flags == 1 << BIT_DELIVERY_MODE and p < end:  # the usual persistent message
                (<int32_t *> fields[2].data.data)[row] = p[0]
                mark(&fields[2], row)
            elif flags and self.fill_row(fields, row, flags, p, end):
                return NO_MEMORY
        return DONE

    cdef int fill_row(self, Array *fields, uint32_t row, uint32_t flags, const uint8_t *p,
                      const uint8_t *end) noexcept nogil:
        """The properties of one message, up to the first one that is malformed."""
        cdef int bit = 16, at
        cdef uint64_t seconds
        while bit > 2:
            bit -= 1
            if not flags & (<uint32_t> 1 << bit):
                continue
            at = 15 - bit - (bit < BIT_HEADERS)
            if bit == BIT_HEADERS:
                if end - p < 4 or <size_t> (end - p - 4) < load32(p):
                    return DONE
                p += 4 + load32(p)
            elif bit == BIT_TIMESTAMP:
                if end - p < 8:
                    return DONE
                seconds = load64(p)
                p += 8
                if seconds <= SECONDS_MAX:
                    (<int64_t *> fields[at].data.data)[row] = <int64_t> seconds * 1000000
                    mark(&fields[at], row)
            elif p >= end:
                return DONE
            elif bit == BIT_DELIVERY_MODE or bit == BIT_PRIORITY:
                (<int32_t *> fields[at].data.data)[row] = p[0]
                mark(&fields[at], row)
                p += 1
            else:
                if end - p - 1 < p[0]:
                    return DONE
                if put_row(&fields[at], row, p + 1, p[0]):
                    return NO_MEMORY
                p += 1 + p[0]
        return DONE

    cdef int fill_headers(self, Array *map, Array *keys, Array *values,
                          uint32_t *entries) noexcept nogil:
        """A map for each message: offsets, and the keys and values of all messages."""
        cdef uint32_t row, size, most = 0, count = 0
        cdef const uint8_t *table
        for row in range(self.rows):
            table = headers_of(self.records[row], &size)
            if table != NULL:
                most += count_fields(table, table + size)
        if open_array(map, self.rows, TEXT, True) or open_array(keys, most, TEXT, False) or (
                open_array(values, most, TEXT, True)):
            return NO_MEMORY
        for row in range(self.rows):
            # Counted in entries, not in bytes.
            map.data.used = count
            reach(map, row)
            table = headers_of(self.records[row], &size)
            if table == NULL:
                continue
            mark(map, row)
            if fill_map(table, table + size, keys, values, &count):
                return NO_MEMORY
        map.data.used = count
        entries[0] = count
        return DONE

    cdef int fill_json(self, Array *array) noexcept nogil:
        """Headers as JSON, which tells text from other types."""
        cdef uint32_t row, size
        cdef size_t before
        cdef int failed
        cdef const uint8_t *table
        if open_array(array, self.rows, TEXT, True):
            return NO_MEMORY
        for row in range(self.rows):
            table = headers_of(self.records[row], &size)
            if table == NULL:
                continue
            reach(array, row)
            before = array.data.used
            failed = put_json_table(&array.data, table, table + size, 1)
            if failed == NO_MEMORY:
                return NO_MEMORY
            if failed:
                array.data.used = before  # malformed: null
                continue
            mark(array, row)
            reach(array, row + 1)
        return DONE

    cdef tuple column(self, str name, bytes stream, int32_t partition):
        """Build one column: (number of nulls, buffers, children)."""
        cdef Array *array = self.all
        cdef const uint8_t *raw = <const uint8_t *> PyBytes_AS_STRING(stream)
        cdef size_t size = len(stream)
        cdef uint32_t entries = 0
        cdef int failed = DONE
        if name == "partition" or name == "offset" or name == "timestamp":
            self.fill_numbers(array, name, partition)
        elif name == "stream":
            with nogil:
                failed = self.fill_name(array, raw, size)
        elif name == "exchange":
            with nogil:
                failed = self.fill_names(array, False)
        elif name == "routing_key":
            with nogil:
                failed = self.fill_names(array, True)
        elif name == "body":
            with nogil:
                failed = self.fill_bodies(array)
        elif name == "headers_json":
            with nogil:
                failed = self.fill_json(array)
        elif name == "headers":
            with nogil:
                failed = self.fill_headers(array, array + 1, array + 2, &entries)
        elif name == "properties":
            with nogil:
                failed = self.fill_properties(array)
        elif name == "redelivered" and self.entries != NULL:
            failed = self.fill_redelivered(array)
        elif name == "state" and self.entries != NULL:
            with nogil:
                failed = self.fill_states(array)
        else:
            raise ValueError(f"no column {name!r}; there are {', '.join(COLUMNS)}")
        if failed:
            raise MemoryError(f"no memory for the column {name}")
        if name == "properties":
            return 0, [None], [give(array + at, self.rows, []) for at in range(PROPERTY_COUNT)]
        if name == "headers":
            pairs = 0, [None], [give(array + 1, entries, []), give(array + 2, entries, [])]
            return give(array, self.rows, [pairs])
        return give(array, self.rows, [])


cdef uint32_t count_fields(const uint8_t *p, const uint8_t *end) noexcept nogil:
    cdef uint32_t count = 0, size
    cdef uint8_t type
    cdef const uint8_t *content
    while p < end and end - p - 1 >= p[0]:
        p += 1 + p[0]
        if next_value(&p, end, &type, &content, &size):
            break
        count += 1
    return count


cdef int fill_map(const uint8_t *p, const uint8_t *end, Array *keys, Array *values,
                  uint32_t *count) noexcept nogil:
    """The fields of one table; of fields with the same name the first, as in RabbitMQ."""
    cdef const uint8_t *seen[DISTINCT_KEYS_MAX]
    cdef const uint8_t *key
    cdef const uint8_t *content
    cdef const uint8_t *value
    cdef int known = 0, at, failed
    cdef uint32_t size
    cdef uint8_t type
    while p < end and end - p - 1 >= p[0]:
        key = p
        value = p + 1 + p[0]
        p = value
        if next_value(&p, end, &type, &content, &size):
            break
        at = 0
        while at < known and memcmp(seen[at], key, 1 + key[0]):
            at += 1
        if at < known:
            continue
        if known < DISTINCT_KEYS_MAX:
            seen[known] = key
            known += 1
        if put_row(keys, count[0], key + 1, key[0]):
            return NO_MEMORY
        if type != c"V":
            reach(values, count[0])
            failed = put_value(&values.data, &value, end, False, 0)
            if failed == NO_MEMORY:
                return NO_MEMORY
            reach(values, count[0] + 1)
            if not failed:
                mark(values, count[0])
        count[0] += 1
    return DONE


def batch_bytes_max(names, *, size_t name_bytes, size_t rows, size_t record_bytes):
    """What columns and the batch that is encoded of them take together, at most.

    Args:
        names: of the columns.
        name_bytes: length of the value of the column `stream`.
        rows: in the window.
        record_bytes: of its records.
    """
    cdef size_t expansion = TEXT_EXPANSION_MAX, headers = 0, total
    for name in names:
        if name == "headers" or name == "headers_json":
            headers += EXPANSION_MAX
    expansion = max(expansion, headers)
    total = record_bytes + expansion * min(record_bytes, <size_t> BESIDE_BODIES_MAX)
    return 2 * (total + rows * (ROW_BYTES + name_bytes))


def columns_of(Window window not None, names, *, str stream not None, int32_t partition=0,
               Chosen chosen=None):
    """Number of rows, and each column asked for as (number of nulls, buffers, children).

    Args:
        window: the messages.
        names: of the columns.
        stream: the value of the column `stream`.
        partition: the value of the column `partition`.
        chosen: messages of the window; None: all.

    Raises:
        MemoryError: out of memory, or a column would exceed 2 GiB.
        ValueError: there is no such column.
    """
    cdef _Table table = _Table(Chosen(window) if chosen is None else chosen)
    cdef str name
    cdef bytes raw = stream.encode("utf-8", "replace")
    columns = []
    for name in names:
        columns.append(table.column(name, raw, partition))
        for at in range(PROPERTY_COUNT):
            close_array(&table.all[at])
    return table.rows, columns
