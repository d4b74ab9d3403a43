"""queue.declare, delete and purge.

Responsible for their rules on names, permissions and replies. Must not know who is bound to
what. Invariant: only the broker gives names that begin with `amq.`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from leporid.amqp.errors import NotFound, PreconditionFailed
from leporid.amqp.methods import (
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from leporid.broker.connection.channel import ChannelState
from leporid.broker.names import (
    REPLY_QUEUE,
    check_new_name,
    queue_in,
    without_line_breaks,
)
from leporid.broker.queue.queue import QueueState
from leporid.broker.queue.queue_types import queue_type
from leporid.broker.registry import StepsTo
from leporid.broker.settings.redeclaring import check_dead_letter_exchange, redeclare_queue
from leporid.broker.settings.values import QUEUE_TYPE
from leporid.broker.stream import stream_arguments

if TYPE_CHECKING:
    from leporid.broker.vhost import VirtualHost


def declare(channel: ChannelState, method: QueueDeclare) -> Method | None:
    """queue.declare: make it, agree that it is there already, or only ask."""
    name = without_line_breaks(method.queue)
    if method.queue.startswith(REPLY_QUEUE):
        return _declare_reply_queue(channel, name, method)
    if method.passive:
        channel.session.check_any("queue", name)
        queue = channel.session.vhost.queue_for(name, channel.session)
    else:
        queue = _declare(channel, name, method)
    channel.session.vhost.used(queue)
    channel.last_queue = queue.name
    if method.no_wait:
        return None
    return QueueDeclareOk(queue.name, queue.engine.ready_count, len(queue.subscriptions))


def _declare_reply_queue(channel: ChannelState, name: str, method: QueueDeclare) -> Method | None:
    """Say whether somebody waits there for replies; whoever answers requests may ask that."""
    vhost = channel.session.vhost
    if not vhost.awaits_replies(name):
        raise NotFound(f"no {queue_in(vhost.name, name)}")
    channel.last_queue = name
    return None if method.no_wait else QueueDeclareOk(name, 0, 1)


def _declare(channel: ChannelState, name: str, method: QueueDeclare) -> QueueState:
    session = channel.session
    method = _typed(session.vhost, name, method)
    if not name and not queue_type(method.arguments).transient:
        module = queue_type(method.arguments).module
        raise PreconditionFailed(f"Cannot declare a server-named queue for type {module}")
    if name:
        check_new_name("queue", name)
    else:
        name = channel.new_queue_name()
    session.check("configure", "queue", name)
    queue = session.vhost.find_queue(name)
    if queue is None:
        # Before anything else is checked, as in RabbitMQ; it may be asked for, and begun anew.
        title = queue_in(session.vhost.name, name)
        check_dead_letter_exchange(session, name, title, method.arguments)
    session.vhost.unknown_arguments.check_queue(name, method.arguments, session.name)
    session.broker.churn.queues_declared += 1
    if queue is not None:
        redeclare_queue(session, queue, method)
        return queue
    owner = session if method.exclusive else None
    queue = session.vhost.create_queue(
        name,
        # An exclusive queue ends with its connection, so it cannot be durable.
        durable=method.durable and not method.exclusive,
        auto_delete=method.auto_delete,
        arguments=method.arguments,
        owner=owner,
    )
    channel.name_is_used()
    if owner is not None:
        owner.own(queue)
    return queue


def _typed(vhost: VirtualHost, name: str, method: QueueDeclare) -> QueueDeclare:
    """Add the virtual host's default type, if the client names none and could have named that.

    A queue that was made without a type keeps none, so that its clients may declare it again.
    """
    default = vhost.default_queue_type
    if not default or not name or QUEUE_TYPE in method.arguments:
        return method
    if not queue_type({QUEUE_TYPE: default}).transient and (
        not method.durable or method.exclusive or method.auto_delete
    ):
        return method
    queue = vhost.find_queue(name)
    if queue is not None and QUEUE_TYPE not in queue.arguments:
        return method
    return replace(method, arguments={**method.arguments, QUEUE_TYPE: default})


def delete(channel: ChannelState, method: QueueDelete) -> StepsTo[Method | None]:
    """queue.delete: a missing queue is deleted already."""
    session = channel.session
    name = without_line_breaks(channel.queue_name(method.queue))
    session.check("configure", "queue", name)
    return _deleting(channel, name, method)


def _deleting(channel: ChannelState, name: str, method: QueueDelete) -> StepsTo[Method | None]:
    session = channel.session
    queue = session.vhost.find_queue(name)
    ready = 0
    if queue is not None:
        queue.check_access(session)
        if method.if_empty and (queue.engine.ready_count or queue.engine.held_count):
            raise PreconditionFailed(f"{queue.title} not empty")
        if method.if_unused and queue.subscriptions:
            raise PreconditionFailed(f"{queue.title} in use")
        ready = yield from session.vhost.deleting_queue(queue)
    return None if method.no_wait else QueueDeleteOk(ready)


def purge(channel: ChannelState, method: QueuePurge) -> StepsTo[Method | None]:
    """queue.purge: what is delivered stays, and so does what others publish meanwhile."""
    session = channel.session
    name = channel.queue_name(method.queue)
    session.check("read", "queue", name)
    return _purging(channel, name, method)


def _purging(channel: ChannelState, name: str, method: QueuePurge) -> StepsTo[Method | None]:
    queue = channel.session.vhost.queue_for(name, channel.session)
    if queue.stream is not None:
        raise stream_arguments.unsupported("queue.purge", queue.title)
    purged = yield from queue.engine.purging()
    return None if method.no_wait else QueuePurgeOk(purged)
