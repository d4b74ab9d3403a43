"""Requests to the broker, on connections that are kept for the next one.

One `Client` per process and broker (`client_for`): Spark's Python workers live as long as the
query, so a connection serves many batches. urllib3 keeps the connections. It counts attempts and
cannot go on in the middle of an answer, so for how long to try again is said here (`Pauses`).

Invariant: an answer is whole or an error. A body that ends early raises `CutError`, however it was
framed; and a request that may have had an effect is sent again only if the caller says that this
does no harm.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import math
import os
import random
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from http import HTTPStatus
from typing import Any, TypeVar

import pyarrow as pa
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, Timeout, connection_from_url
from urllib3.exceptions import ClosedPoolError, ConnectTimeoutError, HTTPError, SSLError

from leporid.spark.errors import BrokerError, CutError, OptionError, SparkSourceError
from leporid.spark.offsets import Key
from leporid.spark.options import Connection

log = logging.getLogger(__name__)

# The broker's answers to come back for: it starts, or is too busy.
BUSY = {429, 502, 503}

# What OpenSSL calls an answer that is none of TLS.
NO_TLS = {"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"}

# Connections that are kept: of a driver's threads; a worker needs one.
KEPT_MAX = 64

# Waiting before another attempt doubles up to this.
PAUSE_SECONDS_FIRST = 0.1
PAUSE_SECONDS_MAX = 5.0
# A broker that stays away is told of in the log: at once, and then so often.
TOLD_EVERY_SECONDS = 30.0

# An error's body is read up to here; a broker's is a line.
ERROR_BYTES_MAX = 64 * 1024

T = TypeVar("T")

ARROW = "application/vnd.apache.arrow.stream"


class Body:
    """A response's body: a file to read an Arrow stream from; `finish` proves that it was whole.

    Arrow does not notice every early end: it takes an end between two messages for the end of the
    stream.
    """

    # Asked for by pyarrow.
    closed = False

    def __init__(self, response: BaseHTTPResponse, what: str) -> None:
        self._response = response
        self._what = what
        # Without a length or chunks the body ends with the connection: a cut looks like an end.
        if not response.chunked and response.length_remaining is None:
            raise CutError(f"{what}: the answer does not say where it ends")

    def readable(self) -> bool:
        """Return true: it is open for reading."""
        return True

    def read(self, count: int | None = None) -> bytes:
        """Read so many bytes, fewer at the end only; or all that is left.

        Raises:
            CutError: the body ended early.
        """
        try:
            return self._response.read(count)
        except HTTPError as error:
            raise self._cut(error) from error

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Decode an Arrow stream; an early end is an error here if it falls into a message."""
        try:
            with pa.ipc.open_stream(self) as stream:
                for batch in stream:
                    # Spark trusts what we give it: see session.ARROW_OPTIONS.
                    batch.validate()
                    yield batch
        except CutError:
            raise
        except (pa.ArrowInvalid, OSError) as error:
            raise self._cut(error) from error

    def finish(self) -> None:
        """Read the end of the body, of which all content has been read.

        Raises:
            CutError: the body has not come to its end, or goes on.
        """
        if self.read(1):
            raise CutError(f"{self._what}: the answer goes on after its end")

    def _cut(self, error: Exception) -> CutError:
        return CutError(f"{self._what}: the answer was cut off: {named(error)}")


