# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of route_cache.pyx."""

from collections.abc import Callable, Sequence
from typing import final

from leporid.engine.internal.delays import Delays
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.filter_counters import FilterCounters

class RouteCache:
    """One exchange as publishers see it; made by `Engine.route_cache`."""

    cacheable: bool
    """False: asked for every message, with its properties."""

    make_delays: Callable[[], object] | None
    """Asked for `delays` when the first message is to wait; None: none does."""

    delaying: bool
    """Whether x-delay counts here, and not only x-deliver-at."""

    check_key: Callable[[str], None] | None
    """Raises a fault for a key that may not be published with; None: there is no such."""

    spread_keys: Callable[[], Sequence[str]] | None
    """Gives keys that lead to the partitions in turn: a row without a key goes where one of them
    leads. None, or no key: it goes where the empty key leads."""

    def __init__(
        self, name: str, resolver: Callable[[str, bytes | None], Sequence[object]], cacheable: bool
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def retired(self) -> bool:
        """The exchange was deleted."""

    @property
    def delays(self) -> Delays | None:
        """What waits here, once there was something."""

    @property
    def counters(self) -> FilterCounters:
        """What filters were asked about messages that come in here."""

    @property
    def epoch(self) -> int:
        """Moves when a route given out may be wrong."""

    def forget(self) -> None:
        """Bindings changed here or further down."""

    def forget_key(self, key: str) -> None:
        """What one key leads to changed."""

    def amend(
        self, meets: Callable[[str], bool], wanted: Filter, queue: object, comes: bool
    ) -> None:
        """A binding with a filter came or went that leads from here to a queue."""

    def retire(self) -> None:
        """The exchange was deleted."""

@final
class LastRoute:
    """The exchange and the route of a publisher's last message; used by the engine only."""
