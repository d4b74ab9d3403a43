"""The methods of channel 0: the handshake, update-secret and close.

Responsible for what each phase of a connection accepts and where it leads. Must not know
deadlines and heartbeat clocks, which are the server's. Invariant: nothing that a client says is
acted on, or kept beyond its properties, before its login was accepted.

    starting ──start-ok──► securing ──login accepted──► tuning ──tune-ok──► opening ──open──►
    running ──close, from either side──► closing or closed ──close-ok──► the end
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.constants import FRAME_MIN_SIZE
from leporid.amqp.errors import AccessRefused, ChannelFault, NotAllowed, UnexpectedFrame
from leporid.amqp.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    kind_of,
)
from leporid.amqp.tables import Value, check_count
from leporid.broker.access.access import INVALID, User
from leporid.broker.access.backends import LoginRequest
from leporid.broker.access.sasl import EXTERNAL, parse_response
from leporid.broker.connection import user_changes

if TYPE_CHECKING:
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.registry import Steps

CLIENT_PROPERTIES_MAX: Final = 128
"""Values in the table of start-ok, with its capabilities. Clients send 15 to 30; anybody can send
as many as a frame holds, and each takes a third of a microsecond to decode."""

CLIENT_PROPERTIES_AT: Final = 4
"""Where that table stands: after the numbers of class and method."""

MECHANISM_CHARACTERS_MAX: Final = 32
"""Of the name that is kept; ours are shorter, and any other is refused."""

CHANNEL_MAX_MIN: Final = 1
"""RabbitMQ refuses nothing but a channel_max of less than one channel."""

CAPABILITIES: Final[dict[str, Value]] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


class Phase(Enum):
    """How far a connection is; the values are RabbitMQ's words in reply texts."""

    STARTING = "starting"
    SECURING = "securing"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSING = "closing"
    """We sent connection.close and wait for close-ok."""
    CLOSED = "closed"
    """We sent connection.close-ok, and wait for the client to close the socket."""


STRANGERS: Final = (
    (
        b"\x16\x03",
        "it speaks TLS, which is on another port, if there is a certificate (docs/tls.md)",
    ),
    (b"AMQP\x00\x01\x00\x00", "it speaks AMQP 1.0, not 0-9-1"),
    (b"AMQP\x03\x01\x00\x00", "it speaks AMQP 1.0, not 0-9-1"),
    (b"AMQP", "it speaks another version of AMQP than 0-9-1"),
    (b"GET ", "it speaks HTTP, which is on another port"),
    (b"PUT ", "it speaks HTTP, which is on another port"),
    (b"POST ", "it speaks HTTP, which is on another port"),
    (b"HEAD ", "it speaks HTTP, which is on another port"),
    (b"PROXY ", "it speaks the PROXY protocol, and is not in proxy_protocol.trusted"),
    (b"\r\n\r\n\x00\r\nQ", "it speaks the PROXY protocol, and is not in proxy_protocol.trusted"),
)


def stranger(header: bytes) -> str:
    """Say what a peer speaks that did not begin with our protocol header; nothing that it said."""
    for beginning, said in STRANGERS:
        if header.startswith(beginning):
            return said
    return "it does not speak AMQP"


def check_stranger(handlers: Mapping[type[Method], Handler], payload: bytes) -> None:
    """Refuse what a peer that has not logged in may not say, before it is decoded.

    Raises:
        ChannelFault: it is not one of the methods that are due.
        SyntaxFault: it says more about itself than we take.
    """
    kind = kind_of(payload)
    if kind not in handlers:
        raise ChannelFault("unexpected method before the login")
    if kind is ConnectionStartOk:
        check_count(payload, CLIENT_PROPERTIES_AT, CLIENT_PROPERTIES_MAX)


def start(session: ConnectionState) -> None:
    """Offer the connection; the protocol header was ours."""
    broker = session.broker
    properties: dict[str, Value] = {
        "capabilities": dict(CAPABILITIES),
        **broker.identity,
        "cluster_name": broker.cluster_name,
    }
    session.send(
        0,
        ConnectionStart(
            version_major=0,
            version_minor=9,
            server_properties=properties,
            mechanisms=" ".join(session.mechanisms).encode(),
            locales=b"en_US",
        ),
    )


def start_ok(session: ConnectionState, method: ConnectionStartOk) -> None:
    """connection.start-ok: the client's properties and its login."""
    session.phase = Phase.SECURING
    session.client_properties = method.client_properties
    session.mechanism = method.mechanism[:MECHANISM_CHARACTERS_MAX]
    if method.mechanism == EXTERNAL and EXTERNAL in session.mechanisms:
        # The response may name another user to act as (RFC 4422, A.1): ignored, as in RabbitMQ.
        access, loopback = session.broker.access, session.peer_is_loopback
        try:
            user = access.admit_certified(session.certificate_user, loopback)
        except AccessRefused:
            _tell_refused(session, session.certificate_user or "")
            raise
        _enter(session, user)
        return
    endpoints = session.endpoints
    login = LoginRequest(
        parse_response(method.mechanism, method.response),
        session.address,
        session.peer_is_loopback,
        "" if endpoints is None else endpoints.peer_host,
    )

    def answered(found: User | AccessRefused) -> None:
        session.login = None
        if isinstance(found, AccessRefused):
            _tell_refused(session, login.credentials.username)
            session.on_fault(0, found)
        else:
            _enter(session, found)

    attempt = session.broker.backends.log_in(login, answered)
    if not attempt.ended:
        session.login = attempt


