# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of tags.pyx."""

from collections.abc import Iterable

from leporid.engine.selectors.filter import Filter

def java_hash(text: bytes) -> int:
    """What Java's `String.hashCode` says of a text in UTF-8: a signed number of 32 bits."""

class Tags(Filter):
    """Lets those messages pass whose tag is one of these."""

    def __init__(self, tags: Iterable[bytes]) -> None: ...
    def may_have(self, hash: int) -> bool:  # noqa: A002 - what it is
        """Whether a message may pass whose tag has this hash; False is certain."""
