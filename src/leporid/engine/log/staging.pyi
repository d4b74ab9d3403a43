# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of staging.pyx."""

from leporid.engine.log.log import RecordMemory

class StagedRecords(RecordMemory):
    """The records of a transaction that go to one log; used by the engine only."""
