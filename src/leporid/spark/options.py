"""The options of the data source: what may be said, checked all at once.

A table of names and checks (see checks), one frozen dataclass for each of connecting, reading and
writing. Options come from Spark as strings, their names in lower case. Must not know Spark, nor
ask the broker anything.

Invariant: an option is taken as given or refused by a sentence with its name, its value and what
is allowed; an unknown one is refused with the nearest known name. No message holds a password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leporid.filters.dialects import DEFAULT, Dialect
from leporid.filters.errors import FilterError
from leporid.filters.parser import parse
from leporid.spark.checks import (
    EARLIEST,
    LATEST,
    STORED,
    ByPartition,
    Check,
    any_text,
    by_partition,
    duration_ms,
    duration_or_0_ms,
    moment_ms,
    names,
    number,
    offsets,
    one_of,
    pattern,
    size,
    tags,
    text,
    truth,
    url,
)
from leporid.spark.errors import OptionError
from leporid.spark.schema import nearest

# AMQP's default exchange, as the HTTP routes name it.
DEFAULT_EXCHANGE = "amq.default"

# Rows in one batch for Spark: beyond it the batches leave the caches, below it calls dominate.
BATCH_ROWS = 10_000
BATCH_ROWS_MAX = 1_000_000
# Rows in one publish request; a request is confirmed as a whole.
REQUEST_ROWS = 20_000
# What the broker allows as `wait_ms`.
POLL_MS_MAX = 30_000


# ---------------------------------------------------------------- the options


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the broker is, and who we are to it."""

    url: str
    vhost: str
    user: str
    password: str = field(repr=False)
    ca_file: str | None
    timeout_ms: int
    retry_ms: int


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading begins or ends: one of an end of the stream, offsets, times.

    Attributes:
        at: EARLIEST, LATEST, STORED or offsets by stream and partition; None if by time.
        moment_ms: one time for all partitions.
        moments_ms: times by stream and partition.
    """

    at: int | ByPartition | None = None
    moment_ms: int | None = None
    moments_ms: ByPartition | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What to read, and in which portions."""

    streams: tuple[str, ...] | None
    pattern: str | None
    start: Start | None
    end: Start | None
    beyond_end: str
    rows_max: int | None
    bytes_max: int | None
    rows_min: int | None
    delay_ms_max: int
    partitions_min: int | None
    fail_on_loss: bool
    key_pattern: str | None
    filter: str | None
    filter_dialect: str
    filter_tags: str | None
    headers_json: bool
    batch_rows: int
    compression: str
    poll_ms: int
    reader_name: str | None
    push_down: bool


@dataclass(frozen=True, slots=True)
class QueueReading:
    """Which messages of a queue to read: all that are ready, or those of a lease."""

    queue: str
    unacked: bool
    limit: int | None
    lease: str | None
    lease_messages: int
    partitions_min: int
    headers_json: bool
    batch_rows: int
    compression: str


@dataclass(frozen=True, slots=True)
class Writing:
    """Where to publish, and under which identity."""

    exchange: str | None
    routing_key: str | None
    stream: str | None
    producer: str | None
    sequence_column: str | None
    request_rows: int
    unroutable: str


CONNECTION: dict[str, Check] = {
    "url": url,
    "vhost": text,
    "user": text,
    "password": any_text,
    "passwordEnv": text,
    "passwordFile": text,
    "caFile": text,
    "timeout": duration_ms,
    "retryTimeout": duration_or_0_ms,
}

# What users of Spark's connector for Kafka write, in small letters, and what it is here.
OF_KAFKA = {
    "kafka.bootstrap.servers": "url",
    "subscribe": "stream or streams",
    "subscribepattern": "streamPattern",
    "assign": "startingOffsets and endingOffsets of some partitions",
    "kafka.group.id": "readerName",
    "groupidprefix": "readerName",
    "topic": "stream",
}

READING: dict[str, Check] = {
    "stream": text,
    "streams": names,
    "streamPattern": pattern,
    "startingOffsets": offsets(EARLIEST, LATEST, STORED),
    "endingOffsets": offsets(LATEST),
    "startingTimestamp": moment_ms,
    "endingTimestamp": moment_ms,
    "startingOffsetsByTimestamp": by_partition(0),
    "endingOffsetsByTimestamp": by_partition(0),
    "startingOffsetsByTimestampStrategy": one_of("error", "latest"),
    "maxOffsetsPerTrigger": number(1),
    "maxBytesPerTrigger": size,
    "minOffsetsPerTrigger": number(1),
    "maxTriggerDelay": duration_ms,
    "minPartitions": number(1, 100_000),
    "failOnDataLoss": truth,
    "routingKeyPattern": text,
    "filter": text,
    "filterDialect": one_of(*Dialect),
    "filterTags": tags,
    "headersJson": truth,
    "batchRows": number(1, BATCH_ROWS_MAX),
    "compression": one_of("none", "lz4", "zstd"),
    "pollMs": number(0, POLL_MS_MAX),
    "readerName": text,
    "pushDownFilters": truth,
}

