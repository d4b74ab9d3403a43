# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of consumer_verdicts.pyx."""

from leporid.engine.selecting.filtered_consumers import FilteredConsumers, SelectorGroup

class ConsumerVerdicts:
    """What the consumers of a queue with the same filter class ask it; the engine makes it."""

    def __init__(self, name: str, group: SelectorGroup, selection: FilteredConsumers) -> None: ...
    @property
    def name(self) -> str:
        """The class's."""

    def batch(self, most: int, bytes_max: int) -> tuple[bytes, int] | None:
        """The next messages as a frame for the filter server, and how many; None without any.

        After None there may be something to do in the next turn.
        """

    def judged(self, verdicts: bytes) -> None:
        """The batch is judged: what has a 1 is found, unless it is gone meanwhile."""

    def give_back(self) -> None:
        """Nobody judged the batch: its messages are in doubt again."""
