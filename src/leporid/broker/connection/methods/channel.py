"""channel.open, close and flow, access.request, and which handler each channel method has.

Responsible for the life of a channel. Must not know the connection's handshake. Invariant: a
channel number is taken from channel.open until channel.close-ok, whichever side sends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from leporid.amqp.errors import ChannelFault, NotImplementedFault, UnexpectedFrame
from leporid.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReturn,
    ChannelClose,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from leporid.broker.connection.channel import ChannelState
from leporid.broker.connection.methods import basic, confirm_tx, exchange, queue
from leporid.broker.registry import StepsTo

# Each handler takes the very method it stands beside in HANDLERS.
# One that may take long does so in steps.
Handler = Callable[[ChannelState, Any], Method | StepsTo[Method | None] | None]


def open_again(_channel: ChannelState, _method: ChannelOpen) -> None:
    """channel.open on an open channel."""
    raise ChannelFault("second 'channel.open' seen")


def close(channel: ChannelState, _method: ChannelClose) -> StepsTo[Method]:
    """channel.close."""
    return channel.session.close_channel(channel)


def flow(channel: ChannelState, method: ChannelFlow) -> Method:
    """channel.flow; a client cannot pause its consumers, as in RabbitMQ."""
    if not method.active:
        raise NotImplementedFault("active=false")
    return ChannelFlowOk(active=True)


def request_access(_channel: ChannelState, _method: AccessRequest) -> Method:
    """access.request, of AMQP 0-8; some old clients still send it."""
    return AccessRequestOk(1)


def refuse_content(_channel: ChannelState, _method: Method) -> None:
    """What only we send; as in RabbitMQ the content that does not follow is the fault."""
    raise UnexpectedFrame(
        "expected content header for class 60, got non content header frame instead"
    )


HANDLERS: Final[dict[type[Method], Handler]] = {
    ChannelOpen: open_again,
    ChannelClose: close,
    ChannelFlow: flow,
    AccessRequest: request_access,
    ExchangeDeclare: exchange.declare,
    ExchangeDelete: exchange.delete,
    ExchangeBind: exchange.bind,
    ExchangeUnbind: exchange.unbind,
    QueueDeclare: queue.declare,
    QueueDelete: queue.delete,
    QueuePurge: queue.purge,
    QueueBind: exchange.bind_queue,
    QueueUnbind: exchange.unbind_queue,
    BasicConsume: basic.consume,
    BasicCancel: basic.cancel,
    BasicGet: basic.get,
    BasicQos: basic.qos,
    BasicRecover: basic.recover,
    BasicRecoverAsync: basic.recover_async,
    BasicDeliver: refuse_content,
    BasicGetOk: refuse_content,
    BasicReturn: refuse_content,
    ConfirmSelect: confirm_tx.select_confirm,
    TxSelect: confirm_tx.select_tx,
    TxCommit: confirm_tx.commit,
    TxRollback: confirm_tx.rollback,
}
