# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of filter.pyx."""

from leporid.engine.window import Window

class Filter:
    """Lets messages pass, or not; this one all of them."""

    @property
    def type_errors(self) -> int:
        """How often a type error was why a message did not pass."""

    def outcome(self, exchange: str, routing_key: str, properties: bytes) -> int:
        """1: the message passes; 0: it does not; -1: it does not, and a type error is why."""

    def matches_message(self, exchange: str, routing_key: str, properties: bytes) -> bool:
        """Whether a message passes; `properties` are encoded."""

    def count_in(self, window: Window) -> int:
        """How many messages of a window pass; other threads run meanwhile."""
