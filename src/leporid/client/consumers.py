"""The consumers of a channel, over all its connections.

Responsible for starting them, on the first connection and on others, and for finding them by their
tags. It must not know connections, nor hold a consumer that nobody else holds. Invariant: a
consumer that was cancelled is not started again.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

from leporid.amqp.methods import BasicConsume, BasicConsumeOk, BasicQos, BasicQosOk
from leporid.client.channel_link import ChannelLink
from leporid.client.errors import ServerClosed, fresh

if TYPE_CHECKING:
    from leporid.client.consumer import Consumer


class Consumers:
    """The consumers of a channel."""

    def __init__(self) -> None:
        self._by_tag: dict[str, weakref.ref[Consumer]] = {}
        self._next = 1
        # basic.qos and the basic.consume that it is meant for must follow one another.
        self._starting = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._by_tag)

    def __iter__(self) -> Iterator[Consumer]:
        found = [reference() for reference in self._by_tag.values()]
        return iter([each for each in found if each is not None])

    def __repr__(self) -> str:
        return f"<Consumers, {len(self)}>"

    def new_tag(self) -> str:
        """Makes a tag that no other consumer of the channel has."""
        tag = f"c{self._next}"
        self._next += 1
        return tag

    def add(self, consumer: Consumer) -> None:
        """A consumer was started."""
        self._by_tag[consumer.consumer_tag] = weakref.ref(consumer)

    def pop(self, consumer_tag: str) -> Consumer | None:
        """A consumer ends; returns it, if somebody holds it."""
        reference = self._by_tag.pop(consumer_tag, None)
        return None if reference is None else reference()

    def get(self, consumer_tag: str) -> Consumer | None:
        """Returns the consumer with that tag, if there is one and somebody holds it."""
        reference = self._by_tag.get(consumer_tag)
        return None if reference is None else reference()

    def lose(self, error: Exception) -> None:
        """Their channel is gone: what nobody took comes again."""
        for consumer in self:
            consumer.inbox.lose()
            if consumer.on_lost is not None:
                consumer.on_lost(error)

    def end(self, error: Exception | None) -> None:
        """Nothing more comes; None: it was asked for."""
        for consumer in self:
            consumer.inbox.end(error)
        self._by_tag.clear()

    async def start(self, link: ChannelLink, consumer: Consumer, prefetch: int) -> None:
        """Starts a consumer, unless it was cancelled.

        Args:
            link: the channel.
            consumer: it.
            prefetch: of consumers that do not say.
        """
        if consumer.prefetch is not None:
            prefetch = consumer.prefetch
        async with self._starting:
            await link.call(BasicQos(0, prefetch), BasicQosOk)
            if consumer.is_cancelled:
                return
            consumer.inbox.begin()
            link.codec.attach(consumer.inbox)
            try:
                await link.call(
                    BasicConsume(
                        consumer.queue.name,
                        consumer.consumer_tag,
                        False,
                        consumer.no_ack,
                        consumer.exclusive,
                        False,
                        consumer.arguments,
                    ),
                    BasicConsumeOk,
                )
            except BaseException:
                # Not waited for any more: it may have begun all the same.
                if link.error is None:
                    _ = link.cancel(consumer.inbox)
                raise

    async def restart(
        self, link: ChannelLink, prefetch: int
    ) -> tuple[Consumer, ServerClosed] | None:
        """Starts all of them on another channel, until the broker refuses one.

        Returns:
            That one, which is not among them any more, and the error that closed the channel.
        """
        for tag, reference in list(self._by_tag.items()):
            consumer = reference()
            if consumer is None:
                continue
            try:
                await self.start(link, consumer, prefetch)
            except ServerClosed as error:
                if error.connection:
                    raise
                self._by_tag.pop(tag, None)
                consumer.inbox.end(fresh(error))
                return consumer, fresh(error)
        return None
