# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of staging.pyx."""

from leporid.engine.queue.queue import Queue

class VerdictQueue(Queue):
    """Made by `Engine.staging`."""

    @property
    def passed(self) -> int:
        """Messages that passed, since the start."""

    @property
    def dropped(self) -> int:
        """Messages that did not."""

    @property
    def unroutable(self) -> int:
        """Of those that passed: there was no queue for them."""

    @property
    def judging(self) -> bool:
        """Whether a batch is out."""

    def batch(self, most: int, bytes_max: int) -> tuple[bytes, int] | None:
        """The next messages as a frame for the filter server, and how many; None without any."""

    def judged(self, verdicts: bytes) -> None:
        """The batch is judged: what has a 1 goes on, in order, the rest ends."""

    def give_back(self) -> None:
        """Nobody judged what is left of the batch: it waits again, in its place."""
