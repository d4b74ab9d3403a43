"""Channels as RabbitMQ's API has them: lists, and one channel.

Responsible for these routes and for what a channel looks like in JSON. Must not know how lists are
made (`paging`). Invariant: who does not monitor sees the channels of its own connections only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.broker.access.tags import may_monitor
from leporid.broker.connection.methods.connection import Phase
from leporid.management.authorization import manager, not_authorised, not_found, visitor
from leporid.management.consumers import shown_consumer
from leporid.management.details import channel_name, connection_details
from leporid.management.paging import ABSENT, Lists, Table, columns_in, first_of
from leporid.management.paths import name_of
from leporid.management.rates import rates_of, with_rates

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.connection.channel import ChannelState
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

STATS: Final = ("publish", "deliver_get", "ack")
PHASES: Final = (Phase.RUNNING, Phase.CLOSING, Phase.CLOSED)
"""Those of connections that are listed: the handshake is over."""


class ChannelRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._table: Table[ChannelState] = Table(
            {
                "name": channel_name,
                "number": lambda channel: channel.number,
                "user": lambda channel: channel.session.user.name,
                "user_who_performed_action": lambda channel: channel.session.user.name,
                "vhost": lambda channel: channel.session.vhost.name,
                "node": lambda channel: around.node_name,
                "connection_details": lambda channel: connection_details(channel.session),
                "state": lambda channel: "closing" if channel.is_ending else "running",
                "confirm": lambda channel: channel.engine.confirming,
                "transactional": lambda channel: channel.engine.transactional,
                "prefetch_count": lambda channel: channel.engine.prefetch_count,
                "global_prefetch_count": lambda channel: channel.engine.prefetch_global,
                "messages_unconfirmed": _unconfirmed,
                "messages_uncommitted": lambda channel: channel.engine.uncommitted[0],
                "acks_uncommitted": lambda channel: channel.engine.uncommitted[1],
                "message_stats": self._stats,
                "messages_unacknowledged": lambda channel: channel.engine.unacked_count,
                "consumer_count": lambda channel: len(channel.subscriptions) + len(channel.members),
            },
            lambda channel: (channel_name(channel),),
        )
        self._lists = Lists(around, self._table, channel_name)

    def _stats(self, channel: ChannelState) -> Any:
        engine = channel.engine
        values = (engine.published, engine.delivery_tag, engine.acked)
        rates = rates_of(channel, values, self._around.monotonic())
        return with_rates(STATS, values, rates) if any(values) else ABSENT

    async def listing(self, request: Request) -> Response:
        """GET /api/channels."""
        user = await manager(self._around, request)
        return await self._list(request, user, shown_sessions(self._around, user))

    async def listing_of_vhost(self, request: Request) -> Response:
        """GET /api/vhosts/{vhost}/channels."""
        user, vhost = await visitor(self._around, request)
        return await self._list(request, user, shown_sessions(self._around, user, vhost))

    async def listing_of_connection(self, request: Request) -> Response:
        """GET /api/connections/{name}/channels."""
        user = await manager(self._around, request)
        session = await find_session(self._around, user, name_of(request, "name"))
        return await self._list(request, user, [session])

    async def _list(
        self, request: Request, user: User, sessions: Iterable[ConnectionState | None]
    ) -> Response:
        count = self._around.broker.session_index.channel_count
        return await self._lists.answer(request, user, channels_of(sessions), count)

    async def show(self, request: Request) -> Response:
        """GET /api/channels/{name}."""
        user = await manager(self._around, request)
        channel = await find_channel(self._around, user, name_of(request, "channel"))
        columns = columns_in(request)
        shown = self._table.show(channel, columns)
        if columns is None:
            node = self._around.node_name
            shown["consumer_details"] = chain(
                (shown_consumer(each, node) for each in channel.subscriptions.values()),
                (shown_consumer(each, node) for each in tuple(channel.members.values())),
            )
        return self._around.listing(user, shown)


def _unconfirmed(channel: ChannelState) -> int:
    confirms = channel.engine.confirms
    return confirms.published - confirms.settled


def shown_sessions(
    around: Surroundings, user: User, vhost: VirtualHost | None = None
) -> Iterator[ConnectionState | None]:
    """Go through the connections that a user sees; None for each other one."""
    every = may_monitor(user)
    for session in tuple(around.broker.sessions):
        listed = session.phase in PHASES and session.opened
        seen = listed and (every or session.user.name == user.name)
        yield session if seen and vhost in (None, session.vhost) else None


async def find_session(around: Surroundings, user: User, name: str) -> ConnectionState:
    """Return a connection by its name.

    Raises:
        Refusal: there is none (404), or it is another user's, who does not monitor (401).
    """
    sessions = tuple(around.broker.sessions)
    found = await first_of(
        around, user, sessions, lambda each: each.full_name == name and each.phase in PHASES
    )
    if found is None or not found.opened:
        raise not_found()
    if not may_monitor(user) and found.user.name != user.name:
        raise not_authorised("User not authorised to access object")
    return found


async def find_channel(around: Surroundings, user: User, name: str) -> ChannelState:
    """Return a channel by its name; raises as `find_session`."""
    connection, _, number = name.rpartition(" (")
    session = await find_session(around, user, connection)
    digits = number.removesuffix(")")
    known = digits.isascii() and digits.isdigit() and len(digits) < 6
    channel = session.channels.get(int(digits)) if known else None
    if channel is None or channel_name(channel) != name:
        raise not_found()
    return channel


def channels_of(sessions: Iterable[ConnectionState | None]) -> Iterator[Any]:
    """Go through the channels of connections; None for what is no connection."""
    for session in sessions:
        if session is None:
            yield None
        else:
            yield from tuple(session.channels.values())
