"""One connection as the rules see it: its phase, its user, its channels, its faults.

Responsible for giving every method to its handler and for turning every fault into
channel.close or connection.close, here and nowhere else. Must not know sockets or clocks: bytes
arrive as methods, and what is sent goes to the engine's connection.

Invariant: after `release` nothing of this session is left in the broker, whichever way it ended.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from leporid.amqp.errors import (
    AccessRefused,
    BeingDeleted,
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
    kind_of,
)
from leporid.amqp.tables import Value
from leporid.broker.access.limits import (
    check_user_channels,
    check_user_connections,
    check_vhost_connections,
)
from leporid.broker.access.permissions import RIGHTS, Right
from leporid.broker.access.remote_rights import RightPending, RightsJob, decided
from leporid.broker.access.sasl import EXTERNAL, MECHANISMS
from leporid.broker.access.tags import may_impersonate
from leporid.broker.connection import publishing
from leporid.broker.connection.channel import ChannelState
from leporid.broker.connection.methods import channel as channel_methods
from leporid.broker.connection.methods import connection as connection_methods
from leporid.broker.connection.methods.connection import Phase
from leporid.broker.events.actor import acting, acting_steps
from leporid.broker.memory import table_bytes
from leporid.engine.bounds.jobs import AWAITS
from leporid.limits.log_lines import caused_by

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.access.backends import PendingLogin, Renewal
    from leporid.broker.access.permissions import Kind
    from leporid.broker.access.remote_rights import PendingRight
    from leporid.broker.access.topics import AllowedKeys
    from leporid.broker.broker import Broker, TuneLimits
    from leporid.broker.connection.transport import Encryption, Endpoints
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.registry import Steps, StepsTo
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
        account: what it makes the broker keep.
        login: what waits for its password, or a new one, to be checked.
        mechanism: how it logged in.
        endpoints: where it comes from; the server sets it. None: from within this process.
        encryption: what TLS has agreed on; the server sets it. None: there is no TLS, or not yet.
        certificate_user: the user that the client's certificate stands for; the server sets it.
        connected_at_ms: when it was made, by the wall's clock.
        entered: called when the login was accepted; the server sets it.
        waiting: jobs that wait for rights to be decided.
        rechecking: whether the rights in use are being asked about again.
        rechecked_ms: when that was begun last, by the engine's clock.
        admit: called before the virtual host is entered; the server sets it. Raises NotAllowed.
    """

    __slots__ = (
        "_ending",
        "_exclusive",
        "_gone",
        "_refused",
        "_released",
        "_told_blocked",
        "account",
        "address",
        "admit",
        "broker",
        "certificate_user",
        "channel_max",
        "channels",
        "client_properties",
        "connected_at_ms",
        "connection",
        "encryption",
        "endpoints",
        "entered",
        "heartbeat_s",
        "login",
        "mechanism",
        "name",
        "offered",
        "peer_is_loopback",
        "phase",
        "recent",
        "rechecked_ms",
        "rechecking",
        "user",
        "vhost",
        "waiting",
    )

    # Whether it is a request's own, of which nobody is told.
    internal: ClassVar[bool] = False

    # Set by the handshake, before anything asks for them.
    user: User
    offered: TuneLimits
    vhost: VirtualHost

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        *,
        peer_is_loopback: bool,
        address: Hashable = "",
        name: str = "",
    ) -> None:
        """Makes it.

        Args:
            broker: what it is a connection to.
            connection: the engine's half.
            peer_is_loopback: whether the peer's address (not the listener's) is a loopback one.
            address: whom the peer shares its turns with before it has logged in.
            name: who it is, for the log, such as `127.0.0.1:40000`.
        """
        self.broker = broker
        broker.handled += 5  # some fifty objects
        self.connection = connection
        self.account = connection.account = connection.output.account = broker.memory.connection()
        connection.party = broker.party("address", address)
        self.peer_is_loopback = peer_is_loopback
        self.address = address
        self.entered: Callable[[], None] = _nothing
        self.admit: Callable[[], None] = _nothing
        self.login: PendingLogin | Renewal | None = None
        self.name = name
        self.mechanism = ""
        self.endpoints: Endpoints | None = None
        self.encryption: Encryption | None = None
        self.certificate_user: str | None = None
        # Samples of its counters for the rates that management shows; a matter of that alone.
        self.recent: object = None
        self.connected_at_ms = broker.engine.clock.wall_ms
        self.phase = Phase.STARTING
        self.heartbeat_s = 0
        self.channel_max = 0
        self.client_properties: Mapping[str, Value] = {}
        self.channels: dict[int, ChannelState] = {}
        # That are being closed, and that were closed by us and not yet by the client.
        self._ending: dict[ChannelState, None] = {}
        self._refused: set[int] = set()
        self._exclusive: dict[QueueState, None] = {}
        self._told_blocked = False
        self._released = self._gone = self.rechecking = False
        self.rechecked_ms = 0
        self.waiting: dict[RightsJob, None] = {}
        broker.sessions[self] = None

    def __repr__(self) -> str:
        return f"<ConnectionState {self.name} {self.phase.value} channels={len(self.channels)}>"

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
    def released(self) -> bool:
        """Whether it has ended, and nothing is to be done for it any more."""
        return self._released

    @property
    def full_name(self) -> str:
        """What RabbitMQ's management calls it: both ends, or the name where there are none."""
        return self.name if self.endpoints is None else str(self.endpoints)

    @property
    def blocked(self) -> bool:
        """Whether it wants to publish while an alarm is on, and is not read from."""
        return self.connection.blocked

    @property
    def log_extra(self) -> dict[str, object]:
        """The `extra` of a line of the log that the peer has caused."""
        if not self.authenticated:
            return caused_by(self.name, f"address {self.address}")
        user, vhost = self.user.name, self.vhost.name if self.opened else None
        return caused_by(self.name, f"user {user}", user=user, vhost=vhost)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """How the client may log in; EXTERNAL only if its certificate was verified.

        And only if the broker's own users are asked: as in RabbitMQ, a certificate is no way around
        the back ends that the configuration names.
        """
        verified = self.encryption is not None and self.encryption.certificate is not None
        offered = verified and self.broker.backends.ask_internal
        return (*MECHANISMS, EXTERNAL) if offered else MECHANISMS

    def move(self, address: Hashable, name: str) -> None:
        """The peer has another address than it seemed, before it has said anything."""
        self.address = address
        self.name = name
        self.connection.party = self.broker.party("address", address)

    def close_for(self, fault: Fault) -> None:
        """End the connection for reasons of the broker's own, such as ConnectionForced."""
        self._fail(0, fault)

    # ------------------------------------------------------------------ for the engine

    def on_greeting(self) -> None:
        """The protocol header was ours: begin the handshake."""
        connection_methods.start(self)

    def on_stranger(self, header: bytes) -> None:
        """What came instead of our protocol header; ours is the answer, and the end."""
        stranger = connection_methods.stranger(header)
        logger.info("%s: refused, %s", self.name, stranger, extra=self.log_extra)

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
            logger.exception("defect in a method of connection %s", self.name, extra=self.log_extra)
            self._fail(0, InternalFault("the broker failed to handle a method"))

    def on_fault(self, channel: int, fault: Fault) -> None:
        """The engine found a fault, or one of the calls below raised it."""
        self._fail(channel, fault)
        if isinstance(fault, FrameError):
            # Where the next frame begins is not known, so close-ok could not be understood.
            self.connection.finish()

    def on_defect(self, error: Exception) -> None:
        """We made a mistake with this connection's input: it ends (541), no other does."""
        logger.error("defect in connection %s", self.name, exc_info=error, extra=self.log_extra)
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
        self.broker.engine.jobs.start(self._leaving())

    def route_cache(self, exchange: str) -> RouteCache | None:
        """First publish to an exchange, or first one since permissions or the exchange changed.

        None: the right to do so is not known yet. The input waits until it is.
        """
        try:
            return publishing.route_cache(self, exchange)
        except RightPending as unknown:
            self.await_right(unknown.pending)
            return None

    def check_of_keys(self, exchange: str) -> AllowedKeys | None:
        """The same: what raises a fault for keys that must not be published with; None: no key."""
        return publishing.allowed_keys(lambda: self.user, self.vhost, exchange, self.await_right)

    def await_right(self, pending: PendingRight) -> None:
        """Handle no input until a right is known; the publish at hand is then published again."""

        def steps() -> Steps:
            yield pending

        self._work(steps())

    def copies(
        self, _routes: RouteCache, exchange: str, keys: Sequence[str], properties: bytes
    ) -> StepsTo[list[Queue]]:
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
        self.account.move(self.broker.memory.user(user.name))
        self.connection.party = self.broker.party("user", user.name)
        self.account.add(table_bytes(self.client_properties))
        self.connection.received_max = 0
        self.entered()
        self.broker.session_index.entered(self)
        self.set_user_id()

    def set_user_id(self) -> None:
        """Have the engine refuse messages in another user's name, unless this user may."""
        name = self.user.name
        self.connection.user_id = b"" if may_impersonate(self.user) else name.encode()

    def enter(self, vhost: VirtualHost) -> None:
        """Open a virtual host.

        Raises:
            NotAllowed: a limit of the virtual host, of the user or of the server is reached.
        """
        index, user = self.broker.session_index, self.user
        opened = index.count_of_vhost(vhost.name)
        check_vhost_connections(vhost.limits, opened, vhost=vhost.name, user=user.name)
        check_user_connections(user.limits, index.count_of_user(user.name), user=user.name)
        self.admit()
        self.vhost = vhost
        index.opened(self)
        self.broker.churn.connections_opened += 1
        self.phase = Phase.RUNNING
        with acting(user.name):
            self.broker.events.connection_created(self)

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

    def close_channel(self, channel: ChannelState) -> StepsTo[Method]:
        """Forget a channel that the client closes; returns the answer."""
        self._forget(channel)
        self._ending[channel] = None
        yield from channel.end()
        self._ending.pop(channel, None)
        self.connection.close_channel(channel.number)
        return ChannelCloseOk()

    def on_blocked(self) -> None:
        """It wants to publish while an alarm is on."""
        self.tell_alarms()

    def tell_alarms(self) -> None:
        """Unblock a publisher if no alarm is on; tell it that it is blocked, or no longer."""
        self.connection.unblock()
        blocked = self.blocked and self.phase is Phase.RUNNING
        if blocked == self._told_blocked or not self.announced("connection.blocked"):
            return
        self._told_blocked = blocked
        if blocked:
            self.send(0, ConnectionBlocked(self.broker.alarm_text()))
        elif self.phase is Phase.RUNNING:
            self.send(0, ConnectionUnblocked())

    def release(self) -> None:
        """Take everything of this session out of the broker, as a job."""
        self.broker.engine.jobs.start(self.releasing())

    def releasing(self) -> Steps:
        """Take everything of this session out of the broker; a second time, wait for that."""
        if self._released:
            while not self._gone:
                yield AWAITS
            return
        self._released = True
        if self.login is not None:
            self.login.leave()
        for job in tuple(self.waiting):
            job.leave()
        self.broker.sessions.pop(self, None)
        self.broker.session_index.channels_changed(self, -len(self.channels))
        self.broker.session_index.left(self)
        # First nobody here gets deliveries any more, then all of them go back: what one channel
        # gives back must not go to its neighbour that is about to close too.
        self.connection.mute()
        self._refused.clear()
        self.broker.churn.channels_closed += len(self.channels)
        self.broker.churn.connections_closed += self.opened
        channels = deque(chain(self.channels.values(), self._ending))
        self.channels = {}
        while channels:
            # Each is freed after its end: all at once would be a long piece.
            yield from channels.popleft().end()
            yield None  # the end of one that has nothing is one step
        while self._exclusive:
            queue, _ = self._exclusive.popitem()
            yield from self.vhost.deleting_queue(queue)
            yield None
        if self.opened:
            self.broker.events.connection_closed(self)
        self.account.close()
        self._gone = True

    def _leaving(self) -> Steps:
        """Release everything, and the engine's half and the server's, which know this one.

        As long as they did, only a full collection of Python's would free the three of them
        (`server.garbage`).
        """
        yield from self.releasing()
        while self.connection.jobs:
            yield AWAITS
        self.connection.session = None
        self.entered = self.admit = _nothing

    # ------------------------------------------------------------------ dispatching

    def _on_connection_method(self, payload: bytes) -> None:
        handlers = connection_methods.HANDLERS[self.phase]
        if self.phase in (Phase.CLOSING, Phase.CLOSED):
            self._on_ending(handlers, payload)
            return
        if not self.authenticated:
            connection_methods.check_stranger(handlers, payload)
        method = decode(payload)
        handler = handlers.get(type(method))
        try:
            if handler is None:
                state = self.phase.value
                raise ChannelFault(f"unexpected method in connection state {state}")
            self._handle_in_phase(handler, method)
        except Fault as fault:
            raise fault.blame(type(method)) from None

    def _on_ending(
        self, handlers: Mapping[type[Method], connection_methods.Handler], payload: bytes
    ) -> None:
        """What is not expected any more is not even decoded, and what is malformed passed over."""
        kind = kind_of(payload)
        handler = None if kind is None else handlers.get(kind)
        if handler is None:
            return
        try:
            method = decode(payload)
        except Fault:
            return
        self._handle_in_phase(handler, method)

    def _handle_in_phase(self, handler: connection_methods.Handler, method: Method) -> None:
        reply: Method | StepsTo[Method | None] | None
        try:
            reply = handler(self, method)
        except RightPending:
            reply = self._retried(lambda: handler(self, method))
        if isinstance(reply, Generator):
            self._work(reply, cause=type(method))
        elif reply is not None:
            self.send(0, reply)

    def _on_channel_method(self, number: int, payload: bytes) -> None:
        channel = self.channels.get(number)
        if channel is None and number not in self._refused:
            self._check_channel_count()
        self.broker.handled += 1
        method = decode(payload)
        try:
            if channel is not None:
                self._handle(channel, method)
            elif number in self._refused:
                self._on_refused_channel(number, method)
            elif isinstance(method, ChannelOpen):
                self._open_channel(number)
            else:
                raise ChannelFault("expected 'channel.open'")
        except Fault as fault:
            raise fault.blame(type(method)) from None

    def _open_channel(self, number: int) -> None:
        index, user = self.broker.session_index, self.user
        check_user_channels(user.limits, index.channels_of_user(user.name), user=user.name)
        engine = self.connection.open_channel(number)
        channel = self.channels[number] = ChannelState(self, number, engine)
        index.channels_changed(self, 1)
        self.broker.churn.channels_opened += 1
        self.broker.events.channel_created(channel)
        self.send(number, ChannelOpenOk())

    def _handle(self, channel: ChannelState, method: Method) -> None:
        handler = channel_methods.HANDLERS.get(type(method))
        if handler is None:
            raise CommandInvalid("unimplemented method")
        recorded = self.broker.recorded_count
        try:
            with acting(self.user.name):
                reply = handler(channel, method)
        except (BeingDeleted, RightPending):
            reply = self._retried(lambda: handler(channel, method))
        if isinstance(reply, Generator):
            steps = acting_steps(self.user.name, reply)
            self._work(steps, channel.number, type(method))
        elif reply is not None:
            self._answer(channel.number, reply, recorded)

    def _answer(self, number: int, reply: Method, recorded: int) -> None:
        if self.broker.recorded_count != recorded:
            self.hold()
        self.send(number, reply)

    def _retried(
        self, handle: Callable[[], Method | StepsTo[Method | None] | None]
    ) -> StepsTo[Method | None]:
        """Handle a method once what is in its way is gone, and the rights that it needs are known.

        Its handler changes nothing before both is so.
        """
        while True:
            try:
                reply = yield from decided(handle)
            except BeingDeleted:
                yield AWAITS
                continue
            return (yield from reply) if isinstance(reply, Generator) else reply

    def _work(
        self, steps: StepsTo[Method | None], number: int = 0, cause: type[Method] | None = None
    ) -> None:
        """Handle no input until some steps are done; send what they return.

        Args:
            steps: what they are.
            number: the channel that a fault closes, and that the reply is sent on.
            cause: the method that is handled, for faults.
        """
        recorded = self.broker.recorded_count

        def done(reply: Method | None) -> None:
            self.connection.end_work()
            if reply is not None and not self._released and number not in self._refused:
                self._answer(number, reply, recorded)

        def failed(error: Exception) -> None:
            self.connection.end_work()
            if isinstance(error, Fault):
                self._fail(number, error if cause is None else error.blame(cause))
            else:
                self.on_defect(error)

        self.connection.begin_work()
        jobs, left = self.broker.engine.jobs, self.connection.end_work
        RightsJob(jobs, steps, done, failed, self.waiting, left)

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
        logger.info("%s: channel %d: %s", self.name, number, fault.logged, extra=self.log_extra)
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
        self._refused.add(number)
        channel.engine.mute()
        self.send(number, ChannelClose(fault.code, fault.text, fault.class_id, fault.method_id))
        self._work(self._refusing(channel))

    def _refusing(self, channel: ChannelState) -> Steps:
        """End a channel for which channel.close was sent, in steps."""
        self._forget(channel)
        self._ending[channel] = None
        yield from channel.end()
        self._ending.pop(channel, None)
        self.connection.refuse_channel(channel.number)

    def _forget(self, channel: ChannelState) -> None:
        """Remove a channel from the open ones."""
        del self.channels[channel.number]
        self.broker.session_index.channels_changed(self, -1)
        self.broker.churn.channels_closed += 1


def _nothing() -> None:
    """What is called as long as the server has set nothing, and when it has gone."""
