"""Queues that go when nobody uses them: x-expires, and `expires` in policies.

Responsible for when that is: so long after the last declaration, basic.get or end of the last
consumer, and never while there is a consumer. Must not know what is in a queue, nor read a clock:
the time comes with each round.

Invariant: each queue that may go has one timer, at its time or before. So a use costs nothing but a
note; a timer that rings too early is set again.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from leporid.broker.settings.effects import expires_ms

if TYPE_CHECKING:
    from leporid.broker.queue.queue import QueueState

EXPIRED_MAX: Final = 100
"""Queues that go in one round. Each takes some hundredths of a millisecond, and many clients that
are gone at once leave many queues; the rest has its round after everybody else had a turn."""

STALE_SLACK: Final = 1000
"""Timers of queues that are gone, before it is worth looking for them."""


class UnusedQueues:
    """Which queues go, and when.

    Args:
        expire: called with each queue whose time is over.
    """

    def __init__(self, expire: Callable[[QueueState], None]) -> None:
        self._expire = expire
        # Their time begins in the next round, which knows what time it is.
        self._used: dict[QueueState, None] = {}
        self._timers: list[tuple[int, int, QueueState]] = []
        self._numbers = count()
        self._stale = 0

    def __repr__(self) -> str:
        return f"<UnusedQueues timers={len(self._timers)}>"

    @property
    def next_due_ms(self) -> int:
        """When there is something to do; 0 for never, and before now for at once."""
        if self._used:
            return 1
        return self._timers[0][0] if self._timers else 0

    def used(self, queue: QueueState) -> None:
        """A queue is used, or what is said of its time has changed: it begins anew."""
        if expires_ms(queue) is not None:
            self._used[queue] = None

    def forget(self, queue: QueueState) -> None:
        """A queue is gone."""
        self._used.pop(queue, None)
        if queue.timer_ms:
            self._count_stale()

    def run(self, now_ms: int) -> None:
        """Begin the time of what was used, and let go what was not."""
        used, self._used = self._used, {}
        for queue in used:
            self._begin(queue, now_ms)
        expired = 0
        while self._timers and self._timers[0][0] <= now_ms and expired < EXPIRED_MAX:
            due_ms, _, queue = heappop(self._timers)
            if queue.deleted or due_ms != queue.timer_ms:
                self._stale -= 1
                continue
            queue.timer_ms = 0
            if queue.subscriptions or expires_ms(queue) is None:
                continue  # the end of the last consumer, or a policy, begins it anew
            if queue.goes_at_ms > due_ms:
                self._set_timer(queue)
            else:
                expired += 1
                self._expire(queue)

    def _begin(self, queue: QueueState, now_ms: int) -> None:
        expires = expires_ms(queue)
        if expires is None:
            return
        queue.goes_at_ms = now_ms + expires
        if not queue.timer_ms:
            self._set_timer(queue)
        elif queue.goes_at_ms < queue.timer_ms:
            self._count_stale()  # a policy has made it shorter
            self._set_timer(queue)

    def _set_timer(self, queue: QueueState) -> None:
        queue.timer_ms = queue.goes_at_ms
        heappush(self._timers, (queue.timer_ms, next(self._numbers), queue))

    def _count_stale(self) -> None:
        """A timer in the heap is nobody's; when most are, take them out."""
        self._stale += 1
        if self._stale > STALE_SLACK + len(self._timers) // 2:
            self._timers = [
                (due_ms, number, queue)
                for due_ms, number, queue in self._timers
                if due_ms == queue.timer_ms and not queue.deleted
            ]
            heapify(self._timers)
            self._stale = 0
