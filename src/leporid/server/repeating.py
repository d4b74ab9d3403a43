"""Work that is due again and again, such as storing how far the readers of streams are.

Responsible for the time between two rounds. It does not know what the work is. Invariant: a round
that fails is reported, and the next one comes all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Repeating:
    """Does something every so many seconds; made on a running loop.

    Args:
        every_seconds: from the end of one round to the next.
        work: called on the loop; it must not block.
    """

    def __init__(self, every_seconds: float, work: Callable[[], None]) -> None:
        self._every_seconds = every_seconds
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(every_seconds, self._round)

    def stop(self) -> None:
        """No more rounds."""
        self._timer.cancel()

    def _round(self) -> None:
        try:
            self._work()
        except Exception:
            logger.exception("defect: work that is due every %s s failed", self._every_seconds)
        self._timer = self._loop.call_later(self._every_seconds, self._round)
