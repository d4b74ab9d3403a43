# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of publishing.pyx."""

from collections.abc import Generator
from typing import Final

from leporid.engine.log.log import RecordMemory
from leporid.engine.publishing.interceptor import Interceptor
from leporid.engine.queue.queue import Queue
from leporid.engine.queue.queues import Queues
from leporid.engine.selectors.filter import FilterCounters

SIZE_LIMITS: Final[tuple[int, ...]]

def storing(
    publishing: Publishing,
    queues: list[Queue],
    names: bytes,
    properties: bytes,
    body: bytes | RecordMemory,
) -> Generator[None, None, tuple[list[Queue], bytes | RecordMemory]]:
    """Do what takes longer than a slice of a message of the broker's own, in steps.

    Returns the queues that do not have it yet, and its body for them.
    """

class PartialAppends:
    """The records of a message in streams and many queues; made and used by the engine only."""

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
