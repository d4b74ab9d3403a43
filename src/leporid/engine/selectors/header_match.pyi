# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of header_match.pyx."""

from collections.abc import Hashable, Iterable

from leporid.engine.selectors.filter import Filter

def can_compare(wanted: Hashable) -> bool:
    """Whether a term may want this: no array or table, and no whole number beyond 64 bits."""

class HeaderMatch(Filter):
    """Lets those messages pass whose headers meet all terms, or any of them.

    A term is a name and what `leporid.amqp.values.comparable` makes of a value; None: the header is
    to be there.
    """

    def __init__(
        self,
        terms: Iterable[tuple[bytes, Hashable | None]],
        any: bool,  # noqa: A002 - RabbitMQ's word
    ) -> None: ...
    @property
    def any(self) -> bool:
        """Whether one term is enough."""
    def __len__(self) -> int: ...
