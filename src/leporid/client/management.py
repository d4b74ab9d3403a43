"""A client of the management API: requests, pages of lists, and refusals as exceptions.

Responsible for HTTP: one connection that is kept, names in paths, JSON both ways, and a list read
page by page. Must not know any noun, nor who asks. The standard library's `http.client` does it, as
it is imported in 43 ms, where httpx takes 102.

Invariant: an answer that is no success raises `ManagementError`, whose message names the broker's
address and its reason, and never a password.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit

PAGE_SIZE: Final = 500
"""The most that brokers give in one page (RabbitMQ's limit, too)."""
ANSWER_BYTES_MAX: Final = 512 * 2**20
"""More than definitions of a million objects; what is longer is no answer of a broker's."""
REASON_CHARACTERS_MAX: Final = 400
SECONDS: Final = 60.0
IDLE_SECONDS: Final = 2.0
"""A connection that was idle for longer is not used again: brokers close those after five."""
PORTS: Final = {"http": 15672, "https": 15671}
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404

TAG_OF_REASON: Final = {
    "Not administrator user": "administrator",
    "Not monitor user": "monitoring",
    "Not management user": "management",
}
"""RabbitMQ's reasons of a 401 about tags."""

Query = Mapping[str, str | int | Sequence[str] | None]


class ManagementError(Exception):
    """The broker refused, or gave no answer of the management API's.

    Attributes:
        status: of HTTP; 0: there was no answer.
        reason: the broker's own words, as far as it said any.
        path: what was asked for.
        answer: what the broker answered, as JSON; None: something else, or nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        path: str = "",
        answer: Any = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.path = path
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Address:
    """Where the management API of a broker is, and as whom to ask.

    Attributes:
        url: `http://HOST:PORT` or `https://HOST:PORT`, without a user.
        ca_file: certificates to trust beside HTTPS's usual ones; None: only those.
    """

    url: str
    user: str
    password: str
    ca_file: Path | None = None
    seconds: float = SECONDS

    def __repr__(self) -> str:
        return f"<Address {self.url} as {self.user!r}>"


def path_of(*parts: str) -> str:
    """Return a path below /api/ of names, each percent-encoded."""
    return "/api/" + "/".join(quote(part, safe="") for part in parts)


class Management:
    """One broker's management API.

    Args:
        address: where it is.

    Raises:
        ValueError: the address is none.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        parts = urlsplit(address.url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("the broker's address is not of the form http://HOST:PORT")
        self._host, self._port = parts.hostname, parts.port or PORTS[parts.scheme]
        self._prefix = parts.path.rstrip("/")
        self._tls = parts.scheme == "https"
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0
        login = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
        # RabbitMQ has paths that offer no JSON, and refuses who accepts nothing else (406).
        accepted = "application/json, */*;q=0.5"
        self._headers = {"Authorization": f"Basic {login}", "Accept": accepted}

    @property
    def where(self) -> str:
        """HOST:PORT, for messages."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one. May be called twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ------------------------------------------------------------- requests

    def get(self, path: str, query: Query | None = None) -> Any:
        """Return what is at a path; raises ManagementError."""
        return _json_of(self.request("GET", path, query)[1], self.where, path)

    def put(self, path: str, body: Any, query: Query | None = None) -> int:
        """Put JSON, or bytes as they are; return the status: 201 made, 204 it was there."""
        return self.request("PUT", path, query, body)[0]

    def post(self, path: str, body: Any, query: Query | None = None) -> Any:
        """Post JSON; return what is answered, None for nothing."""
        _, content = self.request("POST", path, query, body)
        return _json_of(content, self.where, path) if content else None

    def delete(
        self, path: str, query: Query | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Delete what is at a path; return what is answered, None for nothing."""
        _, content = self.request("DELETE", path, query, headers=headers)
        return _json_of(content, self.where, path) if content else None

    def request(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Ask; return status and content of a success.

        Raises:
            ManagementError: anything else.
        """
        given = {name: value for name, value in (query or {}).items() if value is not None}
        asked = "?" + urlencode(given, doseq=True, quote_via=quote) if given else ""
        target = self._prefix + path + asked
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        said = self._headers | dict(headers or {})
        if sent is not None:
            raw = isinstance(body, bytes)
            said["Content-Type"] = "application/octet-stream" if raw else "application/json"
        try:
            answer = self._answer(method, target, sent, said)
            content = answer.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ManagementError(
                f"no answer from the broker at {self.where}: {_why(error)}", path=path
            ) from error
        if len(content) > ANSWER_BYTES_MAX:
            self.close()
            raise ManagementError(f"{self.where} answers with more than {ANSWER_BYTES_MAX} bytes")
        if not 200 <= answer.status < 300:
            raise self._refusal(answer.status, content, path)
        return answer.status, content

    def pages(self, path: str, query: Query | None = None) -> Iterator[list[dict[str, Any]]]:
        """Go through a list page by page; brokers that know no pages of it give all at once.

        A list that changes meanwhile may have an object twice or not at all, as RabbitMQ's.
        """
        page = 1
        while True:
            asked = {**(query or {}), "page": page, "page_size": PAGE_SIZE}
            found = self.get(path, asked)
            if isinstance(found, list):
                yield found
                return
            if not isinstance(found, dict) or not isinstance(found.get("items"), list):
                raise ManagementError(f"{self.where} answers {path} with no list", path=path)
            yield found["items"]
            if page >= int(found.get("page_count", 0)):
                return
            page += 1

    def _answer(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        if time.monotonic() - self._used > IDLE_SECONDS:
            self.close()
        kept = self._connection is not None
        try:
            return self._send(method, target, body, headers)
        except (ConnectionError, http.client.BadStatusLine):
            # The broker may have closed a connection that was kept. What changes something is not
            # sent twice, as nobody knows whether the first had an effect.
            if not kept or method != "GET":
                raise
        self.close()
        return self._send(method, target, body, headers)

    def _send(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, target, body, dict(headers))
        answer = self._connection.getresponse()
        self._used = time.monotonic()
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        seconds = self.address.seconds
        if not self._tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        context = ssl.create_default_context()
        if self.address.ca_file is not None:
            context.load_verify_locations(self.address.ca_file)
        return http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=context)

    def _refusal(self, status: int, content: bytes, path: str) -> ManagementError:
        answer = _loaded(content)
        reason = _reason_in(answer)
        said = f": {reason}" if reason else ""
        if status == UNAUTHORIZED:
            what = f"{self.where} does not let user '{self.address.user}' do that"
            if reason in TAG_OF_REASON:
                said += f" (it takes the tag {TAG_OF_REASON[reason]})"
            elif not self.address.password:
                said += " (no password was given: --password-file, LEPORID_PASSWORD)"
        elif status == NOT_FOUND:
            what = f"{self.where} has no {path.removeprefix('/api/')}"
        else:
            what = f"{self.where} refused ({status})"
        return ManagementError(what + said, status=status, reason=reason, path=path, answer=answer)


def _loaded(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _reason_in(found: Any) -> str:
    """Return what a refusal says, in RabbitMQ's form or in ours."""
    if not isinstance(found, dict):
        return ""
    reason = found.get("reason") or found.get("message") or found.get("error") or ""
    if isinstance(reason, dict):
        reason = reason.get("reason") or reason.get("message") or json.dumps(reason)
    return " ".join(str(reason).split())[:REASON_CHARACTERS_MAX]


def _json_of(content: bytes, where: str, path: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise ManagementError(f"{where} answers {path} with no JSON", path=path) from None


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); give --ca-file"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error})"
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, ConnectionRefusedError):
        return "Connection refused; --url or a context says which broker is meant"
    if isinstance(error, http.client.BadStatusLine) and "AMQP" in str(error):
        return "that is a port of AMQP; the management API is at another, as a rule 15672"
    if isinstance(error, http.client.RemoteDisconnected):
        return "it closed without an answer; if it speaks TLS, its address begins with https://"
    text = getattr(error, "strerror", None) or str(error)
    return text or type(error).__name__
