"""Choosing messages of a window by exchange, key, time and filter.

Responsible for finding them, with the interpreter lock released: on any thread, as long as the
window stays open. It must not know what they are used for. Invariants: they stay in order; cheap
conditions are evaluated before the filter.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.log.log cimport KIND_PUBLISH
from leporid.engine.stream.choice cimport outcome_of, tally_of
from leporid.engine.wire.record cimport (
    NO_LIMIT, Message, body_bytes, content_of, exchange_name, message_in, properties_bytes,
    routing_key as routing_key_of, targets_of,
)


cdef bint is_within(const Record *record, const Bounds *bounds) noexcept nogil:
    cdef const uint8_t *exchange = content_of(record)
    cdef const uint8_t *key = exchange + 1 + exchange[0]
    if record.timestamp_ms < bounds.since_ms or record.timestamp_ms >= bounds.until_ms:
        return False
    if bounds.key_len >= 0 and (
            bounds.key_len != key[0] or memcmp(bounds.key, key + 1, bounds.key_len)):
        return False
    if bounds.prefix_len >= 0 and (
            bounds.prefix_len > key[0] or memcmp(bounds.prefix, key + 1, bounds.prefix_len)):
        return False
    return bounds.exchange_len < 0 or (
        bounds.exchange_len == exchange[0]
        and not memcmp(bounds.exchange, exchange + 1, bounds.exchange_len))


cdef class Chosen:
    """Messages of one window, which must stay open as long as they are used.

    Args:
        window: the messages to choose from.
        routing_key: their key; None: any, as for the others.
        routing_key_prefix: the start of their key.
        exchange: their exchange.
        since_ms: their earliest time.
        until_ms: they came before this time.
        choice: a filter.

    Raises:
        MemoryError: out of memory.
    """

    def __cinit__(self, Window window not None, *, bytes routing_key=None,
                  bytes routing_key_prefix=None, bytes exchange=None, uint64_t since_ms=0,
                  uint64_t until_ms=0xffffffffffffffff, Choice choice=None):
        cdef Bounds bounds
        cdef bint of_queue = window.entries != NULL
        cdef size_t most = max(<uint32_t> 1, window.rows)
        self.window, self.choice = window, choice
        fill_text(routing_key, &bounds.key, &bounds.key_len)
        fill_text(routing_key_prefix, &bounds.prefix, &bounds.prefix_len)
        fill_text(exchange, &bounds.exchange, &bounds.exchange_len)
        bounds.since_ms, bounds.until_ms = since_ms, until_ms
        self.tally.batches_skipped = window.batches_skipped
        self.records = <const Record **> malloc(most * sizeof(Record *))
        if of_queue:
            self.entries = <const Entry **> malloc(most * sizeof(Entry *))
        if self.records == NULL or of_queue and self.entries == NULL:
            raise MemoryError("no memory for the rows of a window")
        with nogil:
            if of_queue:
                self.choose_entries(&bounds)
            else:
                self.choose(&bounds)

    def __dealloc__(self):
        free(self.records)
        free(self.entries)

    @property
    def numbers(self):
        """Sequence numbers of these messages, which must be those of a queue."""
        cdef uint32_t at
        return [self.entries[at].seq for at in range(self.rows)]

    def messages(self, uint32_t most, uint64_t bytes_max, uint64_t body_bytes_max=NO_LIMIT):
        """Copy the first of them.

        Args:
            most: at most so many.
            bytes_max: of names, properties and copied bodies together, at most.
            body_bytes_max: copy so much of each body.

        Returns:
            The messages, each as (offset, time in milliseconds, exchange, routing key, properties,
            body, bytes of the whole body, redelivered, unacked), and the offset of the first one
            that was left out for these limits, None without one. Offsets of a queue's messages are
            their sequence numbers.
        """
        cdef list found = []
        cdef uint32_t at
        cdef const Entry *entry = NULL
        cdef const Record *record
        cdef Message message
        cdef uint64_t offset, size
        for at in range(self.rows):
            record = self.records[at]
            message = message_in(record)
            message.body_len = min(<uint64_t> message.body_len, body_bytes_max)
            size = message.names_len + message.properties_len + message.body_len
            if self.entries != NULL:
                entry = self.entries[at]
            offset = targets_of(record).seq if entry == NULL else entry.seq
            if at == most or size > bytes_max:
                return found, offset
            bytes_max -= size
            found.append((
                offset, record.timestamp_ms, exchange_name(&message), routing_key_of(&message),
                properties_bytes(&message), body_bytes(&message), record.body_len,
                entry != NULL and entry.redelivered, entry != NULL and entry.unacked))
        return found, None

    def __len__(self):
        return self.rows

    def __repr__(self):
        return f"<Chosen {self.rows} of {self.window!r}>"

    @property
    def filtering(self):
        """Counters of the filter: batches skipped, messages evaluated, matched, and with a type
        error."""
        return tally_of(&self.tally)

    cdef bint passes(self, const Record *record, const Bounds *bounds) noexcept nogil:
        if not is_within(record, bounds):
            return False
        return self.choice is None or outcome_of(self.choice, record, &self.tally) == 1

    cdef int choose(self, const Bounds *bounds) noexcept nogil:
        """Choose from a stream's records."""
        cdef int at
        cdef uint32_t most = self.window.rows
        cdef const uint8_t *p
        cdef const Record *record
        for at in range(self.window.count):
            p = self.window.stretches[at].start
            while p < self.window.stretches[at].end and self.rows < most:
                record = <const Record *> p
                p += record.size
                if record.kind == KIND_PUBLISH and self.passes(record, bounds):
                    self.records[self.rows] = record
                    self.rows += 1
        return 0

    cdef int choose_entries(self, const Bounds *bounds) noexcept nogil:
        """Choose from a queue's messages."""
        cdef uint32_t at
        cdef const Entry *entries = self.window.entries
        for at in range(self.window.rows):
            if self.passes(entries[at].record, bounds):
                self.records[self.rows] = entries[at].record
                self.entries[self.rows] = &entries[at]
                self.rows += 1
        return 0


cdef void fill_text(bytes text, const uint8_t **start, Py_ssize_t *size):
    """Set a text to compare with; None: any text matches."""
    start[0] = NULL if text is None else <const uint8_t *> PyBytes_AS_STRING(text)
    size[0] = -1 if text is None else len(text)
