# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of interceptor.pyx."""

from collections.abc import Callable
from typing import Final, final

MODES: Final[dict[str, int]]
"""What may be done with a property."""

@final
class Interceptor:
    """Sets timestamp and message id; each "off", "keep" or "overwrite"."""

    def __init__(
        self, *, timestamp: str, message_id: str, random_bytes: Callable[[int], bytes]
    ) -> None: ...
    def intercepted(self, properties: bytes, wall_ms: int) -> bytes:
        """The properties of a message published at a time, as they are stored."""
