"""Expiry of unused queues: x-expires, and `expires` in policies.

Responsible for when that is: so long after the last declaration, basic.get or end of the last
consumer, and never while there is a consumer. Must not know what is in a queue, nor read a clock:
the time comes with each round.

Invariants: each queue that may go has one timer, at its time or before. So a use costs nothing but
a note; a timer that rings too early is set again. A round looks at a limited number of timers,
however many are due, or nobody's.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from leporid.broker.settings.effects import expires_ms

if TYPE_CHECKING:
    from leporid.broker.queue.queue import QueueState

    # When it rings; a number, so that no two are equal.
    Timer = tuple[int, int, QueueState]

EXPIRED_MAX: Final = 100
"""Queues that go in one round. Each takes some hundredths of a millisecond, and many clients that
are gone at once leave many queues; the rest has its round after everybody else had a turn."""

LOOKS_MAX: Final = 250
"""Timers that a round looks at, some microseconds each. A client may have very many queues whose
timers ring in one millisecond, and that have all been used since."""
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
        self._timers: list[Timer] = []
        # A heap, too: what is looked through for timers that are nobody's, from its end.
        self._pruned: list[Timer] = []
        self._numbers = count()
        self._stale = 0

    def __repr__(self) -> str:
        return f"<UnusedQueues timers={self.timer_count}>"

    @property
    def timer_count(self) -> int:
        """Timers that are kept, those of queues that are gone included."""
        return len(self._timers) + len(self._pruned)

    @property
    def next_due_ms(self) -> int:
        """When there is something to do; 0 for never, and before now for at once."""
        if self._used or self._pruned:
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
        self._prune()
        expired = 0
        for _ in range(LOOKS_MAX):
            timers = self._first()
            if not timers or timers[0][0] > now_ms or expired == EXPIRED_MAX:
                break
            due_ms, _, queue = timer = heappop(timers)
            if _is_stale(timer):
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
        """A timer is nobody's; when most are, the rounds to come take them out."""
        self._stale += 1
        if not self._pruned and self._stale > STALE_SLACK + len(self._timers) // 2:
            self._pruned, self._timers = self._timers, []

    def _prune(self) -> None:
        """Take some timers out that are nobody's; a heap without its end is one."""
        for _ in range(min(LOOKS_MAX, len(self._pruned))):
            timer = self._pruned.pop()
            if _is_stale(timer):
                self._stale -= 1
            else:
                heappush(self._timers, timer)

    def _first(self) -> list[Timer]:
        """Return the heap whose first timer rings first; an empty one if there is no timer."""
        if self._timers and self._pruned:
            return min(self._timers, self._pruned, key=itemgetter(0))
        return self._timers or self._pruned


def _is_stale(timer: Timer) -> bool:
    """Say whether its queue is gone, or has another one."""
    due_ms, _, queue = timer
    return queue.deleted or due_ms != queue.timer_ms
