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
exchanges; none leads from one that is gone.
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

WAYS_MAX: Final = 4096
"""In one virtual host. All of them may be followed and dropped in the same piece, which takes 0.6
to 1.4 microseconds for each. Beyond one of these limits the routes of any one exchange are
forgotten with those that lead to it, and found anew: the others stay, however they are used."""


class CachedWays:
    """The cached ways of one virtual host.

    Attributes:
        count: How many there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._above: dict[str, dict[ExchangeState, None]] = {}
        # From which ways lead, and to which names; a list of these, and the place of each in it.
        self._below: dict[ExchangeState, set[str]] = {}
        self._leading: list[ExchangeState] = []
        self._places: dict[ExchangeState, int] = {}
        self._chosen = 0

    def __repr__(self) -> str:
        return f"<CachedWays {self.count} from {len(self._leading)}>"

    def add(self, above: ExchangeState, name: str) -> None:
        """Notes that a route is found that leads from an exchange on to a name."""
        if name in self._below.get(above, ()):
            return
        while self.count >= WAYS_MAX:
            self._forget_any()
        while len(self._leading) >= CACHES_MAX and above not in self._below:
            self._forget_any()
        if above not in self._below:
            self._below[above] = set()
            self._places[above] = len(self._leading)
            self._leading.append(above)
        self._below[above].add(name)
        self._above.setdefault(name, {})[above] = None
        self.count += 1

    def drop(self, above: ExchangeState, name: str) -> None:
        """Forgets a way, after the caches whose routes used it were told to forget these."""
        if name not in self._below.get(above, ()):
            return
        self._leads_no_more(above, name)
        ways = self._above[name]
        del ways[above]
        if not ways:
            del self._above[name]

    def end(self, exchange: ExchangeState) -> None:
        """The same for all ways that are left from an exchange that is gone."""
        for name in list(self._below.get(exchange, ())):
            self.drop(exchange, name)

    def _leads_no_more(self, above: ExchangeState, name: str) -> None:
        self.count -= 1
        names = self._below[above]
        names.remove(name)
        if not names:
            del self._below[above]
            place, last = self._places.pop(above), self._leading.pop()
            if last is not above:
                self._leading[place] = last
                self._places[last] = place

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
            below = pending.pop()
            ways = self._above.pop(below, {})
            for above in ways:
                self._leads_no_more(above, below)
            for above in ways.keys() - told:
                told.add(above)
                above.routes.forget()
                pending.append(above.name)

    def _forget_any(self) -> None:
        """Makes room: one exchange leads nowhere any more, none more likely than another.

        The oldest would be the next that is used again, if many are used in turn.
        """
        self._chosen = (self._chosen * 1_103_515_245 + 12_345) % 2**31
        chosen = self._leading[(self._chosen >> 8) % len(self._leading)]
        chosen.routes.forget()
        self.forget_above(chosen.name)
        self.end(chosen)
