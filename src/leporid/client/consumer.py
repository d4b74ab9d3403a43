"""Consumers: an asynchronous iterator over what a queue delivers.

Responsible for beginning, waiting and ending. Deliveries that are there are handed out by
`delivery.pyx`, without a call to this module. It must not know connections. Invariant: a consumer
that nobody holds any more is cancelled, and what it had not handed out goes back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from leporid.amqp.tables import Value
from leporid.client.delivery import Deliveries, Delivery, Inbox
from leporid.client.errors import ConnectionLost, ConsumerCancelled, ServerClosed, Timeout, fresh

if TYPE_CHECKING:
    from leporid.client.queue import Queue


class Consumer:
    """A consumer. `queue.consume(…)` makes it; iterating over it, or entering it, begins it.

    Attributes:
        queue: what it consumes from.
        consumer_tag: its tag.
        prefetch: how many deliveries may be unsettled; None: as the channel has it.
        no_ack: deliveries need no ack.
        exclusive: nobody else may consume from the queue.
        is_cancelled: whether `cancel()` was called, or nobody holds it any more.
        arguments: of basic.consume.
        on_lost: called with the reason when its channel is lost: what was on its way comes again,
            or never if it needs no ack.
    """

    def __init__(
        self,
        queue: Queue,
        prefetch: int | None,
        *,
        no_ack: bool,
        exclusive: bool,
        unique_ids: bool,
        arguments: dict[str, Value],
    ) -> None:
        channel = queue.channel
        self.queue = queue
        self.prefetch = prefetch
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.arguments = arguments
        self.is_cancelled: bool = False
        self.on_lost: Callable[[Exception], None] | None = None
        self.consumer_tag: str = channel.new_consumer_tag()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        remembered = 0
        if unique_ids and channel.connection.settings.robust:
            remembered = channel.default_prefetch if prefetch is None else prefetch
        self.inbox: Inbox = Inbox(self.consumer_tag, no_ack, remembered, self._loop)
        self._started = False
        self._starting: asyncio.Lock = asyncio.Lock()

    def __repr__(self) -> str:
        if not self._started:
            state = "not begun"
        else:
            state = "ended" if self.inbox.ended else "active"
        return (
            f"<Consumer {self.consumer_tag!r} of queue {self.queue.name!r}, "
            f"{len(self.inbox)} deliveries to take, {state}>"
        )

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.cancel()

    def __aiter__(self) -> Deliveries:
        return Deliveries(self.inbox, self)

    async def begin(self) -> None:
        """Begins to consume; iterating does it, too.

        Raises:
            NotFound: the queue does not exist.
            AccessRefused: the user may not, or somebody consumes exclusively.
            PreconditionFailed: an argument is wrong; the text says which.
        """
        async with self._starting:
            if not self._started:
                await self.queue.channel.start(self)
                self._started = True
                if self.is_cancelled:  # meanwhile
                    await self.cancel()

    async def next_delivery(self) -> Delivery:
        """Waits for the next delivery.

        Raises:
            StopAsyncIteration: `cancel()` was called, or the channel was closed here.
            ConsumerCancelled: the broker ended the consumer.
            ServerClosed, ConnectionLost: the channel is gone.
        """
        if not self._started:
            await self.begin()
        inbox = self.inbox
        if inbox.rest():
            await asyncio.sleep(0)
        while True:
            delivery = inbox.pop()
            if delivery is not None:
                return delivery
            if inbox.ended:
                if inbox.error is not None:
                    raise fresh(inbox.error)
                raise StopAsyncIteration
            try:
                await inbox.wait()
            except asyncio.CancelledError:
                inbox.woken()
                raise

    async def cancel(self) -> None:
        """Ends the consumer; what was delivered and nobody took goes back to the queue."""
        if not self._started:
            # Who begins it in this moment ends it, too.
            self.is_cancelled = self._starting.locked()
            return
        if self.inbox.ended:
            return
        self.is_cancelled = True
        link = self.queue.channel.forget_consumer(self.consumer_tag, self.queue)
        self.inbox.end(None)
        if link is None or link.error is not None:
            return
        try:
            await asyncio.wait_for(
                asyncio.shield(link.cancel(self.inbox)), link.link.settings.answer_timeout_s
            )
        except (ConnectionLost, ServerClosed):
            pass
        except TimeoutError:
            raise Timeout(
                f"no basic.cancel-ok for consumer {self.consumer_tag!r} within "
                f"{link.link.settings.answer_timeout_s:g} s"
            ) from None

    def cancelled_by_broker(self) -> None:
        """The broker ended the consumer; what was delivered can still be taken."""
        self.inbox.end(ConsumerCancelled(self.queue.name, self.consumer_tag))

    def __del__(self) -> None:
        # A loop was left by break or an exception, and nobody holds the consumer.
        if not getattr(self, "_started", False) or self.inbox.ended or self._loop.is_closed():
            return
        if threading.get_ident() == self._thread:
            _abandon(self.queue, self.consumer_tag, self.inbox)
        else:
            self._loop.call_soon_threadsafe(_abandon, self.queue, self.consumer_tag, self.inbox)


def _abandon(queue: Queue, consumer_tag: str, inbox: Inbox) -> None:
    """Has a consumer cancelled that nobody holds; waits for nothing."""
    link = queue.channel.forget_consumer(consumer_tag, queue)
    inbox.end(None)
    if link is not None and link.error is None:
        _ = link.cancel(inbox)
