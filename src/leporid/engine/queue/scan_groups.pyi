# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of scan_group.pyx."""

from leporid.engine.queue.filtered_consumers import FilteredConsumers

class ScanGroup:
    """Filters that have looked at the same messages; used by the engine only."""

    def __init__(self, selection: FilteredConsumers) -> None: ...
