"""Which exchanges cached routes lead through, so that a change reaches the caches that it concerns.

Responsible for finding these caches and telling them. Must not know where a message goes
(`topology`).

The words used below: an exchange is *above* another if messages can come from it, through a
binding or because the other is its alternate exchange. It is a *cached way* to the other if a
route that a cache keeps may lead through both. So a change costs as much as the routes that it
makes worthless, and not as much as there are exchanges above.

Ways lead to names: an alternate exchange that is missing matters to routes as much as one that is
there.

Invariants: from the name of each exchange that a cached route leads through, or misses, cached ways
lead up to the exchange whose cache keeps that route. There are at most WAYS_MAX, from CACHES_MAX
exchanges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leporid.broker.exchange.exchange import ExchangeState

FORGOTTEN_ONE_BY_ONE_MAX: Final = 64
"""Caches that drop the routes of one key and keep the others. If there are more, they drop all
routes, else each of many bindings would cost as much as there are exchanges above."""

CACHES_MAX: Final = 2048
"""Exchanges of one virtual host from which cached ways lead. All of their caches may be told in one
piece, which takes a microsecond or two for each."""

WAYS_MAX: Final = 65_536
"""In one virtual host. All of them may be followed in the same piece, which takes 0.05 microseconds
for each. Beyond one of these limits the routes through several exchanges are forgotten together,
and found anew."""


class CachedWays:
    """The cached ways of one virtual host.

    Attributes:
        count: How many there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._above: dict[str, dict[ExchangeState, None]] = {}
        # From which they lead, or have led; an exchange that is gone is none of them.
        self._leading: set[ExchangeState] = set()

    def __repr__(self) -> str:
        return f"<CachedWays {self.count}>"

    def add(self, above: ExchangeState, name: str) -> None:
        """Notes that a route is found that leads from an exchange on to a name."""
        if above in self._above.get(name, ()):
            return
        new = above not in self._leading
        if self.count == WAYS_MAX or (new and len(self._leading) == CACHES_MAX):
            self._forget_all()
        self._leading.add(above)
        self._above.setdefault(name, {})[above] = None
        self.count += 1

    def drop(self, above: ExchangeState, name: str) -> None:
        """Forgets a way, after the caches whose routes used it were told to forget these."""
        ways = self._above.get(name, {})
        if above in ways:
            del ways[above]
            self.count -= 1
            if not ways:
                del self._above[name]

    def end(self, exchange: ExchangeState) -> None:
        """The same for an exchange that is gone, and from which no binding leads any more."""
        if exchange.alternate is not None:
            self.drop(exchange, exchange.alternate)
        self._leading.discard(exchange)

    def forget(self, exchange: ExchangeState, key: str | None = None) -> None:
        """Tells the cache of this exchange and those above to drop one key, or everything."""
        if key is not None:
            concerned = self._caches(exchange)
            if concerned is not None:
                for each in concerned:
                    each.routes.forget_key(key)
                return
            exchange.routes.forget_key(key)
        else:
            exchange.routes.forget()
        self.forget_above(exchange.name)

    def _caches(self, exchange: ExchangeState) -> dict[ExchangeState, None] | None:
        """Returns an exchange and those above whose caches may keep routes through it.

        None: there are too many.
        """
        found = {exchange: None}
        pending = [exchange]
        while pending:
            for above in self._above.get(pending.pop().name, ()):
                if above not in found:
                    if len(found) == FORGOTTEN_ONE_BY_ONE_MAX:
                        return None
                    found[above] = None
                    pending.append(above)
        return found

    def forget_above(self, name: str) -> None:
        """Tells the caches of those above to drop everything; what it costs, routes have cost."""
        pending = [name]
        told: set[ExchangeState] = set()
        while pending:
            ways = self._above.pop(pending.pop(), {})
            self.count -= len(ways)
            for above in ways.keys() - told:
                told.add(above)
                above.routes.forget()
                pending.append(above.name)

    def _forget_all(self) -> None:
        for above in self._leading:
            above.routes.forget()
        self._leading.clear()
        self._above.clear()
        self.count = 0
