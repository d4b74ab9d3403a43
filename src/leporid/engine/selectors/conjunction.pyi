# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of conjunction.pyx."""

from leporid.engine.selectors.filter import Filter

class Conjunction(Filter):
    """Lets those messages pass that two filters let pass, the second asked after the first."""

    def __init__(self, first: Filter, second: Filter) -> None: ...
