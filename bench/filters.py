"""What filters cost: a stream in memory, scanned for the few messages that pass.

    python bench/filters.py                   messages a second, each filter for itself
    python bench/filters.py sql tag           some of them

No socket, no disk, one thread. The messages are flights: six headers, a body of 100 bytes. It uses
the public surface only. Invariant: each filter finds as many messages as were published for it.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.engine import FRAME_BYTES_MAX, TURN_MESSAGES, Peer

from leporid.engine.engine import Engine
from leporid.engine.log.window import Window
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.tags import Tags
from leporid.filters.compiler import program
from leporid.filters.dialects import Dialect
from leporid.load.amqp import (
    BASIC_PUBLISH,
    CHANNEL,
    FRAME_BODY,
    FRAME_HEADER,
    PROTOCOL_HEADER,
    frame,
    method,
    short,
    table,
)

TURNS = 500
REPEATS = 5
# One message of so many is the one that is looked for.
RARE = 10_000
BODY = bytes(100)
PERSISTENT_WITH_HEADERS = 0x3000


@dataclass(frozen=True, slots=True)
class Case:
    """One filter."""

    about: str
    sql: str = ""
    dialect: Dialect = Dialect.JMS
    tags: tuple[bytes, ...] = ()
    finds: bool = True

    def filter(self) -> Filter:
        """Made anew."""
        return Tags(self.tags) if self.tags else Selector(program(self.sql, self.dialect).code)


CASES = {
    "none": Case("reads no header, only the routing key", "routing_key = 'late.JFK'"),
    "sql": Case("two headers", "dep_delay > 1000 AND origin = 'JFK'"),
    "late": Case("the last header", "flight = 9000"),
    "missing": Case("a header that no message has", "gate = 'A1'", finds=False),
    "like": Case("a pattern", "dest LIKE '%Q_Q%'"),
    "long": Case(
        "twelve comparisons of three headers",
        " OR ".join(
            f"(dep_delay = {2000 + n} AND origin <> 'X' AND flight > {n})" for n in range(4)
        ),
    ),
    "tag": Case("two tags", tags=(b"late", b"lost")),
    "rocketmq": Case("texts read as numbers", "number > 1000 AND origin = 'JFK'", Dialect.ROCKETMQ),
}


def flight(number: int, queue: str | None = None) -> bytes:
    """The frames of one message, to a queue if one is named."""
    rare = number % RARE == 0
    delay = 2000 if rare else number % 500
    headers = table(
        {
            "x-tag": "late" if rare else "flight",
            "dep_delay": delay,
            "origin": "JFK" if rare else ("EWR", "JFK", "LGA")[number % 3],
            "dest": "QXQ" if rare else ("ORD", "ATL", "LAX", "BOS")[number % 4],
            "number": str(delay),
            "flight": 9000 if rare else number % 8000,
        }
    )
    header = struct.pack(">HHQH", BASIC_PUBLISH[0], 0, len(BODY), PERSISTENT_WITH_HEADERS)
    key = short(queue or ("late.JFK" if rare else "flight.EWR"))
    return b"".join(
        (
            method(CHANNEL, BASIC_PUBLISH, b"\0\0" + short("") + key + b"\0"),
            frame(FRAME_HEADER, CHANNEL, header + headers + b"\x02"),
            frame(FRAME_BODY, CHANNEL, BODY),
        )
    )


class Scan:
    """A stream of flights that is in memory as a whole."""

    def __init__(self, turns: int) -> None:
        self.engine = Engine(1)
        self.engine.clock.now_ms, self.engine.clock.wall_ms = 1, 1
        self.stream = self.engine.stream(1, "flights")
        publisher = self.engine.connection(Peer(self.engine, [self.stream]))
        publisher.output.frame_max = FRAME_BYTES_MAX
        publisher.feed(PROTOCOL_HEADER)
        publisher.open_channel(CHANNEL)
        self.count = turns * TURN_MESSAGES
        for turn in range(turns):
            first = turn * TURN_MESSAGES
            publisher.feed(b"".join(flight(first + at) for at in range(TURN_MESSAGES)))
            self.engine.run()
            work = self.engine.begin_sync()
            assert work is not None
            self.engine.end_sync(work[0], work[1], work[3])
            self.engine.run()
            publisher.sent(publisher.output.pending_bytes)
        self.expected = len(range(0, self.count, RARE))

    def window(self) -> Window:
        """All of it."""
        return self.stream.window(0, self.count, self.count, 1 << 40)

    def rate(self, case: Case, repeats: int) -> float:
        """Messages a second, of the best of several rounds; what disturbs only adds."""
        chosen = case.filter()
        best = float("inf")
        with self.window() as window:
            assert window.rows == self.count, window.rows
            for _ in range(repeats):
                began = time.perf_counter()
                found = chosen.count_in(window)
                best = min(best, time.perf_counter() - began)
                expected = self.expected if case.finds else 0
                assert found == expected, (found, expected)
        return self.count / best


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each filter and print one line for it."""
    parser = argparse.ArgumentParser(prog="bench/filters.py", description="Measure filters alone.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (all)")
    parser.add_argument("--turns", type=int, default=TURNS, help="of 400 messages (%(default)s)")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="the best counts")
    options = parser.parse_args(arguments)
    scan = Scan(options.turns)
    print(f"{'case':8}  {'messages/s':>12}  {'ns each':>8}")
    for name in options.cases or CASES:
        per_second = scan.rate(CASES[name], options.repeats)
        print(f"{name:8}  {per_second:12,.0f}  {1e9 / per_second:8.1f}  {CASES[name].about}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
