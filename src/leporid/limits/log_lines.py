"""How many lines of the log peers can cause: a budget for each of them, and one for all.

Responsible for which lines are left out, and for saying how many were, whose and from which places
in the code. Must not know what the lines say, nor where they are written. A line that somebody
caused says so by `caused_by`; any other has the budget of the place in the code that it comes from,
so that no line can come without end.

Invariants: what is remembered of peers is bounded; a line that is written is whole; each line that
is left out is counted once, and told of.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple

from leporid.limits.refusals import Refusals

logger = logging.getLogger(__name__)

LOG_LINES: Final = "log_lines"
"""The kind of refusal that a line counts as which is left out."""

KEYS_MAX: Final = 1000
"""Peers, users and places in the code whose budgets are remembered; of others, all together."""

TOLD_MAX: Final = 5
"""Of these, how many a line names that says what was left out."""

PLACES_TOLD_MAX: Final = 3
"""Places in the code that it names."""

SHOWN_CHARACTERS_MAX: Final = 60
"""How much it shows of the first line of each place."""


class Budget(NamedTuple):
    """Lines at once, and how many more there may be each second."""

    at_once: int
    a_second: float


CONNECTION: Final = Budget(20, 0.2)
PEER: Final = Budget(100, 1.0)
PEERS: Final = Budget(1000, 10.0)
"""All peers together: somebody may have any number of addresses."""
PLACE: Final = Budget(1000, 10.0)
"""One place in the code."""

_PEERS_KEY: Final = "all peers"


def caused_by(
    connection: str, peer: Hashable, *, user: str | None = None, vhost: str | None = None
) -> dict[str, object]:
    """Return the `extra` of a line that a peer caused.

    Args:
        connection: the name of its connection.
        peer: its user if it has logged in, else its address.
        user: its user's name, for logs with fields; None: it has not logged in.
        vhost: the virtual host that it is in, likewise.
    """
    about = {"connection": connection, "vhost": vhost, "user": user}
    return {"caused_by": (connection, peer), "about": about}


def unbounded() -> dict[str, object]:
    """Return the `extra` of a line that is never left out, as only administrators cause it."""
    return {"unbounded": True}


class _Bucket:
    """What is left of one budget."""

    __slots__ = ("_at_s", "_left", "budget")

    def __init__(self, budget: Budget, now_s: float) -> None:
        self.budget = budget
        self._left = float(budget.at_once)
        self._at_s = now_s

    def has_one(self, now_s: float) -> bool:
        """Say whether one more line is in the budget."""
        more = (now_s - self._at_s) * self.budget.a_second
        self._left = min(self._left + more, self.budget.at_once)
        self._at_s = now_s
        return self._left >= 1

    def take(self) -> None:
        """One line is written."""
        self._left -= 1


class _LeftOut:
    """Lines of one place in the code that were left out."""

    __slots__ = ("beginning", "count")

    def __init__(self, record: logging.LogRecord) -> None:
        self.count = 0
        # Of the first alone: the text of a line costs more than leaving it out.
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        self.beginning = text[:SHOWN_CHARACTERS_MAX] + "..." * (len(text) > SHOWN_CHARACTERS_MAX)


class LogLines(logging.Filter):
    """Leaves out lines that are over their budget; a filter for handlers of the log.

    Args:
        monotonic: gives seconds.

    Attributes:
        refusals: counts what is left out; None: nobody asks.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self.refusals: Refusals | None = None
        self._monotonic = monotonic
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()
        self._left_out: Counter[str] = Counter()
        self._places: dict[str, _LeftOut] = {}

    def __repr__(self) -> str:
        return f"<LogLines keys={len(self._buckets)} left_out={self._left_out.total()}>"

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a line is to be written."""
        if record.name == __name__ or getattr(record, "unbounded", False):
            return True
        now_s = self._monotonic()
        caused = getattr(record, "caused_by", None)
        place = f"{record.name}, line {record.lineno}"
        if caused is None:
            wanted: tuple[tuple[str, Hashable, Budget], ...] = ((place, place, PLACE),)
        else:
            connection, peer = caused
            wanted = (
                (str(peer), ("connection", connection), CONNECTION),
                (str(peer), ("peer", peer), PEER),
                (str(peer), _PEERS_KEY, PEERS),
            )
        buckets = [self._bucket(key, budget, now_s) for _, key, budget in wanted]
        if all(bucket.has_one(now_s) for bucket in buckets):
            for bucket in buckets:
                bucket.take()
            return True
        places = self._places
        left_out = places.get(place) or places.setdefault(place, _LeftOut(record))
        left_out.count += 1
        told = wanted[0][0]
        self._left_out[told if told in self._left_out or self._has_room else "others"] += 1
        if self.refusals is not None:
            self.refusals.count(LOG_LINES)
        return False

    @property
    def _has_room(self) -> bool:
        return len(self._left_out) < KEYS_MAX

    def report(self) -> None:
        """Write one line that says what was left out since the last call, if anything was."""
        if not self._left_out:
            return
        left_out, self._left_out = self._left_out, Counter()
        places, self._places = self._places, {}
        logger.warning(
            "%d lines were left out of the log, as these cause too many: %s; they came from %s",
            left_out.total(),
            _listed([f"{count} of {key!a}" for key, count in left_out.most_common()], TOLD_MAX),
            _listed(
                [
                    f"{place} ({found.count}, the first {found.beginning!a})"
                    for place, found in sorted(places.items(), key=lambda each: -each[1].count)
                ],
                PLACES_TOLD_MAX,
            ),
        )

    def _bucket(self, key: Hashable, budget: Budget, now_s: float) -> _Bucket:
        # Several threads write lines: between two operations another one may forget this key.
        found = self._buckets.pop(key, None) or _Bucket(budget, now_s)
        self._buckets[key] = found
        if len(self._buckets) > KEYS_MAX:
            self._buckets.popitem(last=False)
        return found


def _listed(texts: Sequence[str], shown_max: int) -> str:
    return ", ".join(texts[:shown_max]) + (", and others" if len(texts) > shown_max else "")
