"""The output of one connection: frames are encoded straight into the bytes that will be sent.

Responsible for encoding frames, for the output buffer, and for the consumers that wait for it to
drain. It must not know sockets, nor why a frame is sent. Invariants: the bytes in [out_start,
out_end) are complete frames, of which the first may be partly sent; large bodies are not among
them, and each is sent after `before` of these bytes, counted from the large body in front of it.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ

from leporid.engine.connection.connections cimport OUTBOX_BYTES, Connections
from leporid.engine.connection.large_body cimport BODY_COPIED_MAX, LargeBody, large_body
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
        self.account = owner.account
        self.frame_max = FRAME_MAX_UNTUNED
        self.stalled = {}

    def __dealloc__(self):
        free(self.out)
        free(self.scratch)

    @property
    def pending_bytes(self):
        """Bytes not sent yet."""
        return pending(self)

    @property
    def memory_bytes(self):
        """Bytes of its buffers, whatever is in them."""
        return self.out_capacity + self.scratch_len

    cdef int touch(self) except -1:
        """Have the server look at this connection after the turn."""
        if not self.touched and self.owner is not None:
            self.touched = True
            self.connections.touched.append(self.owner)
        return 0

    cdef int count(self, int64_t size) except -1:
        """Its buffers have so many bytes more, or fewer."""
        self.connections.output_bytes += size
        if size > 0:
            self.account.add(size)
        elif size:
            self.account.release(-size)
        return 0

    cdef uint8_t *room(self, size_t size) except NULL:
        """Room for `size` bytes at the end; the caller fills them and moves `out_end`."""
        cdef size_t kept, capacity
        cdef void *grown
        if not self.touched:
            self.touch()
        if self.out_end + size <= self.out_capacity:
            return self.out + self.out_end
        kept = self.out_end - self.out_start
        if self.out == NULL:
            self.short = self.account.over(OUTPUT_USUAL_BYTES) is not None
        if self.out == NULL and size <= OUTPUT_USUAL_BYTES and not self.short:
            if self.connections.spare_output_count:
                self.connections.spare_output_count -= 1
                self.out = <uint8_t *> (
                    self.connections.spare_outputs[self.connections.spare_output_count])
            else:
                self.out = <uint8_t *> malloc(OUTPUT_USUAL_BYTES)
            if self.out == NULL:
                raise MemoryError("no memory for a connection's output")
            self.out_capacity = OUTPUT_USUAL_BYTES
            self.count(OUTPUT_USUAL_BYTES)
            return self.out
        if self.out_start:
            memmove(self.out, self.out + self.out_start, kept)
            self.out_start, self.out_end = 0, kept
        if kept + size > self.out_capacity:
            capacity = max(self.out_capacity * 2, kept + size)
            grown = realloc(self.out, capacity)
            if grown == NULL:
                raise MemoryError("no memory for a connection's output")
            self.count(<int64_t> capacity - <int64_t> self.out_capacity)
            self.out = <uint8_t *> grown
            self.out_capacity = capacity
        return self.out + self.out_end

    def outgoing(self):
        """The bytes to send now, valid until any other call here or of another output; None: there
        are none.

        They are not always all: of large bodies there are so many bytes at a time.
        """
        cdef LargeBody body
        cdef size_t size = self.out_end - self.out_start
        self.touched = False
        if self.large is not None:
            body = <LargeBody> self.large[0]
            size = body.before
            if not size:
                size = body.encode(self.connections.outbox, OUTBOX_BYTES)
                return PyMemoryView_FromMemory(
                    <char *> self.connections.outbox, size, PyBUF_READ)
        if not size:
            return None
        return PyMemoryView_FromMemory(<char *> self.out + self.out_start, size, PyBUF_READ)

    cdef int sent(self, size_t count) except -1:
        """The first `count` bytes of what is to be sent were sent."""
        self.connections.sent_bytes += count
        self.last_sent_ms = self.connections.clock.now_ms
        if self.large is not None:
            count = self.sent_large(count)
        self.out_start += count
        if self.out_start == self.out_end:
            self.free_out()
        elif self.out_capacity > OUTPUT_USUAL_BYTES:
            self.shrink()
        return 0

    cdef size_t sent_large(self, size_t count) except? 0:
        """So many bytes were sent, some of large bodies; returns how many were in the buffer."""
        cdef LargeBody body
        cdef size_t part, buffered = 0
        while count and self.large is not None:
            body = <LargeBody> self.large[0]
            part = min(count, body.before)
            body.before -= part
            buffered += part
            count -= part
            part = min(count, body.left)
            body.left -= part
            self.large_bytes -= part
            count -= part
            if not body.left:
                del self.large[0]
                if not self.large:
                    self.large = None
        return buffered + count

    cdef int free_out(self) except -1:
        """All was sent: give the buffer to whoever needs one next, or back."""
        self.out_start = self.out_end = 0
        self.count(-<int64_t> self.out_capacity)
        if (self.out_capacity == OUTPUT_USUAL_BYTES
                and self.connections.spare_output_count < SPARE_OUTPUTS_MAX):
            self.connections.spare_outputs[self.connections.spare_output_count] = self.out
            self.connections.spare_output_count += 1
        else:
            free(self.out)
        self.out = NULL
        self.out_capacity = 0
        return 0

    cdef int shrink(self) except -1:
        """Give back what a burst needed once little of it is left; a peer may never read all."""
        cdef size_t kept = self.out_end - self.out_start
        cdef void *smaller
        if kept > OUTPUT_LOW_BYTES:
            return 0
        memmove(self.out, self.out + self.out_start, kept)
        self.out_start, self.out_end = 0, kept
        smaller = realloc(self.out, OUTPUT_USUAL_BYTES)
        if smaller != NULL:
            self.count(OUTPUT_USUAL_BYTES - <int64_t> self.out_capacity)
            self.out = <uint8_t *> smaller
            self.out_capacity = OUTPUT_USUAL_BYTES
        return 0

    cdef int resume_stalled(self) except -1:
        """There is room again: resume the consumers that waited for it."""
        cdef Taker taker
        if self.stalled:
            stalled, self.stalled = self.stalled, {}
            for taker in stalled:
                taker.resume()
        return 0

    cdef int end(self) except -1:
        """Free the buffers: nothing is sent any more.

        The connection is forgotten, too: as long as both knew each other, only a full garbage
        collection would free them.
        """
        self.owner = None
        self.count(-<int64_t> (self.out_capacity + self.scratch_len))
        free(self.out)
        free(self.scratch)
        self.out = self.scratch = NULL
        self.out_start = self.out_end = self.out_capacity = self.scratch_len = 0
        self.large = self.source = None
        self.large_bytes = 0
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
        cdef uint8_t *p
        if body_len > BODY_COPIED_MAX:
            return self.write_large(channel, properties, properties_len, body, body_len)
        p = self.room(20 + properties_len + frames * 8 + body_len)
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

    cdef int write_large(self, uint16_t channel, const uint8_t *properties, size_t properties_len,
                         const uint8_t *body, size_t body_len) except -1:
        """Write a content header frame; those of the body are made when they are sent."""
        cdef LargeBody large, earlier
        cdef uint8_t *p = self.room(20 + properties_len)
        source, self.source = self.source, None
        large = large_body(source, body, body_len, channel, self.frame_max - 8)
        p = frame_head(p, 2, channel, <uint32_t> (12 + properties_len))
        store16(p, 60)
        store16(p + 2, 0)
        store64(p + 4, body_len)
        memcpy(p + 12, properties, properties_len)
        p[12 + properties_len] = FRAME_END
        self.out_end += 20 + properties_len
        large.before = self.out_end - self.out_start
        if self.large is None:
            self.large = []
        for earlier in self.large:
            large.before -= earlier.before
        self.large.append(large)
        self.large_bytes += large.left
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

    cdef int write_first_kept(self, uint16_t channel, const uint8_t *head, size_t head_len,
                              uint64_t tag, uint64_t offset, const Message *message) except -1:
        """As `write_from_stream`, of a message whose properties were changed."""
        write_delivered(self, channel, head, head_len, tag, False, message)
        return self.write_content_with(channel, message, STREAM_OFFSET_FIELD, offset)

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
        self.count(2 * <int64_t> size - <int64_t> self.scratch_len)
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
