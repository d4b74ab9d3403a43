"""Rates: how fast totals grow, from samples of them.

Responsible for two kinds of samples. The server takes those of the whole broker each second; they
are kept in rings: a minute by seconds, an hour by tens of seconds, a day by five minutes. Those of
one queue are taken when somebody asks for it, and two are kept: its rate is that since some
seconds ago, and 0 for who asks for the first time. So a queue that nobody looks at costs nothing.
Must not know HTTP. Invariant: a total is read, never reset, so that all who ask see the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from leporid.broker.broker import Broker
    from leporid.broker.queue.queue import QueueState
    from leporid.engine.engine import Engine

# Seconds between two samples, and how many are kept.
RINGS: Final = ((1, 61), (10, 361), (300, 289))
# A rate is that of the last so many seconds, as in RabbitMQ, which samples as often.
RATE_SECONDS: Final = 5
# What somebody saw of a queue before is too old to tell how fast it is now.
OLD_SECONDS: Final = 300

MESSAGES: Final = (
    "publish",
    "confirm",
    "return_unroutable",
    "drop_unroutable",
    "deliver_get",
    "redeliver",
    "ack",
)
"""What overview's `message_stats` has, in the order of samples."""
TOTALS: Final = ("messages", "messages_ready", "messages_unacknowledged")
"""What its `queue_totals` has; they stand behind."""


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
    """

    def __init__(self, broker: Broker, engine: Engine, monotonic: Callable[[], float]) -> None:
        self._broker = broker
        self._engine = engine
        self._monotonic = monotonic
        self._rings: list[deque[Sample]] = [deque(maxlen=count) for _, count in RINGS]

    def __repr__(self) -> str:
        return f"<Samples {[len(ring) for ring in self._rings]}>"

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
        ready = unacked = held = 0
        for vhost in self._broker.vhosts.values():
            counts = vhost.totals
            ready, unacked, held = (
                ready + counts.ready,
                unacked + counts.unacked,
                held + counts.held,
            )
        values = (
            queues.published + queues.unroutable,
            queues.confirmed,
            queues.returned,
            queues.unroutable - queues.returned,
            queues.delivered + queues.got,
            queues.redelivered,
            queues.acked,
            ready + unacked + held,
            ready + held,
            unacked,
        )
        return Sample(self._monotonic(), values)

    def stats(self, names: Sequence[str], ages: Ages | None = None) -> dict[str, Any]:
        """Return totals and their rates.

        Args:
            names: some of MESSAGES or TOTALS.
            ages: of samples that are to stand beside, if any are.
        """
        now = self.now()
        before = next(
            (each for each in reversed(self._rings[0]) if now.at_s - each.at_s >= RATE_SECONDS),
            self._rings[0][0] if self._rings[0] else now,
        )
        chosen = [] if ages is None else list(self._chosen(ages))
        found: dict[str, Any] = {}
        for name in names:
            at = (*MESSAGES, *TOTALS).index(name)
            details: dict[str, Any] = {"rate": _rate(before, now, at)}
            if ages is not None:
                details |= _history(chosen, at, now.at_s, ages.now_ms)
            found[name] = now.values[at]
            found[f"{name}_details"] = details
        return found

    def _chosen(self, ages: Ages) -> Iterator[Sample]:
        """The samples that a client asks for, the newest first, about `every_s` apart."""
        ring = next(
            (
                ring
                for (seconds, count), ring in zip(RINGS, self._rings, strict=True)
                if seconds * count > ages.age_s
            ),
            self._rings[-1],
        )
        last: float | None = None
        for each in reversed(ring):
            if self._monotonic() - each.at_s > ages.age_s:
                return
            if last is None or last - each.at_s >= ages.every_s - 0.5:
                last = each.at_s
                yield each


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


def _history(chosen: Sequence[Sample], at: int, now_s: float, now_ms: int) -> dict[str, Any]:
    if not chosen:
        return {"samples": []}
    values = [each.values[at] for each in chosen]
    return {
        "samples": [
            {"sample": value, "timestamp": now_ms - int((now_s - each.at_s) * 1000)}
            for each, value in zip(chosen, values, strict=True)
        ],
        "avg": sum(values) / len(values),
        "avg_rate": _rate(chosen[-1], chosen[0], at),
    }


# ------------------------------------------------------------------ of one queue

QUEUE_STATS: Final = ("publish", "deliver_get")
"""What a queue's `message_stats` has, in the order of its samples; then its messages."""


NO_RATES: Final = (0.0,) * (len(QUEUE_STATS) + len(TOTALS))


@dataclass(slots=True)
class Recent:
    """What was seen of a queue: one sample some seconds ago, and one since."""

    older: Sample
    newer: Sample


def rates_of(queue: QueueState, now_s: float) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return a queue's totals and rates: QUEUE_STATS, then messages, ready, unacknowledged."""
    engine = queue.engine
    ready = engine.ready_count + engine.held_count
    values = (
        engine.published,
        engine.delivered,
        ready + engine.unacked_count,
        ready,
        engine.unacked_count,
    )
    now = Sample(now_s, values)
    recent = queue.recent
    if not isinstance(recent, Recent) or now_s - recent.newer.at_s > OLD_SECONDS:
        recent = queue.recent = Recent(now, now)
    elif now_s - recent.newer.at_s >= RATE_SECONDS:
        recent.older, recent.newer = recent.newer, now
    older = recent.older
    seconds = now_s - older.at_s
    if seconds <= 0 or older.values == values:
        return values, NO_RATES
    rates = [(new - old) / seconds for new, old in zip(values, older.values, strict=True)]
    return values, tuple(rates)


def with_rates(
    names: Sequence[str], values: Sequence[int], rates: Sequence[float]
) -> Mapping[str, Any]:
    """Return totals as RabbitMQ writes them, with their rates as details."""
    found: dict[str, Any] = {}
    for name, value, rate in zip(names, values, rates, strict=True):
        found[name] = value
        found[f"{name}_details"] = {"rate": rate}
    return found
