"""How to connect: addresses, who one is, limits, and when to try again.

Responsible for checking all of it before anything is opened, and for reading URLs. It must not know
sockets. Invariant: a `Settings` that exists is valid.
"""

from __future__ import annotations

import dataclasses
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from leporid.amqp.constants import FRAME_MIN_SIZE, SHORTSTR_BYTES_MAX
from leporid.amqp.tables import Value
from leporid.client.arguments import PREFETCH_MAX, WINDOW_MAX, whole_number
from leporid.client.errors import LocalProtocolError

PORT: Final = 5672
TLS_PORT: Final = 5671
MECHANISMS: Final = ("PLAIN", "AMQPLAIN", "EXTERNAL")
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest frame that may be asked for: two of them are allocated for each connection."""
MESSAGE_BYTES_MAX: Final = 512 * 1024 * 1024
"""RabbitMQ's largest message."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token for OAuth 2, and how long it is valid.

    Attributes:
        value: the token.
        expires_in_s: seconds from now; None: as long as the connection lives.
    """

    value: str = field(repr=False)
    expires_in_s: float | None = None


TokenProvider: TypeAlias = Callable[[], "str | Token | Awaitable[str | Token]"]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens."""

    host: str = "localhost"
    port: int = PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, port: int = PORT) -> Self:
        """Reads `host`, `host:port`, `[v6]` or `[v6]:port`.

        Raises:
            LocalProtocolError: it is none of these.
        """
        if text.startswith("["):
            host, closed, rest = text[1:].partition("]")
            if not closed or (rest and not rest.startswith(":")):
                raise LocalProtocolError(f"not an address: {text!r}; expected [IPv6]:PORT")
        else:
            host, colon, number = text.partition(":")
            rest = colon + number
        if rest[1:] and not (rest[1:].isdecimal() and 0 < int(rest[1:]) < 1 << 16):
            raise LocalProtocolError(f"not a port: {rest[1:]!r} in {text!r}; expected 1 to 65535")
        return cls(unquote(host) or "localhost", int(rest[1:]) if rest[1:] else port)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before the next attempt to connect.

    Attributes:
        first_s: after the first round of addresses, in seconds.
        longest_s: the most.
        factor: by how much each wait is longer than the one before.
        jitter: the part of a wait that is drawn by lot, so that clients do not come all at once.
    """

    first_s: float = 0.1
    longest_s: float = 30.0
    factor: float = 2.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        """Checks the numbers."""
        if not 0 <= self.first_s <= self.longest_s:
            raise LocalProtocolError("Backoff needs 0 <= first_s <= longest_s")
        if self.factor < 1 or not 0 <= self.jitter <= 1:
            raise LocalProtocolError("Backoff needs factor >= 1 and jitter from 0 to 1")

    def wait_s(self, attempt: int, chance: float) -> float:
        """Returns the wait after an attempt.

        Args:
            attempt: how many failed before it.
            chance: from 0 to 1, drawn anew for each wait.
        """
        # The exponent is bounded, as a float is not large enough for years of attempts.
        wait = min(self.longest_s, self.first_s * self.factor ** min(attempt, 64))
        return wait * (1 - self.jitter * chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to connect.

    Attributes:
        addresses: of brokers, tried in this order.
        vhost: the virtual host.
        user: the user's name.
        password: the user's; not used with a token or EXTERNAL.
        token: gives a token for OAuth 2 in the password's place, again before it expires.
        tls: encrypts, and knows whom to trust; None: nothing is encrypted.
        tls_name: the name that the broker's certificate must have; "" for that of the address.
        mechanism: PLAIN, AMQPLAIN or EXTERNAL (by certificate).
        heartbeat_s: seconds; a broker that is silent for two of these is given up. 0: never.
        frame_bytes_max: the largest frame.
        channels_max: how many channels at a time.
        message_bytes_max: the largest body that is received.
        unconfirmed_max: how many calls of `publish` on a channel may wait for their confirm; others
            wait until they may send. `publish_many` has its `window`.
        unconfirmed_bytes_max: as soon as the bodies of these have so many bytes, others wait, too;
            and so does each `publish_many` with its own.
        connect_timeout_s: for one address: TCP, TLS and login; and for a token.
        answer_timeout_s: for an answer of the broker to a method.
        robust: connect again when the connection is lost.
        retry_refused: also when the broker refuses the user (403).
        backoff: how long to wait before that.
        name: of the connection, as the broker's lists show it.
        properties: what else the broker is told about the client.
        prefetch: how many deliveries a consumer may have unsettled unless said otherwise.
        api: where Leporid's HTTP API is, `http://HOST:PORT`; "": port 15672 of the same host.
    """

    addresses: Sequence[Address] = (Address(),)
    vhost: str = "/"
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    token: TokenProvider | None = None
    tls: ssl.SSLContext | None = None
    tls_name: str = ""
    mechanism: str = "PLAIN"
    heartbeat_s: int = 60
    frame_bytes_max: int = 131072
    channels_max: int = 2047
    message_bytes_max: int = MESSAGE_BYTES_MAX
    unconfirmed_max: int = 10_000
    unconfirmed_bytes_max: int = 64 * 1024 * 1024
    connect_timeout_s: float = 10.0
    answer_timeout_s: float = 30.0
    robust: bool = True
    retry_refused: bool = False
    backoff: Backoff = Backoff()
    name: str = ""
    properties: Mapping[str, Value] = field(default_factory=dict)
    prefetch: int = 100
    api: str = ""

    def __post_init__(self) -> None:
        """Checks all of it."""
        if not self.addresses:
            raise LocalProtocolError("addresses must name at least one Address")
        for each in self.addresses:
            if not isinstance(each, Address):
                raise LocalProtocolError(f"addresses must be of Address, not {each!r}")
        for name in ("vhost", "user", "name"):
            value = getattr(self, name)
            if not isinstance(value, str) or len(value.encode()) > SHORTSTR_BYTES_MAX:
                raise LocalProtocolError(f"{name} must be a str of at most 255 bytes")
        if self.mechanism not in MECHANISMS:
            raise LocalProtocolError(
                f"mechanism must be one of {', '.join(MECHANISMS)}, not {self.mechanism!r}"
            )
        if self.mechanism == "EXTERNAL" and self.tls is None:
            raise LocalProtocolError("EXTERNAL logs in by certificate: it needs tls")
        if self.api and urlsplit(self.api).scheme not in ("http", "https"):
            raise LocalProtocolError(f"api must be http://HOST:PORT, or https, not {self.api!r}")
        for name, least, most in (
            ("heartbeat_s", 0, 65535),
            ("frame_bytes_max", FRAME_MIN_SIZE, FRAME_BYTES_MAX),
            ("channels_max", 1, 65535),
            ("message_bytes_max", 0, 1 << 62),
            ("unconfirmed_max", 1, WINDOW_MAX),
            ("unconfirmed_bytes_max", 1, 1 << 62),
            ("prefetch", 0, PREFETCH_MAX),
        ):
            whole_number(getattr(self, name), name, least, most)
        for name in ("connect_timeout_s", "answer_timeout_s"):
            if not getattr(self, name) > 0:
                raise LocalProtocolError(f"{name} must be more than 0 seconds")

    @classmethod
    def from_url(cls, url: str, **changes: Any) -> Self:
        """Reads a URL: `amqp://user:password@host:port,host:port/vhost?heartbeat=30`.

        Args:
            url: with the scheme amqp, amqps or leporid (the same as amqp). Of the query there are
                RabbitMQ's parameters: heartbeat (seconds), connection_timeout (milliseconds),
                channel_max, frame_max, auth_mechanism, password, cacertfile, certfile, keyfile,
                verify (verify_peer, verify_none), server_name_indication; and `name` and `api`.
            changes: attributes that are other than the URL says.

        Raises:
            LocalProtocolError: a part of it cannot be understood.
        """
        try:
            parts = _split(url)
        except ValueError as error:
            raise LocalProtocolError(f"not the URL of a broker: {error}") from None
        if parts.scheme not in ("amqp", "amqps", "leporid"):
            raise LocalProtocolError(
                f"not the URL of a broker: {parts.scheme or url!r}; expected "
                "amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps://"
            )
        return cls().changed(**{**_from_place(parts), **_from_query(parts), **changes})

    def changed(self, **changes: Any) -> Self:
        """Returns these settings with others in some places."""
        for name in changes:
            if name not in self.__slots__:
                known = ", ".join(self.__slots__)
                raise LocalProtocolError(f"there is no setting {name!r}; there are {known}")
        return dataclasses.replace(self, **changes)


