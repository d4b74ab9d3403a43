"""The data plane alone, in this process: what a message costs without sockets, disk or load.

    python bench/engine.py                    messages a second
    python bench/engine.py --instructions     instructions a message, counted by valgrind
    python bench/engine.py --hot ack          … and the functions they are spent in

Bytes go in as they would come from a socket, 400 messages a turn, and what comes out is taken as
a socket would take it. Instructions do not depend on how busy the machine is, so they show a
change of one per cent where a rate cannot; they leave out what waits for memory.

It uses the engine's public surface only. Invariant: each case ends with empty queues and every
message delivered, settled and confirmed as the case says.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from leporid.engine.connection.channel import Channel
from leporid.engine.connection.connection import Connection
from leporid.engine.engine import Engine
from leporid.engine.publishing.interceptor import Interceptor
from leporid.engine.queue.queue import Queue
from leporid.engine.routing.route_cache import RouteCache
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.selector import Selector
from leporid.filters.compiler import program
from leporid.load.amqp import CHANNEL, PROTOCOL_HEADER, ack, message

FRAME_BYTES_MAX = 131072
TURN_MESSAGES = 400
TURNS = 2000
REPEATS = 5
# Instructions: of so many turns, after some that fill caches.
WARM_TURNS, COUNTED_TURNS = 5, 25
# A function of the C library that nobody else calls: it tells valgrind where they begin and end.
MARK = "getppid"
HOT_FUNCTIONS = 25
# What a stream keeps at most: it is dropped from memory, since no file is written here.
STREAM_BYTES = 32 * 1024 * 1024
# So long, and so much, that nothing is ever dropped.
LIFE_MS, LENGTH, LENGTH_BYTES = 3_600_000, 10**9, 10**12


@dataclass(frozen=True, slots=True)
class Case:
    """One way of a message through the engine."""

    about: str
    body_bytes: int = 100
    keys: int = 1
    queues: int = 1
    acknowledged: bool = False
    durable: bool = False
    stream: bool = False
    intercepted: bool = False
    limited: bool = False
    filters: str = ""


# Members of a route with filters; one of them lets each message pass.
FILTERS = 1000

CASES = {
    "auto": Case("published, delivered, acknowledged automatically"),
    "ack": Case("acknowledged, one ack a turn", acknowledged=True),
    "durable": Case("persistent, confirmed, acknowledged", acknowledged=True, durable=True),
    "keys": Case("2000 routing keys", keys=2000),
    "fanout": Case("to 10 queues; per message published", queues=10),
    "4k": Case("bodies of 4 KiB", body_bytes=4096),
    "stamped": Case("as auto; the broker sets timestamp and message id", intercepted=True),
    "limited": Case("as auto; a time to live and limits of length and bytes", limited=True),
    "equal": Case("1000 filtered bindings, found by value", filters="number = {0}"),
    "ranges": Case("1000 filtered bindings, each evaluated", filters="number BETWEEN {0} AND {0}"),
    "stream": Case(
        "appended to a stream, confirmed, read, acknowledged",
        acknowledged=True,
        durable=True,
        stream=True,
    ),
}


class Peer:
    """What the engine asks of the control plane, as far as these cases go: routes."""

    def __init__(
        self,
        engine: Engine,
        queues: Sequence[Queue],
        filtered: Sequence[tuple[Filter, Queue]] = (),
    ) -> None:
        found = engine.conditional_route([], filtered) if filtered else queues
        self._source = engine.route_cache("", lambda _key, _properties: found, True)

    def check_of_keys(self, _exchange: str, /) -> None:
        """Every routing key may be used."""

    def route_cache(self, _name: str, /) -> RouteCache:
        """The routes of the one exchange there is."""
        return self._source

    def on_greeting(self) -> None:
        """The protocol header came."""

    def on_stranger(self, header: bytes, /) -> None:
        """No case speaks another protocol."""
        raise AssertionError(f"began with {header!r}")

    def on_lost(self) -> None:
        """The connection is gone."""

    def on_blocked(self) -> None:
        """No case has an alarm."""
        raise AssertionError("blocked by an alarm")

    def on_method(self, channel: int, payload: bytes, /) -> None:
        """No case sends another method than publish and ack."""
        raise AssertionError(f"unexpected method on channel {channel}: {payload[:4].hex()}")

    def on_content(self, channel: int, kind: int, /) -> None:
        """No case sends content without a publish."""
        raise AssertionError(f"unexpected content of type {kind} on channel {channel}")

    def on_fault(self, channel: int, fault: Exception, /) -> None:
        """No case does anything wrong."""
        raise AssertionError(f"fault on channel {channel}: {fault}")

    def on_defect(self, error: Exception, /) -> None:
        """The engine made a mistake."""
        raise AssertionError("a defect of the engine") from error

    def copies(self, *_: object) -> Sequence[Queue]:
        """No case sends CC or BCC."""
        raise AssertionError("copies were asked for")

    def reply_address(self, channel: int, /) -> str:
        """No case asks for direct reply-to."""
        raise AssertionError(f"reply address asked for on channel {channel}")


class Rig:
    """A engine with one publisher, and one consumer on each queue."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.engine = Engine(1)
        self.engine.clock.now_ms, self.engine.clock.wall_ms = 1, 1
        if case.intercepted:
            self.engine.publishing.interceptor = Interceptor(
                timestamp="keep", message_id="keep", random_bytes=os.urandom
            )
        self.queues: list[Queue]
        if case.stream:
            stream = self.engine.stream(1, "s")
            stream.set_retention(max_bytes=STREAM_BYTES)
            self.queues = [stream]
        else:
            self.queues = [
                self.engine.queue(number + 1 if case.durable else 0, f"q{number}", case.durable)
                for number in range(case.queues)
            ]
        if case.limited:
            for queue in self.queues:
                queue.set_message_ttl(LIFE_MS)
                queue.set_limits(max_length=LENGTH, max_bytes=LENGTH_BYTES)
        filters = [case.filters.format(number) for number in range(FILTERS)]
        filtered = [(Selector(program(sql).code), self.queues[0]) for sql in filters if sql]
        peer = Peer(self.engine, self.queues, filtered)
        self._publisher, channel = self._connect(peer)
        if case.durable:
            channel.select_confirm()
        self._consumer, channel = self._connect(peer)
        for number, queue in enumerate(self.queues):
            if case.stream:
                channel.consume_stream(queue, f"c{number}", 0, 0)
            else:
                channel.consume(queue, f"c{number}", not case.acknowledged, 0, 0)
        self._turns = self._make_turns()

    def _connect(self, peer: Peer) -> tuple[Connection, Channel]:
        connection = self.engine.connection(peer)
        connection.output.frame_max = FRAME_BYTES_MAX
        connection.feed(PROTOCOL_HEADER)
        return connection, connection.open_channel(CHANNEL)

    def _make_turns(self) -> list[bytes]:
        """What is published, as a list of turns."""
        case = self._case
        frames = [
            message(
                "",
                "key" if case.filters else f"key.{number:04d}",
                bytes(case.body_bytes),
                persistent=case.durable,
                frame_bytes_max=FRAME_BYTES_MAX,
                headers={"origin": "JFK", "number": number} if case.filters else None,
            )
            for number in range(FILTERS if case.filters else case.keys)
        ]
        count = max(1, len(frames) // TURN_MESSAGES)
        return [
            b"".join(
                frames[(turn * TURN_MESSAGES + at) % len(frames)] for at in range(TURN_MESSAGES)
            )
            for turn in range(count)
        ]

    def _read_all(self) -> None:
        """The consumer reads what was sent to it."""
        while pending := self._consumer.output.pending_bytes:
            self._consumer.sent(pending)
            self.engine.run()

    def run(self, turns: int) -> float:
        """Let that many turns pass; returns seconds."""
        engine, publisher, consumer = self.engine, self._publisher, self._consumer
        acknowledged, durable = self._case.acknowledged, self._case.durable
        everything = ack(0, multiple=True)
        blocks = [self._turns[turn % len(self._turns)] for turn in range(turns)]
        began = time.perf_counter()
        for block in blocks:
            publisher.feed(block)
            engine.run()
            self._read_all()
            if acknowledged:
                consumer.feed(everything)
            if durable:
                work = engine.begin_sync()
                if work is not None:
                    engine.end_sync(work[0], work[1], work[3])
                engine.run()
                publisher.sent(publisher.output.pending_bytes)
                self._read_all()  # a stream is read when it is synced
            engine.connections.take_touched()
        return time.perf_counter() - began

    def check(self, turns: int) -> None:
        """The invariant: nothing is left, and nothing was left out."""
        published = turns * TURN_MESSAGES
        engine = self.engine
        assert engine.queues.published == published, engine.queues.published
        assert engine.queues.delivered == published * len(self.queues), engine.queues.delivered
        if not self._case.stream:
            assert all(not queue.ready_count and not queue.unacked_count for queue in self.queues)
        if self._case.acknowledged and not self._case.stream:
            assert engine.queues.acked == engine.queues.delivered, engine.queues.acked
        if self._case.durable:
            assert engine.queues.confirmed == published, engine.queues.confirmed


def rate(case: Case, turns: int, repeats: int) -> float:
    """Messages a second, of the best of several rounds: whatever disturbs only makes it worse."""
    rig = Rig(case)
    rig.run(turns // 10)
    best = min(rig.run(turns) for _ in range(repeats))
    rig.check(turns // 10 + turns * repeats)
    return turns * TURN_MESSAGES / best


# ------------------------------------------------------------------ instructions


def instructions(name: str) -> dict[str, float]:
    """What a message costs, by function, costliest first."""
    # A repeated string instruction would count once for each byte it moves.
    tunables = "glibc.cpu.x86_rep_movsb_threshold=1000000000:"
    tunables += "glibc.cpu.x86_rep_stosb_threshold=1000000000"
    environment = {**os.environ, "PYTHONHASHSEED": "0", "GLIBC_TUNABLES": tunables}
    with tempfile.TemporaryDirectory(prefix="leporid-bench-") as directory:
        output = Path(directory, "callgrind")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}"]
        command += [f"--dump-before={MARK}", sys.executable, __file__, "--once", name]
        subprocess.run(command, check=True, capture_output=True, env=environment)
        # Each file has what was counted since the one before; the last one ends with the process.
        functions = by_function(Path(f"{output}.2").read_text(encoding="utf-8"))
    each = {name: count / (COUNTED_TURNS * TURN_MESSAGES) for name, count in functions.items()}
    return dict(sorted(each.items(), key=lambda item: -item[1]))


def by_function(text: str) -> Counter[str]:
    """Instructions by function, of what callgrind has written.

    Not of what callgrind_annotate makes of it: that takes what functions have called that began
    earlier for their own.
    """
    functions: Counter[str] = Counter()
    names: dict[str, str] = {}
    function = ""
    lines = iter(text.splitlines())
    for line in lines:
        if named := re.match(r"(c?)fn=(\(\d+\))(?: (\S+))?", line):
            called, number, name = named.groups()
            if name:  # only the first time
                name = re.sub(r"^__pyx_f_7leporid_6engine_(\d+[a-z]+_)?\d+|'\d+$", "", name)
                names[number] = name
            if not called:
                function = names[number]
        elif line.startswith("calls="):
            next(lines)  # what the called function cost
        elif spent := re.match(r"(?:[+-]?\d+|\*) (\d+)", line):
            functions[function] += int(spent[1])
    return functions


def count_turns(case: Case) -> None:
    """Let the turns pass that `instructions` counts, between two marks."""
    rig = Rig(case)
    rig.run(WARM_TURNS)
    os.getppid()  # MARK
    rig.run(COUNTED_TURNS)
    os.getppid()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each case and print one line for it."""
    options = _parser().parse_args(arguments)
    if options.once:
        count_turns(CASES[options.once])
        return 0
    if (options.instructions or options.hot) and shutil.which("valgrind") is None:
        print("instructions are counted by valgrind, which is not installed", file=sys.stderr)
        return 1
    if options.hot:
        each = instructions(options.hot)
        print(f"{sum(each.values()):8,.1f}  instructions a message")
        for function in list(each)[:HOT_FUNCTIONS]:
            print(f"{each[function]:8,.1f}  {function}")
        return 0
    print(f"{'case':8}  {'messages/s':>12}  {'ns each':>8}", end="")
    print(f"  {'instructions':>12}" if options.instructions else "")
    for name in options.cases or CASES:
        case = replace(CASES[name], body_bytes=options.size or CASES[name].body_bytes)
        per_second = rate(case, options.turns, options.repeats)
        print(f"{name:8}  {per_second:12,.0f}  {1e9 / per_second:8.0f}", end="", flush=True)
        if options.instructions:
            print(f"  {sum(instructions(name).values()):12,.0f}", end="")
        print(f"  {case.about}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/engine.py", description="Measure the data plane alone."
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (all)")
    parser.add_argument("--turns", type=int, default=TURNS, help="of 400 messages (%(default)s)")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="the best counts")
    parser.add_argument("--size", type=int, help="body bytes, instead of the case's own")
    parser.add_argument("--instructions", action="store_true", help="count them, too")
    parser.add_argument("--hot", choices=CASES, metavar="CASE", help="its costliest functions")
    parser.add_argument("--once", choices=CASES, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
