"""A channel that comes back: declarations, and what consumers and publishes have in common.

Responsible for calling methods in such a way that a lost connection, or an error of another call,
is waited out; for what is unconfirmed; and for consumers, as long as somebody holds them. It must
not know sockets. Invariant: `_link` is a channel that is open, or None while it is opened again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from leporid.amqp.methods import (
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from leporid.client import arguments as given
from leporid.client import events
from leporid.client.channel_link import ChannelLink
from leporid.client.consumers import Consumers
from leporid.client.delivery import Delivery
from leporid.client.encoder import check_name
from leporid.client.errors import (
    ClientError,
    ConnectionLost,
    LocalProtocolError,
    Returned,
    ServerClosed,
    Timeout,
    fresh,
)
from leporid.client.exchange import Exchange
from leporid.client.link import Link
from leporid.client.message import HeaderValue, Message
from leporid.client.publishing import Publishing
from leporid.client.queue import Queue
from leporid.client.rpc import Rpc
from leporid.client.stream import Stream
from leporid.client.transaction import Transaction

if TYPE_CHECKING:
    from leporid.client.connection import Connection
    from leporid.client.consumer import Consumer


_Q = TypeVar("_Q", bound=Queue)


class Channel:
    """A channel. `connection.channel()` opens it.

    Args:
        connection: where it is.
        prefetch: for consumers that do not say otherwise.
        confirms: publishes are confirmed.
    """

    def __init__(self, connection: Connection, prefetch: int, confirms: bool) -> None:
        self.connection = connection
        self.confirms = confirms
        self.default_prefetch: int = prefetch
        self._link: ChannelLink | None = None
        self.publishing: Publishing = Publishing(
            connection.settings, confirms, self._usable, connection.changed
        )
        self._end: Exception | None = None
        # A task opens it again after the broker closed it.
        self._reopener = False
        # Its link is there, but consumers and publishes that were not confirmed come first.
        self._reopening = False
        self._consumers = Consumers()
        self.in_transaction: Transaction | None = None

    def __repr__(self) -> str:
        if self._end is not None:
            state = "closed"
        else:
            state = "being opened again" if self._link is None else "open"
        number = "" if self._link is None else f" {self._link.number}"
        unconfirmed = self.publishing.unconfirmed
        count = 0 if unconfirmed is None else len(unconfirmed)
        return f"<Channel{number}, {self.consumers} consumers, {count} unconfirmed, {state}>"

    @property
    def is_open(self) -> bool:
        """Whether it can be used at once."""
        there = self._link is not None and not self._reopening
        return self._end is None and there and self.connection.is_open

    @property
    def consumers(self) -> int:
        """How many consumers it has."""
        return len(self._consumers)

    # ------------------------------------------------------------------ declarations

    @property
    def default_exchange(self) -> Exchange:
        """The exchange that routes to the queue with the name that is the key."""
        return Exchange(self, "", "direct")

    async def exchange(
        self,
        name: str,
        type: str = "direct",  # noqa: A002  (AMQP's word)
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        alternate: str | None = None,
        passive: bool = False,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> Exchange:
        """Declares an exchange.

        Args:
            name: its name.
            type: direct, topic, fanout, headers, or another that the broker has.
            durable: it outlives a restart of the broker.
            auto_delete: it is deleted with its last binding.
            internal: nobody may publish to it; other exchanges may.
            alternate: the exchange that gets what it cannot route.
            passive: only check that it exists.
            arguments: others.

        Raises:
            NotFound: it is passive, and does not exist.
            PreconditionFailed: it exists and is different.
            AccessRefused: the user may not.
        """
        check_name(name, "exchange name")
        check_name(type, "exchange type")
        table = given.merged(arguments, {"alternate-exchange": alternate})
        declare = ExchangeDeclare(name, type, passive, durable, auto_delete, internal, False, table)
        await self.call(declare, ExchangeDeclareOk)
        if not passive:
            self.connection.topology.add_exchange(declare)
        return Exchange(self, name, type)

    async def queue(
        self,
        name: str = "",
        *,
        type: str | None = None,  # noqa: A002  (AMQP's word)
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        expires: timedelta | float | None = None,
        message_ttl: timedelta | float | None = None,
        length_max: int | None = None,
        bytes_max: int | None = None,
        overflow: str | None = None,
        dead_letter_to: str | None = None,
        dead_letter_key: str | None = None,
        priorities: int | None = None,
        delivery_limit: int | None = None,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> Queue:
        """Declares a queue.

        Args:
            name: its name; "" has the broker make one, and another one after a reconnect.
            type: classic, quorum or stream; the virtual host's usual one if it is None.
            durable: it outlives a restart of the broker.
            exclusive: it is this connection's alone, and deleted with it.
            auto_delete: it is deleted with its last consumer.
            passive: only check that it exists.
            expires: it is deleted when unused for so long; a number is in seconds.
            message_ttl: how long a message stays in it; a number is in seconds.
            length_max: how many messages it may have.
            bytes_max: how many bytes these may have.
            overflow: what happens then: drop-head, reject-publish, reject-publish-dlx.
            dead_letter_to: the exchange that gets what is rejected, expires or is dropped.
            dead_letter_key: with this routing key instead of its own.
            priorities: the highest priority that it tells apart.
            delivery_limit: how often a message is delivered before it is dead-lettered.
            arguments: others.

        Raises:
            NotFound: it is passive, and does not exist.
            PreconditionFailed: it exists and is different.
            ResourceLocked: it is another connection's.
            AccessRefused: the user may not.
        """
        table = given.merged(
            arguments,
            {
                "x-queue-type": type,
                "x-expires": given.milliseconds(expires, "expires"),
                "x-message-ttl": given.milliseconds(message_ttl, "message_ttl"),
                "x-max-length": given.count(length_max, "length_max"),
                "x-max-length-bytes": given.count(bytes_max, "bytes_max"),
                "x-overflow": overflow,
                "x-dead-letter-exchange": dead_letter_to,
                "x-dead-letter-routing-key": dead_letter_key,
                "x-max-priority": given.count(priorities, "priorities"),
                "x-delivery-limit": given.count(delivery_limit, "delivery_limit"),
            },
        )
        return await self._declare_queue(
            Queue, QueueDeclare(name, passive, durable, exclusive, auto_delete, False, table)
        )

    async def stream(
        self,
        name: str,
        *,
        partitions: int | None = None,
        age_max: timedelta | float | None = None,
        bytes_max: int | None = None,
        passive: bool = False,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> Stream:
        """Declares a stream.

        Args:
            name: its name.
            partitions: see docs/streams-http.md: partitioned streams are made over HTTP.
            age_max: how old its messages may become; a number is in seconds.
            bytes_max: how many bytes it may have.
            passive: only check that it exists.
            arguments: others.
        """
        if partitions is not None:
            raise LocalProtocolError(
                "AMQP has no partitioned streams: make one over HTTP (PUT /api/streams/…), "
                "and read it by its name"
            )
        age = given.milliseconds(age_max, "age_max")
        table = given.merged(
            arguments,
            {
                "x-queue-type": "stream",
                "x-max-age": None if age is None else f"{max(1, age // 1000)}s",
                "x-max-length-bytes": given.count(bytes_max, "bytes_max"),
            },
        )
        return await self._declare_queue(
            Stream, QueueDeclare(name, passive, True, False, False, False, table)
        )

    async def _declare_queue(self, kind: type[_Q], declare: QueueDeclare) -> _Q:
        check_name(declare.queue, "queue name")
        answer: QueueDeclareOk = await self.call(declare, QueueDeclareOk)
        record = None
        if not declare.passive:
            record = self.connection.topology.add_queue(declare, answer.queue)
        return kind(self, answer.queue, record, answer.message_count, answer.consumer_count)

    async def bind(
        self,
        destination: Queue | Exchange | str,
        source: Exchange | str,
        key: str = "",
        *,
        tags: str | list[str] | None = None,
        sql: str | None = None,
        filter_class: str | None = None,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> None:
        """Binds a queue, or an exchange, to an exchange.

        Args:
            destination: what gets messages; a text is the name of a queue.
            source: the exchange that they come from.
            key: the routing key, or pattern.
            tags: only messages with one of these tags (Leporid).
            sql: only messages that this expression is true for (Leporid).
            filter_class: only messages that this class passes (Leporid).
            arguments: others, such as what a headers exchange compares.

        Raises:
            NotFound: one of the two does not exist.
            PreconditionFailed: the filter is wrong; the text says where.
            LocalProtocolError: the broker has no filters.
        """
        table = given.filtered(self.connection.server, arguments, tags, sql, filter_class)
        binding = self._binding(destination, source, key, table)
        answer = ExchangeBindOk if binding.to_exchange else QueueBindOk
        await self.call(binding.method, answer)
        self.connection.topology.bind(binding)

    async def unbind(
        self,
        destination: Queue | Exchange | str,
        source: Exchange | str,
        key: str = "",
        *,
        tags: str | list[str] | None = None,
        sql: str | None = None,
        filter_class: str | None = None,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> None:
        """Removes the binding that `bind` with the same arguments made."""
        table = given.filtered(self.connection.server, arguments, tags, sql, filter_class)
        binding = self._binding(destination, source, key, table)
        made = binding.method()
        if isinstance(made, ExchangeBind):
            await self.call(
                ExchangeUnbind(made.destination, made.source, key, False, table), ExchangeUnbindOk
            )
        elif isinstance(made, QueueBind):
            await self.call(QueueUnbind(made.queue, made.exchange, key, table), QueueUnbindOk)
        self.connection.topology.unbind(binding)

    def _binding(
        self,
        destination: Queue | Exchange | str,
        source: Exchange | str,
        key: str,
        table: dict[str, Any],
    ) -> Any:
        name = destination if isinstance(destination, str) else destination.name
        from_name = source if isinstance(source, str) else source.name
        check_name(name, "destination")
        check_name(from_name, "source")
        check_name(key, "binding key")
        return self.connection.topology.binding(
            name, from_name, key, table, to_exchange=isinstance(destination, Exchange)
        )

    async def delete_queue(
        self, queue: Queue | str, *, if_unused: bool = False, if_empty: bool = False
    ) -> int:
        """Deletes a queue; returns how many messages went with it.

        Raises:
            PreconditionFailed: it is used, or not empty.
        """
        name = queue if isinstance(queue, str) else queue.name
        check_name(name, "queue name")
        answer: QueueDeleteOk = await self.call(
            QueueDelete(name, if_unused, if_empty), QueueDeleteOk
        )
        self.connection.topology.forget_queue(name)
        return answer.message_count

    async def delete_exchange(self, exchange: Exchange | str, *, if_unused: bool = False) -> None:
        """Deletes an exchange.

        Raises:
            PreconditionFailed: it has bindings, and `if_unused` is set.
        """
        name = exchange if isinstance(exchange, str) else exchange.name
        check_name(name, "exchange name")
        await self.call(ExchangeDelete(name, if_unused), ExchangeDeleteOk)
        self.connection.topology.forget_exchange(name)

    async def prefetch(self, count: int) -> None:
        """Sets how many deliveries consumers that are made from now on may have unsettled each."""
        self.default_prefetch = given.whole_number(count, "prefetch", 0, given.PREFETCH_MAX)

    def rpc(self) -> Rpc:
        """Makes calls over this channel, and servers of them: `async with channel.rpc() as rpc:`.

        A channel can have one that calls.
        """
        return Rpc(self)

    # ------------------------------------------------------------------ transactions

    def transaction(self) -> Transaction:
        """Has what is published and settled in a block take effect together, or not at all.

        Raises:
            LocalProtocolError: the channel has confirms, or is in a transaction.
            ConnectionLost: it is not known whether the transaction was committed.
            ExceptionGroup: of `Returned`: committed, but these messages have no queue.
        """
        return Transaction(self)

    def transaction_ended(self) -> None:
        """A block is over: deliveries of a connection that came meanwhile can be settled."""
        self.in_transaction = None
        if self._link is not None:
            self._link.codec.interrupted = None

    # ------------------------------------------------------------------ calls

    async def call(self, method: Method | Callable[[], Method], *kinds: type[Method]) -> Any:
        """Calls a method; again after a reconnect, and when another method closed the channel.

        Args:
            method: or what makes it each time, as a queue may have another name by then.
            kinds: what the answer may be.

        Raises:
            ServerClosed: the broker closed the channel because of this method.
            ConnectionLost: the connection is gone and not robust.
            Timeout: no answer came.
        """
        while True:
            link = await self.attached()
            try:
                return await link.call(method() if callable(method) else method, *kinds)
            except ConnectionLost:
                if not self.connection.settings.robust:
                    raise

    async def attached(self) -> ChannelLink:
        """Waits for the channel to be open on a connection that is restored."""
        while True:
            self.check_usable()
            if self.is_open and self._link is not None:
                return self._link
            await self.connection.changed()

    def check_usable(self) -> None:
        """Raises why the channel is closed for good, if it is."""
        if self._end is not None:
            raise fresh(self._end)
        self.connection.check_usable()
        if self.in_transaction is not None:
            self.in_transaction.check()

    def _usable(self) -> ChannelLink | None:
        """The channel if it can be used at once."""
        self.check_usable()
        return self._link if self.is_open else None

    async def publish_reply(self, key: str, body: bytes, properties: dict[str, Any]) -> None:
        """Publishes a reply."""
        await self.default_exchange.publish(body, key, **properties)

    # ------------------------------------------------------------------ consumers

    def new_consumer_tag(self) -> str:
        """Makes a tag that no other consumer of this channel has."""
        return self._consumers.new_tag()

    async def start(self, consumer: Consumer) -> None:
        """Starts a consumer."""
        while True:
            link = await self.attached()
            robust = self.connection.settings.robust
            try:
                await self._consumers.start(link, consumer, self.default_prefetch)
            except ConnectionLost:
                if not robust:
                    raise
            else:
                if link.error is None:
                    self._consumers.add(consumer)
                    return
                if not robust:  # lost in the turn in which the answer came
                    raise fresh(link.error)

    def consumes(self, queue: Queue) -> bool:
        """Whether it has a consumer of a queue."""
        return any(each.queue.name == queue.name for each in self._consumers)

    def forget_consumer(self, consumer_tag: str, queue: Queue) -> ChannelLink | None:
        """A consumer ends; returns the channel to cancel it on, if that is there."""
        self._consumers.pop(consumer_tag)
        if queue.is_auto_delete and not self.connection.consumes(queue):
            # The broker deletes it with its last consumer: it is not to come back.
            self.connection.topology.forget_queue(queue.name)
        return self._link

    # ------------------------------------------------------------------ opening, and the end

    async def open(self) -> None:
        """Opens the channel for the first time."""
        while True:
            link = await self.connection.link()
            if self._link is not None:
                return  # it was restored with the connection
            try:
                await self.reopen(link)
            except ConnectionLost:
                if not self.connection.settings.robust:
                    raise
            else:
                if link.error is None:
                    return
                if not self.connection.settings.robust:
                    raise fresh(link.error)

    async def reopen(self, link: Link) -> None:
        """Opens the channel on another connection, unless it was closed meanwhile."""
        opened = await link.open_channel(self)
        if opened.error is not None:
            raise fresh(opened.error)
        if self._end is not None:
            await opened.close()
            return
        self._link = opened
        self.publishing.flow = True
        if self.in_transaction is not None:
            opened.codec.interrupted = self.in_transaction.interruption
        if self.confirms:
            await opened.call(ConfirmSelect(), ConfirmSelectOk)
            if opened.error is None:
                opened.codec.unconfirmed = self.publishing.unconfirmed

    async def restore_consumers(self) -> None:
        """Starts all consumers again; one that the broker refuses ends with its error."""
        while self._link is not None:
            refused = await self._consumers.restart(self._link, self.default_prefetch)
            if refused is None:
                return
            what = f"consumer of queue {refused[0].queue.name!r}"
            self.connection.emit(events.RestoreFailed(what, refused[1]))
            link = self.connection.live_link
            if link is not None:
                # The error closed the channel, and the consumers before it with it.
                await self.reopen(link)

    async def restore(self, link: Link, *, consumers: bool) -> None:
        """Opens the channel, or then starts its consumers, on a connection that is being restored.

        What concerns the channel alone does not fail: the program closed it, or the broker, and it
        is opened again behind the others.
        """
        try:
            await (self.restore_consumers() if consumers else self.reopen(link))
        except ClientError as error:
            if isinstance(error, ConnectionLost | ServerClosed) and link.error is None:
                self._open_again()
            elif self._end is None:
                raise

    def _open_again(self) -> None:
        if self._end is None and not self._reopener:
            self._reopener = True
            _ = self.connection.spawn(self._reopen_after_error())

    def resend(self) -> None:
        """Publishes again what is unconfirmed; others wait until all of it is written."""
        unconfirmed = self.publishing.unconfirmed
        if self._link is not None and unconfirmed is not None and unconfirmed.rewind():
            _ = self.connection.spawn(self._resend(self._link))

    async def _resend(self, link: ChannelLink) -> None:
        count = await self.publishing.resend(link)
        if count:
            self.connection.emit(events.Resent(link.number, count))
        self.connection.notify()

    async def _reopen_after_error(self) -> None:
        """The broker closed the channel and not the connection: opens it until it stays open."""
        backoff = self.connection.settings.backoff
        attempt = 0
        try:
            while self._end is None and self._link is None:
                if attempt:
                    await asyncio.sleep(backoff.wait_s(attempt - 1, random.random()))  # noqa: S311
                attempt += 1
                # Meanwhile another connection may have come, and the channel with it.
                link = await self.connection.link()
                if self._link is None:
                    await self._reopen_on(link)
        except ClientError as error:
            self.stop(error)
            self.connection.forget_channel(self)
        finally:
            self._reopener = False

    async def _reopen_on(self, link: Link) -> None:
        """Opens the channel on a connection that has everything else; it may be closed again."""
        self._reopening = True
        try:
            await self.reopen(link)
            await self.restore_consumers()
        except ClientError as error:
            if isinstance(error, Timeout):
                link.lose(fresh(error))
            if isinstance(error, ConnectionLost) or link.error is not None:
                return  # with the connection, or for another call's error
            if isinstance(error, LocalProtocolError):
                raise ConnectionLost(f"the channel cannot be opened again: {error}") from None
            raise
        finally:
            self._reopening = False
        self.resend()
        self.connection.notify()

    def abandon(self) -> None:
        """Closes a channel whose opening was given up; waits for nothing."""
        link = self._link
        self.stop(LocalProtocolError("the channel was not opened"))
        if link is not None:
            link.abandon()

    async def close(self) -> None:
        """Closes the channel: consumers end, what is unsettled is requeued; may be called again."""
        self.connection.check_loop()
        link = self._link
        self.stop(LocalProtocolError("the channel is closed: close() was called"))
        self.connection.forget_channel(self)
        if link is not None:
            await link.close()

    def stop(self, error: Exception) -> None:
        """The channel is closed for good."""
        if self._end is not None:
            return
        self._end = error = fresh(error)
        local = isinstance(error, LocalProtocolError)
        lost = ConnectionLost("closed before the publish was confirmed") if local else error
        if self.publishing.unconfirmed is not None:
            self.publishing.unconfirmed.fail(lost)
        self._consumers.end(None if local else error)
        self._link = None
        self.connection.notify()

    # ------------------------------------------------------------------ what the link calls

    def channel_lost(self, channel: ChannelLink, error: Exception) -> None:
        """The channel is closed, by the broker or with its connection."""
        if channel is not self._link:
            return
        self._link = None
        self._consumers.lose(error)
        if self._end is not None or isinstance(error, LocalProtocolError):
            return
        by_broker = isinstance(error, ServerClosed) and not error.connection
        if not self.connection.settings.robust:
            if by_broker:
                self.connection.forget_channel(self)
            self.stop(error)
        elif by_broker:
            self.connection.emit(events.ChannelClosed(channel.number, error))
            unconfirmed = self.publishing.unconfirmed
            if unconfirmed is not None and getattr(error, "method", "") == "basic.publish":
                # Which of them it was, the broker does not say.
                unconfirmed.fail(error)
            self._open_again()
        self.connection.notify()

    def channel_flow(self, active: bool) -> None:
        """The broker does (not) want publishes."""
        self.publishing.flow = active
        self.connection.notify()

    def consumer_cancelled(self, consumer_tag: str) -> None:
        """The broker ended a consumer."""
        consumer = self._consumers.pop(consumer_tag)
        if consumer is not None:
            consumer.cancelled_by_broker()
            self.connection.emit(events.ConsumerEnded(consumer.queue.name, consumer_tag))

    def message_returned(self, message: Message, exchange: str, code: int, text: str) -> None:
        """A message came back that waits for no confirm."""
        if self.in_transaction is not None:
            self.in_transaction.returned.append(Returned(message, exchange, code, text))
        else:
            self.connection.emit(events.Unroutable(exchange, message.key or "", text))

    def settled_late(self, error: Exception) -> None:
        """A delivery of a connection that is lost is settled: in a transaction it cannot be.

        The rest of the transaction would be committed, and the message delivered again.
        """
        if self.in_transaction is not None:
            raise ConnectionLost(f"the delivery's connection was lost: {error}")

    def ack_repeated(self, delivery: Delivery) -> None:
        """A message came again whose ack was lost."""
        consumer = self._consumers.get(delivery.consumer_tag)
        queue = "" if consumer is None else consumer.queue.name
        self.connection.emit(events.AckRepeated(queue, delivery.message_id or ""))