def _split(url: str) -> SplitResult:
    """What `urlsplit` gives, which refuses brackets among several hosts since Python 3.11.12."""
    scheme, colon, rest = url.strip().partition("://")  # as it does: files end with a newline
    place = re.split("[/?#]", rest, maxsplit=1)[0]
    return urlsplit(f"{scheme}{colon}{rest[len(place) :]}")._replace(netloc=place)


def _from_place(parts: SplitResult) -> dict[str, Any]:
    """What stands in front of the query."""
    login, at, hosts = parts.netloc.rpartition("@")
    port = TLS_PORT if parts.scheme == "amqps" else PORT
    found: dict[str, Any] = {
        "addresses": tuple(Address.parse(each, port) for each in hosts.split(","))
    }
    if at:
        user, colon, password = login.partition(":")
        found["user"] = unquote(user)
        if colon:
            found["password"] = unquote(password)
    if parts.path[1:]:
        found["vhost"] = unquote(parts.path[1:])
    return found


def _from_query(parts: SplitResult) -> dict[str, Any]:
    """What the query says."""
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    found: dict[str, Any] = {}
    tls: dict[str, str] = {name: query.pop(name) for name in _TLS_PARAMETERS if name in query}
    for name, value in query.items():
        if name not in _PARAMETERS:
            known = ", ".join(sorted([*_PARAMETERS, *_TLS_PARAMETERS]))
            raise LocalProtocolError(f"unknown parameter {name!r} in the URL; there are {known}")
        setting, read = _PARAMETERS[name]
        try:
            found[setting] = read(value)
        except ValueError:
            raise LocalProtocolError(f"not a number: {name}={value} in the URL") from None
    if parts.scheme == "amqps":
        found["tls_name"] = tls.pop("server_name_indication", "")
        found["tls"] = _tls_context(tls)
    elif tls:
        raise LocalProtocolError(f"{', '.join(tls)} in the URL need the scheme amqps")
    return found


def _tls_context(tls: Mapping[str, str]) -> ssl.SSLContext:
    """Makes the context that a URL describes; verifying unless told otherwise."""
    verify = tls.get("verify", "verify_peer")
    if verify not in ("verify_peer", "verify_none"):
        raise LocalProtocolError(f"verify must be verify_peer or verify_none, not {verify!r}")
    try:
        context = ssl.create_default_context(cafile=tls.get("cacertfile"))
        if "certfile" in tls:
            context.load_cert_chain(tls["certfile"], tls.get("keyfile"))
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(f"{name}={value}" for name, value in tls.items())
        raise LocalProtocolError(f"cannot use the certificates of {files}: {error}") from None
    if verify == "verify_none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


_PARAMETERS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "heartbeat": ("heartbeat_s", int),
    "connection_timeout": ("connect_timeout_s", lambda value: int(value) / 1000),
    "channel_max": ("channels_max", int),
    "frame_max": ("frame_bytes_max", int),
    "auth_mechanism": ("mechanism", str.upper),
    "password": ("password", str),
    "name": ("name", str),
    "api": ("api", str),
}
_TLS_PARAMETERS: Final = (
    "cacertfile",
    "certfile",
    "keyfile",
    "verify",
    "server_name_indication",
)
