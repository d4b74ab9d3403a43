"""basic.consume, cancel, get, qos and recover; publish, ack, nack and reject are the engine's.

Responsible for who may consume from what, and under which tag. Must not know messages.
Invariant: basic.consume-ok is sent before the first delivery, basic.cancel-ok after the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leporid.amqp.errors import (
    AccessRefused,
    NotAllowed,
    NotFound,
    NotImplementedFault,
    PreconditionFailed,
    ResourceLocked,
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
from leporid.broker.connection.channel import ChannelState
from leporid.broker.filter.filter_arguments import check_names, class_of, filter_of
from leporid.broker.memory import consumer_bytes
from leporid.broker.names import GENERATED_TAG_PREFIX, REPLY_QUEUE, queue_in
from leporid.broker.queue.queue import QueueState
from leporid.broker.queue.queue_types import QUORUM, STREAM, check_consumer_arguments
from leporid.broker.settings.redeclaring import check_dead_letter_exchange
from leporid.broker.settings.values import GROUP, READER, TIMEOUT_ACTION, plain
from leporid.broker.stream import partitions, stream_arguments
from leporid.broker.stream.choices import choice_of
from leporid.broker.stream.readers import check_room
from leporid.engine.selectors.filter import ClassFilter, Filter

if TYPE_CHECKING:
    from leporid.broker.registry import Steps, StepsTo
    from leporid.broker.settings.values import Arguments
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.stream.stream import Stream

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
    if channel.is_taken(method.consumer_tag):
        raise NotAllowed(f"attempt to reuse consumer tag '{method.consumer_tag}'")
    if name == REPLY_QUEUE:
        _consume_replies(channel, method)
        return
    session = channel.session
    session.check("read", "queue", name)
    if GROUP in method.arguments and _consume_in_group(channel, name, method):
        return
    if session.vhost.find_queue(name) is None and partitions.is_partitioned(session.vhost, name):
        raise NotFound(
            f"no {queue_in(session.vhost.name, name)}: a partitioned stream is consumed with "
            "x-group, or partition by partition"
        )
    queue = session.vhost.queue_for(name, session)
    check_consumer_arguments(queue.title, queue.type, method.arguments)
    session.vhost.unknown_arguments.check_consumer(name, method.arguments, session.name)
    if queue.stream is not None:
        _consume_stream(channel, queue, queue.stream, method)
        return
    _check_exclusive(queue, method.exclusive)
    check_names(method.arguments)
    wanted = _wanted(channel, method)
    tag = method.consumer_tag or session.broker.new_name(GENERATED_TAG_PREFIX)
    subscription = channel.subscribe(
        queue,
        tag,
        method.arguments,
        exclusive=method.exclusive,
        filter_class=class_of(method.arguments),
    )
    if not method.no_wait:
        session.send(channel.number, BasicConsumeOk(tag))
    timeout_ms, action = (
        method.arguments.get(key) for key in ("x-consumer-timeout", TIMEOUT_ACTION)
    )
    subscription.consumer = channel.engine.consume(
        queue.engine,
        tag,
        method.no_ack,
        _priority(method),
        channel.engine.prefetch_count,
        timeout_ms if isinstance(timeout_ms, int) else None,
        None if action is None else action == "requeue",
        wanted,
    )
    session.broker.events.consumer_created(subscription, channel)


def _wanted(channel: ChannelState, method: BasicConsume) -> Filter | None:
    """Return what a consumer of a queue asks for; None if it is every message."""
    found = filter_of(method.arguments, channel.session.broker.filter_classes.require)
    wanted = None if found is None else found.engine
    name = class_of(method.arguments)
    return wanted if name is None else ClassFilter(name, wanted)


def _consume_stream(
    channel: ChannelState, queue: QueueState, stream: Stream, method: BasicConsume
) -> None:
    """Read a stream.

    Whether the consumer wants to be alone makes no difference, as in RabbitMQ: nobody takes
    anything from anybody.
    """
    engine, session = channel.engine, channel.session
    prefetch = _reading_prefetch(channel, queue.title, method)
    reader = plain(method.arguments[READER]) if READER in method.arguments else None
    if reader is not None:
        check_room(queue, reader)
    choice = choice_of(method.arguments, session.broker.filter_classes.require)
    filter_class = class_of(method.arguments)
    offset = _start(session.vhost, queue, stream, method.arguments, reader)
    tag = method.consumer_tag or session.broker.new_name(GENERATED_TAG_PREFIX)
    subscription = channel.subscribe(
        queue, tag, method.arguments, exclusive=False, filter_class=filter_class
    )
    if not method.no_wait:
        session.send(channel.number, BasicConsumeOk(tag))
    consumer = engine.consume_stream(
        stream, tag, prefetch, offset, choice, filter_class=filter_class
    )
    channel.read(subscription, consumer, reader)
    session.broker.events.consumer_created(subscription, channel)


def _reading_prefetch(channel: ChannelState, title: str, method: BasicConsume) -> int:
    """Return how much a consumer of a stream may have unsettled, which has to be said."""
    engine, limits_channel = channel.engine, _limits_channel(channel)
    prefetch = engine.prefetch_count or (engine.prefetch_global if limits_channel else 0)
    if not prefetch:
        raise PreconditionFailed(f"consumer prefetch count is not set for '{title}'")
    if method.no_ack:
        raise stream_arguments.unsupported("automatic acknowledgement", title)
    if engine.prefetch_global and not limits_channel:
        raise NotImplementedFault(f"{title} does not support global qos")
    return prefetch


def _consume_in_group(channel: ChannelState, name: str, method: BasicConsume) -> bool:
    """Read a stream, or a partitioned one, with others; False if the name is of neither."""
    session, title = channel.session, queue_in(channel.session.vhost.name, name)
    if not partitions.is_stream(session.vhost, name):
        return False
    check_consumer_arguments(title, STREAM, method.arguments)
    check_dead_letter_exchange(session, name, title, method.arguments)
    session.vhost.unknown_arguments.check_consumer(name, method.arguments, session.name)
    prefetch = _reading_prefetch(channel, title, method)
    tag = method.consumer_tag or session.broker.new_name(GENERATED_TAG_PREFIX)
    size = consumer_bytes(tag, method.arguments)
    session.broker.memory.check_consumer(session.account, title, size)
    recorded = session.broker.recorded_count
    member = session.vhost.groups.admit(channel, tag, name, prefetch, method.arguments)
    member.kept_bytes = size
    if session.broker.recorded_count != recorded:
        session.hold()
    if not method.no_wait:
        session.send(channel.number, BasicConsumeOk(tag))
    channel.join(member)
    return True


def _start(
    vhost: VirtualHost,
    queue: QueueState,
    stream: Stream,
    arguments: Arguments,
    reader: str | None,
) -> int:
    """Return where it says; else what comes after all that its name has read; else the end."""
    if stream_arguments.OFFSET not in arguments and reader is not None:
        # Another consumer of that name may just have gone on.
        read = vhost.reader_offset(queue.name, reader)
        if read is not None:
            return read + 1
    return stream_arguments.start_offset(
        stream, arguments.get(stream_arguments.OFFSET, "next"), vhost.engine.clock.wall_ms
    )


def _limits_channel(channel: ChannelState) -> bool:
    """Whether the client's library means the channel when it says `global = false`."""
    return channel.session.client_properties.get("product") in SPECIFICATION_QOS_LIBRARIES


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
    channel.cancel(method.consumer_tag)
    return None if method.no_wait else BasicCancelOk(method.consumer_tag)


