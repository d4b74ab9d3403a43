"""A connection: cuts frames from bytes, handles publishes and settles, passes other methods on.

Responsible for framing (AMQP 0-9-1 4.2), for the channels, and for holding answers back until the
generation that they promise is on disk. It must not know sockets, nor what a declare or a login
means: such methods go to the session. Invariants: a length that a peer sends is compared with a
limit before memory is reserved for it; once `broken`, all input is ignored; while `held`, no method
that was passed to `send` leaves.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.memoryview cimport PyMemoryView_FromMemory

from leporid.engine.bounds.accounts cimport Account
from leporid.engine.bounds.clock cimport Clock, spend
from leporid.engine.connection.assembly cimport (
    BASIC_PUBLISH_METHOD, FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, Assembly,
)
from leporid.engine.connection.channel cimport (
    SETTLE_ACK, SETTLE_DROP, SETTLE_FAIL, SETTLE_REQUEUE, Channel,
)
from leporid.engine.connection.connections cimport Connections
from leporid.engine.connection.output cimport OUTPUT_LOW_BYTES, Output, is_above, pending
from leporid.engine.wire.codec cimport load16, load32, load64

from functools import partial

from leporid.amqp.errors import Fault, FrameError, ResourceError, UnexpectedFrame
from leporid.engine.connection.assembly import basic_fault, quoting, undecodable

cdef enum:
    FRAME_END = 0xce
    CHANNEL_CLOSE = 20 << 16 | 40
    CHANNEL_CLOSE_OK = 20 << 16 | 41
    BASIC_PUBLISH = 60 << 16 | 40
    BASIC_GET = 60 << 16 | 70
    # What one connection may read per turn. Less if the queues that it publishes to have consumers
    # and a backlog: these consumers are served sooner, and as turns get shorter it costs little if
    # they are slow by themselves.
    TURN_BYTES = 64 * 1024
    TURN_BYTES_BACKLOG = 16 * 1024
    TURN_BYTES_DEEP = 4 * 1024
    BACKLOG = 1500
    BACKLOG_DEEP = 6000
    # A peer that sends requests and reads no answers is not read from.
    OUTPUT_STOP_BYTES = 1024 * 1024
    # After both sides have closed, less: such peers are not counted as connections.
    OUTPUT_STOP_CLOSED_BYTES = 4096
    # No connection.close or close-ok is longer: class, method, code, text, class, method.
    CLOSE_SIZE_MAX = 2 + 2 + 2 + 256 + 2 + 2
    # Of the clock's units: a read of the socket, a method that Python handles, and a socket's end.
    UNITS_A_READ = 8
    UNITS_A_METHOD = 32
    UNITS_A_LOSS = 64
    METHOD_BYTES_LARGE = 1024       # its arguments may be many: it ends a slice, by its bytes / 16
    WAIT = 2                        # for more input, or until what holds it is over

PROTOCOL_HEADERS = (b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x09")
OWN_HEADER = b"AMQP\x00\x00\x09\x01"


cdef class Connection:
    """One peer; the server calls `read_view`, `received`, `output.outgoing` and `sent`."""

    def __cinit__(self, Connections connections not None, session=None):
        self.connections = connections
        self.logs = connections.logs
        self.account = Account("the connection")
        self.output = Output(connections, self)
        self.session = session
        self.channels = {}
        self.held_frames = []
        self.user_id = b""

    def __dealloc__(self):
        free(self.rest)

    def __repr__(self):
        return (f"<Connection channels={len(self.channels)} pending={self.output.pending_bytes}"
                f"{' held' if self.held else ''}{' closing' if self.closing else ''}>")

    # ------------------------------------------------------------- input

    @property
    def reading(self):
        """Whether the server should read from this peer now."""
        if self.held or self.paused or self.jobs or self.finished or self.is_lost:
            return False
        if self.blocked and not self.closing:
            return False
        if self.awaits_eof:
            return pending(self.output) < OUTPUT_STOP_CLOSED_BYTES
        return not is_above(self.output, OUTPUT_STOP_BYTES - 1)

    def read_view(self):
        """Where to read to, at most one turn's bytes; `received` must be called next."""
        cdef size_t turn = TURN_BYTES
        if self.connections.publishers_blocked:
            turn = TURN_BYTES_DEEP      # what comes behind a publish is kept
        elif self.deepest > BACKLOG:
            turn = TURN_BYTES_DEEP if self.deepest > BACKLOG_DEEP else TURN_BYTES_BACKLOG
        self.lead = self.rest_len
        if self.rest_len:
            memcpy(self.connections.inbox, self.rest, self.rest_len)
            self.drop_rest()
        turn = min(turn, self.connections.inbox_bytes - self.lead)
        return PyMemoryView_FromMemory(
            <char *> self.connections.inbox + self.lead, turn, PyBUF_WRITE)

    def received(self, size_t count):
        """`count` bytes were read to `read_view`; handles every whole frame among them."""
        self.received_bytes += count
        self.connections.received_bytes += count
        self.connections.clock.units += UNITS_A_READ
        self.connections.clock.begin_slice(self.party)
        if count:
            self.last_received_ms = self.connections.clock.now_ms
        else:
            self.connections.clock.over()   # a step of a handshake: no unit says how long it took
        self.handle(self.connections.inbox, self.lead + count)
        if self.received_max and self.received_bytes > self.received_max and not self.paused:
            # Not before what came is handled: it may be what takes the limit away.
            self.session.on_fault(0, FrameError(
                f"more than {self.received_max} bytes were received before the login"))
            self.finish()
        self.connections.clock.begin_slice(None)    # what follows is not this party's work

    def feed(self, bytes data):
        """Handle bytes of any length that were not read to `read_view`."""
        cdef size_t done = 0, part
        while done < <size_t> len(data):
            view = self.read_view()
            part = min(<size_t> len(view), len(data) - done)
            if not part:
                raise ValueError("the connection is held and its input full: it reads no more")
            view[:part] = data[done:done + part]
            del view
            self.received(part)
            done += part

    cdef int keep_rest(self, const uint8_t *p, size_t n) except -1:
        """Keep what is not handled, unless its user keeps too much already: each frame that has
        not come as a whole may have 128 KiB."""
        cdef Account user = self.account.parent
        if not n:
            return 0
        if (user is not None and not self.received_max and user.over(n) is user
                and not (self.held or self.jobs or self.paused or self.blocked or self.closing)):
            self.broken = True
            self.session.on_fault(0, ResourceError(f"unfinished frames: {user.text(n)}"))
            return 0
        self.rest = <uint8_t *> malloc(n)
        if self.rest == NULL:
            raise MemoryError("no memory for a connection's input")
        memcpy(self.rest, p, n)
        self.rest_len = n
        self.account.add(n)
        return 0

    cdef int drop_rest(self) except -1:
        free(self.rest)
        self.rest = NULL
        self.account.release(self.rest_len)
        self.rest_len = 0
        return 0

    cdef int handle(self, uint8_t *p, size_t n) except -1:
        self.at = min(self.skip, n)
        self.skip -= self.at
        self.deepest = 0
        while True:
            if self.broken or self.finished or self.is_lost:
                self.at = n
                break
            try:
                if self.scan(p, n):
                    break
            except Fault as fault:
                self.fail(fault)
            except Exception as error:
                # A defect of the broker ends this connection, and no other.
                self.broken = True
                self.session.on_defect(error)
        return self.keep_rest(p + self.at, n - self.at)

    cdef int fail(self, object fault) except -1:
        """A fault found here, or raised while a message was published."""
        cdef uint16_t number = 0
        if self.last_channel is not None:
            number = self.last_channel.number
            if not fault.class_id:
                basic_fault(BASIC_PUBLISH_METHOD, fault)
        if isinstance(fault, FrameError) and not fault.class_id:
            self.broken = True  # the start of the next frame is unknown
        self.session.on_fault(number, fault)
        return 0

    cdef bint scan(self, uint8_t *p, size_t n) except -1:
        """Handle frames from `at` on; returns True when no complete one is left or input is held.

        `at` is moved past a frame before it is handled, so a fault skips the frame.
        """
        cdef uint8_t kind
        cdef uint16_t number
        cdef uint32_t size
        cdef uint8_t *frame
        cdef uint8_t *payload
        cdef Channel channel
        cdef Clock clock = self.connections.clock
        cdef Output output = self.output
        if not self.greeted and not self.greet(p, n):
            return True
        if (self.unrouted is not None and not (self.held or self.jobs)
                and self.go_on_with_unrouted() == WAIT):
            return True
        while n - self.at >= 7:
            if self.held or self.jobs or self.finished or self.broken or (
                    self.blocked and not self.closing):
                return True
            if spend(clock, 1):
                return self.pause()
            if is_above(output, OUTPUT_STOP_BYTES):
                self.paused = True
                return True
            frame = p + self.at
            kind = frame[0]
            number = load16(frame + 1)
            size = load32(frame + 3)
            # The payload alone may have `frame_max` octets: some clients (AMQPStorm, rabbitpy) read
            # it as the payload's limit, and RabbitMQ accepts that.
            if size > output.frame_max:
                self.lose_track(n)
                raise FrameError(f"type {kind}, all octets = <<>>: "
                                 f"{{frame_too_large,{size},{output.frame_max - 8}}}")
            if n - self.at < size + 8:
                if self.closing and size > CLOSE_SIZE_MAX:
                    self.skip = size + 8 - (n - self.at)
                    self.at = n
                return True
            payload = frame + 7
            if payload[size] != FRAME_END:
                self.lose_track(n)
                raise quoting(FrameError, kind, payload[:size], ": invalid_frame_end_marker",
                              f": {{invalid_frame_end_marker,{payload[size]}}}")
            channel = self.last_channel
            if channel is None or channel.number != number:
                channel = self.last_channel = self.channels.get(number)  # None: for 0
            if kind == FRAME_METHOD:
                if self.on_method(p, n, number, channel, payload, size) == WAIT:
                    return True
            elif kind == FRAME_HEARTBEAT:
                self.at += size + 8
                if number:
                    self.last_channel = None
                    raise quoting(UnexpectedFrame, kind, payload[:size], "")
            elif kind == FRAME_HEADER or kind == FRAME_BODY:
                if self.on_content(number, channel, kind, payload, size) == WAIT:
                    return True
            else:
                self.lose_track(n)
                raise quoting(FrameError, kind, payload[:size], ": unknown_frame")
        return True

    cdef int on_content(self, uint16_t number, Channel channel, uint8_t kind, uint8_t *payload,
                        uint32_t size) except -1:
        """Handle the content frame at `at`; returns WAIT if that, or the rest, must be later."""
        if self.connections.publishers_blocked and not (self.closing or self.internal):
            return self.block()
        self.at += size + 8
        if self.closing or (channel is not None and channel.closing):
            return 0
        if channel is None:
            self.session.on_content(number, kind)
            return 0
        return self.assemble(channel, kind, payload, size)

    cdef int lose_track(self, size_t n) except -1:
        """Where the next frame begins is not known: nothing is left to handle."""
        self.last_channel = None
        self.at = n
        return 0

    cdef bint greet(self, const uint8_t *p, size_t n) except -1:
        """Handle the protocol header; another one is answered with ours (AMQP 0-9-1 4.2.2)."""
        if n - self.at < 8:
            return False
        header = p[self.at:self.at + 8]
        self.at += 8
        self.greeted = True
        if header not in PROTOCOL_HEADERS:
            memcpy(self.output.room(8), <char *> (<bytes> OWN_HEADER), 8)
            self.output.out_end += 8
            self.session.on_stranger(header)
            self.finish()
            return False
        self.session.on_greeting()
        return True

    cdef int on_method(self, uint8_t *p, size_t n, uint16_t number, Channel channel,
                       uint8_t *payload, uint32_t size) except -1:
        """Handle the method frame at `at`; returns WAIT if that must be later."""
        cdef uint32_t ids
        cdef uint64_t settles
        if size < 4:
            self.at += size + 8
            raise quoting(FrameError, FRAME_METHOD, payload[:size], ": unknown_frame")
        ids = load32(payload)
        if self.closing and ids >> 16 != 10:
            self.at += size + 8
            return 0
        if channel is not None and not self.closing:
            if channel.closing:
                self.at += size + 8
                if ids == CHANNEL_CLOSE or ids == CHANNEL_CLOSE_OK:
                    self.session.on_method(number, payload[:size])
                return 0
            if channel.assembly is not None:
                self.at += size + 8
                self.assemble(channel, FRAME_METHOD, payload, size)
                return 0
            if ids == BASIC_PUBLISH:
                if self.connections.publishers_blocked and not (
                        self.internal or channel.resolution is not None
                        or channel.appends is not None):
                    return self.block()
                if channel.crowd is not None and channel.resolution is None and (
                        channel.appends is None and channel.awaits_crowd()):
                    self.pause()
                    return WAIT
                if self.publish_ahead(p, n, channel, size) == WAIT:
                    return WAIT
                return 0
            if ids >> 16 == 60 and (ids & 0xffff) in (80, 90, 120):
                self.at += size + 8
                self.take_settle(channel, ids & 0xffff, payload, size)
                return 0
            if ids >> 16 == 60 and (ids & 0xffff) in (50, 60, 71):
                # A method that only servers send; it is refused after its content has come.
                self.at += size + 8
                self.begin_content(channel, Assembly(ids & 0xffff, payload[:size]))
                return 0
            if self.awaits_letters:
                if self.connections.queues.dead_lettering.waiting:
                    self.pause()
                    return WAIT
                self.awaits_letters = False
                self.settle_generation = self.logs.settles_generation
            if self.settle_generation > self.logs.synced and ids != BASIC_GET:
                # An answer after a settle promises that the settle is on disk.
                self.hold(self.settle_generation)
                return WAIT
        self.at += size + 8
        self.connections.queues.work()  # earlier publishes are delivered before the method counts
        settles = self.logs.settles
        if size > METHOD_BYTES_LARGE:
            self.connections.clock.over()   # the slice has begun: what follows is part of it
        self.session.on_method(number, payload[:size])
        self.connections.clock.units += UNITS_A_METHOD + size // 16
        if self.logs.settles != settles:  # a purge, or a get without acks
            self.settle_generation = self.logs.settles_generation
        return 0

    cdef int publish_ahead(self, uint8_t *p, size_t n, Channel channel, uint32_t size) except -1:
        """Handle the basic.publish at `at`: publish at once if its content follows completely.

        Returns WAIT if its next frame has not arrived. A message of several body frames, or with
        other frames in between, is assembled instead.
        """
        cdef uint8_t *method = p + self.at + 7
        cdef size_t after = self.at + size + 8
        cdef uint8_t *header
        cdef uint8_t *body
        cdef uint32_t header_size, body_size
        cdef uint64_t length
        cdef size_t start = self.at
        cdef uint32_t payload_max = self.output.frame_max  # as in `scan`
        # class 2, method 2, ticket 2, exchange, routing key, bits 1
        if size < 9 or <uint32_t> method[6] + 9 > size or (
                <uint32_t> method[6] + method[7 + method[6]] + 9 != size):
            self.at = after
            raise basic_fault(BASIC_PUBLISH_METHOD, undecodable(method[4:size]))
        header = p + after
        if n - after < 7:
            return WAIT
        if header[0] == FRAME_HEADER and load16(header + 1) == channel.number:
            header_size = load32(header + 3)
            if header_size <= payload_max:
                if n - after < header_size + 8:
                    return WAIT
                if (header_size >= 14 and header[7 + header_size] == FRAME_END
                        and load32(header + 7) == 60 << 16):
                    length = load64(header + 11)
                    body = header + header_size + 8
                    after += header_size + 8
                    if length == 0:
                        self.at = after
                        if channel.publish(method + 6, size - 6, header + 19, header_size - 12,
                                           body, 0, self.user_id):
                            return self.await_route(start)
                        self.deepest = max(self.deepest, channel.deepest)
                        return 0
                    if length <= payload_max and length <= self.connections.message_bytes_max:
                        if n - after < 7:
                            return WAIT
                        body_size = load32(body + 3)
                        if (body[0] == FRAME_BODY and load16(body + 1) == channel.number
                                and body_size == length):
                            if n - after < body_size + 8:
                                return WAIT
                            if body[7 + body_size] == FRAME_END:
                                self.at = after + body_size + 8
                                if channel.publish(method + 6, size - 6, header + 19,
                                                   header_size - 12, body + 7, body_size,
                                                   self.user_id):
                                    return self.await_route(start)
                                self.deepest = max(self.deepest, channel.deepest)
                                return 0
        self.at += size + 8
        if channel.check_exchange(method + 6):  # before anything is kept for who may not publish
            return self.await_route(start)
        self.begin_content(channel, Assembly(BASIC_PUBLISH_METHOD, method[6:size]))
        return 0

    cdef int await_route(self, size_t start) except -1:
        """Have the publish whose frames begin at `start` handled once more, in a later slice."""
        self.at = start
        self.pause()
        return WAIT

    cdef int assemble(self, Channel channel, uint8_t kind, const uint8_t *payload,
                      uint32_t size) except -1:
        """Handle a frame on a channel that expects content, or an unexpected content frame."""
        cdef Assembly whole = channel.assembly
        if whole is None:
            self.last_channel = None
            raise UnexpectedFrame("expected method frame, got non method frame instead")
        try:
            complete = whole.take(kind, payload, size, self.connections.message_bytes_max)
            self.charge(whole)
        except Fault:
            self.forget_content(channel)
            raise
        if not complete:
            return 0
        self.forget_content(channel)
        if whole.method_id != BASIC_PUBLISH_METHOD:
            self.session.on_method(channel.number, whole.method)
            return 0
        return self.publish_assembled(channel, whole)

    cdef int publish_assembled(self, Channel channel, Assembly whole) except -1:
        """Publish a message of several frames; returns WAIT if its route is not found yet."""
        channel.body = whole.body
        if whole.memory is not None:
            channel.body, channel.memory = whole.memory, <void *> whole.memory
        try:
            waits = channel.publish(
                <const uint8_t *> PyBytes_AS_STRING(whole.method), len(whole.method),
                <const uint8_t *> PyBytes_AS_STRING(whole.properties), len(whole.properties),
                whole.data(), whole.received(), self.user_id)
        finally:
            channel.body, channel.memory = None, NULL
        if waits:
            self.unrouted, self.unrouted_on = whole, channel
            self.pause()
            return WAIT
        self.deepest = max(self.deepest, channel.deepest)
        return 0

    cdef int go_on_with_unrouted(self) except -1:
        """Go on with such a message; returns WAIT as above."""
        channel, self.unrouted_on = self.unrouted_on, None
        whole, self.unrouted = self.unrouted, None
        if channel.closing or channel.closed:
            return 0
        self.last_channel = channel
        return self.publish_assembled(channel, whole)

    cdef int begin_content(self, Channel channel, Assembly whole) except -1:
        """The frames of a message do not come together."""
        self.content_count += 1
        channel.assembly = whole
        return self.charge(whole)

    cdef int charge(self, Assembly whole) except -1:
        """Count what is kept of a message that is being assembled; raise a fault if it is too much.

        A connection may send one message at a time, however little memory there is: the message's
        own limit is `message_bytes_max`. Its length is looked at when it is announced, and counts
        as it comes.
        """
        cdef uint64_t kept = len(whole.method) + whole.received(), more, announced = 0
        cdef Account refusing
        if whole.properties is not None:
            kept += len(whole.properties)
            if whole.method_id == BASIC_PUBLISH_METHOD and not whole.received():
                announced = whole.left
        more = kept - whole.kept
        refusing = self.account.over(more + announced)
        if refusing is not None and (refusing is not self.account or self.content_count > 1):
            raise ResourceError(
                f"unfinished messages: {refusing.text(more + announced)}", connection=False)
        self.account.add(more)
        self.content_bytes += more
        whole.kept = kept
        return 0

    cdef int forget_content(self, Channel channel) except -1:
        """What a channel has of a message is not kept any more, or is complete."""
        cdef Assembly whole = channel.assembly
        if whole is not None:
            channel.assembly = None
            self.content_count -= 1
            self.content_bytes -= whole.kept
            self.account.release(whole.kept)
        return 0

    cdef int take_settle(self, Channel channel, uint16_t method, const uint8_t *payload,
                         uint32_t size) except -1:
        """Handle basic.ack, basic.reject or basic.nack."""
        cdef uint64_t settles = self.logs.settles
        cdef uint64_t tag
        cdef bint multiple = False
        cdef int how = SETTLE_ACK
        if size != 13:
            raise basic_fault(method, undecodable(payload[4:size]))
        tag = load64(payload + 4)
        if method == 80:
            multiple = payload[12] & 1
        elif method == 90:
            how = SETTLE_FAIL if payload[12] & 1 else SETTLE_DROP
        else:
            multiple = payload[12] & 1
            how = SETTLE_REQUEUE if payload[12] & 2 else SETTLE_DROP
        try:
            if channel.settle(tag, multiple, how):
                self.begin_work()
                ended = partial(_settled, self, how)
                self.connections.jobs.start(channel.settling(), ended, ended)
                return 0
        except Fault as fault:
            raise basic_fault(method, fault)
        if self.logs.settles != settles:
            self.settle_generation = self.logs.settles_generation
        if how != SETTLE_ACK and self.connections.queues.dead_lettering.waiting:
            self.awaits_letters = True
        return 0

    def sent(self, size_t count):
        """The first `count` bytes of the output were sent."""
        self.output.sent(count)
        self.sent_bytes += count
        if pending(self.output) < OUTPUT_LOW_BYTES:
            if self.paused:
                self.paused = False
                self.resume_later()
            self.output.resume_stalled()

    cdef bint pause(self) except -1:
        """Handle no more input in this turn."""
        self.paused = True
        self.resume_later()
        return True

    cdef int resume_later(self) except -1:
        """Have the rest of the input handled in the next turn."""
        if not self.resuming:
            self.resuming = True
            self.connections.resuming.add(self.party, self)
        return 0

    cdef int resume_input(self) except -1:
        cdef size_t lead = self.rest_len
        if lead:
            memcpy(self.connections.inbox, self.rest, lead)
            self.drop_rest()
        if lead or self.unrouted is not None:
            self.handle(self.connections.inbox, lead)
        return 0

    # ------------------------------------------------------------- called by the session

    def send(self, uint16_t channel, bytes method not None):
        """Send a method frame; `method` is its payload."""
        if self.held:
            self.held_frames.append((channel, method))
        elif not self.is_lost:
            self.output.write_method(
                channel, <const uint8_t *> PyBytes_AS_STRING(method), len(method))

    def send_content(self, uint16_t channel, bytes method not None, bytes properties not None,
                     bytes body not None):
        """Send a method with content."""
        self.output.write_method(channel, <const uint8_t *> PyBytes_AS_STRING(method), len(method))
        self.output.source = body
        self.output.write_content(
            channel, <const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
            <const uint8_t *> PyBytes_AS_STRING(body), len(body))

    def send_heartbeat(self):
        """Send a heartbeat (AMQP 0-9-1 4.2.7)."""
        self.output.write_heartbeat()

    def hold(self, uint64_t generation):
        """Keep methods that are sent back, and handle no input, until a generation is synced."""
        if generation <= self.logs.synced or self.is_lost:
            return
        self.logs.awaited = True
        if not self.held:
            self.connections.held.append(self)
        self.held = max(self.held, generation)

    cdef int release(self) except -1:
        """The generation is synced: send the methods kept back, handle input received since."""
        self.held = 0
        if self.is_lost:
            return 0
        frames, self.held_frames = self.held_frames, []
        for channel, method in frames:
            self.send(channel, method)
        if not self.connections.clock.has_slice(self.party) or self.unrouted is not None:
            self.resume_later()
        else:
            self.connections.clock.begin_slice(self.party)
            self.resume_input()
            self.connections.clock.begin_slice(None)
        return self.output.touch()

    cdef int block(self) except -1:
        """It wants to publish while an alarm is on: handle nothing more until `unblock`."""
        self.blocked = True
        self.session.on_blocked()
        return WAIT

    def unblock(self):
        """No alarm is on any more; nothing happens if one is, or if it was not blocked."""
        if self.blocked and not self.connections.publishers_blocked:
            self.blocked = False
            if self.rest_len:
                self.resume_later()
            self.output.touch()

    def begin_work(self):
        """Handle no input until `end_work`: a job that a method has caused is under way."""
        if not self.jobs:
            self.settles_before = self.logs.settles
        self.jobs += 1

    def end_work(self):
        """The job has ended."""
        self.jobs -= 1
        if self.jobs or self.is_lost:
            return
        if self.logs.settles != self.settles_before:
            self.settle_generation = self.logs.settles_generation
        if self.rest_len or self.unrouted is not None:
            self.resume_later()
        self.output.touch()

    def open_channel(self, uint16_t number):
        """Make a channel; the session has checked that it may be opened."""
        cdef Channel channel = Channel(
            self.connections, self.output, number, self.session, self.account)
        self.channels[number] = channel
        self.last_channel = None
        return channel

    def close_channel(self, uint16_t number):
        """Close a channel: end its consumers and requeue unsettled deliveries."""
        cdef Channel channel = self.channels.pop(number, None)
        self.last_channel = None
        if channel is not None:
            self.forget_content(channel)
            self.connections.jobs.start(channel.end())

    def refuse_channel(self, uint16_t number):
        """channel.close was sent: close the channel, and ignore its frames until close-ok."""
        cdef Channel channel = self.channels.get(number)
        if channel is not None:
            self.forget_content(channel)
            channel.closing = True
            self.connections.jobs.start(channel.end())

    def mute(self):
        """connection.close was sent or received: handle class 10 only, deliver nothing more.

        What the channels had goes back when `Channel.end` is called. There may be thousands, each
        with a transaction to forget, so they are muted in steps.
        """
        self.closing = self.output.muted = True
        channels, self.channels = list(self.channels.values()), {}
        self.last_channel = self.unrouted = self.unrouted_on = None
        if channels:
            self.connections.jobs.start(self._mute_channels(channels))

    def _mute_channels(self, list channels):
        """Forget in steps what channels have begun."""
        cdef Channel channel
        while channels:
            channel = channels.pop()
            self.forget_content(channel)
            channel.mute()
            channel.closing = True
            del channel
            yield

    def shut(self):
        """connection.close was sent or received: close all channels, too."""
        channels = list(self.channels.values())
        self.mute()
        self.connections.jobs.start(_end_channels(channels))

    def await_eof(self):
        """Both sides have closed, and the peer is to close the socket (AMQP 0-9-1 4.2.2, RabbitMQ).

        Meanwhile earlier frames arrive, and each connection.close of several threads is answered.
        """
        self.awaits_eof = True
        self.output.touch()

    def finish(self):
        """Ignore all input from now on; the server closes the socket when the output is sent."""
        self.closing = self.finished = True
        self.output.touch()

    def lost(self):
        """The socket was closed."""
        if self.is_lost:
            return
        self.is_lost = True
        self.connections.clock.begin_slice(self.party)
        spend(self.connections.clock, UNITS_A_LOSS)
        self.session.on_lost()  # first: it reads what was settled, which channels then forget
        self.shut()
        self.connections.clock.begin_slice(None)
        self.held_frames = []
        self.output.end()
        self.drop_rest()


def _end_channels(list channels):
    """End channels, one after the other, in the order in which they came."""
    channels.reverse()
    while channels:
        yield from channels.pop().end()
        yield   # the end of one that has nothing is one step


def _settled(Connection connection, int how, error):
    """A settle of many deliveries has ended, by a defect if there is an `error`."""
    if how != SETTLE_ACK and connection.connections.queues.dead_lettering.waiting:
        connection.awaits_letters = True
    connection.end_work()
    if error is not None:
        connection.session.on_defect(error)
