# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of choice.pyx."""

from collections.abc import Iterable

from leporid.engine.selectors.filter import Filter

class Choice:
    """The filter of a stream's reader, and the tags that let it skip batches."""

    def __init__(
        self,
        filter: Filter,  # noqa: A002 - the engine's word
        groups: Iterable[Iterable[bytes]] = (),
        *,
        unfiltered: Iterable[bytes] | None = None,
    ) -> None:
        """`groups`: a message that passes has a tag of each, in either of the two headers.

        `unfiltered`: another group: one of these tags, or no text in x-stream-filter-value.
        """

    @property
    def filter(self) -> Filter: ...
