"""Connections as RabbitMQ's API has them: lists, one connection, closing.

Responsible for these routes and for what a connection looks like in JSON. Must not know how lists
are made (`paging`), nor sockets. Invariant: who does not monitor sees and closes its own
connections only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from leporid.amqp.errors import ConnectionForced
from leporid.broker.access.tags import is_administrator, may_monitor
from leporid.broker.connection.methods.connection import Phase
from leporid.management import amqp_json
from leporid.management.authorization import manager, not_authorised, visitor
from leporid.management.channels import find_session, shown_sessions
from leporid.management.paging import ABSENT, Lists, Slices, Table, columns_in
from leporid.management.paths import name_of
from leporid.management.rates import rates_of

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

CLOSED: str = "Closed via management plugin"
"""What the client is told if the request gives no reason; RabbitMQ's."""


class ConnectionRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._table: Table[ConnectionState] = Table(
            {
                "name": lambda session: session.full_name,
                "user": lambda session: session.user.name,
                "user_who_performed_action": lambda session: session.user.name,
                "user_provided_name": _own_name,
                "vhost": lambda session: session.vhost.name,
                "node": lambda session: around.node_name,
                "type": lambda session: "network",
                "protocol": lambda session: "AMQP 0-9-1",
                "state": _state,
                "host": lambda session: _end(session, "host"),
                "port": lambda session: _end(session, "port"),
                "peer_host": lambda session: _end(session, "peer_host"),
                "peer_port": lambda session: _end(session, "peer_port"),
                "ssl": lambda session: _end(session, "tls") is True,
                "ssl_protocol": lambda session: _encrypted(session, "protocol"),
                "ssl_key_exchange": lambda session: _encrypted(session, "key_exchange"),
                "ssl_cipher": lambda session: _encrypted(session, "cipher"),
                "ssl_hash": lambda session: _encrypted(session, "hash"),
                "peer_cert_subject": lambda session: _certified(session, "subject"),
                "peer_cert_issuer": lambda session: _certified(session, "issuer"),
                "peer_cert_validity": lambda session: _certified(session, "validity"),
                "auth_mechanism": lambda session: session.mechanism,
                "connected_at": lambda session: session.connected_at_ms,
                "timeout": lambda session: session.heartbeat_s,
                "frame_max": lambda session: session.connection.output.frame_max,
                "channel_max": lambda session: session.channel_max,
                "channels": lambda session: len(session.channels),
                "recv_oct": lambda session: session.connection.received_bytes,
                "recv_oct_details": lambda session: {"rate": self._rates(session)[0]},
                "send_oct": lambda session: session.connection.sent_bytes,
                "send_oct_details": lambda session: {"rate": self._rates(session)[1]},
                "send_pend": lambda session: session.connection.output.pending_bytes,
                "client_properties": lambda session: amqp_json.shown(
                    dict(session.client_properties)
                ),
            },
            _order,
        )
        self._of_user: Table[ConnectionState] = Table(
            {name: self._table.fields[name] for name in ("name", "vhost", "user", "node")}, _order
        )
        self._lists = Lists(around, self._table, lambda session: session.full_name)

    def _rates(self, session: ConnectionState) -> Sequence[float]:
        """How many octets come and go in a second."""
        octets = session.connection.received_bytes, session.connection.sent_bytes
        return rates_of(session, octets, self._around.monotonic())

    # ------------------------------------------------------------- looking

    async def listing(self, request: Request) -> Response:
        """GET /api/connections."""
        user = await manager(self._around, request)
        return await self._list(request, user)

    async def listing_of_vhost(self, request: Request) -> Response:
        """GET /api/vhosts/{vhost}/connections."""
        user, vhost = await visitor(self._around, request)
        return await self._list(request, user, vhost)

    async def _list(
        self, request: Request, user: User, vhost: VirtualHost | None = None
    ) -> Response:
        sessions = shown_sessions(self._around, user, vhost)
        count = len(self._around.broker.sessions)
        return await self._lists.answer(request, user, sessions, count)

    async def listing_of_user(self, request: Request) -> Response:
        """GET /api/connections/username/{username}."""
        user, name = await self._about_user(request)
        sessions = (
            each if each is not None and each.user.name == name else None
            for each in shown_sessions(self._around, user)
        )
        count = len(self._around.broker.sessions)
        return await self._lists.answer(request, user, sessions, count, self._of_user)

    async def _about_user(self, request: Request) -> tuple[User, str]:
        """Return who asks, and about whose connections; raises Refusal if that is not allowed."""
        user = await manager(self._around, request)
        name = name_of(request, "username")
        if not may_monitor(user) and name != user.name:
            raise not_authorised("User not authorised to access object")
        return user, name

    async def show(self, request: Request) -> Response:
        """GET /api/connections/{name}."""
        user = await manager(self._around, request)
        session = await find_session(self._around, user, name_of(request, "name"))
        return self._around.listing(user, self._table.show(session, columns_in(request)))

    # ------------------------------------------------------------- closing

    async def close(self, request: Request) -> Response:
        """DELETE /api/connections/{name}: with the reason in the header X-Reason."""
        user = await manager(self._around, request)
        session = await find_session(self._around, user, name_of(request, "name"))
        _check_may_close(user, session.user.name)
        self._close(session, request)
        return Response(status_code=204)

    async def close_of_user(self, request: Request) -> Response:
        """DELETE /api/connections/username/{username}."""
        user, name = await self._about_user(request)
        _check_may_close(user, name)
        slices = Slices(self._around, user)
        for session in shown_sessions(self._around, user):
            await slices.next()
            if session is not None and session.user.name == name:
                self._close(session, request)
        return Response(status_code=204)

    def _close(self, session: ConnectionState, request: Request) -> None:
        reason = request.headers.get("x-reason") or CLOSED
        session.close_for(ConnectionForced(reason))
        self._around.wake()


def _order(session: ConnectionState) -> tuple[str]:
    return (session.full_name,)


def _own_name(session: ConnectionState) -> Any:
    name = session.client_properties.get("connection_name")
    return name if isinstance(name, str) else ABSENT


def _state(session: ConnectionState) -> str:
    if session.phase is not Phase.RUNNING:
        return "closing"
    return "blocked" if session.blocked else "running"


def _end(session: ConnectionState, name: str) -> Any:
    return None if session.endpoints is None else getattr(session.endpoints, name)


def _encrypted(session: ConnectionState, name: str) -> Any:
    """What TLS has agreed on; null without it, as in RabbitMQ."""
    return None if session.encryption is None else getattr(session.encryption, name)


def _certified(session: ConnectionState, name: str) -> Any:
    """What the client's certificate says; null without one."""
    certificate = None if session.encryption is None else session.encryption.certificate
    return None if certificate is None else getattr(certificate, name)


def _check_may_close(user: User, whose: str) -> None:
    """Refuse who is neither an administrator nor the connection's user: monitors look only."""
    if not is_administrator(user) and whose != user.name:
        raise not_authorised("User not authorised to access object")
