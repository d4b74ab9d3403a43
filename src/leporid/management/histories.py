"""Histories: samples of single objects, each from when somebody first looked at it.

Responsible for which objects are sampled, for their rings, and for what is sampled of each kind.
Samples of the whole broker are `rates.Samples`. Must not know HTTP, nor who looks.

Invariants: at most OBJECTS_MAX objects are sampled, and the one that was looked at least recently
goes for another; while somebody looks at each of them, one of the user who has the most goes, and
that user gets no more: nobody's history ends by what another one looks at. An object that is gone
is none of them after the next sample. Of a stream, the lag of at
most LAGS_MAX named readers is sampled, too. What a ring keeps is numbers in one array: an object
takes 100 KB at most after a day, and each reader 11 KB.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from leporid.management.rates import (
    DEAD_LETTERS,
    DELIVERIES,
    RATE_SECONDS,
    REASONS,
    RINGS,
    Sample,
    apart,
    deliveries,
    ring_for,
    sampled_details,
)

if TYPE_CHECKING:
    from leporid.broker.connection.channel import ChannelState
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost
    from leporid.management.rates import Ages

# Each costs some microseconds a second.
OBJECTS_MAX: Final = 200

# Who looks on does so each second, or asks for a chart again after some seconds.
IN_VIEW_MS: Final = 15_000

LAGS_MAX: Final = 20
# Objects and readers that are sampled in one turn of the loop: some microseconds each.
STEP_SERIES: Final = 100
LAG: Final = "lag:"
"""What the name of a reader's series begins with."""

COUNTERS: Final[Mapping[str, Sequence[str]]] = {
    "queue": ("publish", *DELIVERIES, *DEAD_LETTERS),
    "stream": ("publish", *DELIVERIES),
    "exchange": ("publish_in", "publish_out"),
    "connection": ("recv_oct", "send_oct"),
    "channel": ("publish", "deliver_get", "ack"),
    "vhost": ("publish", *DELIVERIES),
}
"""What is counted since the start, by kind; the rest is as it is at the moment."""
GAUGES: Final[Mapping[str, Sequence[str]]] = {
    "queue": ("messages", "messages_ready", "messages_unacknowledged", "consumers"),
    "stream": ("messages", "bytes", "first", "end", "consumers"),
    "exchange": (),
    "connection": ("channels", "send_pend"),
    "channel": ("messages_unacknowledged", "messages_unconfirmed"),
    "vhost": ("messages", "messages_ready", "messages_unacknowledged", "queues", "consumers"),
}
KINDS: Final = tuple(COUNTERS)
IN_VHOSTS: Final = ("queue", "stream", "exchange")
"""Those of which a name is that of one object in each virtual host."""


def names_of(kind: str) -> tuple[str, ...]:
    """Return what is sampled of a kind, in the order of samples."""
    return (*COUNTERS[kind], *GAUGES[kind])


def _of_queue(queue: QueueState) -> tuple[int, ...]:
    engine = queue.engine
    ready, unacked = engine.ready_count + engine.held_count, engine.unacked_count
    deaths = queue.dead_lettered.by_reason
    return (
        engine.published,
        *deliveries(engine.counts),
        *(deaths[reason] for reason in REASONS),
        ready + unacked,
        ready,
        unacked,
        len(queue.subscriptions),
    )


def _of_stream(queue: QueueState) -> tuple[int, ...]:
    stream, engine = queue.stream, queue.engine
    assert stream is not None
    first, end = stream.first, stream.end
    counted = engine.published, *deliveries(engine.counts)
    return *counted, end - first, stream.bytes, first, end, len(queue.subscriptions)


def _lags_of(queue: QueueState) -> dict[str, int]:
    """Return how many messages each named reader has not read, as far as that was stored."""
    stream = queue.stream
    assert stream is not None
    first, end = stream.first, stream.end
    return {
        name: max(0, end - max(first, offset + 1))
        for name, offset in islice(queue.reader_offsets.items(), LAGS_MAX)
    }


def _of_exchange(exchange: ExchangeState) -> tuple[int, ...]:
    return exchange.routes.published, exchange.routes.routed


def _of_connection(session: ConnectionState) -> tuple[int, ...]:
    connection = session.connection
    octets = connection.received_bytes, connection.sent_bytes
    return *octets, len(session.channels), connection.output.pending_bytes


