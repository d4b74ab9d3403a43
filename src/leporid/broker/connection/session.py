"""One connection as the rules see it: its phase, its user, its channels, its faults.

Responsible for giving every method to its handler and for turning every fault into
channel.close or connection.close, here and nowhere else. Must not know sockets or clocks: bytes
arrive as methods, and what is sent goes to the engine's connection.

Invariant: after `release` nothing of this session is left in the broker, whichever way it ended.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leporid.amqp.errors import (
    AccessRefused,
    ChannelFault,
    CommandInvalid,
    Fault,
    FrameError,
    InternalFault,
    NotAllowed,
    UnexpectedFrame,
)
from leporid.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    Method,
    decode,
)
from leporid.amqp.tables import Value
from leporid.broker.access.permissions import RIGHTS, Right
from leporid.broker.connection import publishing
from leporid.broker.connection.blame import blame
from leporid.broker.connection.channel import ChannelState
from leporid.broker.connection.methods import channel as channel_methods
from leporid.broker.connection.methods import connection as connection_methods
from leporid.broker.connection.methods.connection import IMPERSONATOR, Phase

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.access.permissions import Kind
    from leporid.broker.broker import Broker
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.connection.connection import Connection
    from leporid.engine.queue.queue import Queue
    from leporid.engine.routing.route_cache import RouteCache

logger = logging.getLogger(__name__)


class ConnectionState:
    """One client's connection. The engine and the server call what is public here.

    Attributes:
        phase: how far the connection is.
        heartbeat_s: what was agreed; 0 for none. The server keeps the clock.
        client_properties: what the client says about itself.
    """

    __slots__ = (
        "_exclusive",
        "_publishes",
        "_refused",
        "_released",
        "_told_blocked",
        "broker",
        "channel_max",
        "channels",
        "client_properties",
        "connection",
        "heartbeat_s",
        "name",
        "peer_is_loopback",
        "phase",
        "user",
        "vhost",
    )

    # Set by the handshake, before anything asks for them.
    user: User
    vhost: VirtualHost

    def __init__(
        self, broker: Broker, connection: Connection, *, peer_is_loopback: bool, name: str = ""
    ) -> None:
        """Makes it.

        Args:
            broker: what it is a connection to.
            connection: the engine's half.
            peer_is_loopback: whether the peer's address (not the listener's) is a loopback one.
            name: who it is, for the log, such as `127.0.0.1:40000`.
        """
        self.broker = broker
        self.connection = connection
        self.peer_is_loopback = peer_is_loopback
        self.name = name
        self.phase = Phase.STARTING
        self.heartbeat_s = 0
        self.channel_max = 0
        self.client_properties: Mapping[str, Value] = {}
        self.channels: dict[int, ChannelState] = {}
        # Closed by us and not yet by the client.
        self._refused: set[int] = set()
        self._exclusive: dict[QueueState, None] = {}
        self._publishes = False
        self._told_blocked = False
        self._released = False
        broker.sessions[self] = None

    def __repr__(self) -> str:
        return f"<Session {self.name} {self.phase.value} channels={len(self.channels)}>"

    # ------------------------------------------------------------------ for the server

    @property
    def authenticated(self) -> bool:
        """Whether the login was accepted."""
        return hasattr(self, "user")

    @property
    def opened(self) -> bool:
        """Whether the handshake is over."""
        return hasattr(self, "vhost")

    @property
    def blocked(self) -> bool:
        """Whether it publishes while an alarm is on, so that it should not be read from."""
        return self._publishes and bool(self.broker.alarms)

    def close_for(self, fault: Fault) -> None:
        """End the connection for reasons of the broker's own, such as ConnectionForced."""
        self._fail(0, fault)

    # ------------------------------------------------------------------ for the engine

    def on_greeting(self) -> None:
        """The protocol header was ours: begin the handshake."""
        connection_methods.start(self)

    def on_stranger(self, header: bytes) -> None:
        """What came instead of our protocol header; ours is the answer, and the end."""
        logger.info("%s: refused, %s", self.name, connection_methods.stranger(header))

    def on_method(self, channel: int, payload: bytes) -> None:
        """A method arrived that is not the engine's own."""
        try:
            if channel == 0:
                self._on_connection_method(payload)
            elif self.phase is Phase.RUNNING:
                self._on_channel_method(channel, payload)
            elif self.phase not in (Phase.CLOSING, Phase.CLOSED):
                raise connection_methods.unexpected_frame(payload)
        except Fault as fault:
            self._fail(channel, fault)
        except Exception:
            logger.exception("defect in a method of connection %s", self.name)
            self._fail(0, InternalFault("the broker failed to handle a method"))

    def on_fault(self, channel: int, fault: Fault) -> None:
        """The engine found a fault, or one of the calls below raised it."""
        self._fail(channel, fault)
        if isinstance(fault, FrameError):
            # Where the next frame begins is not known, so close-ok could not be understood.
            self.connection.finish()

    def on_defect(self, error: Exception) -> None:
        """We made a mistake with this connection's input: it ends (541), no other does."""
        logger.error("defect in connection %s", self.name, exc_info=error)
        self._fail(0, InternalFault("the broker failed to handle what you sent"))
        self.connection.finish()

    def on_content(self, channel: int, kind: int) -> None:
        """A content frame came on a channel that is not open."""
        if channel == 0 or self.phase is not Phase.RUNNING:
            fault = UnexpectedFrame(f"content frame of type {kind} on channel {channel}")
        else:
            fault = UnexpectedFrame("expected method frame, got non method frame instead")
        self._fail(channel, fault)

    def on_lost(self) -> None:
        """The connection is gone."""
        self.phase = Phase.CLOSED
        self.release()

    def route_cache(self, exchange: str) -> RouteCache:
        """First publish to an exchange, or first one since permissions or the exchange changed."""
        routes = publishing.route_cache(self, exchange)
        if not self._publishes:
            self._publishes = True
            self.tell_alarms()
        return routes

    def copies(
        self, _routes: RouteCache, exchange: str, keys: Sequence[str], properties: bytes
    ) -> list[Queue]:
        """Route a message that has CC or BCC: each queue once, whichever keys lead there."""
        return publishing.copies(self, exchange, keys, properties)

    def reply_address(self, channel: int) -> str:
        """Return what replaces reply_to when it is the name of direct reply-to."""
        return publishing.reply_address(self, channel)

    # ------------------------------------------------------------------ for the handlers

    def send(self, channel: int, method: Method) -> None:
        """Send a method."""
        self.connection.send(channel, method.encode())

    def hold(self) -> None:
        """What is sent from now on leaves when all that was recorded is on disk.

        So does the news for other connections whose consumers were cancelled by it.
        """
        generation = self.broker.recorded_generation
        self.connection.hold(generation)
        self.broker.cancels.hold(generation)

    def enter_as(self, user: User) -> None:
        """The login was accepted."""
        self.user = user
        if IMPERSONATOR not in user.tags:
            self.connection.user_id = user.name.encode()

    def check(self, right: Right, kind: Kind, name: str) -> None:
        """Raise AccessRefused unless the user has that right on an exchange or queue."""
        self.user.check(right, kind, name, self.vhost.name)

    def check_any(self, kind: Kind, name: str) -> None:
        """Raise AccessRefused for what the user has no right on at all.

        Unlike RabbitMQ 3.10, where anybody may ask what exists; later versions refuse that too.
        """
        vhost = self.vhost.name
        if not any(self.user.may(right, kind, name, vhost) for right in RIGHTS):
            self.check("read", kind, name)

    def announced(self, capability: str) -> bool:
        """Say whether the client announced that it understands something."""
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    def own(self, queue: QueueState) -> None:
        """A queue was declared that ends with this connection."""
        self._exclusive[queue] = None

    def disown(self, queue: QueueState) -> None:
        """Such a queue is gone."""
        self._exclusive.pop(queue, None)

    def close_channel(self, channel: ChannelState) -> Method:
        """Forget a channel that the client closes; returns the answer."""
        del self.channels[channel.number]
        channel.silence()
        self.connection.close_channel(channel.number)
        channel.forget()
        return ChannelCloseOk()

    def tell_alarms(self) -> None:
        """Tell a publisher that it is blocked, or no longer, if it wants to be told."""
        blocked = self.blocked and self.phase is Phase.RUNNING
        if blocked == self._told_blocked or not self.announced("connection.blocked"):
            return
        self._told_blocked = blocked
        if blocked:
            self.send(0, ConnectionBlocked(self.broker.alarm_text()))
        elif self.phase is Phase.RUNNING:
            self.send(0, ConnectionUnblocked())

    def release(self) -> None:
        """Take everything of this session out of the broker; a second time does nothing."""
        if self._released:
            return
        self._released = True
        self.broker.sessions.pop(self, None)
        # First nobody here gets deliveries any more, then all of them go back at once: what one
        # channel gives back must not go to its neighbour that is about to close too.
        for channel in self.channels.values():
            channel.silence()
        self.connection.shut()
        self._refused.clear()
        while self.channels:
            _, channel = self.channels.popitem()
            channel.forget()
        for queue in tuple(self._exclusive):
            self.vhost.delete_queue(queue)

    # ------------------------------------------------------------------ dispatching

    def _on_connection_method(self, payload: bytes) -> None:
        ending = self.phase in (Phase.CLOSING, Phase.CLOSED)
        try:
            method = decode(payload)
        except Fault:
            if ending:
                return
            raise
        handler = connection_methods.HANDLERS[self.phase].get(type(method))
        try:
            if handler is not None:
                reply = handler(self, method)
                if reply is not None:
                    self.send(0, reply)
            elif not ending:
                state = self.phase.value
                raise ChannelFault(f"unexpected method in connection state {state}")
        except Fault as fault:
            raise blame(fault, type(method)) from None

    def _on_channel_method(self, number: int, payload: bytes) -> None:
        channel = self.channels.get(number)
        if channel is None and number not in self._refused:
            self._check_channel_count()
        method = decode(payload)
        try:
            if channel is not None:
                self._handle(channel, method)
            elif number in self._refused:
                self._on_refused_channel(number, method)
            elif isinstance(method, ChannelOpen):
                self.channels[number] = ChannelState(
                    self, number, self.connection.open_channel(number)
                )
                self.send(number, ChannelOpenOk())
            else:
                raise ChannelFault("expected 'channel.open'")
        except Fault as fault:
            raise blame(fault, type(method)) from None

    def _handle(self, channel: ChannelState, method: Method) -> None:
        handler = channel_methods.HANDLERS.get(type(method))
        if handler is None:
            raise CommandInvalid("unimplemented method")
        recorded = self.broker.recorded_count
        reply = handler(channel, method)
        if reply is not None:
            if self.broker.recorded_count != recorded:
                self.hold()
            self.send(channel.number, reply)

    def _on_refused_channel(self, number: int, method: Method) -> None:
        if isinstance(method, ChannelClose):
            self.send(number, ChannelCloseOk())
        elif isinstance(method, ChannelCloseOk):
            self._refused.discard(number)
            self.connection.close_channel(number)

    def _check_channel_count(self) -> None:
        count = len(self.channels) + len(self._refused)
        if self.channel_max and count >= self.channel_max:
            raise NotAllowed(
                f"number of channels opened ({count}) has reached the negotiated channel_max "
                f"({self.channel_max})"
            )

    # ------------------------------------------------------------------ faults

    def _fail(self, number: int, fault: Fault) -> None:
        """Close the channel or the connection. The one place where faults are answered."""
        if self.phase in (Phase.CLOSING, Phase.CLOSED) or number in self._refused:
            return
        logger.info("%s: channel %d: %s", self.name, number, fault.text)
        if self.phase is not Phase.RUNNING and not self._may_be_told(fault):
            self._drop()
            return
        channel = self.channels.get(number)
        if channel is None or fault.closes_connection:
            self._close(fault)
        else:
            self._refuse(channel, fault)

    def _may_be_told(self, fault: Fault) -> bool:
        """Before authentication a peer learns nothing but that its login was refused."""
        if self.phase is Phase.OPENING:
            return True
        if isinstance(fault, AccessRefused):
            fault.class_id = fault.method_id = 0
            return self.announced("authentication_failure_close")
        return self.phase is Phase.TUNING and isinstance(fault, NotAllowed)

    def _drop(self) -> None:
        """End the connection without a word."""
        self.release()
        self.phase = Phase.CLOSED
        self.connection.finish()

    def _close(self, fault: Fault) -> None:
        self.release()
        self.phase = Phase.CLOSING
        self.send(0, ConnectionClose(fault.code, fault.text, fault.class_id, fault.method_id))

    def _refuse(self, channel: ChannelState, fault: Fault) -> None:
        number = channel.number
        del self.channels[number]
        self._refused.add(number)
        channel.silence()
        self.send(number, ChannelClose(fault.code, fault.text, fault.class_id, fault.method_id))
        self.connection.refuse_channel(number)
        channel.forget()
