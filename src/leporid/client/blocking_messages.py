"""Exchanges, queues, consumers and deliveries of the client that blocks (`blocking`).

Responsible for having messages cross between threads in batches: deliveries are taken from the loop
all that there are at a time, messages to publish are handed over by the thousand, and settles are
posted and not waited for. It must not know the protocol. Invariant: of what a consumer has taken in
advance, whatever nobody asked for goes back to its queue when the consumer ends.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from leporid.client.delivery import give_back
from leporid.client.errors import LocalProtocolError

if TYPE_CHECKING:
    from leporid.amqp.properties import Properties
    from leporid.client.api import Browsed
    from leporid.client.arguments import BindOptions
    from leporid.client.consumer import Consumer as AsyncConsumer
    from leporid.client.delivery import Delivery as AsyncDelivery
    from leporid.client.exchange import Exchange as AsyncExchange
    from leporid.client.loop_thread import LoopThread
    from leporid.client.message import Body, Headers, HeaderValue, Message
    from leporid.client.queue import Queue as AsyncQueue
    from leporid.client.stream import Stream as AsyncStream

BATCH_MAX: Final = 1000
"""Deliveries that a consumer takes in one hop at most."""
MESSAGES_A_HOP: Final = 1000
"""Messages that `publish_many` takes from an iterator before it hands them over."""
BROWSED_A_HOP: Final = 100
HOPS_AHEAD: Final = 2
"""So many times as many wait at most, so that an endless iterator fills no memory."""


class Exchange:
    """An exchange. `channel.exchange(…)` declares it.

    Attributes:
        behind: the exchange of `leporid.client`.
    """

    def __init__(self, thread: LoopThread, exchange: AsyncExchange) -> None:
        self._thread = thread
        self.behind = exchange

    def __repr__(self) -> str:
        return f"<Blocking {self.behind!r}>"

    @property
    def name(self) -> str:
        """Its name; "" is the default exchange."""
        return self.behind.name

    @property
    def type(self) -> str:
        """direct, topic, fanout, headers or another."""
        return self.behind.type

    def publish(
        self,
        body: Body,
        key: str = "",
        *,
        headers: Headers | None = None,
        delay: timedelta | float | None = None,
        deliver_at: datetime | None = None,
        tag: str | None = None,
        expires: timedelta | float | None = None,
        mandatory: bool = True,
        persistent: bool = True,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        message_id: str | None = None,
        timestamp: datetime | int | None = None,
        type: str | None = None,  # noqa: A002 - the property's name
        user_id: str | None = None,
        app_id: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Publish a message; returns when the broker has confirmed it.

        Arguments and exceptions are those of `leporid.client.Exchange.publish`.
        """
        work = self.behind.publish(
            body,
            key,
            headers=headers,
            delay=delay,
            deliver_at=deliver_at,
            tag=tag,
            expires=expires,
            mandatory=mandatory,
            persistent=persistent,
            priority=priority,
            content_type=content_type,
            content_encoding=content_encoding,
            correlation_id=correlation_id,
            reply_to=reply_to,
            message_id=message_id,
            timestamp=timestamp,
            type=type,
            user_id=user_id,
            app_id=app_id,
            timeout_s=timeout_s,
        )
        self._thread.wait(work)

    def publish_many(
        self,
        messages: Iterable[Body | Message],
        key: str = "",
        *,
        window: int = 1000,
        mandatory: bool = True,
    ) -> int:
        """Publish messages; returns how many there were when all are confirmed.

        An iterator is read by the thread that calls. Arguments and exceptions are those of
        `leporid.client.Exchange.publish_many`.
        """
        if isinstance(messages, Sequence):
            work = self.behind.publish_many(messages, key, window=window, mandatory=mandatory)
            return self._thread.wait(work)
        handed = self._thread.call(_Handed)

        async def publishing() -> int:
            try:
                return await self.behind.publish_many(
                    handed, key, window=window, mandatory=mandatory
                )
            finally:
                handed.close()

        published = self._thread.begin(publishing())
        try:
            iterator = iter(messages)
            while part := list(itertools.islice(iterator, MESSAGES_A_HOP)):
                if not self._thread.wait(handed.put(part)):
                    break  # it has failed, and says why below
            self._thread.wait(handed.put([]))
        except BaseException:
            published.cancel()
            raise
        return self._thread.result(published)

    def bind(self, source: Exchange | str, key: str = "", **options: Unpack[BindOptions]) -> None:
        """Have messages of another exchange routed to this one; as `Channel.bind`."""
        given = source if isinstance(source, str) else source.behind
        self._thread.wait(self.behind.bind(given, key, **options))

    def unbind(self, source: Exchange | str, key: str = "", **options: Unpack[BindOptions]) -> None:
        """Remove the binding that `bind` with the same arguments made."""
        given = source if isinstance(source, str) else source.behind
        self._thread.wait(self.behind.unbind(given, key, **options))

    def delete(self, *, if_unused: bool = False) -> None:
        """Delete the exchange."""
        self._thread.wait(self.behind.delete(if_unused=if_unused))


