"""Taking messages out of a queue with Spark: acknowledged after they were written.

Responsible for leases: taking them, giving their messages to somebody as a data frame, ending them.
Must not know what is done with the messages.

Invariant: a message is acknowledged only after `sink` returned for a data frame that has it; so
each message is worked on at least once, and again after any failure in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from leporid.spark import options as said
from leporid.spark.checks import duration_ms
from leporid.spark.errors import BrokerError, LeaseError, OptionError, SparkSourceError
from leporid.spark.http import Client, client_for
from leporid.spark.queue_reader import ENDED

log = logging.getLogger(__name__)

# What the broker allows in one lease.
MESSAGES_MAX = 50_000


def drain(
    spark: Any,
    queue: str,
    sink: Callable[[Any], object],
    *,
    options: Mapping[str, str] | None = None,
    messages: int = 10_000,
    limit: int | None = None,
    ttl: str = "10m",
    schema: str | None = None,
) -> int:
    """Take what is in a queue, portion by portion, until it is empty: **at least once**.

    Each portion is leased from the broker, given to `sink` as a data frame, and acknowledged when
    `sink` has returned. If `sink` fails, the driver dies, or the time is over, the messages of that
    portion are in the queue again, marked as redelivered, and what `sink` had written of them is
    there twice in the end, unless it is written under a key.

    Args:
        spark: the session.
        queue: the queue's name.
        sink: writes a data frame, with an action of Spark's, before it returns: what it only
            planned to write would be lost. It may read the data frame several times.
        options: of the data source: url, vhost, user, passwordEnv, minPartitions, headersJson, …
        messages: in one portion, at most.
        limit: in all portions together, at most; None: until the queue is empty.
        ttl: how long the work on a portion may take.
        schema: columns to read, as for `.schema(…)`; None: all.

    Returns:
        How many messages were acknowledged.

    Raises:
        LeaseError: the time of a portion was over before `sink` was done; those messages come
            again.
        OptionError: an option is not allowed.
        BrokerError: the broker refuses.

    Examples:
        >>> drain(spark, "orders", lambda df: df.write.mode("append").parquet("orders/"))
        ... # doctest: +SKIP
    """
    given = {**(options or {}), "queue": queue}
    values = said.check_all(given)
    said.queue_reading(values)
    if "lease" in values or {"unacked", "limit"} & values.keys():
        raise OptionError("options lease, unacked and limit are not for draining")
    if not 0 < messages <= MESSAGES_MAX:
        raise OptionError(f"messages = {messages}: a portion has 1 to {MESSAGES_MAX}")
    ttl_ms = duration_ms("ttl", ttl)
    client = client_for(said.connection(values))
    done = 0
    while limit is None or done < limit:
        most = messages if limit is None else min(messages, limit - done)
        lease, count = client.lease(queue, most, ttl_ms)
        if lease is None:
            break
        frame = spark.read.format("leporid").options(**given, lease=lease, leaseMessages=str(count))
        try:
            sink((frame if schema is None else frame.schema(schema)).load())
        except BaseException:
            _release(client, queue, lease)
            raise
        _acknowledge(client, queue, lease, count, ttl)
        done += count
    return done


def _release(client: Client, queue: str, lease: str) -> None:
    """Give a portion back at once, if the broker can be told; otherwise its time will be over."""
    try:
        client.release(queue, lease)
    except SparkSourceError as error:
        log.warning("lease %s of queue %r ends by itself later: %s", lease, queue, error)


def _acknowledge(client: Client, queue: str, lease: str, count: int, ttl: str) -> None:
    try:
        client.acknowledge(queue, lease)
    except BrokerError as error:
        if error.status not in ENDED:
            raise
        raise LeaseError(
            f"{count} messages of queue {queue!r} were written, but the broker has them in the "
            f"queue again, since the work took longer than ttl = {ttl} or the broker was started "
            f"anew: they come again ({error})"
        ) from error
