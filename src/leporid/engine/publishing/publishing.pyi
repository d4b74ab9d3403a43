# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of publishing.pyx."""

from leporid.engine.publishing.interceptor import Interceptor
from leporid.engine.queue.queues import Queues
from leporid.engine.selectors.filter_counters import FilterCounters

class Publishing:
    """What everybody who publishes shares; made by `Engine`."""

    interceptor: Interceptor | None
    """Changes the properties of what clients publish; None: nobody does."""

    def __init__(self, queues: Queues) -> None: ...
    @property
    def filters(self) -> FilterCounters:
        """What filters of all bindings were asked."""
