"""Rates: how fast totals grow, from samples of them.

Responsible for two kinds of samples. The server takes those of the whole broker each second; they
are kept in rings: a minute by seconds, an hour by tens of seconds, a day by five minutes. Those of
one queue, exchange, connection or channel are taken when somebody asks for it, and two are kept:
its rate is that since some seconds ago, and 0 for who asks for the first time. So what nobody looks
at costs nothing.
Must not know HTTP. Invariant: a total is read, never reset, so that all who ask see the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from leporid.management.listings import Written, written

if TYPE_CHECKING:
    from leporid.broker.broker import Broker
    from leporid.engine.engine import Engine
    from leporid.engine.queue.counters import DeliveryCounts

# Seconds between two samples, and how many are kept.
RINGS: Final = ((1, 61), (10, 361), (300, 289))
# A rate is that of the last so many seconds, as in RabbitMQ, which samples as often.
RATE_SECONDS: Final = 5
# What somebody saw of a queue before is too old to tell how fast it is now.
OLD_SECONDS: Final = 300

DELIVERIES: Final = (
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "deliver_get",
    "redeliver",
    "ack",
)
"""What is counted of deliveries, in the order of `deliveries`."""
REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit")
"""Why messages die."""
MESSAGES: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable", *DELIVERIES)
"""What overview's `message_stats` has, in the order of samples."""
TOTALS: Final = ("messages", "messages_ready", "messages_unacknowledged")
"""What its `queue_totals` has; they stand behind."""
CHURN: Final = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)
"""What its `churn_rates` has."""
DEAD_LETTERS: Final = tuple(f"dead_letters:{reason}" for reason in REASONS)
"""How many messages died, by reason."""
COUNTS: Final = ("connections", "channels", "queues", "exchanges", "consumers", "streams")
"""How many objects there are."""
LEVELS: Final = ("memory", "disk")
"""Bytes of memory that are used, and of disk that are free."""
SYNCS: Final = ("syncs", "sync_us")
"""How often files were synced, and how long that took altogether."""
SAMPLED: Final = (*MESSAGES, *TOTALS, *CHURN, *DEAD_LETTERS, *COUNTS, *LEVELS, *SYNCS)
COUNTERS: Final = (*MESSAGES, *CHURN, *DEAD_LETTERS, *SYNCS)
"""Those that only grow."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Totals at one moment."""

    at_s: float
    values: tuple[int, ...]


class Samples:
    """Samples of the whole broker.

    Args:
        broker: whose messages there are.
        engine: which counts them.
        monotonic: seconds.
        of_process: what only the server knows: LEVELS and SYNCS.
    """

    def __init__(
        self,
        broker: Broker,
        engine: Engine,
        monotonic: Callable[[], float],
        of_process: Callable[[], tuple[int, int, int, int]] = lambda: (0, 0, 0, 0),
    ) -> None:
        self._broker = broker
        self._engine = engine
        self._monotonic = monotonic
        self._of_process = of_process
        self._rings: list[deque[Sample]] = [deque(maxlen=count) for _, count in RINGS]

    def __repr__(self) -> str:
        return f"<Samples {[len(ring) for ring in self._rings]}>"

    def reset(self) -> None:
        """Forget the samples that were taken."""
        for ring in self._rings:
            ring.clear()

    def take(self) -> None:
        """Take a sample; the server does so once a second."""
        sample = self.now()
        for (seconds, _), ring in zip(RINGS, self._rings, strict=True):
            # A round may come a little early or late; half a second is near enough.
            if not ring or sample.at_s - ring[-1].at_s >= seconds - 0.5:
                ring.append(sample)

    def now(self) -> Sample:
        """Return the totals of this moment."""
        queues = self._engine.queues
        ready = unacked = held = queue_count = exchange_count = consumer_count = 0
        for vhost in self._broker.vhosts.values():
            counts = vhost.totals
            ready += counts.ready
            unacked += counts.unacked
            held += counts.held
            queue_count += vhost.queue_count
            exchange_count += vhost.exchange_count
            consumer_count += vhost.consumers.count
        deaths = dict.fromkeys(REASONS, 0)
        for (reason, _), count in self._broker.dead_letter_counts.deaths.items():
            deaths[reason] = deaths.get(reason, 0) + count
        totals = [0] * len(DELIVERIES)
        for kind, of_type in queues.counts_by_type.items():
            if kind:  # else they are hidden
                totals = [sum(pair) for pair in zip(totals, deliveries(of_type), strict=True)]
        churn = self._broker.churn
        values = (
            self._engine.publishing.received,
            queues.confirmed,
            queues.returned,
            queues.unroutable - queues.returned,
            *totals,
            ready + unacked + held,
            ready + held,
            unacked,
            churn.connections_opened,
            churn.connections_closed,
            churn.channels_opened,
            churn.channels_closed,
            churn.queues_declared,
            churn.queues_created,
            churn.queues_deleted,
            *(deaths[reason] for reason in REASONS),
            len(self._broker.sessions),
            self._broker.session_index.channel_count,
            queue_count,
            exchange_count,
            consumer_count,
            len(self._engine.streams.by_id),
            *self._of_process(),
        )
        return Sample(self._monotonic(), values)

    def ring(self, place: int) -> list[Sample]:
        """Return the samples of one of RINGS, the oldest first."""
        return list(self._rings[place])

    def latest(self) -> dict[str, int]:
        """Return the newest sample by the names of its values, or one of this moment."""
        newest = self._rings[0][-1] if self._rings[0] else self.now()
        return dict(zip(SAMPLED, newest.values, strict=True))

    def rates(self, names: Iterable[str]) -> dict[str, float]:
        """Return how fast totals have grown until the newest sample."""
        ring = self._rings[0]
        if not ring:
            return dict.fromkeys(names, 0.0)
        now, before = ring[-1], ring[max(-len(ring), -1 - RATE_SECONDS)]
        return {name: round(_rate(before, now, SAMPLED.index(name)), 2) for name in names}

    def stats(self, names: Sequence[str], ages: Ages | None = None) -> dict[str, Any]:
        """Return totals and their rates.

        Args:
            names: some of SAMPLED.
            ages: of samples that are to stand beside, if any are.
        """
        now = self.now()
        before = next(
            (each for each in reversed(self._rings[0]) if now.at_s - each.at_s >= RATE_SECONDS),
            self._rings[0][0] if self._rings[0] else now,
        )
        ring = [] if ages is None else list(self._rings[ring_for(ages)])
        chosen = [] if ages is None else apart(ring, ages, self._monotonic())
        found: dict[str, Any] = {}
        for name in names:
            at = SAMPLED.index(name)
            details: dict[str, Any] = {"rate": _rate(before, now, at)}
            if ages is not None:
                details |= sampled_details(chosen, at, now.at_s, ages.now_ms)
            found[name] = now.values[at]
            found[f"{name}_details"] = details
        return found


