# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of verdict_queue.pyx."""

from collections.abc import Iterator

from leporid.engine.queue.queue import Queue

class VerdictQueue(Queue):
    """The messages that wait for one binding; made by `Engine.verdict_queue`."""

    @property
    def passed(self) -> int:
        """Messages that passed, since the start."""

    @property
    def dropped(self) -> int:
        """Messages that did not."""

    @property
    def unroutable(self) -> int:
        """Messages that passed and were routed to no queue."""

    @property
    def judging(self) -> bool:
        """Whether a batch is out."""

    def batch(self, most: int, bytes_max: int) -> tuple[bytes, int] | None:
        """The next messages as a frame for the filter server, and their number.

        None: there are none, or not before what passed of the last batch was republished.
        """

    def judged(self, verdicts: bytes) -> None:
        """The verdicts of the batch: a job republishes messages with a 1, and drops others."""

    def republishing_in_steps(self, verdicts: bytes) -> Iterator[object]:
        """The steps of that."""

    def forwarding(self, seq: int) -> Iterator[object]:
        """The steps of republishing a message to the exchange that the binding leads to."""

    def give_back(self) -> None:
        """There are no verdicts for the rest of the batch: it waits again, in its place."""
