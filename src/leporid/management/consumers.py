"""Consumers as RabbitMQ's API has them.

Responsible for these routes and for what a consumer looks like in JSON, whether it consumes from a
queue alone or reads with a group. Must not know how lists are made (`paging`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from leporid.broker.connection.channel import ChannelState
from leporid.broker.group.members import Member, Reading
from leporid.management import amqp_json
from leporid.management.authorization import manager, not_found
from leporid.management.details import channel_details
from leporid.management.paging import Lists, Table
from leporid.management.paths import name_of, takes

if TYPE_CHECKING:
    from leporid.broker.queue.queue import ConsumerState
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings


class ConsumerRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        table: Table[Any] = Table(
            {"consumer_tag": lambda consumer: consumer.tag},
            whole=lambda consumer: shown_consumer(consumer, around.node_name),
        )
        self._lists: Lists[Any] = Lists(around, table, lambda each: str(each.tag))

    @takes(queue={"type": "string"})
    async def listing(self, request: Request) -> Response:
        """GET /api/consumers, and /api/consumers/{vhost}: of one queue with `queue`.

        Who may not enter the virtual host is not refused, as in RabbitMQ, and sees none.
        """
        user = await manager(self._around, request)
        vhosts = await self._around.entered_vhosts(user)
        if "vhost" in request.path_params:
            asked = self._around.broker.vhosts.get(name_of(request, "vhost"))
            if asked is None:
                raise not_found()
            vhosts = [vhost for vhost in vhosts if vhost is asked]
        name = request.query_params.get("queue")
        if name:
            queues = [queue for vhost in vhosts if (queue := vhost.find_queue(name)) is not None]
            found = (each for queue in queues for each in queue.subscriptions)
            count = sum(len(queue.subscriptions) for queue in queues)
            return await self._lists.answer(request, user, found, count)
        count = sum(vhost.consumers.count for vhost in vhosts)
        return await self._lists.answer(request, user, self._consumers(vhosts), count)

    def _consumers(self, vhosts: list[VirtualHost]) -> Iterator[ConsumerState | Member | None]:
        """Go through the consumers in virtual hosts, by their connections."""
        for session in tuple(self._around.broker.sessions):
            yield None
            if not session.opened or session.vhost not in vhosts:
                continue
            for channel in tuple(session.channels.values()):
                yield from channel.subscriptions.values()
                yield from tuple(channel.members.values())


def shown_consumer(consumer: ConsumerState | Member, node: str) -> dict[str, Any]:
    """Return what a consumer looks like."""
    if isinstance(consumer, Member):
        return {
            "arguments": amqp_json.shown({**consumer.group.agreed, "x-group": consumer.group.name}),
            "ack_required": True,
            "active": bool(consumer.readings),
            "activity_status": "up" if consumer.readings else "waiting",
            "channel_details": channel_details(consumer.channel, node),
            "consumer_tag": consumer.tag,
            "exclusive": False,
            "prefetch_count": consumer.credit.limit,
            "queue": {"name": consumer.group.stream, "vhost": consumer.channel.session.vhost.name},
        }
    queue, engine = consumer.queue, consumer.consumer
    active = not queue.single_active_consumer or queue.subscriptions.oldest is consumer
    return {
        "arguments": amqp_json.shown(dict(consumer.arguments)),
        "ack_required": engine is None or not engine.no_ack,
        "active": active,
        "activity_status": "single_active"
        if queue.single_active_consumer and active
        else ("up" if active else "waiting"),
        "channel_details": _details(consumer, node),
        "consumer_tag": consumer.tag,
        "exclusive": consumer.exclusive,
        "prefetch_count": 0 if engine is None else engine.prefetch,
        "queue": {"name": queue.name, "vhost": queue.vhost},
    }


def _details(consumer: ConsumerState, node: str) -> dict[str, Any] | None:
    """Name the channel of a consumer, or of the member of a group that it reads for."""
    subscriber = consumer.subscriber
    if isinstance(subscriber, Reading):
        subscriber = subscriber.member.channel
    return channel_details(subscriber, node) if isinstance(subscriber, ChannelState) else None
