"""Requests that the broker itself sends over HTTP: to whom it asks about users.

Responsible for one request and its answer, on a thread, with bounds on time and size. Must not know
what is asked. Invariants: a request takes as long as it may, however slowly it is answered, once
the name was looked up; redirections are not followed, and no proxy of the environment is asked.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from leporid.server.settings import ConfigError, refusal

PIECE_BYTES: Final = 16 * 1024


class OutgoingError(Exception):
    """There was no answer that can be used; the text says why, without what was sent."""


# What of an address may be a name and a password: all before the last @ but the scheme.
BEFORE_AT: Final = re.compile(r"^([a-z]+://|).*@", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go.

    Attributes:
        url: with http or https.
        context: with which certificates are checked.
    """

    url: str
    context: ssl.SSLContext | None = None


def url(path: str, value: Any) -> str:
    """Check a setting: an address over HTTP."""
    allowed = 'must be an address such as "https://sso.example.org/keys", without a user'
    if not isinstance(value, str):
        raise refusal(path, value, allowed)
    shown = BEFORE_AT.sub(r"\1***@", value)
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise refusal(path, shown, allowed) from None
    plain = value.isascii() and value.isprintable() and " " not in value
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise refusal(path, shown, allowed)
    if not plain or port == 0 or parts.fragment:
        raise refusal(path, shown, allowed)
    return value


def trusting(authority: Path | None) -> ssl.SSLContext:
    """Return what checks certificates of servers.

    Args:
        authority: PEM file with who may have signed them; None: whom the system trusts.

    Raises:
        ConfigError: the file cannot be used.
    """
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        why = error.strerror or getattr(error, "reason", None) or error
        raise ConfigError(f"{authority}: has no certificates in PEM: {why}") from None


def ask(
    endpoint: Endpoint,
    *,
    seconds: float,
    bytes_max: int,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Send a request, and return status and body; blocks.

    Args:
        endpoint: where to; GET, or POST with a body.
        seconds: for all of it.
        bytes_max: of the answer's body.
        body: of the request.
        headers: beside those that are needed.

    Raises:
        OutgoingError: it took too long, was too large, or was no HTTP.
    """
    parts = urlsplit(endpoint.url)
    connection = _connection(parts, endpoint.context, seconds)
    late = threading.Event()
    # The connection forgets it once an answer says that it is the last one.
    sock: socket.socket | None = None

    def cut() -> None:
        late.set()
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    # A server that sends one octet at a time would otherwise take as long as it likes.
    timer = threading.Timer(seconds, cut)
    timer.start()
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.connect()
        sock = connection.sock
        if late.is_set():
            raise TimeoutError  # looking the name up took it all, and `cut` comes only once
        connection.request(
            "GET" if body is None else "POST",
            target,
            body,
            {"connection": "close", "accept": "*/*", **(headers or {})},
        )
        answer = connection.getresponse()
        found = b""
        while piece := answer.read1(PIECE_BYTES):
            found += piece
            if len(found) > bytes_max:
                raise OutgoingError(f"{endpoint.url}: the answer has more than {bytes_max} octets")
        if late.is_set() or (answer.length or 0) > 0:
            raise TimeoutError
        return answer.status, found
    except TimeoutError:
        raise OutgoingError(f"{endpoint.url}: no whole answer within {seconds:g} s") from None
    except (OSError, http.client.HTTPException) as error:
        why = f"no whole answer within {seconds:g} s" if late.is_set() else _why(error)
        raise OutgoingError(f"{endpoint.url}: {why}") from None
    finally:
        timer.cancel()
        connection.close()


def _connection(
    parts: SplitResult, context: ssl.SSLContext | None, seconds: float
) -> http.client.HTTPConnection:
    assert parts.hostname is not None
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=seconds, context=context
        )
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was refused: {error.verify_message}"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"it speaks no HTTP ({type(error).__name__})"
