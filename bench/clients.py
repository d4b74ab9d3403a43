"""Python clients of AMQP side by side: the same broker, the same machine, turn about.

    python bench/clients.py
    python bench/clients.py --only leporid,aio-pika --messages 20000 --runs 3 --json clients.json
    python bench/clients.py --against amqp://guest:guest@127.0.0.1:5672/%2F --markdown clients.md

Each figure of each client is measured in a process of its own, which connects, measures and ends;
in each round every client has its turn before the next round begins. A figure is printed as soon as
it is measured; a client that takes longer than `--seconds` for one is ended, and that figure is
left out. Responsible for that order, for filling queues, and for the table. It must not know how a
client is used (`client_drivers`). Invariant: who waits for one confirm at a time publishes fewer
messages, for as long as others.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.brokers import Broker, own_broker
from bench.client_drivers import DRIVERS, percentile
from bench.report import as_json, machine
from bench.workloads import Figures as WorkloadFigures
from bench.workloads import Plan, workload

from leporid.load.amqp import Client, message

BODY_BYTES = 100
MESSAGES = 100_000
LATENCIES = 3_000
HELD = 100_000
# A blocking client confirms about as many publishes in the time of a window as it has.
ONE_BY_ONE = frozenset({"pika", "amqpstorm", "kombu"})
ONE_BY_ONE_PART = 20
WARM_UP = 200
QUEUE = "bench-clients"
# For one figure of one client; one that hangs must not keep the others from being measured.
SECONDS_MAX = 120.0

# As a workload of run.py: the clients that are asked about most.
USUAL = ("leporid", "pika", "aio-pika")
USUAL_FIGURES = ("publish", "consume", "latency", "memory")
WORKLOAD_MESSAGES = 20_000

Figures = dict[str, float]
FIGURES = ("publish", "consume", "latency", "memory", "allocated")
TITLES = {
    "publish_per_s": "published and confirmed, /s",
    "consume_per_s": "consumed and acked, /s",
    "confirm_p50_ms": "one confirmed publish, p50 ms",
    "confirm_p99_ms": "one confirmed publish, p99 ms",
    "each_bytes": "memory of a buffered delivery, B",
    "allocated_bytes": "of it by Python's allocator, B",
}


@workload("clients")
def clients(broker: Broker, plan: Plan) -> WorkloadFigures:
    """Python clients side by side: publish with confirms, consume with acks, memory."""
    found: dict[str, float] = {}
    for client in USUAL:
        count = min(plan.messages, WORKLOAD_MESSAGES)
        label = client.replace("-", "_")
        for figure in USUAL_FIGURES:
            figures = run_one(client, figure, broker.url, count, plan.body_bytes)
            found |= {f"{label}_{name}": value for name, value in figures.items()}
    return found


# ------------------------------------------------------------------ within a client's process


def measure(client: str, figure: str, url: str, queue: str, count: int, size: int) -> Figures:
    """Measure one figure of one client; the queue has what is needed."""
    driver = DRIVERS[client]()
    body = b"x" * size
    if figure == "publish":
        return {"publish_per_s": count / driver.publish(url, queue, body, count)}
    if figure == "consume":
        return {"consume_per_s": count / driver.consume(url, queue, count)}
    if figure == "latency":
        found = driver.latencies(url, queue, body, count + WARM_UP)[WARM_UP:]
        return {
            "confirm_p50_ms": 1e3 * percentile(found, 0.5),
            "confirm_p99_ms": 1e3 * percentile(found, 0.99),
        }
    return held_bytes(client, figure, url, queue, count)


def held_bytes(client: str, figure: str, url: str, queue: str, count: int) -> Figures:
    """Measure what deliveries take that nobody has settled: resident, or as Python counts it.

    The client is imported, and a connection was made once, before the measurement begins.
    """
    driver = DRIVERS[client]()
    driver.publish(url, queue, b"", 1)
    if figure == "allocated":
        tracemalloc.start()
    gc.collect()
    before = _held_now(figure)
    after = 0

    def full() -> None:
        nonlocal after
        gc.collect()
        after = _held_now(figure)

    driver.hold(url, queue, count, full)
    name = "allocated_bytes" if figure == "allocated" else "each_bytes"
    return {name: (after - before) / count}


def _held_now(figure: str) -> int:
    if figure == "allocated":
        return tracemalloc.get_traced_memory()[0]
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if "VmRSS" in line))


# ------------------------------------------------------------------ the measurement


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; with `--measure`, be the process of one client."""
    options = _parser().parse_args(arguments)
    if options.measure:
        client, figure, queue, count = options.measure
        found = measure(client, figure, options.against, queue, int(count), options.size)
        print(json.dumps(found))
        return 0
    print(machine(), flush=True)
    runs: dict[str, list[Figures]] = {client: [] for client in options.only}
    missing = False
    with _broker_url(options.against) as url:
        for run in range(options.runs):
            for client in options.only:
                runs[client].append({})
                for figure in options.figures:
                    found = run_one(
                        client, figure, url, options.messages, options.size, options.seconds
                    )
                    missing = missing or not found
                    runs[client][-1] |= found
                    print(_row(run + 1, client, figure, found), flush=True)
    text = markdown(runs)
    print("", text, sep="\n")
    if options.markdown:
        options.markdown.write_text(text)
    if options.json:
        plan = {"messages": options.messages, "body_bytes": options.size, "runs": options.runs}
        by_client = {client: {"clients": found} for client, found in runs.items()}
        options.json.write_text(json.dumps(as_json(by_client, plan, []), indent=1) + "\n")
    return 1 if missing else 0


