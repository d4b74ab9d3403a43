# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of unfinished_match.pyx."""

class UnfinishedMatch:
    """What is left of asking a set about one message; made by `SelectorSet.ask`."""
