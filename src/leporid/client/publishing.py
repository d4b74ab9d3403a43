"""The publishes of a channel: which may be written now, which wait, and which are unconfirmed.

Responsible for holding publishes back while the connection is away, blocked or slow, and while too
much is unconfirmed; and for writing what is unconfirmed again on another connection. It must not
know how a channel is opened. Invariant: a publish is written when none is left that an earlier
connection had before it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from leporid.client.channel_link import ChannelLink
from leporid.client.codec import ChannelCodec
from leporid.client.gate import AT_ONCE, Gate
from leporid.client.publishes import Unconfirmed
from leporid.client.settings import Settings

PREFIX_BYTES: Final = 12
"""Random bytes in the message ids that the client makes."""


class Publishing:
    """The publishes of a channel, over all its connections.

    Args:
        settings: how much may be unconfirmed.
        confirms: publishes are confirmed.
        usable: returns the channel if it can be used at once; raises why it never will.
        changed: returns a future that is done when the state of the connection has changed.

    Attributes:
        gate: where publishes wait.
        unconfirmed: what is not confirmed; None without confirms.
        flow: whether the broker wants publishes on the channel.
    """

    def __init__(
        self,
        settings: Settings,
        confirms: bool,
        usable: Callable[[], ChannelLink | None],
        changed: Callable[[], asyncio.Future[None]],
    ) -> None:
        self.gate: Gate = Gate(self._room)
        self.unconfirmed: Unconfirmed | None = None
        if confirms:
            prefix = secrets.token_urlsafe(PREFIX_BYTES).encode()
            self.unconfirmed = Unconfirmed(
                prefix, settings.unconfirmed_max, settings.unconfirmed_bytes_max, self.gate.look
            )
        self.flow: bool = True
        self._usable = usable
        self._changed = changed

    def __repr__(self) -> str:
        unconfirmed = 0 if self.unconfirmed is None else len(self.unconfirmed)
        return f"<Publishing, {unconfirmed} unconfirmed, {len(self.gate)} wait>"

    def at_once(self) -> ChannelCodec | None:
        """What a publish is written with; None: it has to wait, for room or for others."""
        codec = self.writable()
        full = self.unconfirmed is not None and not self.unconfirmed.single_room
        return None if full or self.gate else codec

    async def in_turn(self) -> ChannelCodec:
        """Waits until a publish may be written, behind those that wait already."""
        await self.gate.passed()
        codec = self.writable()
        assert codec is not None
        return codec

    def _room(self) -> int:
        """How many publishes may be written now."""
        if self.writable() is None:
            return 0
        return AT_ONCE if self.unconfirmed is None else self.unconfirmed.single_room

    def writable(self) -> ChannelCodec | None:
        """What publishes are written with that count their own; None: they have to wait."""
        link = self._usable()
        if link is None or not self._may_write(link):
            return None
        if self.unconfirmed is not None and self.unconfirmed.to_resend:
            return None
        return link.codec

    async def until_writable(self) -> ChannelCodec:
        """Waits until publishes may be written that count their own."""
        while True:
            codec = self.writable()
            if codec is not None:
                return codec
            await self._changed()

    def _may_write(self, link: ChannelLink) -> bool:
        return self.flow and not link.link.is_blocked and not link.codec.connection.paused

    async def resend(self, link: ChannelLink) -> int:
        """Writes again what is unconfirmed, in pieces, as the connection takes them.

        Returns:
            How many publishes were written: all of them, unless the channel is gone.
        """
        count = 0
        while self.unconfirmed is not None and self.unconfirmed.to_resend and link.error is None:
            if self._may_write(link):
                count += link.codec.republish()
                # What was written leaves with the end of the turn.
                await asyncio.sleep(0)
            else:
                await self._changed()
        return count
