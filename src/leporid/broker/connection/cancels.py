"""When clients are told that the broker has ended their consumers: basic.cancel.

Responsible for the order: a basic.cancel leaves after the reply of the method that has caused it,
on the same channel, on others and on other connections. Clients that wait for a reply take what
comes first for the end of their consumers, and raise out of the call. Must not know why a consumer
has ended, nor read a clock. Invariant: what was added is sent WAIT_MS after the next round at the
latest, whether its reply has left or not, but for the rounds before it that send SENT_MAX each.

RabbitMQ keeps that order on the channel of a queue.delete; elsewhere the two may overtake each
other there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leporid.broker.connection.channel import ChannelState
    from leporid.broker.group.members import Member
    from leporid.broker.queue.queue import ConsumerState
    from leporid.engine.engine import Engine

WAIT_MS: Final = 1000
"""A reply waits for the disk, which may be full for hours; so long, consumers of other connections
wait for that reply. Those of its own connection come after it in any case."""

SENT_MAX: Final = 500
"""What one round sends, some microseconds each: one queue may have had very many consumers."""


class Cancels:
    """The basic.cancel methods that are still to be sent, of all connections."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._added: list[tuple[ChannelState, ConsumerState | Member]] = []
        # Generation, time of giving up, and what waits; both numbers grow from left to right.
        self._held: deque[tuple[int, int, list[tuple[ChannelState, ConsumerState | Member]]]]
        self._held = deque()
        self._due: deque[tuple[ChannelState, ConsumerState | Member]] = deque()

    def __repr__(self) -> str:
        return f"<Cancels added={len(self._added)} held={len(self._held)} due={len(self._due)}>"

    @property
    def next_due_ms(self) -> int:
        """When there is something to do; 0 for never, and before now for at once."""
        if self._added or self._due:
            return 1
        return self._held[0][1] if self._held else 0

    def add(self, channel: ChannelState, consumer: ConsumerState | Member) -> None:
        """A consumer has ended: its client is told in the next round."""
        self._added.append((channel, consumer))

    def hold(self, generation: int) -> None:
        """The reply waits until a generation is on disk: so does what this round has added."""
        if self._added and generation > self._engine.logs.synced:
            self._held.append((generation, self._engine.clock.now_ms + WAIT_MS, self._added))
            self._added = []

    def run(self, now_ms: int) -> None:
        """Send what need not wait any more, as much as a round may."""
        self._due += self._added
        self._added = []
        while self._held and (
            self._held[0][0] <= self._engine.logs.synced or self._held[0][1] <= now_ms
        ):
            self._due += self._held.popleft()[2]
        for _ in range(min(SENT_MAX, len(self._due))):
            channel, consumer = self._due.popleft()
            channel.tell_cancelled(consumer)
