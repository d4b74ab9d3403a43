"""Requests to the broker, on connections that are kept for the next one.

From the standard library only, as this runs on every executor. One `Client` per process and
broker (`client_for`): Spark's Python workers live as long as the query, so a connection serves
many batches.

Invariant: an answer is whole or an error. A body that ends early raises `CutError`, however it was
framed; and a request that may have had an effect is sent again only if the caller says that this
does no harm.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import random
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from leporid.spark.errors import BrokerError, CutError, SparkSourceError
from leporid.spark.offsets import Key
from leporid.spark.options import Connection

# What a request meets when the broker is not there, or goes away.
AWAY = (OSError, http.client.HTTPException)

# The broker's answers to come back for: it starts, or is too busy.
BUSY = {429, 502, 503}

# Waiting before another attempt doubles up to this.
PAUSE_SECONDS_FIRST = 0.1
PAUSE_SECONDS_MAX = 5.0

# An error's body is read up to here; a broker's is a line.
ERROR_BYTES_MAX = 64 * 1024

# What Arrow reads of a body at once, so that small reads (a message's head) cost no system call.
BUFFER_BYTES = 256 * 1024

ARROW = "application/vnd.apache.arrow.stream"


class Body:
    """A response's body as a file for Arrow; `finish` proves that it was whole.

    Neither an Arrow stream nor the standard library notice every early end: Arrow takes an end
    between two messages for the end of the stream, and `HTTPResponse.read(n)` gives less than the
    announced length without a word.
    """

    def __init__(self, response: http.client.HTTPResponse, what: str) -> None:
        self._response = response
        self._what = what
        # Without a length or chunks the body ends with the connection: a cut looks like an end.
        if not response.chunked and response.length is None:
            raise CutError(f"{what}: the answer does not say where it ends")
        self._file = io.BufferedReader(response, BUFFER_BYTES)

    @property
    def file(self) -> io.BufferedReader[http.client.HTTPResponse]:
        """What to read from."""
        return self._file

    def finish(self) -> None:
        """Read the end of the body, of which all content has been read.

        Raises:
            CutError: the body has not come to its end, or goes on.
        """
        try:
            more = self._file.read(1)
        except AWAY as error:
            raise CutError(f"{self._what}: the answer was cut off: {named(error)}") from error
        if more:
            raise CutError(f"{self._what}: the answer goes on after its end")
        if self._response.length:
            raise CutError(f"{self._what}: {self._response.length} bytes of the answer are missing")


class Client:
    """Talks to one broker as one user.

    May be used from several threads: each request has a connection to itself.
    """

    def __init__(self, to: Connection) -> None:
        self.to = to
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False
        self._lock = threading.Lock()
        credentials = f"{to.user}:{to.password}".encode()
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(credentials).decode(),
            "User-Agent": "leporid-spark",
        }
        self._root = f"/{urllib.parse.quote(to.vhost, safe='')}"

    # ------------------------------------------------------------ requests

    def streams(self, pattern: str | None = None) -> list[str]:
        """Return the names of the streams that the user may read."""
        found = self._json("GET", self._path("streams"), {"pattern": pattern})
        return sorted(stream["name"] for stream in found["streams"])

    def info(self, stream: str, beyond: Mapping[int, int] | None = None, wait_ms: int = 0) -> Any:
        """Return what the broker says of a stream; with `beyond`, when there is more or in time."""
        query: dict[str, Any] = {}
        # Without a partition to wait for there is nothing to wait for.
        if beyond:
            query["beyond"] = ",".join(f"{number}:{at}" for number, at in sorted(beyond.items()))
            query["wait_ms"] = wait_ms
        return self._json("GET", self._path("streams", stream), query, wait_ms=wait_ms)

    def offset_for(self, stream: str, timestamp_ms: int) -> dict[int, int]:
        """Return the first offset that is not older, of each partition."""
        path = self._path("streams", stream, "offset-for")
        found = self._json("GET", path, {"timestamp_ms": timestamp_ms})
        return {part["partition"]: part["offset"] for part in found["partitions"]}

    def reader_offsets(self, stream: str, reader: str) -> dict[int, int]:
        """Return the offset of the last message that a named reader has read, by partition."""
        found = self._json("GET", self._path("streams", stream, "readers"), {})["readers"]
        return {one["partition"]: one["offset"] for one in found if one["reader"] == reader}

    def store_reader_offset(self, key: Key, incarnation: str, reader: str, offset: int) -> None:
        """Store the offset of the last message that a named reader has read.

        Raises:
            BrokerError: the broker refuses, also if the stream was deleted and made again.
        """
        path = self._path("streams", key.stream, "readers", reader)
        query = {"partition": key.partition, "incarnation": incarnation}
        self._json("PUT", path, query, json.dumps({"offset": offset}).encode(), "application/json")

    def publish(
        self, exchange: str, body: bytes, producer: str | None = None, sequence: int | None = None
    ) -> Any:
        """Publish an Arrow stream; return when the broker has it on disk.

        Sent again when it is not clear what became of it, and the broker can tell duplicates.
        """
        query = {} if producer is None else {"producer": producer, "sequence": sequence}
        path = self._path("publish", exchange)
        return self._json("POST", path, query, body, ARROW, again=producer is not None)

    @contextmanager
    def records(self, stream: str, query: Mapping[str, Any]) -> Iterator[Body]:
        """Ask for records; the answer's body, whose connection is kept if it was read to its end.

        Raises:
            BrokerError: the broker refused.
            CutError: the broker cannot be reached. Not tried again: the caller knows from where.
        """
        path = with_query(self._path("streams", stream, "records"), query)
        with self._table(path, f"{self.to.url}: records of stream {stream!r}") as body:
            yield body

    @contextmanager
    def messages(self, queue: str, lease: str | None, query: Mapping[str, Any]) -> Iterator[Body]:
        """Ask for the messages of a queue, or of a lease of it; as `records`."""
        parts = (queue, "messages") if lease is None else (queue, "leases", lease, "messages")
        path = with_query(self._path("queues", *parts), query)
        with self._table(path, f"{self.to.url}: messages of queue {queue!r}") as body:
            yield body

    def check_queue(self, queue: str) -> None:
        """Ask once, so that a wrong name or a missing right shows now.

        Raises:
            BrokerError: the broker refuses.
        """
        pauses = Pauses(self.to.retry_ms / 1000)
        while True:
            try:
                with self.messages(queue, None, {"limit": 0, "columns": "offset"}) as body:
                    body.file.read()
                return
            except CutError:
                if self._closed or not pauses.pause():
                    raise
            except BrokerError as error:
                if self._closed or error.status not in BUSY or not pauses.pause():
                    raise

    def lease(self, queue: str, most: int, ttl_ms: int) -> tuple[str | None, int]:
        """Take messages out of a queue for a while: the lease and how many; None of an empty one.

        Sent again when it is not clear what became of it: a lease that nobody knows of ends by
        itself.
        """
        query = {"max": most, "ttl_ms": ttl_ms, "answer": "json"}
        found = self._json("POST", self._path("queues", queue, "leases"), query)
        return found["lease"], found["messages"]

    def acknowledge(self, queue: str, lease: str) -> None:
        """End a lease whose messages are done with; returns when that is on disk."""
        self._json("DELETE", self._path("queues", queue, "leases", lease), {})

    def release(self, queue: str, lease: str) -> None:
        """End a lease whose messages shall come again."""
        self._json("POST", self._path("queues", queue, "leases", lease, "release"), {})

    @contextmanager
    def _table(self, path: str, what: str) -> Iterator[Body]:
        connection, response = self._send("GET", path, None, {}, fresh=False)
        try:
            if response.status != http.client.OK:
                raise self._refusal(response, "GET", path)
            body = Body(response, what)
            yield body
            body.finish()
        except BaseException:
            discard(connection, response)
            raise
        self._keep(connection, response)

    def close(self) -> None:
        """Close the connections that are kept, keep no more, and try nothing again."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()

    # ------------------------------------------------------------ how they are sent

    def _path(self, kind: str, *parts: str) -> str:
        tail = "".join("/" + urllib.parse.quote(part, safe="") for part in parts)
        return f"/api/{kind}{self._root}{tail}"

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: bytes | None = None,
        content_type: str | None = None,
        *,
        again: bool = True,
        wait_ms: int = 0,
    ) -> Any:
        """Send a request whose answer is JSON, again and again while the broker is away."""
        target = with_query(path, query)
        headers = {"Content-Type": content_type} if content_type else {}
        pauses = Pauses(self.to.retry_ms / 1000)
        while True:
            try:
                return self._once(method, target, body, headers, again=again, wait_ms=wait_ms)
            except CutError:
                if self._closed or not pauses.pause():
                    raise
            except BrokerError as error:
                if self._closed or error.status not in BUSY or not pauses.pause():
                    raise

    def _once(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        again: bool,
        wait_ms: int,
    ) -> Any:
        connection, response = self._send(
            method, target, body, headers, fresh=not again, wait_ms=wait_ms
        )
        try:
            if response.status >= http.client.BAD_REQUEST:
                raise self._refusal(response, method, target)
            data = response.read()
        except AWAY as error:
            discard(connection, response)
            raise self._unsure(method, target, error, again=again) from error
        except BaseException:
            discard(connection, response)
            raise
        self._keep(connection, response)
        return json.loads(data) if data else {}

    def _unsure(
        self, method: str, target: str, error: Exception, *, again: bool
    ) -> SparkSourceError:
        what = f"{method} {self.to.url}{target}"
        if again:
            return CutError(f"{what}: the answer was cut off: {named(error)}")
        return SparkSourceError(
            f"{what}: the connection was lost before the answer ({named(error)}); the broker may "
            f"have the rows, so they are not sent again: give producer and sequenceColumn to make "
            f"that safe"
        )

    def _send(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        fresh: bool,
        wait_ms: int = 0,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request; return what answers, as soon as the head of the answer is here.

        A kept connection may have been closed by the broker meanwhile, which shows only now; then
        a new one is tried, unless the request must not be sent twice (`fresh` takes a new one at
        once).
        """
        while True:
            kept = None if fresh else self._kept()
            connection = kept or self._connect(method, target)
            try:
                if connection.sock is not None:
                    connection.sock.settimeout((self.to.timeout_ms + wait_ms) / 1000)
                connection.request(method, target, body, {**self._headers, **headers})
                return connection, connection.getresponse()
            except AWAY as error:
                connection.close()
                if kept is not None:
                    continue
                raise self._unsure(method, target, error, again=not fresh) from error
            except BaseException:
                connection.close()
                raise

    def _connect(self, method: str, target: str) -> http.client.HTTPConnection:
        parts = urllib.parse.urlsplit(self.to.url)
        host = parts.hostname or ""
        timeout = self.to.timeout_ms / 1000
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=self.to.ca_file)
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, parts.port or 443, timeout=timeout, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, parts.port or 80, timeout=timeout)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            # Nothing has been sent yet, so this may be tried again whatever the request is.
            raise CutError(
                f"{method} {self.to.url}{target}: the broker cannot be reached: {named(error)}"
            ) from error
        return connection

    def _kept(self) -> http.client.HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _keep(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        with self._lock:
            if response.isclosed() and not response.will_close and not self._closed:
                self._idle.append(connection)
                return
        discard(connection, response)

    def _refusal(self, response: http.client.HTTPResponse, method: str, target: str) -> BrokerError:
        """Make the error for an answer that is none of success."""
        data = response.read(ERROR_BYTES_MAX)
        try:
            facts = json.loads(data)
        except ValueError:
            facts = None
        if not isinstance(facts, dict):
            facts = {}
        word = str(facts.get("error", response.reason))
        reason = facts.get("reason") or data[:200].decode("utf-8", "replace") or response.reason
        what = f"{method} {self.to.url}{target.partition('?')[0]}"
        sentence = f"{what}: {response.status} {word}: {reason}"
        if response.status == http.client.UNAUTHORIZED:
            sentence += f" (user {self.to.user!r}; options user and passwordEnv)"
        elif response.status == http.client.FORBIDDEN:
            sentence += f" (user {self.to.user!r} in vhost {self.to.vhost!r})"
        return BrokerError(sentence, response.status, word, facts)


class Pauses:
    """Growing pauses between attempts, until there was no success for so long."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self.succeeded()

    def succeeded(self) -> None:
        """Begin anew: something worked."""
        self._until = time.monotonic() + self._seconds_max
        self._pause = PAUSE_SECONDS_FIRST

    def pause(self) -> bool:
        """Wait before the next attempt; False if there shall be none."""
        left = self._until - time.monotonic()
        if left <= 0:
            return False
        # Spread, as many tasks meet the same broker coming back.
        time.sleep(min(left, self._pause * random.uniform(0.5, 1)))  # noqa: S311
        self._pause = min(self._pause * 2, PAUSE_SECONDS_MAX)
        return True


def discard(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
    """Close both: a response that was not read to its end holds the socket, too."""
    response.close()
    connection.close()


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """Append the parameters that are not None."""
    given = {name: value for name, value in query.items() if value is not None}
    if not given:
        return path
    return f"{path}?{urllib.parse.urlencode(given, quote_via=urllib.parse.quote)}"


def named(error: BaseException) -> str:
    """Return an exception with its type, as the text of many says little."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


_clients: dict[tuple[int, Connection], Client] = {}


def client_for(to: Connection) -> Client:
    """Return this process's client for a broker and user."""
    key = (os.getpid(), to)
    client = _clients.get(key)
    if client is None:
        client = _clients[key] = Client(to)
    return client


def forget_clients() -> None:
    """Close this process's clients; the next one asked for is new."""
    while _clients:
        _clients.popitem()[1].close()
