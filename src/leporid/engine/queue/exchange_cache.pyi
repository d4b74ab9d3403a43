# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of exchange_cache.pyx."""

from leporid.engine.queue.unique_queue import UniqueQueue

class ExchangeCache(UniqueQueue):
    """The deduplication cache of one exchange; made by `Engine.cache`."""

    def set_cache(self, size: int, ttl_ms: int | None) -> None:
        """Set how many messages are remembered, and for how long; None: until there is no room."""

    def has(self, properties: bytes) -> bool:
        """Whether a message with these encoded properties is a duplicate."""
