"""A route cache that keeps what it was told, for tests of whoever must tell it to forget."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leporid.amqp.tables import Value
from leporid.engine.queue.counters import Totals
from leporid.engine.selectors.filter import FilterCounters


class FakeRouteCache:
    """Caches routes as the engine's `RouteCache` does, and counts what it is told.

    It asks with None for the headers about all messages with a key, and takes None for the answer
    that each of them must be asked about.

    Attributes:
        cacheable: As in the engine: False asks for every message.
        forgotten: What it was told to forget: keys, or None for everything.
        retired: Whether the exchange was deleted.
    """

    def __init__(
        self,
        name: str = "",
        resolve: Callable[..., Any] | None = None,
        cacheable: bool = True,
        totals: Totals | None = None,
    ) -> None:
        self.name = name
        self.cacheable = cacheable
        self.delaying = False
        self.check_key: Callable[[str], None] | None = None
        self.spread_keys: Callable[[], Sequence[str]] | None = None
        self.make_delays: Callable[[], object] | None = None
        self.forgotten: list[str | None] = []
        self.retired = False
        self.counters = FilterCounters()
        self.routes: dict[str, list[str] | None] = {}
        self.resolve = resolve

    def route(self, key: str, headers: Mapping[str, Value]) -> list[str]:
        """Answers for one message; the headers are passed on only if they may matter."""
        assert self.resolve is not None
        found: list[str] | None = None
        if self.cacheable:
            if key not in self.routes:
                self.routes[key] = self.resolve(key, None)
            found = self.routes[key]
        return self.resolve(key, headers) if found is None else found

    def forget(self) -> None:
        self.forgotten.append(None)
        self.routes.clear()

    def forget_key(self, key: str, /) -> None:
        self.forgotten.append(key)
        self.routes.pop(key, None)

    def amend(
        self, meets: Callable[[str], bool], wanted: object, queue: object, comes: bool, /
    ) -> None:
        for key in filter(meets, list(self.routes)):
            self.forget_key(key)

    def retire(self) -> None:
        self.retired = True
        self.routes.clear()

    def end(self) -> None:
        assert self.retired

    def told(self) -> list[str | None]:
        """What it was told to forget since it was last asked."""
        told, self.forgotten = self.forgotten, []
        return told
