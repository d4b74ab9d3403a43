"""Batches of an answer: what each takes of memory, and the thread that makes it.

Responsible for having the memory counted before a batch is made, and for holding no more than what
is being sent. Must not know what windows show, or how columns are built and encoded.

Invariants: of one answer at most one batch is in memory; the bytes of a window stay where they are
until the thread that reads them is done, whatever becomes of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from leporid.engine.tables.arrow import batch_bytes_max
from leporid.management.admission import waited_for

if TYPE_CHECKING:
    from leporid.engine.log.window import Window
    from leporid.limits.shares import Slot
    from leporid.management.surroundings import Surroundings


class BatchMaker:
    """Makes the batches of one answer.

    Args:
        around: the broker.
        user: the name of who gets the answer.
        columns: what is shown.
        name: of the stream or queue, which may stand in each row.
    """

    def __init__(self, around: Surroundings, user: str, columns: Sequence[str], name: str) -> None:
        self._around = around
        self._user = user
        self._columns = columns
        self._name_bytes = len(name.encode("utf-8", "replace"))
        self._taken: Slot | None = None

    async def make(self, window: Window, encode: Callable[[Any], tuple[Any, ...]]) -> Any:
        """Return what `encode` makes of a window on a thread, of which the last is a batch or None.

        The window is closed when the thread is done, or none is to be had. What the batch before
        took is given back first.

        Raises:
            Refusal: there is no memory for the batch, or no thread.
        """
        self.release()
        count = batch_bytes_max(
            self._columns,
            name_bytes=self._name_bytes,
            rows=window.rows,
            record_bytes=window.bytes,
        )
        reading = _Reading(window)
        try:
            memory = self._around.admission.shares.tables_memory
            reading.taken = await waited_for(memory, self._user, count)
            async with self._around.encoding(self._user) as on_thread:
                reading.begun = True
                found = await on_thread(partial(encode, window), reading)
        except BaseException:
            reading.leave()
            raise
        batch = found[-1]
        reading.taken.keep(0 if batch is None else len(batch))
        self._taken = reading.taken
        return found

    def release(self) -> None:
        """Give back what the last batch takes, which is sent."""
        if self._taken is not None:
            self._taken.release()
            self._taken = None


class _Reading:
    """A window and the memory for its batch, while a thread reads the one and fills the other."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._left = False
        self._closed = False
        self.taken: Slot | None = None
        self.begun = False

    def close(self) -> None:
        """Note that no thread reads the window any more."""
        self._closed = True
        self._window.close()
        if self._left:
            self._release()

    def leave(self) -> None:
        """Note that nobody waits for the batch any more; memory goes when the thread is done."""
        self._left = True
        if not self.begun:
            self.close()
        elif self._closed:
            self._release()

    def _release(self) -> None:
        if self.taken is not None:
            self.taken.release()