# What a batch over a queue may say; the last ones as for streams.
QUEUE_READING: dict[str, Check] = {
    "queue": text,
    "unacked": truth,
    "limit": number(0),
    "lease": text,
    "leaseMessages": number(1),
    **{
        name: READING[name] for name in ("minPartitions", "headersJson", "batchRows", "compression")
    },
}

WRITING: dict[str, Check] = {
    "exchange": text,
    "routingKey": any_text,
    "stream": text,
    "producer": text,
    "sequenceColumn": text,
    "requestRows": number(1, BATCH_ROWS_MAX),
    "unroutable": one_of("fail", "ignore"),
}

# What Spark puts among the options of a source for its own use.
SPARKS_OWN = {"owner", "provider", "checkpointlocation", "queryname", "outputmode"}
# Options that say what is read or written, as a path does.
NAMING = ("stream", "streams", "streamPattern", "queue", "exchange")
SPARKS_PREFIXES = ("option.", "__", "asyncprogresstracking", "serialization.")


def check_all(options: Mapping[str, str]) -> dict[str, Any]:
    """Check every option; return the values by their proper names.

    Raises:
        OptionError: for the first one that is unknown or not allowed.
    """
    table = CONNECTION | READING | QUEUE_READING | WRITING
    by_lower = {name.lower(): name for name in table}
    checked: dict[str, Any] = {}
    path = ""
    for given, value in options.items():
        lower = given.lower()
        name = by_lower.get(lower)
        if name is not None:
            checked[name] = table[name](name, str(value))
        elif lower == "path":
            path = str(value)
        elif lower not in SPARKS_OWN and not lower.startswith(SPARKS_PREFIXES):
            ours = OF_KAFKA.get(lower)
            hint = nearest(given, table) if ours is None else f": Kafka's; here it is {ours}"
            raise OptionError(f"unknown option {given!r}{hint}")
    # A location of Spark's own, as of a table in its catalog, is a URL.
    if path and ":/" not in path:
        for name in NAMING:
            if name in checked:
                raise OptionError(
                    f"option path = {path!r}, as load and save give it, names a stream, and option "
                    f"{name} = {checked[name]!r} does as well: give one of them"
                )
        checked["stream"] = text("path", path)
    return checked


def connection(values: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Connection:
    """Make the connection's options; what is not said comes from LEPORID_URL, _USER, _PASSWORD."""
    given = [name for name in ("password", "passwordEnv", "passwordFile") if name in values]
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(given)} say the same: give one of them")
    password = environ.get("LEPORID_PASSWORD", "guest")
    if "password" in values:
        password = values["password"]
    elif "passwordEnv" in values:
        variable = values["passwordEnv"]
        if variable not in environ:
            raise OptionError(
                f"option passwordEnv = {variable!r}: there is no such environment variable "
                f"where Spark's driver runs"
            )
        password = environ[variable]
    elif "passwordFile" in values:
        try:
            password = Path(values["passwordFile"]).read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise OptionError(f"option passwordFile: {error}") from None
    return Connection(
        url=values.get("url") or url("LEPORID_URL", environ.get("LEPORID_URL", DEFAULT_URL)),
        vhost=values.get("vhost", "/"),
        user=values.get("user", environ.get("LEPORID_USER", "guest")),
        password=password,
        ca_file=values.get("caFile"),
        timeout_ms=values.get("timeout", 60_000),
        retry_ms=values.get("retryTimeout", 60_000),
    )


DEFAULT_URL = "http://127.0.0.1:15672"


def reading(values: Mapping[str, Any]) -> Reading:
    """Make the reader's options from checked values.

    Raises:
        OptionError: two of them contradict each other, or no stream is named.
    """
    refuse(values, WRITING, READING, "reading")
    refuse(values, QUEUE_READING, READING, "reading a stream")
    which = [name for name in ("stream", "streams", "streamPattern") if name in values]
    if not which:
        raise OptionError(
            "no stream is named: give one of the options stream, streams, streamPattern, queue "
            "(a table made by CREATE TABLE … USING forgets its options when Spark reads it: "
            "use CREATE TEMPORARY VIEW … USING)"
        )
    if len(which) > 1:
        raise OptionError(f"options {' and '.join(which)} say the same: give one of them")
    strategy = values.get("startingOffsetsByTimestampStrategy")
    start = place(values, "starting")
    if strategy is not None and (start is None or start.at is not None):
        raise OptionError(
            "option startingOffsetsByTimestampStrategy needs startingTimestamp or "
            "startingOffsetsByTimestamp"
        )
    if start is not None and start.at == STORED and "readerName" not in values:
        raise OptionError("option startingOffsets = stored needs readerName: whose offsets")
    if "maxTriggerDelay" in values and "minOffsetsPerTrigger" not in values:
        raise OptionError("option maxTriggerDelay needs minOffsetsPerTrigger")
    least, most = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most})")
    return Reading(
        streams=(values["stream"],) if "stream" in values else values.get("streams"),
        pattern=values.get("streamPattern"),
        start=start,
        end=place(values, "ending"),
        beyond_end=strategy or "error",
        rows_max=most,
        bytes_max=values.get("maxBytesPerTrigger"),
        rows_min=least,
        delay_ms_max=values.get("maxTriggerDelay", 15 * 60_000),
        partitions_min=values.get("minPartitions"),
        fail_on_loss=values.get("failOnDataLoss", True),
        key_pattern=values.get("routingKeyPattern"),
        filter=values.get("filter"),
        filter_dialect=dialect_of(values),
        filter_tags=values.get("filterTags"),
        headers_json=values.get("headersJson", False),
        batch_rows=values.get("batchRows", BATCH_ROWS),
        compression=values.get("compression", "none"),
        poll_ms=values.get("pollMs", 500),
        reader_name=values.get("readerName"),
        push_down=values.get("pushDownFilters", False),
    )


