# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of scan_groups.pyx."""

from leporid.engine.selecting.filtered_consumers import FilteredConsumers

class PendingMatch:
    """A message that is being evaluated; used by the engine only."""

class ScanGroup:
    """Selector groups that share a scan; used by the engine only."""

    def __init__(self, selection: FilteredConsumers) -> None: ...
