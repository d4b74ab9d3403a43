"""From an address to a connection that is logged in; and what `connect` returns.

Responsible for the methods from connection.start to connection.open-ok, and for `Opening`, which is
awaited or entered. It must not know what a connection is used for. Invariant: whatever goes wrong
while a connection is opened, nothing of it is left open.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import inspect
import json
import platform
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar

from leporid import __version__
from leporid.amqp.constants import FRAME_MIN_SIZE
from leporid.amqp.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from leporid.amqp.tables import Value, encode_table
from leporid.client.errors import (
    AccessRefused,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    InvalidPath,
    LocalProtocolError,
    NotAllowed,
    RemoteProtocolError,
    Timeout,
)
from leporid.client.link import Link, Watcher
from leporid.client.settings import Address, Settings, Token

Opener = Callable[[Callable[[], Link], Address, Settings], Awaitable[asyncio.Transport]]
"""Opens a transport: calls the factory, has the protocol's `connection_made` called, and returns
the transport. The protocol is an `asyncio.BufferedProtocol`, which also has `data_received`."""


async def open_tcp(
    factory: Callable[[], Link], address: Address, settings: Settings
) -> asyncio.Transport:
    """Opens a socket, with TLS if the settings say so."""
    loop = asyncio.get_running_loop()
    name = (settings.tls_name or address.host) if settings.tls is not None else None
    transport, _ = await loop.create_connection(
        factory, address.host, address.port, ssl=settings.tls, server_hostname=name
    )
    return transport


CAPABILITIES: Final[dict[str, Value]] = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "exchange_exchange_bindings": True,
    "publisher_confirms": True,
}

REFUSALS: Final = (AccessRefused, NotAllowed, InvalidPath)
"""What the brokers of one system answer alike: the password is wrong, there is no virtual host."""


class SupportsClose(Protocol):
    """What an `Opening` opens."""

    async def close(self) -> None:
        """Closes it."""


_C = TypeVar("_C", bound=SupportsClose)


class Opening(Generic[_C]):
    """What is about to be opened: await it, or enter it and have it closed behind the block."""

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, _C]]) -> None:
        self._opening = opening
        self._opened: _C | None = None

    def __repr__(self) -> str:
        return f"<Opening of {self._opened!r}>" if self._opened else "<Opening, not awaited>"

    def __await__(self) -> Generator[Any, Any, _C]:
        return self._opening().__await__()

    async def __aenter__(self) -> _C:
        self._opened = await self._opening()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._opened is not None
        await self._opened.close()


@dataclass(frozen=True, slots=True)
class Server:
    """What the broker says of itself.

    Attributes:
        product: such as "Leporid" or "RabbitMQ".
        version: its version.
        properties: all that it said.
    """

    product: str
    version: str
    properties: dict[str, Value] = field(repr=False)

    def has(self, capability: str) -> bool:
        """Whether it says that it has a capability, such as `per_consumer_qos`."""
        capabilities = self.properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    @property
    def is_leporid(self) -> bool:
        """Whether it has what only Leporid has: filters, delays, named readers and groups."""
        return self.product == "Leporid"


@dataclass(frozen=True, slots=True)
class Secret:
    """What a connection logs in with.

    Attributes:
        text: a password, or a token.
        expires_in_s: how long it is valid, in seconds; None if that is not known or has no end.
    """

    text: str = field(repr=False)
    expires_in_s: float | None = None


async def secret_of(settings: Settings) -> Secret:
    """Returns the password, or a new token of the provider.

    Raises:
        ConnectFailed: the provider failed, or gave none in time.
    """
    if settings.token is None:
        return Secret(settings.password)
    try:
        async with asyncio.timeout(settings.connect_timeout_s) as limit:
            token = settings.token()
            if inspect.isawaitable(token):
                token = await token
    except ClientError:
        raise
    except Exception as error:
        if limit.expired():
            raise ConnectFailed(
                f"the token provider gave no token within {settings.connect_timeout_s:g} s"
            ) from None
        # Whatever an application's function raises: an attempt to connect has failed.
        raise ConnectFailed(f"the token provider failed: {error!r}") from error
    if isinstance(token, Token):
        return Secret(token.value, token.expires_in_s)
    if not isinstance(token, str):
        raise LocalProtocolError(
            f"the token provider must return a str or a Token, not {type(token).__name__}"
        )
    return Secret(token, _lifetime_s(token))


def _lifetime_s(token: str) -> float | None:
    """How long a JSON Web Token is valid, by its claim `exp`; None if it does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"]) - time.time()
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None


