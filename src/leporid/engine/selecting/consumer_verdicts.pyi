# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of consumer_verdicts.pyx."""

from leporid.engine.selecting.filtered_consumers import FilteredConsumers, SelectorGroup

class ConsumerVerdicts:
    """The verdicts of a selector group with a filter class; the engine makes it."""

    def __init__(self, name: str, group: SelectorGroup, selection: FilteredConsumers) -> None: ...
    @property
    def name(self) -> str:
        """Of the class."""

    def batch(self, most: int, bytes_max: int) -> tuple[bytes, int] | None:
        """The next messages as a frame for the filter server, and their number; None: none.

        After None the engine may be `busy`.
        """

    def judged(self, verdicts: bytes) -> None:
        """The verdicts of the batch: messages with a 1 are found, unless they are gone."""

    def give_back(self) -> None:
        """There are no verdicts: the messages of the batch are in doubt again."""
