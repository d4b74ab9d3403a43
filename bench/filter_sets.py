"""What many filters at once cost: each message of a stream in memory, asked for all of them.

    python bench/filter_sets.py               every set, with 1,000 members
    python bench/filter_sets.py ranges tags   some of them

No socket, no disk, one thread; the flights of bench/filters.py. It uses the public surface only.
Invariant: what a set finds in the stream is what its members find each by itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.filters import Scan

from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.selector_set import SelectorSet
from leporid.engine.selectors.tags import Tags
from leporid.filters.compiler import program
from leporid.filters.dialects import Dialect

MEMBERS = 1000
TURNS = 10
REPEATS = 5
# Members that are asked one by one, as that takes long.
CHECKED = 20


def sql(text: str, dialect: Dialect = Dialect.JMS) -> Filter:
    """An expression, compiled."""
    return Selector(program(text, dialect).code)


@dataclass(frozen=True, slots=True)
class Case:
    """The members of one set, by number."""

    about: str
    member: Callable[[int], Filter]


CASES = {
    "ranges": Case("one comparison each, none looked up", lambda n: sql(f"dep_delay > {490 + n}")),
    "between": Case(
        "two comparisons each, none looked up",
        lambda n: sql(f"dep_delay BETWEEN {500 + n} AND {501 + n}"),
    ),
    "three": Case(
        "three of two headers, none looked up",
        lambda n: sql(f"dep_delay > {n} AND dep_delay < {n + 5} AND dest <> 'ATL'"),
    ),
    "either": Case(
        "two ranges of two headers with OR, none looked up",
        lambda n: sql(f"dep_delay > {490 + n} OR flight > {7900 + n}"),
    ),
    "like": Case("a pattern each, none looked up", lambda n: sql(f"dest LIKE '%{n}%'")),
    "not": Case(
        "what is not so, none looked up",
        lambda n: sql(f"NOT (dep_delay < {490 + n} OR dest LIKE '%A%')"),
    ),
    "rocketmq": Case(
        "one comparison of a text as number, none looked up",
        lambda n: sql(f"number > {490 + n}", Dialect.ROCKETMQ),
    ),
    "equal": Case(
        "looked up by a number", lambda n: sql(f"flight = {n} AND dep_delay > 100 AND dest <> 'X'")
    ),
    "or": Case(
        "looked up by one of two headers with OR",
        lambda n: sql(f"flight = {n} OR number = 'n{n}'"),
    ),
    "in": Case("looked up by one of three", lambda n: sql(f"flight IN ({n}, {n + 1}, {n + 2})")),
    "prefix": Case("looked up by how it begins", lambda n: sql(f"number LIKE '{n}/%'")),
    "tags": Case("looked up by one of two tags", lambda n: Tags([b"late", b"tag%d" % n])),
    "one": Case("all looked up by one value, which comes", lambda n: sql("origin = 'JFK'")),
}


def measure(scan: Scan, case: Case, members: int, repeats: int) -> tuple[float, float, float]:
    """Nanoseconds a message, and microseconds for a member to come, and to go."""
    filters = [case.member(number) for number in range(members)]
    found = SelectorSet()
    began = time.perf_counter()
    numbers = [found.add(one) for one in filters]
    coming = time.perf_counter() - began
    best = float("inf")
    with scan.window() as window:
        for _ in range(repeats):
            began = time.perf_counter()
            found.count_in(window)
            best = min(best, time.perf_counter() - began)
        few = SelectorSet()
        for one in filters[:CHECKED]:
            few.add(one)
        alone = sum(one.count_in(window) for one in filters[:CHECKED])
        assert few.count_in(window) == alone, alone
    began = time.perf_counter()
    for number in numbers:
        found.remove(number)
    going = time.perf_counter() - began
    return 1e9 * best / scan.count, 1e6 * coming / members, 1e6 * going / members


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each set and print one line for it."""
    parser = argparse.ArgumentParser(
        prog="bench/filter_sets.py", description="Measure sets of filters alone."
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (all)")
    parser.add_argument("--members", type=int, default=MEMBERS, help="of each set (%(default)s)")
    parser.add_argument("--turns", type=int, default=TURNS, help="of 400 messages (%(default)s)")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="the best counts")
    options = parser.parse_args(arguments)
    scan = Scan(options.turns)
    print(f"{'case':8}  {'messages/s':>12}  {'ns each':>9}  {'ns a member':>11}", end="")
    print(f"  {'add us':>6}  {'drop us':>7}")
    for name in options.cases or CASES:
        each, coming, going = measure(scan, CASES[name], options.members, options.repeats)
        print(
            f"{name:8}  {1e9 / each:12,.0f}  {each:9,.0f}  {each / options.members:11.2f}  "
            f"{coming:6.1f}  {going:7.1f}  {CASES[name].about}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
