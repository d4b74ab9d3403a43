# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of exchange_cache.pyx."""

from leporid.engine.queue.unique_queue import UniqueQueue

class ExchangeCache(UniqueQueue):
    """What one exchange remembers; made by `Engine.cache`."""

    def set_cache(self, size: int, ttl_ms: int | None) -> None:
        """How many messages are remembered, and for how long; None: as long as there is room."""

    def has(self, properties: bytes) -> bool:
        """Whether a message with these encoded properties came here already."""
