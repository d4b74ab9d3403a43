"""What must arrive where, computed from the data alone, and the comparison with what did.

Each queue stands here twice: as patterns and a filter, which the broker is given, and as a
condition on the flight, which it is not. The two are written independently; that they select the
same flights is what the demo shows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dataset import Flight


class QueuePlan(NamedTuple):
    """A queue, its bindings, the filter that they have, and which flights belong into it."""

    name: str
    patterns: tuple[str, ...]
    wants: Callable[[Flight], bool]
    filter: Mapping[str, str] = {}

    @property
    def bindings(self) -> list[tuple[str, Mapping[str, str]]]:
        """Patterns and arguments."""
        return [(pattern, self.filter) for pattern in self.patterns]


PLANS = (
    QueuePlan("everything", ("flight.#",), lambda flight: True),
    QueuePlan("from-jfk", ("flight.JFK.*.*",), lambda flight: flight.origin == "JFK"),
    QueuePlan("united", ("*.*.UA.#",), lambda flight: flight.carrier == "UA"),
    QueuePlan("late", ("#.late",), lambda flight: flight.state == "late"),
    QueuePlan("cancelled", ("#.cancelled.#",), lambda flight: flight.state == "cancelled"),
    QueuePlan(
        "trouble-at-la-guardia",
        ("flight.LGA.*.late", "flight.LGA.*.cancelled"),
        lambda flight: flight.origin == "LGA" and flight.state != "ontime",
    ),
    # The patterns overlap; a flight that matches both comes once.
    QueuePlan(
        "delta-or-late-newark",
        ("flight.*.DL.*", "flight.EWR.#.late"),
        lambda flight: flight.carrier == "DL" or (flight.origin, flight.state) == ("EWR", "late"),
    ),
    QueuePlan(
        "by-tag",
        ("flight.#",),
        lambda flight: flight.state in ("late", "cancelled"),
        {"x-filter-tags": "late || cancelled"},
    ),
    QueuePlan(
        "by-sql",
        ("flight.#",),
        lambda flight: flight.origin == "JFK" and (flight.dep_delay or 0) > 60,
        {"x-filter-sql": "dep_delay > 60 AND origin = 'JFK'"},
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One queue's row in the table.

    Attributes:
        expected: flights that belong into the queue.
        received: deliveries.
        distinct: flights among them.
        duplicates: deliveries of a flight that had come already.
        missing: flights that belong into the queue and did not come.
        unexpected: flights that came and do not belong into it.
    """

    queue: str
    bindings: tuple[str, ...]
    expected: int
    received: int
    distinct: int
    duplicates: int
    missing: int
    unexpected: int

    @property
    def agrees(self) -> bool:
        """Whether every flight came that had to, and no other."""
        return self.missing == self.unexpected == 0 and self.distinct == self.expected


def audit(plan: QueuePlan, flights: Sequence[Flight], received: Iterable[int]) -> Finding:
    """Compare the numbers of the flights that came with those that had to."""
    wanted = {number for number, flight in enumerate(flights) if plan.wants(flight)}
    times = Counter(received)
    return Finding(
        queue=plan.name,
        bindings=(*plan.patterns, *plan.filter.values()),
        expected=len(wanted),
        received=times.total(),
        distinct=len(times),
        duplicates=times.total() - len(times),
        missing=len(wanted - times.keys()),
        unexpected=len(times.keys() - wanted),
    )


def table(findings: Iterable[Finding]) -> str:
    """Render the findings for people."""
    head = f"{'queue':22} {'bindings':45} {'expected':>9} {'received':>9} {'again':>6}  verdict"
    rows = [head, "-" * len(head)]
    for each in findings:
        verdict = "agrees"
        if not each.agrees:
            verdict = f"{each.missing} MISSING, {each.unexpected} UNEXPECTED"
        rows.append(
            f"{each.queue:22} {'  '.join(each.bindings):45} {each.expected:9,} "
            f"{each.received:9,} {each.duplicates:6,}  {verdict}"
        )
    return "\n".join(rows)
