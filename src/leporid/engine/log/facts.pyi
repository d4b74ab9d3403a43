# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of facts.pyx."""

from leporid.engine.log.logs import Logs

class SettledRanges:
    """Entries of a queue that were settled and are not in the log yet; used by the engine only."""

    def __init__(self, logs: Logs, queue: int) -> None: ...
