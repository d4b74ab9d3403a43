"""The output of one connection: frames are encoded straight into the bytes that will be sent.

Responsible for encoding frames, for the output buffer, and for the consumers that wait for it to
drain. It must not know sockets, nor why a frame is sent. Invariant: the bytes in [out_start,
out_end) are complete frames, of which the first may be partly sent.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ

from leporid.engine.connection.connections cimport Connections
from leporid.engine.queue.takers cimport Taker
from leporid.engine.wire.codec cimport (
    ADDED_BYTES_MAX, DELIVERY_COUNT_FIELD, STREAM_OFFSET_FIELD, store16, store32, store64,
    with_field,
)
from leporid.engine.wire.record cimport Message, Record, message_in

cdef extern from *:
    """#define FRAME_END 0xce"""
    int FRAME_END

# The size of frames before connection.tune (AMQP 0-9-1 4.2.3: at least 4096; RabbitMQ allows 8192,
# for long credentials).
cdef enum:
    FRAME_MAX_UNTUNED = 8192
    SPARE_OUTPUTS_MAX = 16


cdef inline uint8_t *frame_head(uint8_t *p, uint8_t kind, uint16_t channel, uint32_t size) noexcept:
    p[0] = kind
    store16(p + 1, channel)
    store32(p + 3, size)
    return p + 7


cdef inline int write_delivered(
        Output out, uint16_t channel, const uint8_t *head, size_t head_len, uint64_t tag,
        bint redelivered, const Message *message) except -1:
    """Write basic.deliver without its content."""
    cdef size_t names_len = message.names_len
    cdef uint32_t size = <uint32_t> (head_len + 9 + names_len)
    cdef uint8_t *p = out.room(size + 8)
    p = frame_head(p, 1, channel, size)
    memcpy(p, head, head_len)
    p += head_len
    store64(p, tag)
    p[8] = redelivered
    memcpy(p + 9, message.names, names_len)
    p[9 + names_len] = FRAME_END
    out.out_end += size + 8
    return 0


