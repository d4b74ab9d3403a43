# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of group_retries.pyx."""

from collections.abc import Callable

from leporid.engine.queue.timed_queue import TimedQueue
from leporid.engine.stream.choice import Choice

class GroupRetries(TimedQueue):
    """The messages that wait for a retry in one group; made by `Engine.group_retries`."""

    choice: Choice | None
    """The group's filter; None: all messages."""

    def set_stamps(
        self,
        stamp: Callable[[bytes, str | None, int, int], bytes],
        count_of: Callable[[bytes], int],
    ) -> None:
        """Set how the headers are written and read with a message's origin and returns.

        `stamp` gives properties for (properties, stream, offset, count); if stream is None, its
        name and the offset stay as they are; a count of 0 is left out. `count_of` reads the count.
        """

    @property
    def waiting(self) -> int:
        """Messages that no member has now."""

    @property
    def retried(self) -> int:
        """Returns since the start that were stored for a retry."""

    @property
    def dropped(self) -> int:
        """Messages over the delivery limit that were not dead-lettered."""

    @property
    def filtered(self) -> int:
        """Messages that do not pass the group's filter any more."""

    @property
    def missed(self) -> int:
        """Messages that retention had dropped before their return."""
