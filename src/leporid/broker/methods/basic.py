"""basic.consume, cancel, get, qos and recover; publish, ack, nack and reject are the engine's.

Responsible for who may consume from what, and under which tag. Must not know messages.
Invariant: basic.consume-ok is sent before the first delivery, basic.cancel-ok after the last.
"""

from __future__ import annotations

from typing import Final

from leporid.amqp.errors import (
    AccessRefused,
    NotAllowed,
    NotImplementedFault,
    PreconditionFailed,
)
from leporid.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    Method,
)
from leporid.broker.arguments import check_consumer_arguments
from leporid.broker.channel import ChannelState
from leporid.broker.names import GENERATED_TAG_PREFIX, REPLY_QUEUE
from leporid.broker.queues import QueueState

SPECIFICATION_QOS_LIBRARIES: Final = ("py-amqp",)
"""Client libraries that take `global = false` as AMQP 0-9-1 defines it: one limit for the channel,
also for the consumers that it has. Under kombu it looks at the product in our server properties,
finds that it is not RabbitMQ, and so no longer sends RabbitMQ's `global = true`, which means that.
A Celery worker that holds tasks for later would then never be given another one."""

PRIORITY_LIMIT: Final = 2**31 - 1
"""Priorities of consumers beyond this, either way, are this; the engine compares 32-bit numbers."""


def consume(channel: ChannelState, method: BasicConsume) -> None:
    """basic.consume."""
    name = channel.queue_name(method.queue)
    if method.consumer_tag in channel.subscriptions:
        raise NotAllowed(f"attempt to reuse consumer tag '{method.consumer_tag}'")
    if name == REPLY_QUEUE:
        _consume_replies(channel, method)
        return
    session = channel.session
    session.check("read", "queue", name)
    queue = session.vhost.queue_for(name, session)
    check_consumer_arguments(queue.title, queue.type, method.arguments)
    _check_exclusive(queue, method.exclusive)
    tag = method.consumer_tag or session.broker.new_name(GENERATED_TAG_PREFIX)
    subscription = channel.subscribe(queue, tag, exclusive=method.exclusive)
    if not method.no_wait:
        session.send(channel.number, BasicConsumeOk(tag))
    subscription.consumer = channel.engine.consume(
        queue.engine, tag, method.no_ack, _priority(method), channel.engine.prefetch_count
    )


def _check_exclusive(queue: QueueState, exclusive: bool) -> None:
    if queue.single_active_consumer:
        in_use = exclusive
    else:
        taken = queue.exclusive_subscription is not None
        in_use = taken or (exclusive and bool(queue.subscriptions))
    if in_use:
        raise AccessRefused(f"{queue.title} in exclusive use")


def _priority(method: BasicConsume) -> int:
    priority = method.arguments.get("x-priority", 0)
    if not isinstance(priority, int):
        return 0
    return max(-PRIORITY_LIMIT, min(PRIORITY_LIMIT, priority))


def _consume_replies(channel: ChannelState, method: BasicConsume) -> None:
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.replies is not None:
        raise PreconditionFailed("reply consumer already set")
    session = channel.session
    tag = method.consumer_tag or session.broker.new_name(GENERATED_TAG_PREFIX)
    if not method.no_wait:
        session.send(channel.number, BasicConsumeOk(tag))
    channel.await_replies(tag)


def cancel(channel: ChannelState, method: BasicCancel) -> Method | None:
    """basic.cancel: a missing consumer is cancelled already."""
    tag = method.consumer_tag
    if channel.replies is not None and channel.replies.tag == tag:
        channel.stop_replies()
    elif tag in channel.subscriptions:
        channel.unsubscribe(channel.subscriptions[tag])
    return None if method.no_wait else BasicCancelOk(tag)


def get(channel: ChannelState, method: BasicGet) -> Method | None:
    """basic.get; the engine sends basic.get-ok with the message."""
    session = channel.session
    name = channel.queue_name(method.queue)
    session.check("read", "queue", name)
    queue = session.vhost.queue_for(name, session)
    return None if channel.engine.get(queue.engine, method.no_ack) else BasicGetEmpty()


def qos(channel: ChannelState, method: BasicQos) -> Method:
    """basic.qos: for the consumers to come, or for the whole channel."""
    if method.prefetch_size:
        raise NotImplementedFault(f"prefetch_size!=0 ({method.prefetch_size})")
    library = channel.session.client_properties.get("product")
    if method.global_ or library in SPECIFICATION_QOS_LIBRARIES:
        channel.engine.prefetch_global = method.prefetch_count
    else:
        # As in RabbitMQ, a limit for each consumer replaces the one for the channel.
        channel.engine.prefetch_global = 0
        channel.engine.prefetch_count = method.prefetch_count
    return BasicQosOk()


def recover(channel: ChannelState, method: BasicRecover) -> Method:
    """basic.recover."""
    _requeue(channel, method.requeue)
    return BasicRecoverOk()


def recover_async(channel: ChannelState, method: BasicRecoverAsync) -> None:
    """basic.recover-async, which is not answered."""
    _requeue(channel, method.requeue)


def _requeue(channel: ChannelState, requeue: bool) -> None:
    if not requeue:
        raise NotImplementedFault("requeue=false")
    channel.engine.recover()