async def open_link(
    settings: Settings, address: Address, opener: Opener, watcher: Watcher, secret: Secret
) -> tuple[Link, Server]:
    """Connects to an address and logs in.

    Raises:
        ConnectFailed: there is nobody, or not in time, or no TLS with them.
        ServerClosed: the broker refused the user or the virtual host.
        RemoteProtocolError: it does not speak AMQP 0-9-1.
    """
    links: list[Link] = []

    def make() -> Link:
        links.append(Link(settings, address, watcher))
        return links[-1]

    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            await opener(make, address, settings)
            server = await _log_in(links[-1], settings, secret)
    except BaseException as error:
        for link in links:
            link.lose(ConnectionLost(f"the connection to {address} was not opened"))
            await link.ended()
        if isinstance(error, TimeoutError) and not isinstance(error, Timeout):
            raise ConnectFailed(
                f"{address}: not connected within {settings.connect_timeout_s:g} s"
            ) from None
        # A host name that cannot be encoded is a UnicodeError.
        if isinstance(error, OSError | UnicodeError) and not isinstance(error, ClientError):
            raise ConnectFailed(f"{address}: {error}") from error
        raise
    return links[-1], server


async def _log_in(link: Link, settings: Settings, secret: Secret) -> Server:
    """From connection.start to connection.open-ok (AMQP 0-9-1, 2.2.4)."""
    seconds = settings.connect_timeout_s
    start = await link.receive(ConnectionStart, seconds)
    offered = start.mechanisms.decode("utf-8", "replace").split()
    if settings.mechanism not in offered:
        raise ConnectFailed(
            f"{link.address} does not offer the mechanism {settings.mechanism}, "
            f"but {', '.join(offered)}"
        )
    link.send(
        ConnectionStartOk(
            {
                "product": "leporid.client",
                "version": __version__,
                "platform": f"Python {platform.python_version()}",
                "capabilities": dict(CAPABILITIES),
                **({"connection_name": settings.name} if settings.name else {}),
                **settings.properties,
            },
            settings.mechanism,
            _response(settings, secret),
        )
    )
    try:
        tune = await link.receive(ConnectionTune, seconds)
    except ConnectionLost as error:
        # A broker without the capability authentication_failure_close says no more than this.
        raise ConnectFailed(
            f"{link.address} closed the connection while user {settings.user!r} logged in: "
            f"the password may be wrong ({error})"
        ) from None
    frame_bytes_max = min(tune.frame_max or settings.frame_bytes_max, settings.frame_bytes_max)
    if frame_bytes_max < FRAME_MIN_SIZE:
        raise RemoteProtocolError(f"{link.address} wants frames of {frame_bytes_max} bytes")
    link.channels_max = min(tune.channel_max or settings.channels_max, settings.channels_max)
    heartbeat = min(tune.heartbeat or settings.heartbeat_s, settings.heartbeat_s)
    link.send(ConnectionTuneOk(link.channels_max, frame_bytes_max, heartbeat))
    link.codec.tune(frame_bytes_max)
    link.start_heartbeats(heartbeat)
    await link.call(ConnectionOpen(settings.vhost), ConnectionOpenOk, seconds)
    said = start.server_properties
    return Server(_text(said.get("product")), _text(said.get("version")), said)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


def _response(settings: Settings, secret: Secret) -> bytes:
    """What the mechanism says (RFC 4616; AMQP 0-9-1 for AMQPLAIN)."""
    if settings.mechanism == "EXTERNAL":
        return b""
    if settings.mechanism == "AMQPLAIN":
        # Without the size in front.
        return encode_table({"LOGIN": settings.user, "PASSWORD": secret.text})[4:]
    return f"\0{settings.user}\0{secret.text}".encode()


async def open_any(
    settings: Settings, opener: Opener, watcher: Watcher, secret: Secret
) -> tuple[Link, Server]:
    """Connects to the first address that works.

    Raises:
        ConnectFailed: none does; the text has each with its reason.
        ServerClosed: a broker refused the user or the virtual host: others would, too.
    """
    errors: list[ClientError] = []
    for address in settings.addresses:
        try:
            return await open_link(settings, address, opener, watcher, secret)
        except ClientError as error:
            if isinstance(error, REFUSALS):
                raise
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    raise ConnectFailed("; ".join(str(error) for error in errors))