@dataclass(frozen=True, slots=True)
class Ages:
    """Which samples a client asks for: how far back, and how far apart.

    Attributes:
        now_ms: what time it is, by the wall's clock.
    """

    age_s: int
    every_s: int
    now_ms: int


def _rate(before: Sample, now: Sample, at: int) -> float:
    seconds = now.at_s - before.at_s
    return 0.0 if seconds <= 0 else (now.values[at] - before.values[at]) / seconds


def ring_for(ages: Ages) -> int:
    """Return the place in RINGS of the finest samples that go back so far."""
    return next(
        (place for place, (every_s, count) in enumerate(RINGS) if every_s * count > ages.age_s),
        len(RINGS) - 1,
    )


def apart(samples: Sequence[Sample], ages: Ages, now_s: float) -> list[Sample]:
    """Return the samples that a client asks for, the newest first, about `every_s` apart.

    Args:
        samples: the oldest first.
        ages: which are asked for.
        now_s: by the clock of the samples.
    """
    found: list[Sample] = []
    for each in reversed(samples):
        if now_s - each.at_s > ages.age_s:
            break
        if not found or found[-1].at_s - each.at_s >= ages.every_s - 0.5:
            found.append(each)
    return found


def sampled_details(chosen: Sequence[Sample], at: int, now_s: float, now_ms: int) -> dict[str, Any]:
    """Return samples of one value as RabbitMQ writes them, with their average and its rate.

    The samples of each value are made when they are written: an hour of all takes milliseconds.

    Args:
        chosen: what `apart` returned.
        at: the place of the value.
        now_s: by the clock of the samples.
        now_ms: the same moment by the wall's clock.
    """
    if not chosen:
        return {"samples": []}
    values = [each.values[at] for each in chosen]
    return {
        "samples": Written(_texts(chosen, at, now_s, now_ms)),
        "avg": sum(values) / len(values),
        "avg_rate": _rate(chosen[-1], chosen[0], at),
    }


def _texts(chosen: Sequence[Sample], at: int, now_s: float, now_ms: int) -> Iterator[str]:
    samples = [
        {"sample": each.values[at], "timestamp": now_ms - int((now_s - each.at_s) * 1000)}
        for each in chosen
    ]
    yield written(samples)


# ------------------------------------------------------------------ of one object


@dataclass(slots=True)
class Recent:
    """What was seen of an object: one sample some seconds ago, and one since."""

    older: Sample
    newer: Sample


class Seen(Protocol):
    """An object that keeps what was seen of it."""

    recent: object


def rates_of(seen: Seen, values: tuple[int, ...], now_s: float) -> Sequence[float]:
    """Return how fast the totals of an object grow, which are `values` now."""
    recent = seen.recent
    if not isinstance(recent, Recent) or now_s - recent.newer.at_s > OLD_SECONDS:
        now = Sample(now_s, values)
        seen.recent = Recent(now, now)
        return (0.0,) * len(values)
    older = recent.older
    if now_s - recent.newer.at_s >= RATE_SECONDS:
        older = recent.older = recent.newer
        recent.newer = Sample(now_s, values)
    seconds = now_s - older.at_s
    if seconds <= 0 or older.values == values:
        return (0.0,) * len(values)
    return [(new - old) / seconds for new, old in zip(values, older.values, strict=True)]


def with_rates(
    names: Sequence[str], values: Sequence[int], rates: Sequence[float]
) -> dict[str, Any]:
    """Return totals as RabbitMQ writes them, with their rates as details."""
    found: dict[str, Any] = {}
    for name, value, rate in zip(names, values, rates, strict=True):
        found[name] = value
        found[f"{name}_details"] = {"rate": rate}
    return found


def deliveries(counts: DeliveryCounts) -> tuple[int, ...]:
    """Return what was delivered, in the order of DELIVERIES."""
    return (
        counts.delivered,
        counts.delivered_no_ack,
        counts.got,
        counts.got_no_ack,
        counts.get_empty,
        counts.total,
        counts.redelivered,
        counts.acked,
    )
