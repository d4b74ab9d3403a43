# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of producers.pyx."""

from typing import Final

REFERENCE_BYTES_MAX: Final[int]

class Producer:
    """One producer."""

    def __init__(self, reference: bytes, number: int, next_sequence: int) -> None: ...
    @property
    def reference(self) -> bytes: ...
    @property
    def number(self) -> int:
        """Its id in the records of one log."""

    @property
    def next(self) -> int:
        """Sequence numbers below were published."""

class Producers:
    """The producers of one log."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def next_sequence(self, reference: bytes) -> int:
        """The first sequence number that would not be a repetition."""

    def forget_oldest(self) -> None:
        """Forget the producer that published longest ago."""
