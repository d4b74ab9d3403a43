"""Schemas from a registry over HTTP, with the routes that Confluent's documents.

`GET /schemas/ids/ID` and `GET /subjects/SUBJECT/versions/latest`, as Karapace, Apicurio and
Redpanda have them, too. Apicurio 2.6 gives Protobuf as text only, whatever `format` is asked for.
Must not know what is in a schema.

Invariant: what an id means is kept for the life of the process; an answer is bounded in size and
time; no message, log or file has the password.
"""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.parse
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from urllib3 import (
    BaseHTTPResponse,
    HTTPConnectionPool,
    Retry,
    Timeout,
    connection_from_url,
    make_headers,
)
from urllib3.exceptions import HTTPError

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.schemas import (
    AVRO,
    JSON,
    PROTOBUF,
    SCHEMA_BYTES_MAX,
    MissingSchemaError,
    Schema,
    Schemas,
    SchemasError,
)

USER, PASSWORD = "LEPORID_REGISTRY_USER", "LEPORID_REGISTRY_PASSWORD"

TIMEOUT = Timeout(connect=5.0, read=10.0)
# A registry that restarts is away for some seconds; the runner tries the whole step again.
# Its own wish of how long to wait could be a day.
RETRIES = Retry(
    3,
    status_forcelist=(429, 502, 503, 504),
    backoff_factor=0.2,
    redirect=0,
    respect_retry_after_header=False,
)
# The timeout above is that of each packet, of which an answer may have any number.
ANSWER_SECONDS_MAX = 30.0
# A JSON text in which each character of a schema is escaped.
ANSWER_BYTES_MAX = 2 * SCHEMA_BYTES_MAX
# Ids are signed numbers of 32 bits, and some registries do not say 404 of others.
ID_MAX = 2**31 - 1
# As many as the streams of an archive have had in years; one is some kilobytes.
KEPT_MAX = 2_000
# References of references: as deep as anybody nests files, and no endless circle.
REFERENCES_MAX = 100
# Bodies name ids, and may name any: unknown ones are asked for so often in a minute.
MISSES_MAX = 100
MISSES_SECONDS = 60.0

ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryError(SchemasError):
    """The registry refuses, cannot be reached, or says something that is no schema."""


