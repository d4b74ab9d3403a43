# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of clock.pyx."""

from collections.abc import Callable

class Party:
    """Connections that share their part of each stage: those of a user, or of an address.

    Args:
        group: the party that all of a kind belong to, which have no more of a stage together than
            one party alone; None: it belongs to none.
    """

    def __init__(self, group: Party | None = None) -> None: ...
    @property
    def group(self) -> Party | None:
        """With whom it has one part together; None: it is alone."""

class Clock:
    """The time, as the server has set it, and the slices that work is cut into."""

    now_ms: int
    """Monotonic; set at each turn."""
    wall_ms: int
    """Unix time; set at each turn."""
    monotonic_ns: Callable[[], int] | None
    """Read where work can be cut; None: no time passes, and nothing is cut."""

    units_a_reading: int
    """Units of work between two readings; a unit is about what a small message costs."""

    @property
    def stage_is_over(self) -> bool:
        """Whether the stage had used its time when the clock was last read."""

    @property
    def party(self) -> Party | None:
        """Whose work is done."""

    def has_slice(self, party: Party | None, /) -> bool:
        """Whether a party may have one more slice of the stage."""

    def over(self) -> bool:
        """Whether the slice has used its time; the caller leaves the rest of its work for later."""
