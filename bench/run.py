"""Measures this checkout's broker, and another one beside it if told so.

    make bench
    python bench/run.py --only transient,ack --seconds 3
    python bench/run.py --against amqp://guest:guest@127.0.0.1:5672/%2F --pid 1234 --json out.json

Composition only: reads the arguments, repeats each workload, prints the table. Our broker is
started anew for each run; the other one is only connected to. bench/README.md says how to get
figures that mean something.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import bench.bad_classes
import bench.clients
import bench.delays
import bench.filter_classes
import bench.filtered
import bench.limits
import bench.scans
import bench.tables  # noqa: F401
from bench.brokers import Broker, busy_share, own_broker
from bench.report import as_json, table
from bench.workloads import WORKLOADS, Plan, Workload

from leporid.load.amqp import Refused
from leporid.load.processes import LoadFailed

BUSY_SECONDS = 0.5
# Others took so much of the machine before a run that its figures mean little.
BUSY_SHARE = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 when every workload gave figures."""
    options = _parser().parse_args(arguments)
    if options.list:
        for workload in WORKLOADS.values():
            print(f"{workload.name:12} {workload.about}")
        return 0
    chosen = [one for one in WORKLOADS.values() if not options.only or one.name in options.only]
    plan = Plan(
        seconds=options.seconds,
        warm_seconds=min(1.0, options.seconds),
        messages=options.messages,
        body_bytes=options.size,
    )
    names = ["leporid", *(["other"] if options.against else [])]
    runs: dict[str, dict[str, list[dict[str, float]]]] = {name: {} for name in names}
    busy: list[float] = []
    failed = False
    for workload in chosen:
        for number in range(options.runs):
            for name in names:
                _say(f"{workload.name}: run {number + 1} of {options.runs}, {name}")
                busy.append(busy_share(BUSY_SECONDS))
                with _broker(name, options) as broker:
                    figures = _measure(workload, broker, plan)
                if figures is None:
                    failed = True
                else:
                    runs[name].setdefault(workload.name, []).append(figures)
    _say("")
    if runs["leporid"]:
        print(table(runs))
    if max(busy, default=0.0) > BUSY_SHARE:
        print(
            f"\nOthers used up to {max(busy):.0%} of the machine: measure again when it is quiet."
        )
    if options.json:
        everything = as_json(runs, dataclasses.asdict(plan), busy)
        options.json.write_text(json.dumps(everything, indent=1) + "\n")
    return 1 if failed else 0


@contextlib.contextmanager
def _broker(name: str, options: argparse.Namespace) -> Iterator[Broker]:
    if name == "other":
        yield Broker(name, options.against, options.pid)
    else:
        with own_broker() as broker:
            yield broker


def _measure(workload: Workload, broker: Broker, plan: Plan) -> dict[str, float] | None:
    """One run; None, with the reason on standard error, if it gave no figures."""
    try:
        return workload.run(broker, plan)
    except (LoadFailed, Refused, OSError) as error:
        print(f"\n{workload.name} failed on {broker.name}: {error!r}", file=sys.stderr)
        return None


def _say(text: str) -> None:
    """What is under way, on a line that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _workload_names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in WORKLOADS:
            raise argparse.ArgumentTypeError(f"no workload {name!r}; see --list")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/run.py",
        description="Measure this checkout's broker; medians of several runs.",
    )
    parser.add_argument("--list", action="store_true", help="say what there is to measure")
    parser.add_argument("--only", type=_workload_names, metavar="A,B", help="these workloads")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="how long a rate is measured (%(default)s)"
    )
    parser.add_argument("--runs", type=int, default=3, help="of each workload (%(default)s)")
    parser.add_argument(
        "--messages", type=int, default=1_000_000, help="of a backlog (%(default)s)"
    )
    parser.add_argument("--size", type=int, default=100, help="body bytes (%(default)s)")
    parser.add_argument("--against", metavar="URL", help="another broker to measure beside ours")
    parser.add_argument(
        "--pid", type=int, help="its process, for its memory and processor time; see --against"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
