# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of counters.pyx."""

class FilterCounters:
    """Those of one exchange, or of the consumers of one queue."""

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