def _of_channel(channel: ChannelState) -> tuple[int, ...]:
    engine = channel.engine
    unconfirmed = engine.confirms.published - engine.confirms.settled
    counted = engine.published, engine.delivery_tag, engine.acked
    return *counted, engine.unacked_count, unconfirmed


def _of_vhost(vhost: VirtualHost) -> tuple[int, ...]:
    totals = vhost.totals
    ready, unacked = totals.ready + totals.held, totals.unacked
    counted = totals.published, *deliveries(vhost.deliveries)
    return *counted, ready + unacked, ready, unacked, vhost.queue_count, vhost.consumers.count


_READ: Final[Mapping[str, Callable[[Any], tuple[int, ...]]]] = {
    "queue": _of_queue,
    "stream": _of_stream,
    "exchange": _of_exchange,
    "connection": _of_connection,
    "channel": _of_channel,
    "vhost": _of_vhost,
}


def is_gone(kind: str, found: Any) -> bool:
    """Say whether an object of a kind has ended, or is being deleted."""
    if kind == "connection":
        return bool(found.released)
    if kind == "channel":
        return bool(found.is_ending or found.session.released)
    return bool(found.deleted)


class Ring:
    """Rows of numbers, of which the newest are kept.

    Args:
        every_s: seconds between two rows.
        rows_max: how many are kept.
        width: numbers of a row, beside its moment.
    """

    __slots__ = ("_numbers", "_rows_max", "_width", "every_s")

    def __init__(self, every_s: int, rows_max: int, width: int) -> None:
        self.every_s = every_s
        self._rows_max = rows_max
        self._width = width + 1
        self._numbers = array("q")

    def __len__(self) -> int:
        return len(self._numbers) // self._width

    def is_due(self, at_ms: int) -> bool:
        """Say whether it is time for a row."""
        # A round may come a little early or late; half a second is near enough.
        numbers = self._numbers
        return not numbers or at_ms - numbers[-self._width] >= self.every_s * 1000 - 500

    def add(self, at_ms: int, values: Sequence[int]) -> None:
        """Keep a row; the oldest goes if there are too many."""
        if len(self) == self._rows_max:
            del self._numbers[: self._width]
        self._numbers.append(at_ms)
        self._numbers.extend(values)

    def column(self, place: int) -> list[int]:
        """Return one number of each row, the oldest first; that at 0 is its moment."""
        numbers: list[int] = self._numbers[place :: self._width].tolist()
        return numbers

    def row(self, at: int) -> list[int]:
        """Return a row, its moment first; negative places count from the newest."""
        begin = (at if at >= 0 else len(self) + at) * self._width
        numbers: list[int] = self._numbers[begin : begin + self._width].tolist()
        return numbers


@dataclass(frozen=True, slots=True)
class Key:
    """Which object.

    Attributes:
        vhost: where it is; empty for a kind that is not IN_VHOSTS.
    """

    kind: str
    vhost: str
    name: str


