# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of publishing.pyx."""

from leporid.engine.publishing.interceptor import Interceptor
from leporid.engine.queue.queues import Queues
from leporid.engine.selectors.filter_counters import FilterCounters

class Publishing:
    """What all publishers share; made by `Engine`."""

    interceptor: Interceptor | None
    """Changes the properties of clients' publishes; None: there is none."""

    def __init__(self, queues: Queues) -> None: ...
    @property
    def filters(self) -> FilterCounters:
        """Of the filters of all bindings."""
