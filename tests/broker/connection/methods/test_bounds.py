"""Every method that a client may call, and what bounds the work that it causes.

A method is handled in steps, if what it causes may be much; or what it does costs the same however
much there is. A new method has to say which.
"""

from __future__ import annotations

import inspect
from itertools import chain
from pathlib import Path
from typing import Final

from leporid.amqp import methods
from leporid.amqp.methods import (
    AccessRequest,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionSecure,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
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

# In the engine, which no handler sees: what shows the bound.
IN_THE_ENGINE: Final[dict[type[Method], str]] = {
    BasicPublish: "tests/engine/connection/test_connections.py",
    BasicAck: "tests/engine/connection/test_settling.py",
    BasicNack: "tests/engine/connection/test_settling.py",
    BasicReject: "tests/engine/connection/test_settling.py",
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


def test_no_method_is_left_out() -> None:
    made = {each for each in vars(methods).values() if isinstance(each, type)}
    every = {each for each in made if issubclass(each, Method)} - {Method}
    # What only a server says has no handler.
    ours = {each for each in every if each.__name__.endswith(("Ok", "Empty"))}
    ours |= {ConnectionStart, ConnectionSecure, ConnectionTune}
    ours |= {ConnectionBlocked, ConnectionUnblocked}
    handled = {*channel.HANDLERS, *chain.from_iterable(connection.HANDLERS.values())}
    assert every - ours - handled == set(IN_THE_ENGINE)
    root = Path(__file__).parents[4]
    for shown in IN_THE_ENGINE.values():
        assert (root / shown).is_file(), shown


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
