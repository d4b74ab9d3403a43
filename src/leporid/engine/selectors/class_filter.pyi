# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of class_filter.pyx."""

from leporid.engine.selectors.filter import Filter

class ClassFilter(Filter):
    """Lets those messages pass that a filter class is to judge: what passes the filter beside it.

    Without one that is every message.
    """

    def __init__(self, name: str, first: Filter | None = None) -> None: ...
    @property
    def name(self) -> str:
        """The class's."""
