"""What AMQP cannot ask, asked over HTTP: messages of a queue without taking them, stored offsets.

Responsible for one request at a time to Leporid's HTTP API, on a connection of its own that is
closed with the answer. It must not know channels. Invariant: an answer is read up to a limit only.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from leporid.client.errors import ApiError, RemoteProtocolError, Timeout
from leporid.client.opening import secret_of
from leporid.client.settings import Settings

PORT: Final = 15672
# A page has 8 MiB of properties and bodies; base64 makes a third more of them, JSON some more.
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class Browsed:
    """A message that was looked at, and is where it was.

    Attributes:
        offset: its number in its queue; it stays the same while the message is there.
        body: the content.
        exchange: where it was published to.
        key: the routing key.
        properties: by name, as the management API has them; headers are among them.
        redelivered: whether it was delivered before.
        state: "ready" or "unacked".
        stored_at: when the broker got it.
    """

    offset: int
    body: bytes = field(repr=False)
    exchange: str
    key: str
    properties: dict[str, Any]
    redelivered: bool
    state: str
    stored_at: datetime

    @property
    def headers(self) -> dict[str, Any]:
        """The headers; empty without any."""
        headers = self.properties.get("headers")
        return headers if isinstance(headers, dict) else {}


def browsed(entry: Mapping[str, Any]) -> Browsed:
    """Reads one message of a page."""
    return Browsed(
        offset=entry["offset"],
        body=base64.b64decode(entry["payload"]),
        exchange=entry["exchange"],
        key=entry["routing_key"],
        properties=entry["properties"],
        redelivered=entry["redelivered"],
        state=entry["state"],
        stored_at=datetime.fromtimestamp(entry["timestamp_ms"] / 1000, UTC),
    )


class Api:
    """The HTTP API of the broker that a connection is connected to.

    Args:
        settings: who asks; `settings.api` says where it is.
        host: where it is otherwise, at port 15672.
    """

    def __init__(self, settings: Settings, host: str) -> None:
        self._settings = settings
        place = urlsplit(settings.api or f"http://{_bracketed(host)}:{PORT}")
        self._tls = place.scheme == "https"
        self._host = place.hostname or host
        self._port = place.port or (443 if self._tls else 80)
        self._base = place.path.rstrip("/").removesuffix("/api")

    def __repr__(self) -> str:
        return f"<Api at {self._host}:{self._port}>"

    async def get(self, *path: str, **query: str | int | None) -> Any:
        """Asks for something; None: there is no such thing (404).

        Args:
            path: below `/api`, each part as it is.
            query: parameters; those that are None are left out.

        Raises:
            ApiError: the broker says that it cannot be; or nobody answers there.
            Timeout: no answer came in time.
        """
        return await self._ask("GET", path, query)

    async def delete(self, *path: str, **query: str | int | None) -> Any:
        """Deletes something; returns what is answered, None: there is no such thing (404).

        Args:
            path: below `/api`, each part as it is.
            query: parameters; those that are None are left out.

        Raises:
            ApiError, Timeout: as for `get`.
        """
        return await self._ask("DELETE", path, query)

    async def _ask(
        self, verb: str, path: tuple[str, ...], query: Mapping[str, str | int | None]
    ) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        target = f"{self._base}/api/{'/'.join(quote(part, safe='') for part in path)}"
        target += f"?{urlencode(given)}" if given else ""
        try:
            async with asyncio.timeout(self._settings.answer_timeout_s):
                answer = await self._exchange(await self._request(verb, target))
        except TimeoutError:
            raise Timeout(
                f"no answer to {verb} {target} from {self._host}:{self._port} within "
                f"{self._settings.answer_timeout_s:g} s"
            ) from None
        except OSError as error:
            raise ApiError(
                0, f"{self._host}:{self._port}: {error}; Settings.api says where the HTTP API is"
            ) from error
        return self._read(answer)

    async def _request(self, verb: str, target: str) -> bytes:
        settings = self._settings
        secret = await secret_of(settings)
        login = f"{settings.user}:{secret.text}".encode()
        scheme = "Bearer " + secret.text
        if settings.token is None:
            scheme = "Basic " + base64.b64encode(login).decode()
        # Of version 1.0, so that the answer ends with the connection and has no chunks.
        lines = (
            f"{verb} {target} HTTP/1.0",
            f"Host: {_bracketed(self._host)}:{self._port}",
            f"Authorization: {scheme}",
            "Accept: application/json",
        )
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def _exchange(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(
            self._host,
            self._port,
            ssl=(self._settings.tls or True) if self._tls else None,
        )
        try:
            writer.write(request)
            answer = bytearray()
            while part := await reader.read(65536):
                answer += part
                if len(answer) > ANSWER_BYTES_MAX:
                    raise RemoteProtocolError(
                        f"{self._host}:{self._port} answered with more than "
                        f"{ANSWER_BYTES_MAX} bytes"
                    )
            return bytes(answer)
        finally:
            writer.transport.abort()

    def _read(self, answer: bytes) -> Any:
        head, _, body = answer.partition(b"\r\n\r\n")
        words = head.split(b"\r\n", 1)[0].split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise RemoteProtocolError(f"{self._host}:{self._port} does not speak HTTP")
        status = int(words[1])
        try:
            said = json.loads(body)
        except ValueError:
            said = {}
        if status == NOT_FOUND and said:
            return None
        if status >= 300 or not said:
            reason = said.get("reason", "") if isinstance(said, dict) else ""
            raise ApiError(status, f"{self._host}:{self._port}: {status} {reason}".rstrip())
        return said


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
