"""Queues: what they hold, and consuming from them.

Must not know connections. Invariant: a queue whose name the broker made has, after a reconnect, the
name of then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final, Unpack

from leporid.amqp.methods import (
    BasicGet,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)
from leporid.client import arguments as given
from leporid.client.api import Browsed, browsed
from leporid.client.arguments import BindOptions
from leporid.client.channel_link import GET_ANSWERS
from leporid.client.consumer import Consumer
from leporid.client.delivery import Delivery
from leporid.client.errors import ApiError, LocalProtocolError
from leporid.client.message import HeaderValue
from leporid.client.recorded_topology import QueueRecord

if TYPE_CHECKING:
    from leporid.client.channel import Channel
    from leporid.client.exchange import Exchange


PAGE: Final = 1000
"""Messages that a page of a browse has at most."""


class Queue:
    """A queue. `channel.queue(…)` declares it.

    Attributes:
        channel: what it is used on.
        message_count: how many messages were ready when it was declared or counted last.
        consumer_count: how many consumers it had then.
    """

    def __init__(
        self,
        channel: Channel,
        name: str,
        record: QueueRecord | None,
        message_count: int = 0,
        consumer_count: int = 0,
    ) -> None:
        self.channel = channel
        self.message_count: int = message_count
        self.consumer_count: int = consumer_count
        self._name = name
        self._record = record

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} on {self.channel!r}>"

    @property
    def name(self) -> str:
        """Its name; one that the broker made is another one after a reconnect."""
        return self._name if self._record is None else self._record.name

    @property
    def is_auto_delete(self) -> bool:
        """Whether it was declared here so that it is deleted with its last consumer."""
        return self._record is not None and self._record.declare.auto_delete

    async def bind(
        self, exchange: Exchange | str, key: str = "", **options: Unpack[BindOptions]
    ) -> None:
        """Has messages of an exchange routed to the queue; options as of `Channel.bind`."""
        await self.channel.bind(self, exchange, key, **options)

    async def unbind(
        self, exchange: Exchange | str, key: str = "", **options: Unpack[BindOptions]
    ) -> None:
        """Removes the binding that `bind` with the same arguments made."""
        await self.channel.unbind(self, exchange, key, **options)

    def consume(
        self,
        *,
        prefetch: int | None = None,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: int | None = None,
        tags: str | list[str] | None = None,
        sql: str | None = None,
        filter_class: str | None = None,
        unique_ids: bool = False,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> Consumer:
        """Makes a consumer: `async for message in queue.consume(): …`.

        It begins when it is iterated over or entered, and ends when the loop is left.

        Args:
            prefetch: how many deliveries may be unsettled; the channel's if it is None; 0: any.
            no_ack: deliveries are settled when they are sent; a crash loses them.
            exclusive: nobody else may consume from the queue.
            priority: consumers of higher priority get messages first.
            tags: only messages with one of these tags (Leporid).
            sql: only messages that this expression is true for (Leporid).
            filter_class: only messages that this class passes (Leporid).
            unique_ids: no two messages have the same `message_id`. Then a message that was acked,
                and comes again because the ack was lost with a connection, is acked once more and
                not handed out.
            arguments: others.

        Raises:
            LocalProtocolError: an argument is wrong, or the broker has no filters.
        """
        if prefetch is not None:
            given.whole_number(prefetch, "prefetch", 0, given.PREFETCH_MAX)
        if unique_ids:
            self._check_acks_can_repeat(prefetch, no_ack=no_ack)
        server = self.channel.connection.server
        table = given.filtered(server, arguments, tags, sql, filter_class)
        table = given.merged(table, {"x-priority": priority})
        return Consumer(
            self,
            prefetch,
            no_ack=no_ack,
            exclusive=exclusive,
            unique_ids=unique_ids,
            arguments=table,
        )

    def _check_acks_can_repeat(self, prefetch: int | None, *, no_ack: bool) -> None:
        """Refuses `unique_ids` where it is not known which acks may be lost."""
        channel = self.channel
        if no_ack or not (channel.default_prefetch if prefetch is None else prefetch):
            raise LocalProtocolError(
                "unique_ids needs acks, and a prefetch other than 0: so many are remembered"
            )
        if not channel.confirms:
            raise LocalProtocolError(
                "unique_ids needs a channel with confirms: on one without, an ack may belong to a "
                "transaction that is rolled back"
            )

    async def get(self, *, no_ack: bool = False) -> Delivery | None:
        """Takes one message; None: there is none.

        If the call is cancelled or times out, the message goes back to the queue, marked as
        redelivered; with `no_ack` it is gone.

        Args:
            no_ack: it needs no ack.

        Raises:
            NotFound: the queue does not exist.
        """
        answer = await self.channel.call(lambda: BasicGet(self.name, no_ack), *GET_ANSWERS)
        if not isinstance(answer, tuple):
            self.message_count = 0
            return None
        delivery, self.message_count = answer
        assert isinstance(delivery, Delivery)
        return delivery

    async def browse(
        self,
        limit: int | None = None,
        *,
        tags: str | list[str] | None = None,
        sql: str | None = None,
        unacked: bool = False,
    ) -> AsyncIterator[Browsed]:
        """Looks at the messages of the queue without taking them, over HTTP (Leporid).

        Args:
            limit: at most so many.
            tags: only messages with one of these tags.
            sql: only messages that this expression is true for.
            unacked: also what is out for delivery.

        Raises:
            LocalProtocolError: the broker cannot do this.
            ApiError: the user may not, the filter is wrong, or nobody answers; see `Settings.api`.
        """
        connection = self.channel.connection
        given.require_leporid(connection.server, "browsing")
        api, vhost = connection.api(), connection.settings.vhost
        start: int | None = None
        left = limit
        while left is None or left > 0:
            page = await api.get(
                *("queues", vhost, self.name, "browse"),
                **{
                    "from": start,
                    "limit": PAGE if left is None else min(left, PAGE),
                    "encoding": "base64",
                    "tags": " || ".join(tags) if isinstance(tags, list) else tags,
                    "filter": sql,
                    "unacked": "true" if unacked else None,
                },
            )
            if page is None:
                raise ApiError(404, f"there is no queue {self.name!r} in vhost {vhost!r}")
            for entry in page["messages"]:
                yield browsed(entry)
            left = None if left is None else left - len(page["messages"])
            start = page["next"]
            if start is None:
                return

    async def purge(self) -> int:
        """Drops all ready messages; returns how many there were."""
        answer: QueuePurgeOk = await self.channel.call(lambda: QueuePurge(self.name), QueuePurgeOk)
        self.message_count = 0
        return answer.message_count

    async def count(self) -> int:
        """Asks how many messages are ready; sets `message_count` and `consumer_count`.

        Raises:
            NotFound: the queue does not exist.
        """
        answer: QueueDeclareOk = await self.channel.call(
            lambda: QueueDeclare(self.name, passive=True), QueueDeclareOk
        )
        self.message_count, self.consumer_count = answer.message_count, answer.consumer_count
        return self.message_count

    async def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Deletes the queue; returns how many messages went with it.

        Raises:
            PreconditionFailed: it is used, or not empty.
        """
        return await self.channel.delete_queue(self, if_unused=if_unused, if_empty=if_empty)
