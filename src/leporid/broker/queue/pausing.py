"""Paused queues of a virtual host: they take messages and deliver none.

Responsible for pausing a queue, for letting it go on, and for recording both. Must not know who
asks, nor how the engine stops deliveries. Invariant: a durable queue is paused after a start if it
was before, and what a group retries of a stream is delivered only if the stream is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from leporid.broker.stored import Recorder, StoredPause

if TYPE_CHECKING:
    from leporid.broker.group.members import Group
    from leporid.broker.queue.queue import QueueState


class Pauses:
    """Which queues are paused.

    Args:
        recorder: told of each change of a durable queue.
        groups: gives the groups of the virtual host.

    Attributes:
        count: how many queues are paused.
    """

    def __init__(self, recorder: Recorder, groups: Callable[[], Iterable[Group]]) -> None:
        self.count = 0
        self._recorder = recorder
        self._groups = groups

    def __repr__(self) -> str:
        return f"<Pauses {self.count}>"

    def pause(self, queue: QueueState) -> None:
        """Deliver nothing of a queue from now on; what is unsettled stays with its consumers."""
        if not queue.engine.paused:
            self.restore(queue)
            if queue.durable:
                self._recorder.put(StoredPause(queue.vhost, queue.name))

    def resume(self, queue: QueueState) -> None:
        """Deliver again what is there, in its order."""
        if queue.engine.paused:
            self._set(queue, False)
            self._forget(queue)

    def restore(self, queue: QueueState) -> None:
        """Pause a queue; nothing is recorded."""
        self.count += 1
        self._set(queue, True)

    def deleted(self, queue: QueueState) -> None:
        """A queue is gone, paused or not."""
        if queue.engine.paused:
            self._forget(queue)

    def _set(self, queue: QueueState, paused: bool) -> None:
        queue.engine.set_paused(paused)
        if queue.stream is not None:
            for group in self._groups():
                if group.stream == queue.name and group.retries is not None:
                    group.retries.engine.set_paused(paused)

    def _forget(self, queue: QueueState) -> None:
        self.count -= 1
        if queue.durable:
            self._recorder.drop(StoredPause, queue.vhost, queue.name)
