"""What it costs when filters of consumers look through a long queue and find nothing.

    python bench/searches.py                  a million messages
    python bench/searches.py --messages 100000

Seconds of processor time for the whole queue, and the longest turn of it. One thread, no socket, no
disk. It uses the engine's public surface only. Invariant: nothing is delivered.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.engine import Peer

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue
from leporid.engine.selectors.selector import Selector
from leporid.filters.compiler import program
from leporid.load.amqp import CHANNEL, PROTOCOL_HEADER, table

MESSAGES = 1_000_000
BODY = bytes(100)
HEADERS: dict[str, bool | int | str] = {
    "origin": "JFK",
    "text": "a text of some length, as texts are",
    "number": 7,
    "other": -9,
    "carrier": "UA",
    "late": True,
}
CASES = {
    "equal": ["origin = 'no'"],
    "like": ["text LIKE '%x_y%'"],
    "sums": [" OR ".join(f"number + {at} = other" for at in range(1, 30))],
    "100 equal": [f"origin = 'no {at}'" for at in range(100)],
    "100 ranges": [f"number > {at}" for at in range(5000, 5100)],
    "100 like": [f"text LIKE '%x_{at}%'" for at in range(100)],
}


def fill(engine: Engine, queue: Queue, count: int) -> None:
    """Put so many equal messages into a queue."""
    properties = struct.pack(">H", 0x2000) + table(HEADERS)
    for _ in range(count):
        engine.publish([queue], "", "q", properties, BODY)
    engine.run()


def search(engine: Engine, queue: Queue, texts: Sequence[str]) -> list[float]:
    """Let consumers with these filters come, see that there is nothing, and go; time by turn."""
    connection = engine.connection(Peer(engine, [queue]))
    connection.feed(PROTOCOL_HEADER)
    channel = connection.open_channel(CHANNEL)
    for number, text in enumerate(texts):
        wanted = Selector(program(text).code)
        channel.consume(queue, f"c{number}", True, 0, 0, filter=wanted)
    turns = []
    while engine.busy:
        began = time.thread_time()
        engine.run()
        turns.append(time.thread_time() - began)
    connection.lost()
    assert not queue.delivered, queue.delivered
    return turns


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each case and print one line for it."""
    parser = argparse.ArgumentParser(
        prog="bench/searches.py", description="Measure filters that look through a queue."
    )
    parser.add_argument("--messages", type=int, default=MESSAGES, help="in the queue (%(default)s)")
    options = parser.parse_args(arguments)
    engine = Engine(1)
    engine.clock.now_ms, engine.clock.wall_ms = 1, 1
    queue = engine.queue(0, "q", False)
    fill(engine, queue, options.messages)
    print(f"{'filters':10}  {'seconds':>8}  {'turns':>7}  {'longest ms':>10}")
    for name, texts in CASES.items():
        turns = search(engine, queue, texts)
        print(f"{name:10}  {sum(turns):8.3f}  {len(turns):7}  {1000 * max(turns):10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
