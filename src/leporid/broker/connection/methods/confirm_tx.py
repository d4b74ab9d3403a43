"""confirm.select and tx.select, commit and rollback.

Responsible for a channel being in one of the two modes at most. Must not know what is confirmed
or committed. Invariant: what answers tx.commit leaves only when the transaction is on disk.
"""

from __future__ import annotations

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.methods import (
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leporid.broker.connection.channel import ChannelState
from leporid.broker.registry import StepsTo


def select_confirm(channel: ChannelState, method: ConfirmSelect) -> Method | None:
    """confirm.select; a second one changes nothing."""
    if channel.engine.transactional:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if not channel.engine.confirming:
        channel.engine.select_confirm()
    return None if method.no_wait else ConfirmSelectOk()


def select_tx(channel: ChannelState, _method: TxSelect) -> Method:
    """tx.select; a second one changes nothing."""
    if channel.engine.confirming:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if not channel.engine.transactional:
        channel.engine.select_tx()
    return TxSelectOk()


def commit(channel: ChannelState, _method: TxCommit) -> Method | StepsTo[Method | None]:
    """tx.commit; a fault if a queue refused a publish, as in RabbitMQ.

    All that no queue refused has taken effect by then, the settles too, and the fault waits for the
    disk as tx.commit-ok does.
    """
    _check_transactional(channel)
    if channel.engine.append_to_streams():
        return _committing(channel)
    return _commit(channel)


def _committing(channel: ChannelState) -> StepsTo[Method | None]:
    """Go on with what goes to streams; a channel that closes meanwhile commits nothing."""
    while True:
        yield None
        if channel.engine.closed:
            return None
        if not channel.engine.append_to_streams():
            return _commit(channel)


def _commit(channel: ChannelState) -> Method:
    channel.session.connection.hold(channel.engine.commit())
    if channel.engine.tx_refused:
        raise PreconditionFailed("partial tx completion")
    return TxCommitOk()


def rollback(channel: ChannelState, _method: TxRollback) -> Method:
    """tx.rollback."""
    _check_transactional(channel)
    channel.engine.rollback()
    return TxRollbackOk()


def _check_transactional(channel: ChannelState) -> None:
    if not channel.engine.transactional:
        raise PreconditionFailed("channel is not transactional")
