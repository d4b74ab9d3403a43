# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of publishing.pyx."""

from typing import Final

from leporid.engine.publishing.interceptor import Interceptor
from leporid.engine.queue.queues import Queues
from leporid.engine.selectors.filter_counters import FilterCounters

SIZE_LIMITS: Final[tuple[int, ...]]

class Publishing:
    """What all publishers share; made by `Engine`."""

    interceptor: Interceptor | None
    """Changes the properties of clients' publishes; None: there is none."""

    def __init__(self, queues: Queues) -> None: ...
    @property
    def filters(self) -> FilterCounters:
        """Of the filters of all bindings."""

    @property
    def received(self) -> int:
        """Messages of clients."""

    @property
    def received_sizes(self) -> tuple[int, ...]:
        """Messages of clients by the length of their body.

        One count for each of SIZE_LIMITS, and one for those that are longer.
        """

    @property
    def received_body_bytes(self) -> int:
        """The bodies of all of them together."""
