# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of filter.pyx."""

from leporid.engine.log.window import Window

class Filter:
    """Lets messages pass, or not; this one all of them."""

    @property
    def type_errors(self) -> int:
        """Messages that did not pass, and in which an expression met a type error."""

    def outcome(self, exchange: str, routing_key: str, properties: bytes) -> int:
        """1: the message passes; 0: it does not; -1: nor does it, and there was a type error."""

    def matches_message(self, exchange: str, routing_key: str, properties: bytes) -> bool:
        """Whether a message passes; `properties` are encoded."""

    def count_in(self, window: Window) -> int:
        """How many messages of a window pass; other threads run meanwhile."""
