# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of choice.pyx."""

from collections.abc import Iterable

from leporid.engine.selectors.filter import Filter

class Choice:
    """What a reader of a stream wants of it."""

    def __init__(
        self,
        chosen: Filter,
        groups: Iterable[Iterable[bytes]] = (),
        *,
        unfiltered: Iterable[bytes] | None = None,
    ) -> None:
        """`groups`: a message that passes has a tag of each, in either of the two headers.

        `unfiltered`: or of these, or no text in x-stream-filter-value.
        """

    @property
    def filter(self) -> Filter: ...
