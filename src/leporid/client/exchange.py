"""Exchanges: publishing.

Responsible for publishing one message or many, and for what a delay is on which broker. It must not
know connections. Invariant: a publish that returns was confirmed, on a channel with confirms.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Unpack

from leporid.amqp.tables import Value
from leporid.client.arguments import WINDOW_MAX, BindOptions, whole_number
from leporid.client.codec import ChannelCodec
from leporid.client.encoder import EncodedProperties, check_name, encode_properties
from leporid.client.errors import LocalProtocolError, Timeout, fresh
from leporid.client.message import (
    Body,
    Headers,
    Message,
    delay_ms_of,
    expiration_of,
    headers_of,
    octets,
    seconds_of,
)
from leporid.client.publishes import Batch

if TYPE_CHECKING:
    from leporid.client.channel import Channel

PERSISTENT: Final = encode_properties(delivery_mode=2)
TRANSIENT: Final = encode_properties()
_NO_PROPERTIES: Final = (None,) * 7
_NONE: Final = (None,) * 5
DELAYED_TYPE: Final = "x-delayed-message"
# Publishes that are written before others have their turn.
RUN: Final = 256
# publish_many stops after so many messages that were returned or refused.
FAILURES_MAX: Final = 1000


class Exchange:
    """An exchange. `channel.exchange(…)` declares it.

    Attributes:
        channel: what publishes are sent on.
        name: "" is the default exchange.
        type: direct, topic, fanout, headers or another.
    """

    def __init__(self, channel: Channel, name: str, type: str) -> None:  # noqa: A002
        self.channel = channel
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"<Exchange {self.name!r} of type {self.type} on {self.channel!r}>"

    async def publish(
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
        type: str | None = None,  # noqa: A002  (the property's name)
        user_id: str | None = None,
        app_id: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Publishes a message; returns when the broker has confirmed it.

        The properties are those of `Message`. `delay` holds the message in the broker for so long,
        a number is in seconds (Leporid, or an exchange of type x-delayed-message). `mandatory` has
        it returned if no queue wants it. `timeout_s` limits the wait for the confirm, in seconds.

        Raises:
            Returned: no queue wants it.
            Nacked: the broker refused it.
            Timeout: no confirm in time; it may have been taken.
            ServerClosed: the broker closed the channel over it, as when there is no such exchange.
            ConnectionLost: the connection is gone, and not robust.
            LocalProtocolError: it cannot be sent.
        """
        properties = PERSISTENT if persistent else TRANSIENT
        if (
            (headers, delay, deliver_at, tag, expires, priority, content_type) != _NO_PROPERTIES
            or (content_encoding, correlation_id, reply_to, message_id, timestamp) != _NONE
            or (type, user_id, app_id) != (None, None, None)
        ):
            properties = encode_properties(
                content_type=content_type,
                content_encoding=content_encoding,
                headers=self._headers(headers, tag, delay, deliver_at),
                delivery_mode=2 if persistent else None,
                priority=priority,
                correlation_id=correlation_id,
                reply_to=reply_to,
                expiration=None if expires is None else expiration_of(expires),
                message_id=message_id,
                timestamp=None if timestamp is None else seconds_of(timestamp),
                type=type,
                user_id=user_id,
                app_id=app_id,
            )
        if timeout_s is None:
            await self._publish(octets(body), key, properties, mandatory)
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._publish(octets(body), key, properties, mandatory)
        except TimeoutError:
            raise Timeout(
                f"no confirm within {timeout_s:g} s of a publish to exchange {self.name!r} with "
                f"key {key!r}; it may have been taken"
            ) from None

    async def _publish(
        self, body: bytes, key: str, properties: EncodedProperties, mandatory: bool
    ) -> None:
        channel = self.channel
        codec = channel.publishing.at_once()
        if codec is None:
            codec = await channel.publishing.in_turn()
        if not channel.confirms:
            codec.publish(self.name, key, properties, body, mandatory, None)
            return
        confirmed = codec.connection.loop.create_future()
        codec.publish(self.name, key, properties, body, mandatory, confirmed)
        try:
            await confirmed
        finally:
            # The traceback of its error refers to this frame.
            del confirmed

    def _headers(
        self,
        headers: Headers | None,
        tag: str | None,
        delay: timedelta | float | None,
        deliver_at: datetime | None,
    ) -> dict[str, Value] | None:
        """Headers, and what a delay is here: x-delay counts in exchanges for it only."""
        delay_ms = None
        if delay is not None:
            if deliver_at is not None:
                raise LocalProtocolError("give delay or deliver_at, not both")
            delay_ms = delay_ms_of(delay)
            if self.type != DELAYED_TYPE:
                # By the client's clock, as the exchange does not know how long that is.
                deliver_at = self.channel.connection.now() + timedelta(milliseconds=delay_ms)
                delay_ms = None
        if deliver_at is not None:
            self._require_delays()
        return headers_of(headers, tag=tag, delay_ms=delay_ms, deliver_at=deliver_at)

    def _require_delays(self) -> None:
        server = self.channel.connection.server
        if not server.is_leporid:
            raise LocalProtocolError(
                f"{server.product or 'this broker'} {server.version} does not delay messages: use "
                "leporid.client.Scheduler, which makes queues for it, or an exchange of type "
                f"{DELAYED_TYPE} where there is its plugin"
            )

    async def publish_many(
        self,
        messages: Iterable[Body | Message] | AsyncIterable[Body | Message],
        key: str = "",
        *,
        window: int = 1000,
        mandatory: bool = True,
    ) -> int:
        """Publishes messages; returns when all are confirmed.

        Args:
            messages: bodies, or messages with their own keys and properties.
            key: the routing key of those without one.
            window: how many may be unconfirmed at a time.
            mandatory: have messages returned that no queue wants.

        Returns:
            How many there were.

        Raises:
            ExceptionGroup: of `Returned` and `Nacked`, one for each message that was not kept; the
                others were. After a thousand of them no further messages are published.
            ServerClosed, ConnectionLost, LocalProtocolError: as for `publish`; messages may have
                been published.
        """
        whole_number(window, "window", 1, WINDOW_MAX)
        check_name(key, "routing key")
        batch = Batch(window, self.channel.connection.settings.unconfirmed_bytes_max)
        try:
            if isinstance(messages, AsyncIterable):
                async for message in messages:
                    codec = await self._room(batch)
                    codec.publish_one(batch, message, self.name, key, PERSISTENT, mandatory)
                    if len(batch.failures) >= FAILURES_MAX:
                        break
            else:
                await self._publish_all(batch, messages, key, mandatory)
            await self._until(batch, 0, 0)
        except BaseException:
            batch.abandoned = True
            raise
        if batch.failures:
            raise ExceptionGroup(
                f"{len(batch.failures)} of {batch.published} messages were not kept",
                batch.failures,
            )
        return batch.published

    async def _publish_all(
        self, batch: Batch, messages: Iterable[Body | Message], key: str, mandatory: bool
    ) -> None:
        iterator = iter(messages)
        while len(batch.failures) < FAILURES_MAX:
            codec = await self._room(batch)
            if codec.publish_run(batch, iterator, self.name, key, PERSISTENT, mandatory, RUN):
                return
            if not batch.is_full:
                await asyncio.sleep(0)

    async def _room(self, batch: Batch) -> ChannelCodec:
        """Waits until a batch may go on."""
        if batch.is_full:
            # Half of the window at a time: the broker confirms many publishes at once.
            await self._until(batch, batch.window // 2, batch.bytes_max // 2)
        if batch.error is not None:
            raise fresh(batch.error)
        publishing = self.channel.publishing
        return publishing.writable() or await publishing.until_writable()

    async def _until(self, batch: Batch, wanted: int, wanted_bytes: int) -> None:
        if batch.error is None:
            future = asyncio.get_running_loop().create_future()
            await batch.until(wanted, wanted_bytes, future)
        if batch.error is not None:
            raise fresh(batch.error)

    async def bind(
        self, source: Exchange | str, key: str = "", **options: Unpack[BindOptions]
    ) -> None:
        """Has messages of another exchange routed to this one; options as of `Channel.bind`."""
        await self.channel.bind(self, source, key, **options)

    async def unbind(
        self, source: Exchange | str, key: str = "", **options: Unpack[BindOptions]
    ) -> None:
        """Removes the binding that `bind` with the same arguments made."""
        await self.channel.unbind(self, source, key, **options)

    async def delete(self, *, if_unused: bool = False) -> None:
        """Deletes the exchange.

        Raises:
            PreconditionFailed: it has bindings, and `if_unused` is set.
        """
        await self.channel.delete_exchange(self, if_unused=if_unused)