def get(channel: ChannelState, method: BasicGet) -> Method | None:
    """basic.get; the engine sends basic.get-ok with the message."""
    session = channel.session
    name = channel.queue_name(method.queue)
    session.check("read", "queue", name)
    queue = session.vhost.queue_for(name, session)
    if queue.stream is not None:
        raise stream_arguments.unsupported("basic.get", queue.title)
    if queue.type is QUORUM and queue.single_active_consumer:
        raise ResourceLocked(
            f"cannot obtain access to locked {queue.title}. basic.get operations are not supported "
            "by quorum queues with single active consumer"
        )
    session.vhost.used(queue)
    return None if channel.engine.get(queue.engine, method.no_ack) else BasicGetEmpty()


def qos(channel: ChannelState, method: BasicQos) -> Method:
    """basic.qos: for the consumers to come, or for the whole channel."""
    if method.prefetch_size:
        raise NotImplementedFault(f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_ or _limits_channel(channel):
        channel.engine.prefetch_global = method.prefetch_count
    else:
        # As in RabbitMQ, a limit for each consumer replaces the one for the channel.
        channel.engine.prefetch_global = 0
        channel.engine.prefetch_count = method.prefetch_count
    return BasicQosOk()


def recover(channel: ChannelState, method: BasicRecover) -> StepsTo[Method]:
    """basic.recover."""
    yield from _requeue(channel, method.requeue)
    return BasicRecoverOk()


def recover_async(channel: ChannelState, method: BasicRecoverAsync) -> StepsTo[None]:
    """basic.recover-async, which is not answered."""
    yield from _requeue(channel, method.requeue)


def _requeue(channel: ChannelState, requeue: bool) -> Steps:
    if not requeue:
        raise NotImplementedFault("requeue=false")
    yield from channel.engine.recovering()