def _tell_refused(session: ConnectionState, name: str) -> None:
    session.broker.events.login(session, name, refused=f"user '{name}' - {INVALID}")


def _enter(session: ConnectionState, user: User) -> None:
    session.enter_as(user)
    session.broker.events.login(session, user.name)
    limits = session.offered = session.broker.limits
    session.phase = Phase.TUNING
    session.send(0, ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat_s))


def tune_ok(session: ConnectionState, method: ConnectionTuneOk) -> None:
    """connection.tune-ok: the client may ask for less than was offered."""
    limits = session.offered
    _check_tuned("frame_max", method.frame_max, FRAME_MIN_SIZE, limits.frame_max)
    _check_tuned("channel_max", method.channel_max, CHANNEL_MAX_MIN, limits.channel_max)
    session.phase = Phase.OPENING
    session.channel_max = method.channel_max
    session.heartbeat_s = method.heartbeat
    session.connection.output.frame_max = method.frame_max


def _check_tuned(name: str, value: int, low: int, high: int) -> None:
    """Check a limit of the client's; 0 means none, on either side."""
    if value and value < low:
        wrong, bound, limit = "lower", "minimum", low
    elif high and (not value or value > high):
        wrong, bound, limit = "higher", "maximum", high
    else:
        return
    unlimited = " (no limit)" if name == "channel_max" and not value else ""
    fault = NotAllowed(
        f"negotiated {name} = {value}{unlimited} is {wrong} than the {bound} allowed value "
        f"({limit})"
    )
    fault.class_id, fault.method_id = ConnectionTune.CLASS_ID, ConnectionTune.METHOD_ID
    raise fault


def open_vhost(session: ConnectionState, method: ConnectionOpen) -> None:
    """connection.open: which virtual host it is for."""
    name = method.virtual_host
    vhost = session.broker.vhosts.get(name)
    if vhost is None:
        raise NotAllowed(f"vhost {name} not found")
    session.user.check_vhost(name)
    session.enter(vhost)
    session.send(0, ConnectionOpenOk())


def update_secret(session: ConnectionState, method: ConnectionUpdateSecret) -> None:
    """connection.update-secret: who has let the user in says whether the new one is right.

    If it is not, the connection is closed (530), as in RabbitMQ.
    """
    connection = session.connection

    def answered(found: User | NotAllowed) -> None:
        session.login = None
        connection.end_work()
        if isinstance(found, NotAllowed):
            session.on_fault(0, found.blame(ConnectionUpdateSecret))
            return
        session.send(0, ConnectionUpdateSecretOk())
        if found is not session.user:
            user_changes.renew(session, found)

    # Nothing else is handled meanwhile.
    connection.begin_work()
    backends = session.broker.backends
    renewal = backends.renew(session.user, method.new_secret, answered, connection.end_work)
    if not renewal.ended:
        session.login = renewal


def close(session: ConnectionState, _method: ConnectionClose) -> Steps:
    """connection.close, also while ours is under way, and as often as the client says it."""
    session.phase = Phase.CLOSED
    yield from session.releasing()
    session.send(0, ConnectionCloseOk())
    session.connection.await_eof()


def close_ok(session: ConnectionState, _method: ConnectionCloseOk) -> None:
    """connection.close-ok: the client has read why."""
    session.phase = Phase.CLOSED
    session.connection.finish()


def unexpected_frame(payload: bytes) -> UnexpectedFrame:
    """Say as RabbitMQ does that a frame came before the connection was open."""
    shown = payload[:16]
    amount = "all" if len(payload) <= len(shown) else "first 16"
    octets = ",".join(str(octet) for octet in shown)
    return UnexpectedFrame(
        f"type 1, {amount} octets = <<{octets}>>", logged=f"type 1, {len(payload)} octets"
    )


Handler = Callable[["ConnectionState", Any], "Method | Steps | None"]

# What each phase accepts; from CLOSING on, everything else is ignored instead of refused.
HANDLERS: Final[dict[Phase, dict[type[Method], Handler]]] = {
    Phase.STARTING: {ConnectionStartOk: start_ok},
    Phase.SECURING: {},
    Phase.TUNING: {ConnectionTuneOk: tune_ok},
    Phase.OPENING: {ConnectionOpen: open_vhost},
    Phase.RUNNING: {ConnectionClose: close, ConnectionUpdateSecret: update_secret},
    Phase.CLOSING: {ConnectionClose: close, ConnectionCloseOk: close_ok},
    Phase.CLOSED: {ConnectionClose: close, ConnectionCloseOk: close_ok},
}