class _Handed:
    """Messages on their way to the loop, on which it is made and used: what `put` is given."""

    def __init__(self) -> None:
        self._parts: asyncio.Queue[list[Body | Message]] = asyncio.Queue(HOPS_AHEAD)
        self._closed = False

    async def put(self, part: list[Body | Message]) -> bool:
        """Hand messages over, when there is room; [] is the end. False: nobody takes them."""
        if not self._closed:
            await self._parts.put(part)
        return not self._closed

    def close(self) -> None:
        """Take nothing any more."""
        self._closed = True
        while not self._parts.empty():
            self._parts.get_nowait()

    async def __aiter__(self) -> AsyncIterator[Body | Message]:
        while part := await self._parts.get():
            for message in part:
                yield message


class Queue:
    """A queue. `channel.queue(…)` declares it.

    Attributes:
        behind: the queue of `leporid.client`.
    """

    def __init__(self, thread: LoopThread, queue: AsyncQueue) -> None:
        self._thread = thread
        self.behind = queue

    def __repr__(self) -> str:
        return f"<Blocking {self.behind!r}>"

    @property
    def name(self) -> str:
        """Its name; one that the broker made is another one after a reconnect."""
        return self.behind.name

    @property
    def message_count(self) -> int:
        """How many messages were ready when it was declared or counted last."""
        return self.behind.message_count

    @property
    def consumer_count(self) -> int:
        """How many consumers it had then."""
        return self.behind.consumer_count

    def bind(self, exchange: Exchange | str, key: str = "", **options: Unpack[BindOptions]) -> None:
        """Have messages of an exchange routed to the queue; as `Channel.bind`."""
        given = exchange if isinstance(exchange, str) else exchange.behind
        self._thread.wait(self.behind.bind(given, key, **options))

    def unbind(
        self, exchange: Exchange | str, key: str = "", **options: Unpack[BindOptions]
    ) -> None:
        """Remove the binding that `bind` with the same arguments made."""
        given = exchange if isinstance(exchange, str) else exchange.behind
        self._thread.wait(self.behind.unbind(given, key, **options))

    def consume(
        self,
        *,
        prefetch: int | None = None,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: int | None = None,
        tags: str | list[str] | None = None,
        sql: str | None = None,
        filter_class: str | None = None,
        unique_ids: bool = False,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> Consumer:
        """Make a consumer: `with queue.consume() as consumer: for delivery in consumer: …`.

        Arguments are those of `leporid.client.Queue.consume`.
        """
        made = self._thread.call(
            lambda: self.behind.consume(
                prefetch=prefetch,
                no_ack=no_ack,
                exclusive=exclusive,
                priority=priority,
                tags=tags,
                sql=sql,
                filter_class=filter_class,
                unique_ids=unique_ids,
                arguments=arguments,
            )
        )
        return Consumer(self._thread, made)

    def get(self, *, no_ack: bool = False) -> Delivery | None:
        """Take one message; None: there is none. One that is interrupted goes back."""
        taken: list[AsyncDelivery] = []

        async def taking() -> None:
            found = await self.behind.get(no_ack=no_ack)
            if found is not None:
                taken.append(found)

        try:
            self._thread.wait(taking())
        except BaseException:
            self._thread.post_last(partial(_give_back, taken))
            raise
        return Delivery(self._thread, taken[0]) if taken else None

    def browse(
        self,
        limit: int | None = None,
        *,
        tags: str | list[str] | None = None,
        sql: str | None = None,
        unacked: bool = False,
    ) -> Iterator[Browsed]:
        """Look at messages without taking them; as `leporid.client.Queue.browse`."""
        pages = self.behind.browse(limit, tags=tags, sql=sql, unacked=unacked)

        async def some() -> list[Browsed]:
            found = []
            async for each in pages:
                found.append(each)
                if len(found) == BROWSED_A_HOP:
                    break
            return found

        while part := self._thread.wait(some()):
            yield from part

    def purge(self) -> int:
        """Drop all ready messages; returns how many there were."""
        return self._thread.wait(self.behind.purge())

    def count(self) -> int:
        """Ask how many messages are ready."""
        return self._thread.wait(self.behind.count())

    def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete the queue; returns how many messages went with it."""
        return self._thread.wait(self.behind.delete(if_unused=if_unused, if_empty=if_empty))


class Stream(Queue):
    """A stream. `channel.stream(…)` declares it."""

    behind: AsyncStream

    def read(
        self,
        offset: str | int | datetime | timedelta | None = None,
        *,
        reader: str | None = None,
        group: str | None = None,
        tags: str | list[str] | None = None,
        sql: str | None = None,
        filter_class: str | None = None,
        prefetch: int | None = None,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> Consumer:
        """Read the stream; arguments are those of `leporid.client.Stream.read`."""
        made = self._thread.call(
            lambda: self.behind.read(
                offset,
                reader=reader,
                group=group,
                tags=tags,
                sql=sql,
                filter_class=filter_class,
                prefetch=prefetch,
                arguments=arguments,
            )
        )
        return Consumer(self._thread, made)

    def committed(self, reader: str, *, partition: int = 0) -> int | None:
        """Ask for the offset that a named reader or a group read last; None if there is none."""
        return self._thread.wait(self.behind.committed(reader, partition=partition))


class Consumer:
    """A consumer. `queue.consume(…)` makes it; iterating over it, or entering it, begins it.

    Leaving its block ends it, and so does `cancel`. Without a block, it ends when nobody holds it:
    when a loop over `queue.consume()` is left.
    """

    def __init__(self, thread: LoopThread, consumer: AsyncConsumer) -> None:
        self._thread = thread
        self._it = consumer
        self._taken: deque[AsyncDelivery] = deque()

    def __repr__(self) -> str:
        return f"<Blocking {self._it!r}>"

    @property
    def consumer_tag(self) -> str:
        """Its tag."""
        return self._it.consumer_tag

    def __enter__(self) -> Self:
        self._thread.wait(self._it.begin())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()

    def __iter__(self) -> Iterator[Delivery]:
        return self

    def __next__(self) -> Delivery:
        """Wait for the next delivery.

        Raises:
            StopIteration: the consumer was cancelled here.
            ConsumerCancelled: the broker ended it.
            ServerClosed, ConnectionLost: the channel is gone.
        """
        while True:
            try:
                delivery = self._taken.popleft()
            except IndexError:
                if not self._thread.wait(self._take()):
                    raise StopIteration from None
                continue
            if self._it.no_ack or delivery.is_current:
                return Delivery(self._thread, delivery)
            # Its connection was lost, so the message comes again.

    async def _take(self) -> bool:
        """Take what there is, on the loop; False: there will be nothing more.

        It is put where `__next__` finds it, also if nobody waits for the answer any more.
        """
        consumer = self._it
        try:
            found: AsyncDelivery | None = await consumer.next_delivery()
        except StopAsyncIteration:
            return False
        while found is not None:
            self._taken.append(found)
            if len(self._taken) >= BATCH_MAX:
                break
            found = consumer.inbox.pop()
        return True

    def cancel(self) -> None:
        """End the consumer; what was delivered and nobody took goes back to the queue."""
        if self._thread.is_running:
            self._thread.wait(self._cancel())

    async def _cancel(self) -> None:
        await self._it.cancel()
        taken, self._taken = self._taken, deque()
        _give_back(taken)

    def __del__(self) -> None:
        # A loop was left, and nobody holds the consumer; the one behind it cancels itself.
        if getattr(self, "_taken", None):
            self._thread.post_last(partial(_give_back, self._taken))


def _give_back(taken: Iterable[AsyncDelivery]) -> None:
    """Has deliveries go back to their queue that nobody asked for, on the loop."""
    for delivery in taken:
        give_back(delivery)


class Delivery:
    """A message that the broker delivered. Settling it does not wait for anything."""

    __slots__ = ("_settled", "_thread", "behind")

    def __init__(self, thread: LoopThread, delivery: AsyncDelivery) -> None:
        self._thread = thread
        self._settled = delivery.settled
        self.behind: AsyncDelivery = delivery

    def __repr__(self) -> str:
        return f"<Blocking {self.behind!r}>"

    @property
    def body(self) -> bytes:
        """The content."""
        return self.behind.body

    @property
    def exchange(self) -> str:
        """Where it was published to; "" is the default exchange."""
        return self.behind.exchange

    @property
    def key(self) -> str:
        """The routing key."""
        return self.behind.key

    @property
    def delivery_tag(self) -> int:
        """Its number on its channel."""
        return self.behind.delivery_tag

    @property
    def redelivered(self) -> bool:
        """Whether the broker has delivered it before."""
        return self.behind.redelivered

    @property
    def consumer_tag(self) -> str:
        """The consumer that it was delivered to; "" for one that was got."""
        return self.behind.consumer_tag

    @property
    def properties(self) -> Properties:
        """All properties."""
        return self.behind.properties

    @property
    def headers(self) -> dict[str, Any]:
        """The headers; empty without any."""
        return self.behind.headers

    @property
    def content_type(self) -> str | None:
        """The MIME type of the body."""
        return self.behind.content_type

    @property
    def content_encoding(self) -> str | None:
        """The MIME encoding of the body."""
        return self.behind.content_encoding

    @property
    def persistent(self) -> bool:
        """Whether it outlives a restart of the broker in a durable queue."""
        return self.behind.persistent

    @property
    def priority(self) -> int | None:
        """The priority."""
        return self.behind.priority

    @property
    def correlation_id(self) -> str | None:
        """What ties a reply to its request."""
        return self.behind.correlation_id

    @property
    def reply_to(self) -> str | None:
        """The queue that a reply is wanted in."""
        return self.behind.reply_to

    @property
    def expiration(self) -> str | None:
        """The time to live that the message was published with, in milliseconds as text."""
        return self.behind.expiration

    @property
    def message_id(self) -> str | None:
        """The id that the publisher gave it."""
        return self.behind.message_id

    @property
    def timestamp(self) -> datetime | None:
        """When it was published, says the publisher."""
        return self.behind.timestamp

    @property
    def type(self) -> str | None:
        """What kind of message it is."""
        return self.behind.type

    @property
    def user_id(self) -> str | None:
        """The publisher's user, checked by the broker."""
        return self.behind.user_id

    @property
    def app_id(self) -> str | None:
        """The publisher's application."""
        return self.behind.app_id

    @property
    def offset(self) -> int | None:
        """Its offset in its stream; None if it comes from no stream."""
        return self.behind.offset

    @property
    def tag(self) -> str | None:
        """The tag that filters know it by."""
        return self.behind.tag

    @property
    def delivery_count(self) -> int:
        """How many deliveries failed before this one, as far as the broker counts them."""
        return self.behind.delivery_count

    @property
    def deaths(self) -> list[dict[str, Any]]:
        """Where it was dead-lettered, the last time first."""
        return self.behind.deaths

    @property
    def settled(self) -> bool:
        """Whether it was acked, nacked or rejected, or needs none of these."""
        return self._settled or self.behind.settled

    def _settle(self, settle: Callable[[], object]) -> None:
        if self.settled:
            raise LocalProtocolError(
                f"delivery {self.behind.delivery_tag} is settled already, or needs no ack; "
                "settle each delivery once"
            )
        self._settled = True
        self._thread.post(partial(self._settle_behind, settle))

    def _settle_behind(self, settle: Callable[[], object]) -> None:
        """On the loop; from now on the delivery behind says whether it is settled."""
        settle()
        self._settled = False

    def ack(self, multiple: bool = False) -> None:
        """Tell the broker that it is done with.

        Args:
            multiple: and so are all deliveries before it on its channel.

        Raises:
            LocalProtocolError: it was settled before.
        """
        behind = self.behind
        self._settle(behind.ack if not multiple else lambda: behind.ack(multiple=True))

    def nack(self, requeue: bool = True, multiple: bool = False) -> None:
        """Tell the broker that it was not done; without `requeue` it is dropped or dead-lettered.

        Args:
            requeue: put it back into its queue.
            multiple: and likewise all deliveries before it on its channel.

        Raises:
            LocalProtocolError: it was settled before.
        """
        self._settle(lambda: self.behind.nack(requeue=requeue, multiple=multiple))

    def reject(self, requeue: bool = False) -> None:
        """Tell the broker that it cannot be done: it is dropped or dead-lettered.

        Args:
            requeue: put it back into its queue instead.

        Raises:
            LocalProtocolError: it was settled before.
        """
        self._settle(lambda: self.behind.reject(requeue=requeue))

    @contextmanager
    def process(self, requeue: bool = False, ignore_processed: bool = False) -> Iterator[Delivery]:
        """Settle it by how a block ends: acked, or nacked after an exception.

        Args:
            requeue: after an exception, put it back into its queue.
            ignore_processed: leave it alone if the block has settled it.
        """
        try:
            yield self
        except BaseException as error:
            if not (ignore_processed and self.settled):
                # Interrupted: the message was not at fault.
                self.nack(requeue=requeue or not isinstance(error, Exception))
            raise
        if not (ignore_processed and self.settled):
            self.ack()
