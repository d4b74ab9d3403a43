"""The methods of channel 0: the handshake, update-secret and close.

Responsible for what each phase of a connection accepts and where it leads. Must not know
deadlines and heartbeat clocks, which are the server's. Invariant: nothing that a client says is
acted on, or kept beyond its properties, before its login was accepted.

    starting ──start-ok──► securing ──login accepted──► tuning ──tune-ok──► opening ──open──►
    running ──close, from either side──► closing or closed ──close-ok──► the end
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.constants import FRAME_MIN_SIZE
from leporid.amqp.errors import Fault, NotAllowed, UnexpectedFrame
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
)
from leporid.amqp.tables import Value
from leporid.broker.access.access import MECHANISMS, Credentials, parse_response

if TYPE_CHECKING:
    from leporid.broker.connection.session import ConnectionState

CHANNEL_MAX_MIN: Final = 1
"""RabbitMQ refuses nothing but a channel_max of less than one channel."""

# Tags of a user who may publish under other names in the property user_id.
IMPERSONATOR: Final = "impersonator"

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


def stranger(header: bytes) -> str:
    """Say what a peer speaks that did not begin with our protocol header."""
    if header.startswith(b"\x16\x03"):
        return "it speaks TLS, which is not there yet; put a TLS proxy in front"
    if header.startswith(b"AMQP"):
        return f"it speaks AMQP {'-'.join(map(str, header[5:]))}, not 0-9-1"
    return f"it does not speak AMQP: it began with {header!r}"


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
    credentials = parse_response(method.mechanism, method.response)
    access = session.broker.access
    if not access.needs_hashing(credentials):
        _admit(session, credentials)
        return

    def verify() -> None:
        # Hashing is slow on purpose: nobody waits for that of a peer that has given up.
        if session.phase is Phase.SECURING:
            access.verify(credentials)

    def verified() -> None:
        if session.phase is not Phase.SECURING:
            return  # it was lost, or misbehaved, meanwhile
        try:
            _admit(session, credentials)
        except Fault as fault:
            session.on_fault(0, fault)

    session.broker.offload(verify, verified)


def _admit(session: ConnectionState, credentials: Credentials) -> None:
    user = session.broker.access.admit(credentials, session.peer_is_loopback)
    session.enter_as(user)
    limits = session.broker.limits
    session.phase = Phase.TUNING
    session.send(0, ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat_s))


def tune_ok(session: ConnectionState, method: ConnectionTuneOk) -> None:
    """connection.tune-ok: the client may ask for less than was offered."""
    limits = session.broker.limits
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
    session.vhost = vhost
    session.phase = Phase.RUNNING
    session.send(0, ConnectionOpenOk())


def update_secret(_session: ConnectionState, _method: ConnectionUpdateSecret) -> Method:
    """connection.update-secret: our users' passwords do not expire, so nothing changes."""
    return ConnectionUpdateSecretOk()


def close(session: ConnectionState, _method: ConnectionClose) -> None:
    """connection.close, also while ours is under way, and as often as the client says it."""
    session.release()
    session.phase = Phase.CLOSED
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
    return UnexpectedFrame(f"type 1, {amount} octets = <<{octets}>>")


Handler = Callable[["ConnectionState", Any], Method | None]

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
