"""Transactions of a channel (AMQP 0-9-1, class tx).

Must not know connections. Invariant: a transaction ends with its block, committed or rolled back,
or with its connection.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from leporid.amqp.methods import (
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leporid.client.channel_link import ChannelLink
from leporid.client.errors import ConnectionLost, LocalProtocolError, Returned

if TYPE_CHECKING:
    from leporid.client.channel import Channel


class Transaction:
    """What `Channel.transaction` returns: a block that takes effect as a whole.

    Attributes:
        returned: messages of it that no queue wants; the broker says so when it commits.
    """

    def __init__(self, channel: Channel) -> None:
        self.returned: list[Returned] = []
        self._channel = channel
        self._link: ChannelLink | None = None
        self._begun = False

    def __repr__(self) -> str:
        state = "open" if self._channel.in_transaction is self else "not open"
        return f"<Transaction on {self._channel!r}, {state}>"

    async def __aenter__(self) -> Channel:
        channel = self._channel
        if channel.confirms:
            raise LocalProtocolError(
                "a channel has confirms or transactions: connection.channel(confirms=False)"
            )
        if channel.in_transaction is not None:
            raise LocalProtocolError("transactions cannot be nested: use another channel")
        channel.in_transaction = self
        try:
            # A connection that comes instead knows nothing of it.
            while self._link is None or self._link.error is not None:
                self._link = await channel.attached()
                try:
                    await self._link.call(TxSelect(), TxSelectOk)
                except ConnectionLost:
                    if not channel.connection.settings.robust:
                        raise
        except BaseException:
            channel.in_transaction = None
            raise
        self._begun = True
        return channel

    @property
    def interruption(self) -> ConnectionLost | None:
        """Why it cannot be committed any more: what it began on is lost; None: it can."""
        if not self._begun or self._link is None or self._link.error is None:
            return None
        return ConnectionLost(f"lost in a transaction, which is not committed: {self._link.error}")

    def check(self) -> None:
        """Refuses what would take effect at once, as it is sent on another connection.

        Raises:
            ConnectionLost: the one that it began on is lost.
        """
        error = self.interruption
        if error is not None:
            raise error

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        link = self._link
        assert link is not None
        try:
            if kind is not None:
                if link.error is None:
                    await link.call(TxRollback(), TxRollbackOk)
                return
            self.check()
            await link.call(TxCommit(), TxCommitOk)
        finally:
            self._channel.transaction_ended()
        if self.returned:
            raise ExceptionGroup("committed, but some messages have no queue", self.returned)
