"""exchange.declare, delete, bind and unbind; and queue.bind and unbind, which are the same.

Responsible for the rules on names and permissions around them. Must not know how an exchange
routes. Invariant: no binding ever has the default exchange at either end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leporid.amqp.errors import AccessRefused, CommandInvalid
from leporid.amqp.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueUnbind,
    QueueUnbindOk,
)
from leporid.amqp.tables import Int64L, Value
from leporid.broker.connection.channel import ChannelState
from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE
from leporid.broker.exchange.types import (
    Binding,
    DestinationKind,
    is_exchange_type,
)
from leporid.broker.names import SYSTEM_PREFIX, check_new_name, exchange_in, without_line_breaks
from leporid.broker.registry import StepsTo
from leporid.broker.settings.redeclaring import check_alternate_exchange, redeclare_exchange
from leporid.broker.settings.values import Arguments

if TYPE_CHECKING:
    from leporid.broker.connection.session import ConnectionState


def declare(channel: ChannelState, method: ExchangeDeclare) -> Method | None:
    """exchange.declare: make it, or agree that it is there already."""
    session = channel.session
    name = without_line_breaks(method.exchange)
    if method.passive:
        _check_not_default(name)
        session.check_any("exchange", name)
        session.vhost.exchange(name)
        return None if method.no_wait else ExchangeDeclareOk()
    _check_type(method.type)
    _check_not_default(name)
    session.check("configure", "exchange", name)
    exchange = session.vhost.find_exchange(name)
    if exchange is None:
        check_new_name("exchange", name)
        title = exchange_in(session.vhost.name, name)
        check_alternate_exchange(session, name, title, method.arguments)
    session.vhost.unknown_arguments.check_exchange(name, method.arguments, session.name)
    if exchange is None:
        _create(session, name, method)
    else:
        redeclare_exchange(session, exchange, method)
    return None if method.no_wait else ExchangeDeclareOk()


def _check_type(kind: str) -> None:
    if not is_exchange_type(kind):
        known = "unknown" if kind else "invalid"
        raise CommandInvalid(f"{known} exchange type '{kind}'")


def _check_not_default(name: str) -> None:
    if name == DEFAULT_EXCHANGE:
        raise AccessRefused("operation not permitted on the default exchange")


def _create(session: ConnectionState, name: str, method: ExchangeDeclare) -> None:
    session.vhost.create_exchange(
        name,
        method.type,
        durable=method.durable,
        auto_delete=method.auto_delete,
        internal=method.internal,
        arguments=method.arguments,
    )


def delete(channel: ChannelState, method: ExchangeDelete) -> StepsTo[Method | None]:
    """exchange.delete: a missing exchange is deleted already."""
    session = channel.session
    name = without_line_breaks(method.exchange)
    _check_not_default(name)
    if name.startswith(SYSTEM_PREFIX):
        title = exchange_in(session.vhost.name, name)
        raise AccessRefused(f"deletion of system {title} not allowed")
    session.check("configure", "exchange", name)
    return _deleting(session, name, method)


def _deleting(
    session: ConnectionState, name: str, method: ExchangeDelete
) -> StepsTo[Method | None]:
    exchange = session.vhost.find_exchange(name)
    if exchange is not None:
        yield from session.vhost.deleting_exchange(exchange, if_unused=method.if_unused)
    return None if method.no_wait else ExchangeDeleteOk()


def bind(channel: ChannelState, method: ExchangeBind) -> Method | StepsTo[Method | None] | None:
    """exchange.bind: from source to destination."""
    binding = _binding(
        channel,
        method.source,
        "exchange",
        method.destination,
        method.routing_key,
        method.arguments,
    )
    return _bind(channel, binding, None if method.no_wait else ExchangeBindOk())


def unbind(channel: ChannelState, method: ExchangeUnbind) -> Method | None:
    """exchange.unbind."""
    binding = _binding(
        channel,
        method.source,
        "exchange",
        method.destination,
        method.routing_key,
        method.arguments,
    )
    channel.session.vhost.bindings.unbind(binding, channel.session)
    return None if method.no_wait else ExchangeUnbindOk()


def bind_queue(channel: ChannelState, method: QueueBind) -> Method | StepsTo[Method | None] | None:
    """queue.bind."""
    queue, key = _shortcuts(channel, method.queue, method.routing_key)
    binding = _binding(channel, method.exchange, "queue", queue, key, method.arguments)
    return _bind(channel, binding, None if method.no_wait else QueueBindOk())


def unbind_queue(channel: ChannelState, method: QueueUnbind) -> Method:
    """queue.unbind, which knows no no-wait."""
    queue, key = _shortcuts(channel, method.queue, method.routing_key)
    binding = _binding(channel, method.exchange, "queue", queue, key, method.arguments)
    channel.session.vhost.bindings.unbind(binding, channel.session)
    return QueueUnbindOk()


def _shortcuts(channel: ChannelState, queue: str, key: str) -> tuple[str, str]:
    """Without a queue name, the last declared one counts, also as the key if that is empty."""
    if queue:
        return queue, key
    queue = channel.queue_name(queue)
    return queue, key or queue


def _binding(
    channel: ChannelState,
    source: str,
    kind: DestinationKind,
    destination: str,
    key: str,
    arguments: Arguments,
) -> Binding:
    """Check the permissions of a binding, write on its destination and read on its source."""
    session = channel.session
    source = without_line_breaks(source)
    destination = without_line_breaks(destination)
    session.check("write", kind, destination)
    if kind == "exchange":
        _check_not_default(destination)
    _check_not_default(source)
    session.check("read", "exchange", source)
    found = session.vhost.find_exchange(source)
    if found is not None and found.has_topics:
        session.user.check_key("read", source, key, session.vhost.name)
    return Binding(source, destination, kind, key, _canonical(arguments))


def _bind(
    channel: ChannelState, binding: Binding, reply: Method | None
) -> Method | StepsTo[Method | None] | None:
    """Bind, in steps if what the exchange keeps must be given to the destination."""
    session = channel.session
    source = session.vhost.find_exchange(binding.source)
    if source is not None:
        session.vhost.unknown_arguments.check_binding(source, binding, session.name)
        if source.router.history_length:
            return _bind_in_steps(session, binding, reply)
    session.vhost.bindings.bind(binding, session)
    return reply


def _bind_in_steps(
    session: ConnectionState, binding: Binding, reply: Method | None
) -> StepsTo[Method | None]:
    # In the first step, so that the reply waits until the binding is on disk.
    left = session.vhost.bindings.bind(binding, session)
    if left is not None:
        yield from left
    return reply


def _canonical(arguments: Arguments) -> Arguments:
    """Give equal bindings the same bytes where they are recorded.

    Neither the order of the arguments makes a difference, nor under which of its two letters a
    64-bit number came.
    """
    if not arguments:
        return arguments
    return {key: _plain_number(arguments[key]) for key in sorted(arguments)}


def _plain_number(value: Value) -> Value:
    if isinstance(value, Int64L):
        return int(value)
    if isinstance(value, list):
        return [_plain_number(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain_number(item) for key, item in value.items()}
    return value
