"""Every method that a client may call, and what bounds the work that it causes.

A method is handled in steps, if what it causes may be much; or what it does costs the same however
much there is. A new method has to say which.
"""

from __future__ import annotations

import inspect
from itertools import chain
from typing import Final

from leporid.amqp.methods import (
    AccessRequest,
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
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
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
from leporid.broker.connection.methods import channel, connection

IN_STEPS: Final[set[type[Method]]] = {
    BasicRecover,
    BasicRecoverAsync,
    ChannelClose,
    ExchangeBind,
    ExchangeDelete,
    QueueBind,
    QueueDelete,
    QueuePurge,
}

# The state of one object changes, or one is made.
SMALL: Final[set[type[Method]]] = {
    AccessRequest,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicQos,
    BasicReturn,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    ExchangeDeclare,
    QueueDeclare,
    TxSelect,
}

# What goes with it goes in a job of its own: an auto-delete queue or exchange.
STARTS_JOBS: Final[set[type[Method]]] = {BasicCancel, ExchangeUnbind, QueueUnbind}

# In one piece: what bounds it.
LIMITED: Final[dict[type[Method], str]] = {
    TxCommit: "limits.transaction_entries_max",
    TxRollback: "limits.transaction_entries_max",
}

# Of the connection itself, that is not handled in steps: what bounds it.
OF_CONNECTIONS: Final[dict[type[Method], str]] = {
    ConnectionStartOk: "server.listener.HANDSHAKE_BYTES_MAX, and one login at a time",
    ConnectionTuneOk: "once",
    ConnectionOpen: "once",
    ConnectionUpdateSecret: "no further input is handled until it is answered",
    ConnectionCloseOk: "nothing is left to do",
}


def test_every_method_says_what_bounds_it() -> None:
    named = [*IN_STEPS, *SMALL, *STARTS_JOBS, *LIMITED]
    assert len(named) == len(set(named))
    assert set(named) == set(channel.HANDLERS)
    handled = set(chain.from_iterable(connection.HANDLERS.values()))
    assert {*OF_CONNECTIONS, ConnectionClose} == handled


def test_what_may_cause_much_is_handled_in_steps() -> None:
    for method in IN_STEPS:
        handler = channel.HANDLERS[method]
        made = inspect.isgeneratorfunction(handler) or "Steps" in str(
            inspect.signature(handler).return_annotation
        )
        assert made, method
    for handlers in connection.HANDLERS.values():
        if ConnectionClose in handlers:
            assert inspect.isgeneratorfunction(handlers[ConnectionClose])
