# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of cohort.pyx."""

from leporid.engine.queue.wishes import Wishes

class Cohort:
    """Filters that have looked at the same messages; used by the engine only."""

    def __init__(self, wishes: Wishes) -> None: ...
