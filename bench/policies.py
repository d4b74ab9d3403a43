"""How long a change of one policy takes: until every queue follows and the change is on disk.

Starts a broker of its own, sets other policies, each with a pattern of its own, declares queues,
and then sets, changes and deletes one policy that governs all of them, over HTTP. Printed are
the time of the whole request, and that of declaring the queues beside that many policies.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.brokers import own_broker

from leporid.load.amqp import CHANNEL, QUEUE_DECLARE, Client, method, short, table

QUEUES: Final = 10_000
OTHERS: Final = 999
DEFINITION: Final = {"max-length": 1000, "message-ttl": 60_000, "overflow": "reject-publish"}
LOGIN: Final = "Basic " + base64.b64encode(b"guest:guest").decode()
# Bits of queue.declare.
DURABLE: Final = 2
NO_WAIT: Final = 16


def request(url: str, kind: str, body: dict[str, Any] | None = None) -> float:
    """Do one request; returns how many seconds it took."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(
        url, data, {"Authorization": LOGIN, "Content-Type": "application/json"}, method=kind
    )
    began = time.perf_counter()
    with urllib.request.urlopen(asked) as answer:
        answer.read()
    return time.perf_counter() - began


def declare(client: Client, names: Sequence[str], *, durable: bool) -> float:
    """Declare queues, all at once; returns how many seconds it took."""
    bits = bytes((NO_WAIT | (DURABLE if durable else 0),))
    frames = [
        method(CHANNEL, QUEUE_DECLARE, b"\0\0" + short(name) + bits + table({})) for name in names
    ]
    began = time.perf_counter()
    client.sock.sendall(b"".join(frames))
    client.declare_queue(names[-1], durable=durable)
    return time.perf_counter() - began


def measure(queues: int, others: int, *, durable: bool) -> dict[str, float]:
    """Return seconds by name of what was done."""
    with own_broker() as broker, Client(broker.url) as client:
        policies = f"{broker.http_url}/api/policies/%2F/"
        for number in range(others):
            body = {"pattern": f"^other\\.{number}\\.", "definition": DEFINITION, "priority": 1}
            request(f"{policies}other-{number}", "PUT", body)
        names = [f"bench.{number}.orders" for number in range(queues)]
        found = {"declare all": declare(client, names, durable=durable)}
        body = {"pattern": "^bench\\.", "definition": DEFINITION}
        found["set"] = request(policies + "all", "PUT", body)
        body["definition"] = {"max-length": 10}
        found["change"] = request(policies + "all", "PUT", body)
        found["delete"] = request(policies + "all", "DELETE")
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    print(f"{options.queues} queues, milliseconds, the median of {options.runs}")
    for others in dict.fromkeys((0, options.others)):
        runs = [
            measure(options.queues, others, durable=options.durable) for _ in range(options.runs)
        ]
        for name in runs[0]:
            middle = sorted(run[name] for run in runs)[len(runs) // 2]
            print(f"{others:5} other policies  {name:12}  {middle * 1000:9.1f}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/policies.py", description=__doc__)
    parser.add_argument("--queues", type=int, default=QUEUES, help="(%(default)s)")
    parser.add_argument("--others", type=int, default=OTHERS, help="other policies (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="the median counts (%(default)s)")
    parser.add_argument("--durable", action="store_true", help="durable queues")
    return parser


if __name__ == "__main__":
    sys.exit(main())
