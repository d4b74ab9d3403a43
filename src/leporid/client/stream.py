"""Streams: logs that are read from any offset.

Must not know connections. Invariant: what only Leporid has is refused on other brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from leporid.amqp.tables import Timestamp, Value
from leporid.client import arguments as given
from leporid.client.consumer import Consumer
from leporid.client.errors import LocalProtocolError
from leporid.client.message import HeaderValue, duration_ms, seconds_of
from leporid.client.queue import Queue

OFFSETS = ("first", "last", "next")


class Stream(Queue):
    """A stream. `channel.stream(…)` declares it."""

    def read(
        self,
        offset: str | int | datetime | timedelta | None = None,
        *,
        reader: str | None = None,
        group: str | None = None,
        tags: str | list[str] | None = None,
        sql: str | None = None,
        filter_class: str | None = None,
        prefetch: int | None = None,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> Consumer:
        """Reads the stream: `async for message in stream.read("first"): …`.

        Messages are to be acknowledged: that makes room for others, and of a named reader or a
        group it moves the stored offset.

        Args:
            offset: "first", "last", "next" (what comes from now on), an offset, a moment, or how
                long ago. None: where the reader or the group was, or "next".
            reader: a name under which the broker stores what was acknowledged (Leporid).
            group: readers that share the partitions of the stream (Leporid).
            tags: only messages with one of these tags (Leporid).
            sql: only messages that this expression is true for (Leporid).
            filter_class: only messages that this class passes (Leporid).
            prefetch: how many deliveries may be unsettled; at least 1.
            arguments: others.

        Raises:
            LocalProtocolError: an argument is wrong, or the broker does not have it.
        """
        if prefetch == 0 or (prefetch is None and self.channel.default_prefetch == 0):
            raise LocalProtocolError("a stream needs a prefetch of at least 1")
        if reader is not None and group is not None:
            raise LocalProtocolError("give reader or group, not both: a group stores its offsets")
        server = self.channel.connection.server
        given.require_leporid(server, "named readers", reader is not None)
        given.require_leporid(server, "groups", group is not None)
        table = given.merged(
            arguments,
            {"x-stream-offset": offset_of(offset), "x-reader": reader, "x-group": group},
        )
        return self.consume(
            prefetch=prefetch, tags=tags, sql=sql, filter_class=filter_class, arguments=table
        )

    async def committed(self, reader: str, *, partition: int = 0) -> int | None:
        """Asks for the offset that a named reader or a group read last, over HTTP (Leporid).

        Args:
            reader: its name.
            partition: of a partitioned stream.

        Returns:
            The offset; None if there is none.

        Raises:
            LocalProtocolError: the broker has no named readers.
            ApiError: the user may not, or nobody answers; see `Settings.api`.
        """
        connection = self.channel.connection
        given.require_leporid(connection.server, "named readers")
        answer = await connection.api().get(
            *("streams", connection.settings.vhost, self.name, "readers", reader),
            partition=partition or None,
        )
        return None if answer is None else int(answer["offset"])


def offset_of(offset: str | int | datetime | timedelta | None) -> Value:
    """Returns the argument x-stream-offset.

    Raises:
        LocalProtocolError: it is no offset.
    """
    if offset is None or (isinstance(offset, str) and offset in OFFSETS):
        return offset
    if isinstance(offset, bool):
        pass
    elif isinstance(offset, int) and 0 <= offset < 1 << 63:
        return offset
    elif isinstance(offset, datetime):
        return Timestamp(seconds_of(offset))
    elif isinstance(offset, timedelta):
        return f"{max(1, duration_ms(offset, 'offset') // 1000)}s"
    raise LocalProtocolError(
        f"invalid offset {offset!r}: expected first, last, next, a number, a datetime or timedelta"
    )
