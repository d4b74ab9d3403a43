"""A channel on one connection: methods and their answers, what is got and cancelled, the end.

It must not know what a program holds: that is told by a `ChannelUser`. Invariants: what the broker
delivers to a caller or consumer that is gone is given back; a number is free again when both sides
have closed the channel.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from leporid.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    decode,
)
from leporid.client.answers import Answers, answer_of, encoded, ids_of
from leporid.client.codec import ChannelCodec
from leporid.client.delivery import Delivery, Inbox, give_back
from leporid.client.errors import (
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    ServerClosed,
    Timeout,
    fresh,
    server_closed,
)
from leporid.client.message import Message

if TYPE_CHECKING:
    from leporid.client.link import Link

ANSWER_CODES_OK: Final = 200
CANCELLED_MAX: Final = 1000
"""Consumers of a channel whose deliveries are requeued after they were cancelled; the last ones."""
GET_ANSWERS: Final = (BasicGetOk, BasicGetEmpty)
_GOT: Final = BasicGetOk()
_CLOSE: Final = ChannelClose(ANSWER_CODES_OK)
_COMMIT: Final = TxCommit()


class ChannelUser(Protocol):
    """Who is told what happens to a channel that is not asked for."""

    def channel_lost(self, channel: ChannelLink, error: Exception) -> None:
        """The channel is closed, by the broker or with its connection."""

    def channel_flow(self, active: bool) -> None:
        """The broker does (not) want publishes."""

    def consumer_cancelled(self, consumer_tag: str) -> None:
        """The broker ended a consumer."""

    def message_returned(self, message: Message, exchange: str, code: int, text: str) -> None:
        """A message came back that waits for no confirm."""

    def ack_repeated(self, delivery: Delivery) -> None:
        """A message came again whose ack was lost."""

    def settled_late(self, error: Exception) -> None:
        """A delivery of a connection that is lost, for that reason, is settled."""

    async def publish_reply(self, key: str, body: bytes, properties: dict[str, Any]) -> None:
        """Publishes a reply."""


class ChannelLink:
    """A channel on one connection."""

    def __init__(self, link: Link, number: int, user: ChannelUser | None) -> None:
        self.link = link
        self.number = number
        self.codec: ChannelCodec = ChannelCodec(link.codec, number, self)
        self.error: Exception | None = None
        self._user = user
        self._closing = False
        self._answers = Answers(link.loop)
        # Of consumers that were cancelled, whether deliveries still on their way need no ack.
        # RabbitMQ's quorum queues may send some behind the answer to basic.cancel.
        self._cancelled: dict[str, bool] = {}
        # Of each basic.get that is not answered, whether what is got needs no ack.
        self._gets: deque[bool] = deque()

    def __repr__(self) -> str:
        state = "open" if self.error is None else f"closed: {self.error}"
        return f"<ChannelLink {self.number}, {state}>"

    def check_open(self) -> None:
        """Raises why the channel is gone, or being closed, if it is.

        Who comes after the broker closed it is not to blame, and may try again when it is back.
        """
        error = self.codec.lost
        if isinstance(error, ServerClosed) and self.link.settings.robust:
            raise ConnectionLost(f"interrupted by another call: {error}")
        if error is not None:
            raise fresh(error)

    def send(self, method: Method) -> None:
        """Writes a method that has no answer."""
        self.check_open()
        self.codec.write(encoded(method))

    async def call(self, method: Method, *kinds: type[Method], seconds: float | None = None) -> Any:
        """Sends a method and waits for its answer.

        Returns:
            The answer; for basic.get the delivery and how many messages are left.

        Raises:
            LocalProtocolError: it has no encoding; nothing was sent.
            Timeout: no answer came. Its place is kept, so that the next answer is not taken for it.
            ServerClosed: the broker closed the channel or the connection instead.
            ConnectionLost: the connection is gone.
        """
        self.check_open()
        payload = encoded(method)
        if isinstance(method, BasicConsume):
            future = self._answers.expect_tagged(BasicConsumeOk, method.consumer_tag)
        else:
            future = self._answers.expect(ids_of(method), *kinds)
        if isinstance(method, BasicGet):
            self._gets.append(method.no_ack)
        self.codec.write(payload)
        if isinstance(method, TxSelect):
            self.codec.begin_transaction()
        elif isinstance(method, TxCommit | TxRollback):
            self.codec.close_transaction()
        try:
            return await answer_of(
                future,
                f"{kinds[0].NAME} after {method.NAME} on channel {self.number} from "
                f"{self.link.address}",
                seconds or self.link.settings.answer_timeout_s,
            )
        except BaseException:
            if isinstance(method, BasicGet):
                self._give_back(future)
            raise
        finally:
            # The traceback of its error refers to this frame.
            del future

    def _give_back(self, got: asyncio.Future[Any]) -> None:
        """Requeues what came in the turn in which its caller gave up."""
        if not got.done() or got.cancelled() or got.exception() is not None:
            return
        answer = got.result()
        if isinstance(answer, tuple):
            give_back(answer[0])

    def cancel(self, inbox: Inbox, *, requeue: bool = True) -> asyncio.Future[Any]:
        """Has a consumer cancelled; what nobody took, and what still comes, is given back.

        Returns:
            A future for the answer, which nobody needs to wait for.
        """
        self.codec.detach(inbox, requeue)
        self._cancelled[inbox.consumer_tag] = inbox.no_ack
        if len(self._cancelled) > CANCELLED_MAX:
            del self._cancelled[next(iter(self._cancelled))]
        future = self._answers.expect_tagged(BasicCancelOk, inbox.consumer_tag)
        future.add_done_callback(_ignore)
        self.codec.write(BasicCancel(inbox.consumer_tag).encode())
        return future

    # ------------------------------------------------------------------ what the codec calls

    def on_method(self, payload: bytes) -> None:
        """A method that is no delivery and no confirm."""
        method = decode(payload)
        match method:
            case ChannelClose():
                self.codec.write(ChannelCloseOk().encode())
                if not self._closing:
                    self.link.free(self)
                self.lose(
                    server_closed(
                        method.reply_code,
                        method.reply_text,
                        method.class_id,
                        method.method_id,
                        connection=False,
                    )
                )
            case ChannelCloseOk() if self.error is not None:
                self.link.free(self)
            case _ if self.error is not None:
                pass  # it crossed our close
            case BasicCancel():
                if not method.no_wait:
                    self.codec.write(BasicCancelOk(method.consumer_tag).encode())
                if self._user is not None:
                    self._user.consumer_cancelled(method.consumer_tag)
            case ChannelFlow():
                self.codec.write(ChannelFlowOk(method.active).encode())
                if self._user is not None:
                    self._user.channel_flow(method.active)
            case _:
                self._on_answer(method)

    def _on_answer(self, method: Method) -> None:
        if not self._answers.give(method):
            raise RemoteProtocolError(
                f"{self.link.address} sent {method.NAME} on channel {self.number}, "
                "which nobody waits for"
            )
        if isinstance(method, BasicGetEmpty):
            self._gets.popleft()
        elif isinstance(method, TxCommitOk | TxRollbackOk):
            # Whether or not its caller still waits: the broker has done it.
            committed = isinstance(method, TxCommitOk)
            if self.codec.end_transaction(committed):
                self._commit()

    def _commit(self) -> None:
        """Commits what was given back; nothing else has been written since the rollback.

        A transaction that begins meanwhile waits for its tx.select-ok, which comes later.
        """
        future = self._answers.expect(ids_of(_COMMIT), TxCommitOk)
        future.add_done_callback(_ignore)
        self.codec.write(_COMMIT.encode())
        self.codec.close_transaction()

    def on_got(self, delivery: Delivery, ready: int) -> None:
        """The answer to basic.get."""
        asker = self._answers.asker(_GOT)
        if asker is None:
            raise RemoteProtocolError(
                f"{self.link.address} sent basic.get-ok on channel {self.number}, "
                "which nobody waits for"
            )
        if self._gets.popleft():
            self.codec.no_ack(delivery)
        if not asker.done():
            asker.set_result((delivery, ready))
        else:
            # Its caller was cancelled, or has timed out.
            give_back(delivery)

    def on_return(self, message: Message, exchange: str, code: int, text: str) -> None:
        """A message came back that waits for no confirm."""
        if self._user is not None:
            self._user.message_returned(message, exchange, code, text)

    def on_repeated(self, delivery: Delivery) -> None:
        """A message came again whose ack was lost."""
        if self._user is not None:
            self._user.ack_repeated(delivery)

    def on_late_settle(self) -> None:
        """A delivery is settled after its connection was lost."""
        if self._user is not None and self.error is not None:
            self._user.settled_late(self.error)

    def on_unwanted(self, delivery_tag: int, consumer_tag: str) -> None:
        """A delivery for a consumer that was cancelled, or that there is not."""
        if self.error is not None or self._closing:
            return
        if consumer_tag not in self._cancelled:
            raise RemoteProtocolError(
                f"{self.link.address} delivered to consumer {consumer_tag!r} on channel "
                f"{self.number}, which there is not"
            )
        if not self._cancelled[consumer_tag]:
            self.codec.requeue(delivery_tag)

    async def publish_reply(self, key: str, body: bytes, properties: dict[str, Any]) -> None:
        """Publishes a reply to a delivery of this channel."""
        assert self._user is not None
        await self._user.publish_reply(key, body, properties)

    # ------------------------------------------------------------------ the end

    def lose(self, error: Exception) -> None:
        """The channel is gone; everybody who waits is told."""
        if self.error is not None:
            return
        self.error = error
        self.codec.end(error)
        self._answers.fail(error, self._interruption(error))
        if self._user is not None:
            self._user.channel_lost(self, error)

    def _interruption(self, error: Exception) -> Exception:
        """What those are told whose methods the broker does not blame: they may ask again."""
        if not self.link.settings.robust or not isinstance(error, ServerClosed):
            return error
        if not error.connection and not error.method:
            return error
        return ConnectionLost(f"interrupted by another call: {error}")

    def abandon(self) -> None:
        """Closes a channel that nobody will use; its number is free when the broker answers."""
        if self.error is None:
            closed = LocalProtocolError(f"channel {self.number} was given up")
            self._write_close(closed)
            self.lose(closed)

    def _write_close(self, closed: Exception) -> None:
        self._closing = True
        self.codec.write(_CLOSE.encode())
        # Nothing may be settled or requeued behind the close: the broker knows no channel then.
        self.codec.end(closed)

    async def close(self) -> None:
        """Closes the channel; waits for the broker's answer."""
        if self.error is not None:
            return
        closed = LocalProtocolError(f"channel {self.number} is closed: close() was called")
        answer = self._answers.expect(ids_of(_CLOSE), ChannelCloseOk)
        self._write_close(closed)
        try:
            await answer_of(
                answer,
                f"channel.close-ok on channel {self.number} from {self.link.address}",
                self.link.settings.answer_timeout_s,
            )
            self.link.free(self)
        except (ServerClosed, ConnectionLost, Timeout):
            pass
        finally:
            self.lose(closed)


def _ignore(future: asyncio.Future[Any]) -> None:
    """Looks at an exception, so that asyncio does not say that nobody has."""
    if not future.cancelled():
        future.exception()
