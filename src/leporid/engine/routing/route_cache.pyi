# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of route_cache.pyx."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, final

from leporid.engine.bounds.clock import Clock
from leporid.engine.internal.delays import Delays
from leporid.engine.queue.counters import Totals
from leporid.engine.queue.queue import Queue
from leporid.engine.selectors.filter import Filter, FilterCounters

BY_MESSAGE: Final[object]
"""What a resolver returns for a key whose messages it must be asked about one by one."""

@final
class CachedRoutes:
    """What the route caches of one broker keep together; bounded."""

    bytes_max: int
    """Beyond, the cache is cleared that began to fill first."""

    def __init__(self) -> None: ...
    @property
    def bytes(self) -> int:
        """The memory of all cached routes, roughly."""

class RouteCache:
    """The routes of one exchange; made by `Engine.route_cache`."""

    cacheable: bool
    """False: the resolver is called for every message, with its properties."""

    keyless: bool
    """Whether all keys have one route, which is kept once."""

    met_by: Callable[[str], list[Any] | None] | None
    """Gives the bindings that messages with a key meet, the same objects each time. Where these go
    depends on nothing else. None: it takes long, or depends on more."""

    queues_met: Callable[[list[Any]], list[Queue] | None] | None
    """Gives the queues of messages that meet some bindings, each once. None: the resolver is to be
    asked, as a filter has a say in it."""

    make_delays: Callable[[], object] | None
    """Sets `delays` when the first message is delayed; None: messages cannot be delayed here."""

    delaying: bool
    """Whether x-delay counts here, and not only x-deliver-at."""

    check_key: Callable[[str], None] | None
    """Raises a fault for a key that must not be used; None: any may be used."""

    spread_keys: Callable[[], Sequence[str]] | None
    """Gives keys that lead to the partitions in turn: a row without a key is routed by one of them.
    None, or no key: it is routed by the empty key."""

    def __init__(
        self,
        name: str,
        resolver: Callable[[str, bytes | None], Sequence[object] | Iterator[object]],
        cacheable: bool,
        clock: Clock,
        all_routes: CachedRoutes,
        totals: Totals,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def published(self) -> int:
        """Messages that clients published to the exchange."""

    @property
    def routed(self) -> int:
        """How many queues they were routed to; one for two queues counts twice."""

    @property
    def retired(self) -> bool:
        """The exchange was deleted."""

    @property
    def delays(self) -> Delays | None:
        """Its delayed messages; None: no message was delayed yet."""

    @property
    def counters(self) -> FilterCounters:
        """Of filters, for messages published to this exchange."""

    @property
    def epoch(self) -> int:
        """Changes when a cached route may be outdated."""

    def forget(self) -> None:
        """Clear the cache: a binding changed, of this exchange or of one bound to it."""

    def forget_key(self, key: str) -> None:
        """Drop the route of one key."""

    def amend(
        self, meets: Callable[[str], bool], wanted: Filter, queue: object, comes: bool
    ) -> None:
        """Update the routes for a binding with a filter, to a queue, that came or went."""

    def end(self) -> None:
        """The deleted exchange is gone; call it last."""

    def retire(self) -> None:
        """The exchange was deleted."""

@final
class LastRoute:
    """The exchange and the route of a publisher's last message; used by the engine only."""

@final
class Resolution:
    """The search for the route of one message, as far as it has come; used by the engine only."""
