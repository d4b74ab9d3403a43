# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of jobs.pyx."""

from collections.abc import Callable, Iterable
from typing import Any

from leporid.engine.bounds.clock import Clock

AWAITS: object
"""Yielded by a job that can do nothing until somebody else has done something."""

class Job:
    """One piece of work; made by `Jobs.start`."""

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left to do."""

class Jobs:
    """The jobs of one broker."""

    on_defect: Callable[[Exception], None] | None
    """Told of what ended a job, if nobody else is."""
    on_left: Callable[[], None] | None
    """Told when a job is started that needs another turn: whoever starts one may not know turns."""

    def __init__(self, clock: Clock) -> None: ...
    @property
    def waiting(self) -> int:
        """How many have not ended."""

    @property
    def clock(self) -> Clock:
        """Says when a slice is over."""

    def run(self, length_ns: int) -> int:
        """Go on with each job for a slice, in turn, for so long in all."""

    def start(
        self,
        steps: Iterable[object],
        done: Callable[[Any], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> Job:
        """Do what the slice at hand leaves time for, now; the rest in later turns.

        Args:
            steps: an iterator; what it yields is ignored but for `AWAITS`.
            done: is called with what a generator returns.
            failed: is called with the exception that ended it; None: `on_defect` is.
        """