class Client:
    """Talks to one broker as one user.

    May be used from several threads: each request has a connection to itself.
    """

    def __init__(self, to: Connection) -> None:
        self.to = to
        self._closed = False
        credentials = f"{to.user}:{to.password}".encode()
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(credentials).decode(),
            "User-Agent": "leporid-spark",
        }
        self._tls: dict[str, Any] = {}
        if to.url.startswith("https:"):
            self._tls = {"ssl_context": trusting(to.ca_file)}
        self._pool = self._made_pool()
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

    def reader_positions(self, stream: str, reader: str) -> dict[int, int]:
        """Return the offset after the last message that a named reader has read, by partition."""
        found = self._json("GET", self._path("streams", stream, "readers"), {})["readers"]
        return {one["partition"]: one["next_offset"] for one in found if one["reader"] == reader}

    def store_reader_position(
        self, key: Key, incarnation: str, reader: str, next_offset: int
    ) -> None:
        """Store the offset after the last message that a named reader has read.

        Raises:
            BrokerError: the broker refuses, also if the stream was deleted and made again.
        """
        path = self._path("streams", key.stream, "readers", reader)
        query = {"partition": key.partition, "incarnation": incarnation}
        body = json.dumps({"next_offset": next_offset}).encode()
        self._json("PUT", path, query, body, "application/json")

    def report_run(self, name: str, facts: Mapping[str, Any]) -> None:
        """Report how a run of a pipeline is."""
        body = json.dumps(facts).encode()
        self._json("PUT", self._path("pipelines", name), {}, body, "application/json")

    def publish(
        self, exchange: str, body: bytes, producer: str | None = None, sequence: int | None = None
    ) -> Any:
        """Publish an Arrow stream; return when the broker has it on disk.

        Sent again when it is not clear what became of it, and the broker can tell duplicates.
        """
        query = {} if producer is None else {"producer": producer, "sequence": sequence}
        path = self._path("publish", exchange)
        return self._json("POST", path, query, body, ARROW, again=producer is not None)

    def check_exchange(self, exchange: str, nothing: bytes) -> None:
        """Publish an empty Arrow stream, so that a wrong name or a missing right shows now.

        Raises:
            BrokerError: the broker refuses.
        """
        self._json("POST", self._path("publish", exchange), {}, nothing, ARROW)

    def records(self, stream: str, query: Mapping[str, Any]) -> AbstractContextManager[Body]:
        """Ask for records; the answer's body, whose connection is kept if it was read to its end.

        Raises:
            BrokerError: the broker refused.
            CutError: the broker cannot be reached. Not tried again: the caller knows from where.
        """
        path = with_query(self._path("streams", stream, "records"), query)
        return self._table(path, f"records of {Key(stream, query.get('partition', 0))}")

    def messages(
        self, queue: str, lease: str | None, query: Mapping[str, Any]
    ) -> AbstractContextManager[Body]:
        """Ask for the messages of a queue, or of a lease of it; as `records`."""
        parts = (queue, "messages") if lease is None else (queue, "leases", lease, "messages")
        path = with_query(self._path("queues", *parts), query)
        return self._table(path, f"messages of queue {queue!r}")

    def check_queue(self, queue: str) -> None:
        """Ask once, so that a wrong name or a missing right shows now.

        Raises:
            BrokerError: the broker refuses.
        """

        def ask() -> None:
            with self.messages(queue, None, {"limit": 0, "columns": "offset"}) as body:
                body.read()

        self._insist(ask)

    def has_queue(self, name: str) -> bool:
        """Return whether there is a queue or a stream; true if the user may not know."""
        for ask in (self.check_queue, self.info):
            try:
                ask(name)
            except BrokerError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    return True
            else:
                return True
        return False

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
        with self._answer("GET", path) as response:
            body = Body(response, f"{self.to.url}: {what}")
            yield body
            body.finish()

    def close(self) -> None:
        """Close the connections that are kept, and try nothing again."""
        self._closed = True
        self._pool.close()

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

        def ask() -> Any:
            with self._answer(
                method, target, body, headers, again=again, wait_ms=wait_ms
            ) as answer:
                data = answer.read()
            return json.loads(data) if data else {}

        return self._insist(ask)

    def _insist(self, ask: Callable[[], T]) -> T:
        """Ask again and again while the broker is away or busy."""
        pauses = Pauses(self.to.retry_ms / 1000)
        while True:
            try:
                return ask()
            except (CutError, BrokerError) as error:
                if self._closed or not passing(error) or not pauses.pause(error):
                    raise

    @contextmanager
    def _answer(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        again: bool = True,
        wait_ms: int = 0,
    ) -> Iterator[BaseHTTPResponse]:
        """Send a request; give what answers, as soon as the head of the answer is here.

        A kept connection may be closed by the broker at the moment it is used, so a request that
        must not be sent twice (not `again`) takes a new one.
        """
        seconds = self.to.timeout_ms / 1000
        pool = self._pool if again else self._made_pool()
        try:
            response = pool.urlopen(
                method,
                target,
                body,
                {**self._headers, **(headers or {})},
                retries=False,
                timeout=Timeout(connect=seconds, read=seconds + wait_ms / 1000),
                preload_content=False,
                decode_content=False,
            )
            try:
                if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                    raise self._refusal(response, method, target)
                yield response
            finally:
                # Closes the connection as well if the answer was not read to its end.
                response.close()
        except HTTPError as error:
            raise self._lost(f"{method} {self.to.url}{target}", error, again=again) from error
        finally:
            if not again:
                pool.close()

    def _lost(self, what: str, error: HTTPError, *, again: bool) -> SparkSourceError:
        """Make the error for a request without an answer, or with half of one."""
        if is_untrusted(error):
            # Waiting does not mend it, as it may a broker that is away.
            return SparkSourceError(
                f"{what}: the broker's certificate is not trusted: {named(error)}: give its "
                f"authority's certificates as caFile, or --ca-file of a pipeline"
            )
        if is_amqp(error):
            # Nor does it make a port another one.
            return SparkSourceError(
                f"{self.to.url} is a port of AMQP: the option url (or LEPORID_URL) has to be that "
                f"of the management API, as a rule http://HOST:15672 or https://HOST:15671"
            )
        if is_plain(error):
            return SparkSourceError(
                f"{self.to.url} does not speak TLS: it may be a port of AMQP, or want http://: the "
                f"option url (or LEPORID_URL) has to be that of the management API, as a rule "
                f"http://HOST:15672 or https://HOST:15671"
            )
        # Nothing has been sent yet, so this may be tried again whatever the request is.
        unsent = isinstance(error, (ConnectTimeoutError, ClosedPoolError))
        if unsent or (again and isinstance(error, SSLError)):
            return CutError(f"{what}: the broker cannot be reached: {named(error)}")
        if again:
            return CutError(f"{what}: the answer was cut off: {named(error)}")
        return SparkSourceError(
            f"{what}: the connection was lost before the answer ({named(error)}); the broker may "
            f"have the rows, so they are not sent again: give producer and sequenceColumn to make "
            f"that safe"
        )

    def _made_pool(self) -> HTTPConnectionPool:
        return connection_from_url(self.to.url, maxsize=KEPT_MAX, **self._tls)

    def _refusal(self, response: BaseHTTPResponse, method: str, target: str) -> BrokerError:
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
        if response.status == HTTPStatus.UNAUTHORIZED:
            sentence += f" (user {self.to.user!r}; options user and passwordEnv)"
        elif response.status == HTTPStatus.FORBIDDEN:
            sentence += f" (user {self.to.user!r} in vhost {self.to.vhost!r})"
        return BrokerError(sentence, response.status, word, facts)