@contextlib.contextmanager
def _broker_url(given: str | None) -> Iterator[str]:
    if given:
        yield given
        return
    with own_broker() as broker:
        yield broker.url


def run_one(
    client: str, figure: str, url: str, messages: int, size: int, seconds: float = SECONDS_MAX
) -> Figures:
    """Measure one figure of one client in a process of its own; empty if it takes too long."""
    count = {"latency": min(LATENCIES, messages), "memory": min(HELD, messages)}.get(
        figure, messages
    )
    if figure == "allocated":
        count = min(HELD, messages) // 4  # tracing takes several times as long
    if figure == "publish" and client in ONE_BY_ONE:
        count = max(1, messages // ONE_BY_ONE_PART)
    held = count if figure in ("consume", "memory", "allocated") else 0
    with filled(url, held, size, seconds):
        return _in_a_process(client, figure, url, count, size, seconds)


def _in_a_process(
    client: str, figure: str, url: str, count: int, size: int, seconds: float
) -> Figures:
    command = [sys.executable, __file__, "--measure", client, figure, QUEUE, str(count)]
    command += ["--against", url, "--size", str(size)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        print(f"{client}, {figure}: not done within {seconds:g} s", file=sys.stderr)
        return {}
    if done.returncode:
        raise SystemExit(f"{client}, {figure}: {done.stderr.strip()[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


@contextlib.contextmanager
def filled(url: str, count: int, size: int, seconds: float = SECONDS_MAX) -> Iterator[None]:
    """A transient queue with so many messages, deleted in the end."""
    end = time.monotonic() + seconds
    with Client(url) as client:
        client.declare_queue(QUEUE)
        one = message("", QUEUE, b"x" * size, persistent=False, frame_bytes_max=131072)
        for start in range(0, count, 1000):
            client.sock.sendall(one * min(1000, count - start))
        while (ready := client.declare_queue(QUEUE, passive=True)) < count:
            if time.monotonic() > end:
                raise SystemExit(
                    f"queue {QUEUE!r} has {ready} of {count} messages after {seconds:g} s"
                )
        try:
            yield
        finally:
            client.delete_queue(QUEUE)


def markdown(runs: Mapping[str, Sequence[Figures]]) -> str:
    """One row for each client, one column for each figure: medians."""
    figures = [
        name for name in TITLES if any(name in run for found in runs.values() for run in found)
    ]
    lines = ["| | " + " | ".join(TITLES[name] for name in figures) + " |"]
    lines.append("|---|" + "---:|" * len(figures))
    for client, found in runs.items():
        cells = []
        for name in figures:
            values = [run[name] for run in found if name in run]
            cells.append(_shown(name, statistics.median(values)) if values else "")
        lines.append(f"| {client} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _row(run: int, client: str, figure: str, found: Figures) -> str:
    cells = [f"{TITLES[name]}: {_shown(name, value)}" for name, value in found.items()]
    return f"run {run}  {client}  {figure}  {'; '.join(cells) or '-'}"


def _shown(name: str, value: float) -> str:
    return f"{value:.3f}" if name.endswith("_ms") else f"{value:,.0f}"


def _names(known: Sequence[str], text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"no {name!r}; there are {', '.join(known)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/clients.py", description=__doc__.splitlines()[0])
    clients, figures = list(DRIVERS), list(FIGURES)
    parser.add_argument("--only", type=lambda text: _names(clients, text), default=clients)
    parser.add_argument("--figures", type=lambda text: _names(figures, text), default=figures)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--size", type=int, default=BODY_BYTES, help="body bytes")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--against", metavar="URL", help="another broker than this checkout's")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS_MAX, help="the most that one figure may take"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
