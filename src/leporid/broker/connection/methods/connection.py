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
from leporid.amqp.errors import ChannelFault, Fault, NotAllowed, UnexpectedFrame
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
from leporid.broker.access.access import MECHANISMS, Credentials, parse_response
from leporid.broker.access.logins import TooManyLogins

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
    (b"PROXY ", "it speaks the PROXY protocol, which is not there"),
    (b"\r\n\r\n\x00\r\nQ", "it speaks the PROXY protocol, which is not there"),
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
    properties: dict[str, Value] = {"capabilities": dict(CAPABILITIES), **session.broker.identity}
    session.send(
        0,
        ConnectionStart(
            version_major=0,
            version_minor=9,
            server_properties=properties,
            mechanisms=" ".join(MECHANISMS).encode(),
            locales=b"en_US",
        ),
    )


def start_ok(session: ConnectionState, method: ConnectionStartOk) -> None:
    """connection.start-ok: the client's properties and its login."""
    session.phase = Phase.SECURING
    session.client_properties = method.client_properties
    session.mechanism = method.mechanism[:MECHANISM_CHARACTERS_MAX]
    credentials = parse_response(method.mechanism, method.response)

    def answered(refusal: TooManyLogins | None) -> None:
        session.login = None
        try:
            if refusal is not None:
                raise refusal
            _admit(session, credentials)
        except Fault as fault:
            session.on_fault(0, fault)

    login = session.broker.logins.begin(
        credentials, session.address, loopback=session.peer_is_loopback, answered=answered
    )
    if login is None:
        _admit(session, credentials)
    elif session.phase is Phase.SECURING:
        session.login = login


def _admit(session: ConnectionState, credentials: Credentials) -> None:
    user = session.broker.access.admit(credentials, session.peer_is_loopback)
    session.enter_as(user)
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


def update_secret(_session: ConnectionState, _method: ConnectionUpdateSecret) -> Method:
    """connection.update-secret: our users' passwords do not expire, so nothing changes."""
    return ConnectionUpdateSecretOk()


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