cdef class Output:
    """The bytes to be sent to one peer, and the consumers that wait for them to drain."""

    def __cinit__(self, Connections connections not None, owner not None):
        self.connections = connections
        self.owner = owner
        self.frame_max = FRAME_MAX_UNTUNED
        self.stalled = {}

    def __dealloc__(self):
        free(self.out)
        free(self.scratch)

    @property
    def pending_bytes(self):
        """Bytes not sent yet."""
        return self.out_end - self.out_start

    cdef int touch(self) except -1:
        """Have the server look at this connection after the turn."""
        if not self.touched:
            self.touched = True
            self.connections.touched.append(self.owner)
        return 0

    cdef uint8_t *room(self, size_t size) except NULL:
        """Room for `size` bytes at the end; the caller fills them and moves `out_end`."""
        cdef size_t pending, capacity
        cdef void *grown
        if not self.touched:
            self.touch()
        if self.out_end + size <= self.out_capacity:
            return self.out + self.out_end
        pending = self.out_end - self.out_start
        if self.out == NULL and size <= OUTPUT_USUAL_BYTES:
            if self.connections.spare_output_count:
                self.connections.spare_output_count -= 1
                self.out = <uint8_t *> (
                    self.connections.spare_outputs[self.connections.spare_output_count])
            else:
                self.out = <uint8_t *> malloc(OUTPUT_USUAL_BYTES)
            if self.out == NULL:
                raise MemoryError("no memory for a connection's output")
            self.out_capacity = OUTPUT_USUAL_BYTES
            return self.out
        if self.out_start:
            memmove(self.out, self.out + self.out_start, pending)
            self.out_start, self.out_end = 0, pending
        if pending + size > self.out_capacity:
            capacity = max(self.out_capacity * 2, pending + size)
            grown = realloc(self.out, capacity)
            if grown == NULL:
                raise MemoryError("no memory for a connection's output")
            self.out = <uint8_t *> grown
            self.out_capacity = capacity
        return self.out + self.out_end

    def outgoing(self):
        """The bytes to send now, valid until any other call here; None: there are none."""
        self.touched = False
        if self.out_end == self.out_start:
            return None
        return PyMemoryView_FromMemory(
            <char *> self.out + self.out_start, self.out_end - self.out_start, PyBUF_READ)

    cdef int sent(self, size_t count) except -1:
        """The first `count` bytes of `outgoing` were sent."""
        self.out_start += count
        self.connections.sent_bytes += count
        self.last_sent_ms = self.connections.clock.now_ms
        if self.out_start == self.out_end:
            self.out_start = self.out_end = 0
            if (self.out_capacity == OUTPUT_USUAL_BYTES
                    and self.connections.spare_output_count < SPARE_OUTPUTS_MAX):
                self.connections.spare_outputs[self.connections.spare_output_count] = self.out
                self.connections.spare_output_count += 1
            else:
                free(self.out)
            self.out = NULL
            self.out_capacity = 0
        return 0

    cdef int resume_stalled(self) except -1:
        """There is room again: resume the consumers that waited for it."""
        cdef Taker taker
        if self.stalled:
            stalled, self.stalled = self.stalled, {}
            for taker in stalled:
                taker.resume()
        return 0

    cdef int drop_buffers(self) except -1:
        """Free the buffers; nothing is sent any more.

        Not only when the object dies: connection, channels and consumers refer to each other, and
        stay until the garbage collector runs.
        """
        free(self.out)
        free(self.scratch)
        self.out = self.scratch = NULL
        self.out_start = self.out_end = self.out_capacity = self.scratch_len = 0
        self.stalled = {}
        return 0

    cdef int write_method(self, uint16_t channel, const uint8_t *payload, size_t size) except -1:
        cdef uint8_t *p = self.room(size + 8)
        p = frame_head(p, 1, channel, <uint32_t> size)
        memcpy(p, payload, size)
        p[size] = FRAME_END
        self.out_end += size + 8
        return 0

    cdef int write_content(self, uint16_t channel, const uint8_t *properties,
                           size_t properties_len, const uint8_t *body, size_t body_len) except -1:
        """Write a content header frame and the body frames (AMQP 0-9-1 4.2.6)."""
        cdef size_t step = self.frame_max - 8, part
        cdef size_t frames = (body_len + step - 1) // step
        cdef uint8_t *p = self.room(20 + properties_len + frames * 8 + body_len)
        p = frame_head(p, 2, channel, <uint32_t> (12 + properties_len))
        store16(p, 60)
        store16(p + 2, 0)
        store64(p + 4, body_len)
        memcpy(p + 12, properties, properties_len)
        p += 12 + properties_len
        p[0] = FRAME_END
        p += 1
        self.out_end += 20 + properties_len + frames * 8 + body_len
        while body_len:
            part = min(step, body_len)
            p = frame_head(p, 3, channel, <uint32_t> part)
            memcpy(p, body, part)
            p[part] = FRAME_END
            p += part + 1
            body += part
            body_len -= part
        return 0

    cdef int write_delivery(self, uint16_t channel, const uint8_t *head, size_t head_len,
                            uint64_t tag, bint redelivered, const Record *record) except -1:
        """Write basic.deliver with content; `head` is class, method and consumer tag, encoded."""
        cdef Message message = message_in(record)
        write_delivered(self, channel, head, head_len, tag, redelivered, &message)
        return self.write_content(channel, message.properties, message.properties_len,
                                  message.body, message.body_len)

    cdef int write_delivery_with(self, uint16_t channel, const uint8_t *head, size_t head_len,
                                 uint64_t tag, bint redelivered, const Record *record,
                                 const uint8_t *field, uint64_t value) except -1:
        """Write basic.deliver with content, with a header in front of the message's own."""
        cdef Message message = message_in(record)
        write_delivered(self, channel, head, head_len, tag, redelivered, &message)
        return self.write_content_with(channel, &message, field, value)

    cdef int write_from_stream(self, uint16_t channel, const uint8_t *head, size_t head_len,
                               uint64_t tag, uint64_t offset, const Record *record) except -1:
        """Write basic.deliver of a stream's message, with the header x-stream-offset."""
        return self.write_delivery_with(channel, head, head_len, tag, False, record,
                                        STREAM_OFFSET_FIELD, offset)

    cdef int write_counted(self, uint16_t channel, const uint8_t *head, size_t head_len,
                           uint64_t tag, bint redelivered, const Record *record,
                           uint64_t count) except -1:
        """Write basic.deliver with the header x-delivery-count: the message's returns so far."""
        return self.write_delivery_with(channel, head, head_len, tag, redelivered, record,
                                        DELIVERY_COUNT_FIELD, count)

    cdef int write_content_with(self, uint16_t channel, const Message *message,
                                const uint8_t *field, uint64_t value) except -1:
        cdef size_t length = message.properties_len
        if self.scratch_len < length + ADDED_BYTES_MAX:
            self.grow_scratch(length + ADDED_BYTES_MAX)
        length = with_field(self.scratch, message.properties, length, field, value)
        return self.write_content(channel, self.scratch, length, message.body, message.body_len)

    cdef int grow_scratch(self, size_t size) except -1:
        cdef void *grown = realloc(self.scratch, 2 * size)
        if grown == NULL:
            raise MemoryError("no memory for the headers of a delivery")
        self.scratch = <uint8_t *> grown
        self.scratch_len = 2 * size
        return 0

    cdef int write_got(self, uint16_t channel, uint64_t tag, bint redelivered, uint32_t left,
                       const Record *record, bint counted, uint64_t count) except -1:
        """Write basic.get-ok with content; `counted`: with the header x-delivery-count."""
        cdef Message message = message_in(record)
        cdef size_t names_len = message.names_len
        cdef uint32_t size = <uint32_t> (4 + 9 + names_len + 4)
        cdef uint8_t *p = self.room(size + 8)
        p = frame_head(p, 1, channel, size)
        store16(p, 60)
        store16(p + 2, 71)
        store64(p + 4, tag)
        p[12] = redelivered
        memcpy(p + 13, message.names, names_len)
        store32(p + 13 + names_len, left)
        p[17 + names_len] = FRAME_END
        self.out_end += size + 8
        if counted:
            return self.write_content_with(channel, &message, DELIVERY_COUNT_FIELD, count)
        return self.write_content(channel, message.properties, message.properties_len,
                                  message.body, message.body_len)

    cdef int write_heartbeat(self) except -1:
        """Write a heartbeat frame (AMQP 0-9-1 4.2.7)."""
        cdef uint8_t *p = self.room(8)
        memcpy(p, <const char *> b"\x08\x00\x00\x00\x00\x00\x00\xce", 8)
        self.out_end += 8
        return 0

    cdef int write_settled(self, uint16_t channel, uint16_t method, uint64_t tag,
                           bint multiple) except -1:
        """Write basic.ack or basic.nack to a publisher: a confirm."""
        cdef uint8_t *p = self.room(21)
        p = frame_head(p, 1, channel, 13)
        store16(p, 60)
        store16(p + 2, method)
        store64(p + 4, tag)
        p[12] = multiple
        p[13] = FRAME_END
        self.out_end += 21
        return 0
