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

class Conjunction(Filter):
    """Lets those messages pass that two filters let pass, the second asked after the first."""

    def __init__(self, first: Filter, second: Filter) -> None: ...

class ClassFilter(Filter):
    """Lets those messages pass that a filter class is to judge: what passes the filter beside it.

    Without one that is every message.
    """

    def __init__(self, name: str, first: Filter | None = None) -> None: ...
    @property
    def name(self) -> str:
        """The class's."""

class FilterCounters:
    """How often the filters of one exchange, or of the consumers of one queue, were asked."""

    @property
    def asked(self) -> int:
        """Each filter that a message met is one."""

    @property
    def evaluated(self) -> int:
        """Those of them that no tag or value answered by itself."""

    @property
    def matched(self) -> int:
        """Those that were answered with yes."""

    @property
    def type_errors(self) -> int:
        """Those that were answered with no, and met one."""

    def note(self, asked: int, evaluated: int, matched: int, type_errors: int) -> int:
        """Count some more."""
