# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of selector.pyx."""

from leporid.engine.selectors.filter import Filter

class Selector(Filter):
    """Lets those messages pass for which an expression is true."""

    def __init__(self, code: bytes) -> None:
        """Load a program; ValueError when it is none."""

    def work(self, names: bytes, properties: bytes) -> int:
        """Steps that a message takes: instructions, fields of its headers, steps of patterns."""