class History:
    """The samples of one object.

    Args:
        kind: one of KINDS.
        found: the object.
        user: who looked at it first.

    Attributes:
        looked_ms: when somebody looked at it last.
        rings: as RINGS.
        lags: those of a stream's named readers, for each of `rings`; a reader that came later has
            fewer rows, the newest at the same moments.
    """

    def __init__(self, kind: str, found: Any, user: str = "") -> None:
        self.kind = kind
        self.found = found
        self.user = user
        self.looked_ms = 0
        width = len(names_of(kind))
        self.rings = [Ring(every_s, count, width) for every_s, count in RINGS]
        self.lags: list[dict[str, Ring]] = [{} for _ in RINGS]

    def take(self, at_ms: int) -> None:
        """Take a sample."""
        values = _READ[self.kind](self.found)
        now = _lags_of(self.found) if self.kind == "stream" else {}
        for ring, lags, (every_s, rows_max) in zip(self.rings, self.lags, RINGS, strict=True):
            if not ring.is_due(at_ms):
                continue
            ring.add(at_ms, values)
            for gone in lags.keys() - now.keys():
                del lags[gone]
            for name, lag in now.items():
                if name not in lags:
                    lags[name] = Ring(every_s, rows_max, 1)
                lags[name].add(at_ms, (lag,))

    def details(self, names: Sequence[str], ages: Ages, now_s: float) -> dict[str, dict[str, Any]]:
        """Return samples as RabbitMQ writes them, by name; of names that are not sampled, none.

        Args:
            names: of totals, or of how many there are.
            ages: which samples.
            now_s: by the clock of the samples.
        """
        ring = self.rings[ring_for(ages)]
        rows = (ring.row(at) for at in range(len(ring)))
        samples = [Sample(at_ms / 1000, tuple(values)) for at_ms, *values in rows]
        chosen, known = apart(samples, ages, now_s), names_of(self.kind)
        return {
            name: sampled_details(chosen, known.index(name), now_s, ages.now_ms)
            for name in names
            if name in known
        }

    def lag_columns(self, place: int) -> dict[str, list[int | None]]:
        """Return the lags of a ring's readers by the names of their series; None: not known yet."""
        rows = len(self.rings[place])
        return {
            LAG + name: [None] * (rows - len(ring)) + ring.column(1)
            for name, ring in self.lags[place].items()
        }

    def latest(self) -> dict[str, Any]:
        """Return how things are, and how fast totals grew until the newest sample, for JSON."""
        ring, counters = self.rings[0], COUNTERS[self.kind]
        now = ring.row(-1)
        before = ring.row(max(-len(ring), -1 - RATE_SECONDS))
        passed_s = (now[0] - before[0]) / 1000
        rates = {
            name: round((now[at] - before[at]) / passed_s, 2) if passed_s > 0 else 0.0
            for at, name in enumerate(counters, 1)
        }
        values = _READ[self.kind](self.found)
        gauges = zip(GAUGES[self.kind], values[len(counters) :], strict=True)
        lags = _lags_of(self.found) if self.kind == "stream" else {}
        return {
            **dict(gauges),
            **{LAG + name: lag for name, lag in lags.items()},
            "rates": rates,
        }


class Histories:
    """Those of the objects that somebody has looked at.

    Args:
        now_ms: a clock that only goes forward.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        # The one that was looked at least recently comes first.
        self._kept: OrderedDict[Key, History] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Histories of {len(self._kept)} objects>"

    def __len__(self) -> int:
        return len(self._kept)

    def look(self, key: Key, found: Any, user: str) -> History:
        """Return the samples of an object, which is sampled from now on if there is room.

        Args:
            key: which it is.
            found: the object; another one of the same name begins anew.
            user: who looks.
        """
        now_ms, kept = self._now_ms(), self._kept.get(key)
        if kept is None or kept.found is not found:
            self._kept.pop(key, None)
            kept = History(key.kind, found, user)
            kept.take(now_ms)
            if not self._has_room(user, now_ms):
                return kept
            self._kept[key] = kept
        kept.looked_ms = now_ms
        self._kept.move_to_end(key)
        return kept

    def glance(self, key: Key, found: Any, user: str) -> History:
        """Return the samples of one object of a list, whose history is the first to go.

        Args:
            key: which it is.
            found: the object; likewise.
            user: who asks for the list.
        """
        kept = self._kept.get(key)
        if kept is None or kept.found is not found:
            kept = History(key.kind, found, user)
            kept.take(self._now_ms())
            self._kept.pop(key, None)
            # A list of all queues must not end the history of one that somebody looks at.
            if len(self._kept) < OBJECTS_MAX:
                self._kept[key] = kept
                self._kept.move_to_end(key, last=False)
        return kept

    def _has_room(self, user: str, now_ms: int) -> bool:
        """Make room for one more object of a user; returns whether there is."""
        if len(self._kept) < OBJECTS_MAX:
            return True
        oldest = next(iter(self._kept))
        if now_ms - self._kept[oldest].looked_ms < IN_VIEW_MS:
            counts = Counter(each.user for each in self._kept.values())
            greediest, count = counts.most_common(1)[0]
            if counts[user] + 1 >= count:
                return False
            oldest = next(key for key, each in self._kept.items() if each.user == greediest)
        del self._kept[oldest]
        return True

    def taking(self) -> Iterator[None]:
        """Take a sample of each, in steps; the server does so once a second."""
        at_ms, series = self._now_ms(), 0
        for key, history in tuple(self._kept.items()):
            if is_gone(key.kind, history.found):
                self._kept.pop(key, None)
                continue
            history.take(at_ms)
            series += 1 + len(history.lags[0])
            if series >= STEP_SERIES:
                series = 0
                yield
