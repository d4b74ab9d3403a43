"""A peer: what the session can do with the other end of a connection.

Responsible for the connection's channels, for sending methods, and for holding a peer back while
something it asked for is on its way to the disk. It does not know how input is cut into frames
(that is `connection`). Invariant: while `held`, nothing that `send` was given has left.
"""

from libc.stdint cimport uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.outbox cimport Outbox
from leporid.engine.plane cimport Plane


cdef class Peer(Outbox):
    """Channels and answers of one connection."""

    def __cinit__(self, Plane plane, session=None):
        self.session = session
        self.channels = {}
        self.held_frames = []
        self.user_id = b""

    cdef int resume_input(self) except -1:
        """Handle what came while the peer was held."""
        return 0

    def send(self, uint16_t channel, bytes method not None):
        """One method frame; `method` is its payload."""
        if self.held:
            self.held_frames.append((channel, method))
        elif not self.is_lost:
            self.write_method(channel, <const uint8_t *> PyBytes_AS_STRING(method), len(method))

    def send_content(self, uint16_t channel, bytes method not None, bytes properties not None,
                     bytes body not None):
        """A method with content."""
        self.write_method(channel, <const uint8_t *> PyBytes_AS_STRING(method), len(method))
        self.write_content(channel, <const uint8_t *> PyBytes_AS_STRING(properties),
                           len(properties), <const uint8_t *> PyBytes_AS_STRING(body), len(body))

    def send_heartbeat(self):
        """An empty frame, so that the peer knows that we live (AMQP 0-9-1 4.2.7)."""
        cdef uint8_t *p = self.room(8)
        memcpy(p, <const char *> b"\x08\x00\x00\x00\x00\x00\x00\xce", 8)
        self.out_end += 8

    def hold(self, uint64_t generation):
        """Until that generation is synced, what `send` is given stays here and no input counts."""
        if generation <= self.plane.synced or self.is_lost:
            return
        self.plane.awaited = True
        if not self.held:
            self.plane.held.append(self)
        self.held = max(self.held, generation)

    cdef int release(self) except -1:
        """The generation is synced: send what waited, handle what came meanwhile."""
        self.held = 0
        if self.is_lost:
            return 0
        frames, self.held_frames = self.held_frames, []
        for channel, method in frames:
            self.send(channel, method)
        self.resume_input()
        return self.touch()

    cdef int touch(self) except -1:
        """Have the server look at this peer after the turn."""
        if not self.touched:
            self.touched = True
            self.plane.touched.append(self)
        return 0

    def open_channel(self, uint16_t number):
        """The engine's state of a channel; the session has checked that it may be opened."""
        cdef Channel channel = Channel(self, number, self.session)
        self.channels[number] = channel
        self.last_channel = None
        return channel

    def close_channel(self, uint16_t number):
        """Forget a channel: consumers end, what is unsettled is requeued."""
        cdef Channel channel = self.channels.pop(number, None)
        self.last_channel = None
        if channel is not None:
            channel.shut()

    def refuse_channel(self, uint16_t number):
        """channel.close was sent: until the peer's close-ok nothing else counts on it."""
        cdef Channel channel = self.channels.get(number)
        if channel is not None:
            channel.shut()
            channel.closing = True

    def shut(self):
        """connection.close was sent or came: channels give everything back, class 10 is heard."""
        cdef Channel channel
        self.closing = True
        for channel in self.channels.values():
            channel.shut()
            channel.closing = True
        self.channels = {}
        self.last_channel = None

    def await_eof(self):
        """Both sides have closed the connection; closing the socket is the peer's part (AMQP 0-9-1
        4.2.2, and RabbitMQ). What was sent before comes meanwhile, as do connection.close methods
        of a peer with several threads, each of which waits for an answer."""
        self.awaits_eof = True
        self.touch()

    def forget_permissions(self):
        """Ask the session again for every exchange that is published to."""
        cdef Channel channel
        for channel in self.channels.values():
            channel.routes = None
            channel.route = None

    def finish(self):
        """Nothing more is heard; the server closes the socket when the output is sent."""
        self.closing = self.finished = True
        self.touch()

    def lost(self):
        """The socket is gone."""
        if self.is_lost:
            return
        self.is_lost = True
        self.session.on_lost()  # first: it notes what was settled, which is forgotten below
        self.shut()
        self.held_frames = []
        self.drop_buffers()
