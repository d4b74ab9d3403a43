"""confirm.select and tx.*: one mode or the other."""

from __future__ import annotations

import pytest
from tests.broker.peer import Peer, World

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


@pytest.fixture
def peer() -> Peer:
    return World().peer()


def test_confirms(peer: Peer):
    assert peer.call(ConfirmSelect()) == ConfirmSelectOk()
    assert peer.say(ConfirmSelect(no_wait=True)) == []
    assert peer.connection.channels[1].confirming
    text = peer.refused(TxSelect())
    assert text == "PRECONDITION_FAILED - cannot switch from confirm to tx mode"


def test_transactions(peer: Peer):
    assert peer.call(TxSelect()) == TxSelectOk()
    assert peer.call(TxSelect()) == TxSelectOk()
    assert peer.call(TxRollback()) == TxRollbackOk()
    assert peer.call(TxCommit()) == TxCommitOk()
    assert peer.connection.channels[1].log == ["rollback", "commit"]
    # The generation is the one that the engine's commit named.
    assert peer.connection.events[-2:] == ["hold 7", "tx.commit-ok"]
    text = peer.refused(ConfirmSelect(no_wait=True))
    assert text == "PRECONDITION_FAILED - cannot switch from tx to confirm mode"


def test_a_queue_refuses_what_is_committed(peer: Peer):
    """The fault waits for the disk as tx.commit-ok does: what nobody refused has taken effect."""
    peer.call(TxSelect())
    peer.connection.channels[1].tx_refused = True
    assert peer.refused(TxCommit()) == "PRECONDITION_FAILED - partial tx completion"
    assert peer.connection.events[-2:] == ["hold 7", "channel.close"]


@pytest.mark.parametrize("method", [TxCommit(), TxRollback()])
def test_nothing_to_end(peer: Peer, method: Method):
    assert peer.refused(method) == "PRECONDITION_FAILED - channel is not transactional"