def dialect_of(values: Mapping[str, Any]) -> str:
    """Return the dialect of the expression, which is checked.

    Raises:
        OptionError: there is none, or it is none of that dialect.
    """
    dialect = Dialect(values.get("filterDialect", DEFAULT))
    if "filter" not in values:
        if "filterDialect" in values:
            raise OptionError("option filterDialect needs filter")
        return dialect
    try:
        parse(values["filter"], dialect)
    except FilterError as error:
        raise OptionError(f"option filter: {error}") from None
    return dialect


def queue_reading(values: Mapping[str, Any]) -> QueueReading:
    """Make the options of a batch over a queue from checked values.

    Raises:
        OptionError: some of them mean nothing for a queue.
    """
    refuse(values, READING, QUEUE_READING, "reading a queue")
    refuse(values, WRITING, QUEUE_READING, "reading")
    lease = values.get("lease")
    if (lease is None) != ("leaseMessages" not in values):
        raise OptionError("options lease and leaseMessages are given both or not at all")
    if lease is not None and {"unacked", "limit"} & values.keys():
        raise OptionError("options unacked and limit have no meaning with lease")
    return QueueReading(
        queue=values["queue"],
        unacked=values.get("unacked", False),
        limit=values.get("limit"),
        lease=lease,
        lease_messages=values.get("leaseMessages", 0),
        partitions_min=values.get("minPartitions", 1),
        headers_json=values.get("headersJson", False),
        batch_rows=values.get("batchRows", BATCH_ROWS),
        compression=values.get("compression", "none"),
    )


def place(values: Mapping[str, Any], word: str) -> Start | None:
    """Make the start (`starting`) or the end (`ending`); None when nothing is said of it."""
    forms = [f"{word}Offsets", f"{word}Timestamp", f"{word}OffsetsByTimestamp"]
    given = [name for name in forms if name in values]
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(given)} say the same: give one of them")
    if not given:
        return None
    return Start(
        at=values.get(forms[0]), moment_ms=values.get(forms[1]), moments_ms=values.get(forms[2])
    )


def writing(values: Mapping[str, Any], *, has_exchange: bool, streaming: bool) -> Writing:
    """Make the writer's options from checked values.

    Args:
        values: as `check_all` returns them.
        has_exchange: whether the data frame has a column `exchange`.
        streaming: whether a streaming query writes.

    Raises:
        OptionError: it is not said where to publish, or options contradict each other.
    """
    refuse(values, READING | QUEUE_READING, WRITING, "writing")
    if "stream" in values and ({"exchange", "routingKey"} & values.keys() or has_exchange):
        raise OptionError("option stream already says the exchange and the key: leave those out")
    if not {"stream", "exchange"} & values.keys() and not has_exchange:
        raise OptionError(
            "it is not said where to publish: give the option exchange or stream, "
            "or a column 'exchange'"
        )
    if streaming:
        for name in ("producer", "sequenceColumn"):
            if name in values:
                raise OptionError(
                    f"option {name} is for batches: a streaming query has an identity already"
                )
    elif ("producer" in values) != ("sequenceColumn" in values):
        raise OptionError("options producer and sequenceColumn are given both or not at all")
    if len(values.get("producer", "").encode()) > 255:
        raise OptionError("option producer: at most 255 bytes")
    return Writing(
        exchange=values.get("exchange"),
        routing_key=values.get("routingKey"),
        stream=values.get("stream"),
        producer=values.get("producer"),
        sequence_column=values.get("sequenceColumn"),
        request_rows=values.get("requestRows", REQUEST_ROWS),
        unroutable=values.get("unroutable", "fail"),
    )


def refuse(
    values: Mapping[str, Any], others: Mapping[str, Check], own: Mapping[str, Check], doing: str
) -> None:
    """Refuse options that are meant for the other direction."""
    for name in values:
        if name in others and name not in own:
            raise OptionError(f"option {name} has no meaning in {doing}")