class Registry(Schemas):
    """A registry."""

    framed = True

    def __init__(
        self,
        url: str,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url, user = divided(url)
        self._headers = {"Accept": ACCEPT}
        given = user or (environ.get(USER, ""), environ.get(PASSWORD, ""))
        if given[0]:
            self._headers |= make_headers(basic_auth=":".join(given))
        self._pool: HTTPConnectionPool = connection_from_url(self.url, maxsize=2)
        self._found: dict[str, Schema] = {}
        self._misses: deque[float] = deque(maxlen=MISSES_MAX)
        self._missing: dict[str, float] = {}
        self._clock = clock

    def named(self, name: str) -> Schema:
        """Return the schema of an id."""
        if name in self._found:
            return self._found[name]
        # `isdigit` alone takes digits of any script.
        if not (name.isascii() and name.isdigit()) or len(name) > 10 or int(name) > ID_MAX:
            raise MissingSchemaError(f"{name[:100]!r} is no id of a schema")
        now = self._clock()
        full = len(self._misses) == MISSES_MAX and now - self._misses[0] < MISSES_SECONDS
        if full or now - self._missing.get(name, -MISSES_SECONDS) < MISSES_SECONDS:
            raise MissingSchemaError(f"{self.url} has no schema {name}, or too many are asked for")
        answer = self._get(f"/schemas/ids/{name}")
        if answer is None:
            self._misses.append(now)
            if len(self._missing) >= MISSES_MAX:
                self._missing.clear()
            self._missing[name] = now
            raise MissingSchemaError(f"{self.url} has no schema {name}")
        if len(self._found) >= KEPT_MAX:
            del self._found[next(iter(self._found))]
        found = self._found[name] = self._schema(answer, f"/schemas/ids/{name}", name)
        return found

    def latest(self, subject: str) -> Schema:
        """Return the newest schema of a subject."""
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest"
        answer = self._get(path)
        if answer is None:
            raise OptionError(f"{self.url} has no subject {subject!r}: register one, or name it")
        number = str(answer.get("id"))
        if number in self._found:
            return self._found[number]
        found = self._schema(answer, path, number)
        self._found[number] = found
        return found

    def close(self) -> None:
        """Close the connections; those of a process close with it."""
        self._pool.close()

    def _schema(
        self, answer: dict[str, Any], path: str, name: str, left: list[int] | None = None
    ) -> Schema:
        """Return the schema of an answer, with those that it refers to."""
        left = [REFERENCES_MAX] if left is None else left
        kind, text = answer.get("schemaType", AVRO), answer.get("schema")
        references = answer.get("references") or []
        known = kind in (AVRO, JSON, PROTOBUF) and isinstance(references, list)
        if not known or not isinstance(text, str):
            raise RegistryError(f"{self.url}{path} is no schema of Avro, JSON or Protobuf")
        if kind == PROTOBUF:
            # The text is a program for protoc; this is what protoc makes of it.
            text = str((self._get(f"{path}?format=serialized") or {}).get("schema", ""))
        found = []
        for each in references:
            left[0] -= 1
            if left[0] < 0:
                raise RegistryError(f"{self.url}{path} refers to more than {REFERENCES_MAX} others")
            match each:
                case {"name": str(called), "subject": str(subject), "version": int(version)}:
                    subject = urllib.parse.quote(subject, safe="")
                    other = f"/subjects/{subject}/versions/{version}"
                case _:
                    raise RegistryError(
                        f"{self.url}{path} has a reference without name and version"
                    )
            inner = self._get(other)
            if inner is None:
                raise RegistryError(f"{self.url}{path} refers to {other}, which is not there")
            found.append((called, self._schema(inner, other, called, left)))
        return Schema(kind, self._content(kind, text, path), name, tuple(found))

    def _content(self, kind: str, text: str, path: str) -> bytes:
        try:
            if kind == PROTOBUF:
                return base64.b64decode(text, validate=True)
            json.loads(text)
        except (ValueError, RecursionError) as error:
            if kind == PROTOBUF:
                raise RegistryError(
                    f"{self.url}{path}: the registry does not know ?format=serialized, by which "
                    f"schemas of Protobuf are read ({error})"
                ) from None
            raise RegistryError(f"{self.url}{path}: the schema is broken ({error})") from None
        return text.encode()

    def _content_of(self, response: BaseHTTPResponse, where: str) -> bytes:
        """Return the bytes of an answer as they come, at most one more than an answer may have."""
        content = bytearray()
        until = self._clock() + ANSWER_SECONDS_MAX
        while len(content) <= ANSWER_BYTES_MAX:
            if self._clock() > until:
                raise RegistryError(
                    f"{where}: the answer is not complete after {ANSWER_SECONDS_MAX:.0f} seconds"
                )
            # What is packed could become any number of bytes; packing was not asked for.
            part = response.read1(65536, decode_content=False)
            if not part:
                break
            content += part
        return bytes(content)

    def _get(self, path: str) -> dict[str, Any] | None:
        """Return an answer; None if there is no such thing.

        Raises:
            RegistryError: anything else.
        """
        where = f"{self.url}{path}"
        base = urllib.parse.urlsplit(self.url).path
        try:
            response = self._pool.urlopen(
                "GET",
                base + path,
                headers=self._headers,
                timeout=TIMEOUT,
                retries=RETRIES,
                redirect=False,
                preload_content=False,
            )
            try:
                content = self._content_of(response, where)
            finally:
                response.close()
        except HTTPError as error:
            # What urllib3 gave up with names the address once more.
            reason = getattr(error, "reason", None) or error
            raise RegistryError(f"{where}: the registry cannot be reached: {reason}") from None
        if len(content) > ANSWER_BYTES_MAX:
            raise RegistryError(f"{where}: the answer is larger than {ANSWER_BYTES_MAX:,} bytes")
        if response.status == 404:
            return None
        if response.status in {401, 403}:
            raise RegistryError(
                f"{where}: the registry refuses ({response.status}): give USER:PASSWORD in the "
                f"URL, or {USER} and {PASSWORD}"
            )
        try:
            found = json.loads(content)
        except ValueError:
            found = None
        if response.status != 200 or not isinstance(found, dict):
            line = content[:200].decode("utf-8", "replace").strip()
            raise RegistryError(f"{where}: the registry says {response.status}: {line}")
        return found


def divided(url: str) -> tuple[str, tuple[str, str] | None]:
    """Return a registry's URL without user and password, and these.

    Raises:
        OptionError: it is no URL.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        # The exception has a part of the URL, which is one of the password if that has a slash.
        raise OptionError(
            "the registry's URL is broken: a host, a port, and in a password %2F for a slash, %23 "
            "for #, %3F for ?, %40 for @"
        ) from None
    if not host:
        raise OptionError("the registry's URL has no host: https://HOST:8081")
    name = f"[{host}]" if ":" in host else host
    bare = f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
    if parts.username is None:
        return bare, None
    user, password = (urllib.parse.unquote(each or "") for each in (parts.username, parts.password))
    return bare, (user, password)
