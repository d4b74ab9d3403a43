"""Samples of the last minute, hour or day, for charts.

Responsible for the routes, and for which samples RabbitMQ's parameters ask for. Must not know how
samples are taken (`rates`, `histories`). Invariants: all series of an answer have as many values as
there are moments; a rate is that since the moment before, and none for the first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from leporid.management.authorization import manager, monitor, not_found, visitor
from leporid.management.histories import COUNTERS as OF_OBJECTS
from leporid.management.histories import IN_VHOSTS, Key, names_of
from leporid.management.listings import Written
from leporid.management.live import find, looked_up
from leporid.management.parameters import Parameters
from leporid.management.paths import name_of, takes
from leporid.management.rates import COUNTERS, RINGS, SAMPLED, Ages
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.management.surroundings import Surroundings

RANGES: Final = ("minute", "hour", "day")
"""As RINGS."""
QUERY: Final[Mapping[str, Mapping[str, Any]]] = {
    "range": {"type": "string", "enum": list(RANGES)},
    "names": {"type": "string"},
}


# Samples are kept for a day.
AGE_MAX: Final = RINGS[-1][0] * RINGS[-1][1]
AGES: Final[Mapping[str, Mapping[str, Any]]] = {
    f"{kind}_{part}": {"type": "integer", "minimum": 0}
    for kind in ("msg_rates", "lengths")
    for part in ("age", "incr")
}
"""RabbitMQ's parameters: how many seconds back, and how many apart."""


def ages_in(around: Surroundings, request: Request, kind: str) -> Ages | None:
    """Return which samples a request asks for by RabbitMQ's parameters.

    Args:
        around: the broker.
        request: the request.
        kind: "msg_rates" or "lengths".

    Returns:
        None: it asks for none.

    Raises:
        Refusal: it is not a number of seconds.
    """
    given = request.query_params
    if f"{kind}_age" not in given or f"{kind}_incr" not in given:
        return None
    texts = given[f"{kind}_age"], given[f"{kind}_incr"]
    if not all(text.isascii() and text.isdigit() and 0 < len(text) < 9 for text in texts):
        raise Refusal(400, "bad_request", f"{kind}_age and {kind}_incr are seconds")
    age, every = (int(text) for text in texts)
    return Ages(min(age, AGE_MAX), max(1, every), around.engine.clock.wall_ms)


class SampleRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    @takes(**QUERY)
    async def of_broker(self, request: Request) -> Response:
        """GET /api/samples: of the whole broker."""
        user = await monitor(self._around, request)
        given = Parameters(request, tuple(QUERY))
        samples = self._around.samples.ring(_place(given))
        columns = {name: [each.values[at] for each in samples] for at, name in enumerate(SAMPLED)}
        moments_ms = [int(each.at_s * 1000) for each in samples]
        more = {"sync_ms": _means(columns["syncs"], columns["sync_us"])}
        return self._answer(user, given, moments_ms, columns, COUNTERS, more)

    @takes(**QUERY)
    async def of_object(self, request: Request) -> Response:
        """GET /api/samples/{kind}/{vhost}/{name}: of a queue, an exchange or a stream."""
        user, vhost = await visitor(self._around, request)
        given = Parameters(request, tuple(QUERY))
        kind = name_of(request, "kind")
        key = Key(kind, vhost.name, name_of(request, "name"))
        found = find(self._around, key) if kind in IN_VHOSTS else None
        if found is None:
            raise not_found()
        return self._history(user, given, key, found)

    @takes(**QUERY)
    async def of_named(self, request: Request) -> Response:
        """GET /api/samples/{kind}/{name}: of a connection, a channel or a virtual host."""
        user = await manager(self._around, request)
        given = Parameters(request, tuple(QUERY))
        key = Key(name_of(request, "kind"), "", name_of(request, "name"))
        return self._history(user, given, key, await looked_up(self._around, user, key))

    def _history(self, user: User, given: Parameters, key: Key, found: Any) -> Response:
        history = self._around.histories.look(key, found, user.name)
        ring = history.rings[_place(given)]
        columns = {name: ring.column(at) for at, name in enumerate(names_of(key.kind), 1)}
        more = history.lag_columns(_place(given))
        return self._answer(user, given, ring.column(0), columns, OF_OBJECTS[key.kind], more)

    def _answer(
        self,
        user: User,
        given: Parameters,
        moments_ms: list[int],
        columns: Mapping[str, list[int]],
        counters: Sequence[str],
        more: Mapping[str, Sequence[float | None]],
    ) -> Response:
        """Return it.

        Args:
            user: whose it is.
            given: which of it.
            moments_ms: by the clock that only goes forward.
            columns: all series, as they are at this moment: a sample may be taken while some of
                the answer is sent.
            counters: those of totals.
            more: series that were made of others, or have gaps.
        """
        wanted = given.words("names", (*columns, *more)) or (*columns, *more)
        ahead_ms = int((time.time() - self._around.monotonic()) * 1000)
        every = {**columns, **more}
        value = {
            "range": RANGES[_place(given)],
            "every_s": RINGS[_place(given)][0],
            "times_ms": _series([each + ahead_ms for each in moments_ms]),
            "values": {name: _series(every[name]) for name in wanted},
            "rates": {
                name: _rates(columns[name], moments_ms) for name in wanted if name in counters
            },
        }
        return self._around.listing(user, value)


def _place(given: Parameters) -> int:
    return RANGES.index(given.choice("range", RANGES))


def _series(values: Sequence[float | None]) -> Written:
    def texts() -> Iterator[str]:
        yield json.dumps(values, separators=(",", ":"))

    return Written(texts())


def _means(counts: list[int], totals_us: list[int]) -> list[float | None]:
    """Return what each took on the average since the moment before, in milliseconds."""
    means: list[float | None] = [None] * bool(counts)
    for at in range(1, len(counts)):
        count = counts[at] - counts[at - 1]
        total_us = totals_us[at] - totals_us[at - 1]
        means.append(round(total_us / count / 1000, 3) if count > 0 else None)
    return means


def _rates(values: list[int], moments_ms: list[int]) -> Written:
    """Return how fast a total has grown before each moment; null at the first."""

    def texts() -> Iterator[str]:
        rates: list[float | None] = [None] * bool(values)
        for at in range(1, len(values)):
            passed_ms = moments_ms[at] - moments_ms[at - 1]
            grown = values[at] - values[at - 1]
            rates.append(round(grown * 1000 / passed_ms, 2) if passed_ms > 0 else None)
        yield json.dumps(rates, separators=(",", ":"))

    return Written(texts())
