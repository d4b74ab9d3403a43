"""What a request does in a virtual host: by AMQP's own methods, on a connection of its own.

Responsible for that connection, which has no socket, is in no list, and ends with the request;
and for a fault as RabbitMQ's answer. Must not know routes. So rules, permissions and limits are
those of AMQP, written once; RabbitMQ's management does its acts in the same way. Invariant: an
answer that something was changed leaves only when the change is on disk.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from leporid.amqp.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD
from leporid.amqp.errors import AccessRefused, Fault, NotFound, SyntaxFault
from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import (
    BasicAck,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReject,
    BasicReturn,
    ConfirmSelect,
    Method,
    decode,
)
from leporid.broker.connection.channel import ChannelState
from leporid.broker.connection.methods import channel as channel_methods
from leporid.broker.connection.methods.connection import Phase
from leporid.broker.connection.session import ConnectionState
from leporid.engine.connection.connection import OWN_HEADER
from leporid.management.authorization import answered, not_authorised, not_found, visitor
from leporid.management.paging import Slices
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.access.remote_rights import PendingRight
    from leporid.broker.registry import StepsTo
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

CHANNEL: Final = 1
BASIC: Final = 60
"""The class of messages."""
FRAME_HEAD: Final = struct.Struct(">BHI")
FRAME_BYTES: Final = 131072
"""Of a frame, if clients may choose any size."""
HEAD_BYTES: Final = 1
"""The first piece of what basic.get writes has method and header; large bodies are pieces."""
HEADER_BYTES: Final = 12
"""Of a content header before its properties: class, weight, length of the body."""


class Delivered(NamedTuple):
    """A message that basic.get gave."""

    method: BasicGetOk
    properties: bytes
    body: bytes


class Outgoing(NamedTuple):
    """A message to be published."""

    exchange: str
    key: str
    properties: bytes
    body: bytes


class Outcome(NamedTuple):
    """What became of a message.

    Attributes:
        routed: no exchange returned it.
        accepted: no queue refused it.
        duplicate: it came to no queue, as it was taken for one that came before (deduplication).
    """

    routed: bool
    accepted: bool
    duplicate: bool = False


class BodyTooLarge(Exception):
    """The next message has a larger body than there is room for; it was not read as a whole.

    Attributes:
        size: that it has, in bytes.
        tag: of its delivery, to give it back.
    """

    def __init__(self, size: int, tag: int) -> None:
        super().__init__(size)
        self.size = size
        self.tag = tag


class _Session(ConnectionState):
    """A session whose client is this process: it has no handshake, and faults are noted."""

    __slots__ = ("pending", "trouble")

    internal = True

    def __init__(self, around: Surroundings, user: User, vhost: VirtualHost, name: str) -> None:
        connection = around.engine.connection()
        super().__init__(around.broker, connection, peer_is_loopback=True, name=name)
        # It is nobody's connection: it is in no list, and in no count of those that there are.
        around.broker.sessions.pop(self)
        # But it comes and goes, as the direct connections of RabbitMQ's management do.
        around.broker.churn.connections_opened += 1
        around.broker.churn.channels_opened += 1
        self.trouble: Exception | None = None
        # Rights that a publish waits for; the request asks for them.
        self.pending: list[PendingRight] = []
        connection.session, connection.internal = self, True
        connection.output.frame_max = around.broker.limits.frame_max or FRAME_BYTES
        self.enter_as(user)
        self.vhost = vhost
        self.phase = Phase.RUNNING

    def on_greeting(self) -> None:
        """The user has logged in over HTTP."""

    def await_right(self, pending: PendingRight) -> None:
        """Nothing of what is fed is handled until the request has waited for it."""
        self.pending.append(pending)
        self.connection.begin_work()

    def on_fault(self, channel: int, fault: Fault) -> None:
        """What the engine refused, the request is told."""
        self.trouble = self.trouble or fault

    def on_defect(self, error: Exception) -> None:
        """The request fails."""
        self.trouble = error


class Acting:
    """A channel of one user in one virtual host; to be used in a `with` statement.

    Args:
        around: the broker.
        user: who acts.
        vhost: where.
        name: who that is, for the log.

    Raises:
        Refusal: the user or the virtual host is gone (404).
    """

    def __init__(self, around: Surroundings, user: User, vhost: VirtualHost, name: str) -> None:
        # Both may be gone, or others, since the request began: its body had to come.
        now = around.broker.access.current(user)
        if now is None or around.broker.vhosts.get(vhost.name) is not vhost:
            raise not_found()
        around.current(now)  # its token may have expired
        self._around = around
        self._user = now
        self._session = _Session(around, now, vhost, name)
        self._connection = self._session.connection
        self._channel = ChannelState(self._session, CHANNEL, self._connection.open_channel(CHANNEL))
        self._session.channels[CHANNEL] = self._channel
        # It is counted down when the session is released.
        around.broker.session_index.channels_changed(self._session, 1)
        self._connection.feed(OWN_HEADER)
        self._received = bytearray()
        # Of publishes, by the numbers of their confirms.
        self._settled = 0
        self._nacked: set[int] = set()
        self._unrouted: set[int] = set()
        self._duplicates: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _waits in self._session.pending:
            self._connection.end_work()
        self._connection.lost()
        self._around.wake()

    # ------------------------------------------------------------- methods

    async def act(self, method: Method, *, settles: bool = False) -> Method | None:
        """Do what a method says; returns its reply, once all that it changed is on disk.

        Args:
            method: what to do.
            settles: whether messages go by it, as in a purge.

        Raises:
            Refusal: it was refused, in RabbitMQ's words.
        """
        # What no client could have sent, no handler gets: a name of more than 255 bytes, or not
        # UTF-8; more arguments than a method may have.
        try:
            decode(method.encode())
        except ValueError as error:
            raise Refusal(400, "bad_request", str(error)) from None
        except SyntaxFault as fault:
            raise Refusal(400, "bad_request", fault.text.partition(" - ")[2]) from None
        handler = channel_methods.HANDLERS[type(method)]
        recorded = self._around.broker.recorded_count

        def begin() -> StepsTo[Method | None]:
            reply: Any = handler(self._channel, method)
            if isinstance(reply, Generator):
                reply = yield from reply
            answer: Method | None = reply
            return answer

        try:
            reply = await self._around.job(begin)
        except Fault as fault:
            raise refusal_of(fault) from None
        if settles or self._around.broker.recorded_count != recorded:
            await self._synced()
        return reply

    async def _synced(self) -> None:
        generation = self._around.engine.logs.note_change()
        self._around.wake()
        await self._around.synced(generation, self._user)

    # ------------------------------------------------------------- messages

    async def publish(self, exchange: str, key: str, properties: bytes, body: bytes) -> Outcome:
        """Publish a message; returns, once it is confirmed, whether it was routed and accepted.

        Raises:
            Refusal: it was refused, in RabbitMQ's words.
        """
        outcomes: list[Outcome | Refusal] = []
        await self.publish_all([Outgoing(exchange, key, properties, body)], outcomes)
        found = outcomes[0]
        if isinstance(found, Refusal):
            raise found
        return found

    async def publish_all(
        self, messages: Sequence[Outgoing], outcomes: list[Outcome | Refusal]
    ) -> None:
        """Publish messages, each whatever becomes of the others; returns when all are confirmed.

        Args:
            messages: to be published.
            outcomes: what became of each is added, in their order; a Refusal, in RabbitMQ's words,
                of one that may not be published. A message that has none when this raises was not
                confirmed.

        Raises:
            Refusal: the broker takes no messages for now (503); those before it have outcomes.
        """
        await self.act(ConfirmSelect())
        given: list[int | Refusal] = []
        stopped: Refusal | None = None
        slices = Slices(self._around, self._user)
        for each in messages:
            try:
                await slices.next()
                given.append(await self._publish_one(each))
            except Refusal as refusal:
                stopped = refusal
                break
        confirms = self._channel.engine.confirms
        while self._settled < confirms.published:
            self._check_open()
            await self._synced()
            self._check()
            self._take_answers()
        outcomes += (each if isinstance(each, Refusal) else self._outcome(each) for each in given)
        if stopped is not None:
            raise stopped

    async def _publish_one(self, message: Outgoing) -> int | Refusal:
        """Publish a message; returns the number of its confirm, or why it was refused.

        Raises:
            Refusal: no message is taken for now; this one was not published.
        """
        self._around.admission.check_growth()
        exchange, key, properties, body = message
        try:
            publish = method_frame(CHANNEL, BasicPublish(exchange, key, mandatory=True))
        except ValueError as error:  # as in `act`
            return Refusal(400, "bad_request", str(error))
        header = struct.pack(">HHQ", BASIC, 0, len(body)) + properties
        whole = self._connection.output.frame_max - FRAME_OVERHEAD
        channel = self._channel.engine
        before, duplicates = channel.confirms.published, channel.duplicates
        await self._feed(publish + frame(FRAME_HEADER, CHANNEL, header))
        for start in range(0, len(body), whole):
            await self._feed(frame(FRAME_BODY, CHANNEL, body[start : start + whole]))
        while channel.confirms.published == before and self._session.trouble is None:
            await self._turn()  # its route, or a right, is being looked for
        trouble = self._session.trouble
        if trouble is None:
            # What is not routed is returned before anything else is handled.
            self._take_answers()
            number = channel.confirms.published
            if channel.duplicates > duplicates:
                self._duplicates.add(number)
            return number
        if not isinstance(trouble, Fault) or self._connection.broken:
            self._check()
        self._session.trouble = None
        assert isinstance(trouble, Fault)
        return refusal_of(trouble, about_messages=True)

    def _outcome(self, number: int) -> Outcome:
        return Outcome(
            routed=number not in self._unrouted,
            accepted=number not in self._nacked,
            duplicate=number in self._duplicates,
        )

    def _take_answers(self) -> None:
        """Note what was returned, and what was confirmed or refused."""
        self._receive()
        for kind, payload in self._frames():
            method = decode(payload) if kind == FRAME_METHOD else None
            if isinstance(method, BasicReturn):
                self._unrouted.add(self._channel.engine.confirms.published)
            elif isinstance(method, BasicAck):
                self._settled = method.delivery_tag
            elif isinstance(method, BasicNack):
                self._settled = method.delivery_tag
                self._nacked.add(method.delivery_tag)

    async def get(self, queue: str, body_bytes_max: int) -> Delivered | None:
        """Take the next message of a queue, to be settled; None without one.

        Raises:
            Refusal: it was refused, in RabbitMQ's words.
            BodyTooLarge: its body has more bytes; it is unsettled all the same.
        """
        try:
            handler = channel_methods.HANDLERS[BasicGet]
            empty = await self._around.decided(lambda: handler(self._channel, BasicGet(queue)))
        except Fault as fault:
            raise refusal_of(fault) from None
        if empty is not None:
            return None
        self._receive(HEAD_BYTES)
        method, header = islice(self._frames(), 2)
        got = decode(method[1])
        assert isinstance(got, BasicGetOk)
        size = int.from_bytes(header[1][4:HEADER_BYTES])
        if size > body_bytes_max:
            # While more than a little is left to be sent, the engine takes no frames.
            self._receive(keep=False)
            self._received.clear()
            raise BodyTooLarge(size, got.delivery_tag)
        self._receive()
        body = b"".join(payload for _, payload in self._frames())
        return Delivered(got, header[1][HEADER_BYTES:], body)

    async def settle(self, how: Method) -> None:
        """Settle the messages that `get` gave, all of them; returns when that is on disk."""
        await self._feed(method_frame(CHANNEL, how))
        await self._synced()
        self._check()

    async def give_back(self, tag: int) -> None:
        """Requeue the message that was not read, before the others are settled."""
        await self._feed(method_frame(CHANNEL, BasicReject(tag, requeue=True)))

    # ------------------------------------------------------------- bytes

    async def _feed(self, octets: bytes) -> None:
        """Give the engine frames, when it takes some."""
        while not self._connection.reading:
            await self._turn()
            self._check()
            self._around.admission.check_growth()
        self._around.set_clock()
        self._connection.feed(octets)
        self._around.wake()

    async def _turn(self) -> None:
        """Let the engine go on with what it was given."""
        self._check_open()
        await self._await_rights()
        self._around.wake()
        await self._around.admission.turns.next(self._user.name)

    async def _await_rights(self) -> None:
        """Wait for the rights that a publish needs; then it is handled once more."""
        while self._session.pending:
            await answered(self._session.pending[-1])
            self._session.pending.pop()
            self._connection.end_work()
            self._around.wake()

    def _receive(self, enough: int = 0, *, keep: bool = True) -> None:
        """Take what the engine has written; no more once there is enough, if that is said."""
        output = self._connection.output
        while not enough or len(self._received) < enough:
            view = output.outgoing()
            if view is None:
                return
            if keep:
                self._received += view
            count = len(view)
            del view
            self._connection.sent(count)

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        """Take whole frames out of what was received: their types and payloads."""
        while len(self._received) >= FRAME_HEAD.size:
            kind, _, size = FRAME_HEAD.unpack_from(self._received)
            end = FRAME_HEAD.size + size + 1
            if len(self._received) < end:
                return
            payload = bytes(self._received[FRAME_HEAD.size : end - 1])
            del self._received[:end]
            yield kind, payload

    def _check_open(self) -> None:
        """Refuse to wait for what will not come: nothing is taken, or confirmed, any more."""
        connection = self._connection
        if connection.closing or connection.finished or connection.is_lost:
            raise Refusal(
                401,
                "not_authorised",
                f"user '{self._user.name}', or the virtual host, was deleted during the request",
            )

    def _check(self) -> None:
        trouble = self._session.trouble
        if isinstance(trouble, Fault):
            raise refusal_of(trouble, about_messages=True)
        if trouble is not None:
            raise trouble


async def creator(around: Surroundings, request: Request) -> tuple[User, VirtualHost]:
    """Return who wants to make something, and the virtual host in the path.

    Raises:
        Refusal: as `visitor`; without the virtual host RabbitMQ has another 404.
    """
    try:
        return await visitor(around, request)
    except Refusal as refusal:
        if refusal.status == 404:
            raise Refusal(404, "not_found", "vhost_not_found") from None
        raise


def refusal_of(fault: Fault, *, about_messages: bool = False) -> Refusal:
    """Say as RabbitMQ's management does what AMQP refused.

    Args:
        fault: what AMQP says.
        about_messages: it was about publishing, for which RabbitMQ has the reply code in the text.
    """
    if about_messages:
        return Refusal(400, "bad_request", f"{fault.code} {fault.text}")
    if isinstance(fault, AccessRefused):
        return not_authorised(fault.text)
    if isinstance(fault, NotFound):
        return Refusal(404, "not_found", fault.text)
    return Refusal(400, "bad_request", fault.text.partition(" - ")[2] or fault.text)
