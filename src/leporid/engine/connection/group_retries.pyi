# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of group_retries.pyx."""

from collections.abc import Callable

from leporid.engine.queue.timed_queue import TimedQueue
from leporid.engine.stream.choice import Choice

class GroupRetries(TimedQueue):
    """What waits for another attempt in one group; made by `Engine.group_retries`."""

    choice: Choice | None
    """What the group wants; None: everything."""

    def set_stamps(
        self,
        stamp: Callable[[bytes, str | None, int, int], bytes],
        count_of: Callable[[bytes], int],
    ) -> None:
        """How headers are written and read that say what a message is and how often it came back.

        `stamp` gives properties for (properties, stream, offset, count); without a stream, its name
        and the offset stay as they are; a count of 0 is left out. `count_of` reads the count.
        """

    @property
    def waiting(self) -> int:
        """Messages that are kept and with no member."""

    @property
    def retried(self) -> int:
        """Returns since the start after which a message is kept."""

    @property
    def dropped(self) -> int:
        """Messages that came back too often, where there was no dead-letter exchange."""

    @property
    def filtered(self) -> int:
        """Messages that the group's filter does not let pass any more."""

    @property
    def missed(self) -> int:
        """Messages that retention had dropped when they came back."""