class Pauses:
    """Growing pauses between attempts, until there was no success for so long.

    Args:
        seconds_max: for how long; 0: without end.
    """

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max or math.inf
        self.succeeded()

    def succeeded(self) -> None:
        """Begin anew: something worked."""
        self._since = time.monotonic()
        self._tell_at = self._since
        self._pause = PAUSE_SECONDS_FIRST

    def pause(self, error: Exception) -> bool:
        """Wait before the next attempt; False if there shall be none.

        Args:
            error: why the last one failed, which is told in the log every half a minute.
        """
        now = time.monotonic()
        left = self._since + self._seconds_max - now
        if left <= 0:
            return False
        if now >= self._tell_at:
            self._tell_at = now + TOLD_EVERY_SECONDS
            end = "without end" if left == math.inf else f"for {left:.0f} s more"
            log.warning("%s; failing for %.0f s, trying again %s", error, now - self._since, end)
        # Spread, as many tasks meet the same broker coming back.
        time.sleep(min(left, self._pause * random.uniform(0.5, 1)))  # noqa: S311
        self._pause = min(self._pause * 2, PAUSE_SECONDS_MAX)
        return True


def passing(error: SparkSourceError) -> bool:
    """Whether it may be over soon."""
    return isinstance(error, CutError) or (isinstance(error, BrokerError) and error.status in BUSY)


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """Append the parameters that are not None."""
    given = {name: value for name, value in query.items() if value is not None}
    if not given:
        return path
    return f"{path}?{urllib.parse.urlencode(given, quote_via=urllib.parse.quote)}"


def trusting(ca_file: str | None) -> ssl.SSLContext:
    """Return what checks a broker's certificate: the system's authorities, or those of a file.

    Raises:
        OptionError: the file cannot be read, or has no certificates.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = "it has no certificates" if isinstance(error, ssl.SSLError) else error.strerror
        raise OptionError(f"option caFile = {ca_file!r}: {reason}") from None


def is_untrusted(error: HTTPError) -> bool:
    """Whether the broker's certificate was refused."""
    return isinstance(error, SSLError) and isinstance(cause(error), ssl.SSLCertVerificationError)


def is_amqp(error: HTTPError) -> bool:
    """Whether a server of AMQP answered, which names its protocol to a client of another."""
    root = cause(error)
    return isinstance(root, http.client.BadStatusLine) and str(root).startswith("AMQP")


def is_plain(error: HTTPError) -> bool:
    """Whether a server without TLS answered, of AMQP for example, where TLS was asked for."""
    root = cause(error)
    return isinstance(root, ssl.SSLError) and root.reason in NO_TLS


def named(error: BaseException) -> str:
    """Return what was behind an exception with its type, as the text of many says little."""
    root = cause(error)
    return f"{type(root).__name__}: {root}" if str(root) else type(root).__name__


def cause(error: BaseException) -> BaseException:
    """Return what was behind an exception; urllib3 has it among the arguments of its own."""
    while True:
        inner = [part for part in (error.__cause__, *error.args) if isinstance(part, BaseException)]
        if not inner:
            return error
        error = inner[0]


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
