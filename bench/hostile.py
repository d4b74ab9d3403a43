"""Attacks a broker in every way we know, and says what its other clients notice of it.

    python bench/hostile.py
    python bench/hostile.py --only purge,commit --seconds 2
    python bench/hostile.py --broker leporid --broker rabbitmq --json outcomes.json
    python bench/hostile.py --broker 127.0.0.1:5672 --http 127.0.0.1:15672 --pid 1234
    python bench/hostile.py --read outcomes.json --markdown table.md

Composition only: reads the arguments, starts a broker for each attack, prints a table. What is
measured, and what it means, is in bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.attacks import definitions, entrance, moments, reading, routing, tables, trust, volume
from bench.attacks.attack import ATTACKS, Attack, Plan
from bench.attacks.results import beyond, from_json, markdown, row, table
from bench.attacks.target import KINDS, LEPORID, Target, address_of, running, started
from bench.attacks.trial import Outcome, run
from bench.brokers import busy_share
from bench.report import machine

THEMES = (entrance, definitions, routing, moments, reading, tables, trust, volume)
BUSY_SECONDS = 0.5
# Others took so much of the machine before an attack that its figures mean little.
BUSY_SHARE = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack and print; 0 when everything was within its bounds."""
    options = _parser().parse_args(arguments)
    if options.list:
        for one in attacks():
            print(f"{one.name:22} {one.about}")
        return 0
    if options.read:
        outcomes = [
            outcome
            for path in options.read
            for outcome in from_json(json.loads(path.read_text())["outcomes"])
        ]
        busy: list[float] = []
    else:
        outcomes, busy = _run_all(options)
    rows = [row(one, ATTACKS[one.attack].bounds) for one in outcomes]
    print(table(rows))
    _print_notes(outcomes)
    if max(busy, default=0.0) > BUSY_SHARE:
        print(
            f"\nOthers used up to {max(busy):.0%} of the machine: measure again when it is quiet."
        )
    if options.json:
        everything = {
            "machine": machine(),
            "busy_before": [round(share, 3) for share in busy],
            "outcomes": [one.as_json() for one in outcomes],
        }
        options.json.write_text(json.dumps(everything, indent=1) + "\n")
    if options.markdown:
        by_attack = {
            name: found
            for name in (one.name for one in attacks())
            if (found := [one for one in outcomes if one.attack == name])
        }
        options.markdown.write_text(markdown(by_attack, ATTACKS) + "\n")
    passed = all(one.skipped or not beyond(one, ATTACKS[one.attack].bounds) for one in outcomes)
    return 0 if passed else 1


def attacks() -> list[Attack]:
    """All of them, theme by theme."""
    themes = [theme.__name__ for theme in THEMES]
    return sorted(ATTACKS.values(), key=lambda one: themes.index(one.run.__module__))


def _run_all(options: argparse.Namespace) -> tuple[list[Outcome], list[float]]:
    # Ten thousand connections have two ends, each in a process of its own.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    plan = Plan(
        scale=options.scale,
        seconds=options.seconds,
        load_seconds=options.load_seconds,
        patience_seconds=max(options.patience, options.load_seconds + 30),
        recovery_seconds=options.recovery,
    )
    outcomes: list[Outcome] = []
    busy: list[float] = []
    for one in attacks():
        if options.only and one.name not in options.only:
            continue
        for broker in options.broker or [LEPORID]:
            busy.append(busy_share(BUSY_SECONDS))
            began = time.monotonic()
            outcome = _try(one, broker, options, plan)
            outcomes.append(outcome)
            verdict = row(outcome, one.bounds)[-1]
            took = time.monotonic() - began
            print(f"{one.name} on {outcome.broker} ({took:.0f} s): {verdict}", file=sys.stderr)
    return outcomes, busy


def _try(one: Attack, broker: str, options: argparse.Namespace, plan: Plan) -> Outcome:
    try:
        if broker in KINDS and broker not in one.brokers:
            return Outcome(attack=one.name, broker=broker, skipped=f"{broker} has no such thing")
        with _target(one, broker, options) as target:
            return run(one, target, plan)
    except (OSError, RuntimeError, EOFError) as error:
        return Outcome(attack=one.name, broker=broker, skipped=f"it went wrong: {error!r}")


@contextlib.contextmanager
def _target(one: Attack, broker: str, options: argparse.Namespace) -> Iterator[Target]:
    if broker in KINDS:
        with started(broker, one.watermark_bytes, default_users=one.default_users) as target:
            yield target
    else:
        yield running(options.kind, broker, options.http, options.pid)


def _print_notes(outcomes: Sequence[Outcome]) -> None:
    for one in outcomes:
        said = list(one.notes)
        said += [
            f"{name.replace('_', ' ')} {value:,.1f}" for name, (value, _) in one.figures.items()
        ]
        if one.probe_ms is not None:
            said.append(f"others waited {one.probe_ms:,.0f} ms at most")
        said += one.probe_failures
        if said:
            print(f"{one.attack} ({one.broker}): {'; '.join(said)}")


def _attack_names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in ATTACKS:
            raise argparse.ArgumentTypeError(f"no attack {name!r}; see --list")
    return names


def _broker(text: str) -> str:
    if text not in KINDS:
        try:
            address_of(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is neither HOST:PORT nor one of {', '.join(KINDS)}"
            ) from None
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/hostile.py",
        description="Attack a broker, and measure what its other clients notice.",
    )
    parser.add_argument("--list", action="store_true", help="say which attacks there are")
    parser.add_argument("--only", type=_attack_names, metavar="A,B", help="these attacks")
    parser.add_argument(
        "--broker",
        type=_broker,
        action="append",
        metavar="BROKER",
        help="leporid (default) or rabbitmq, started for each attack, or HOST:PORT of a running "
        "one; may be given several times",
    )
    parser.add_argument("--kind", choices=KINDS, default=LEPORID, help="what runs at HOST:PORT")
    parser.add_argument("--http", metavar="HOST:PORT", help="where that one answers HTTP")
    parser.add_argument("--pid", type=int, help="its process, for its memory")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="for which attacks are held (%(default)s)"
    )
    parser.add_argument(
        "--load-seconds", type=float, default=60.0, help="for which load lasts (%(default)s)"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of all great numbers (%(default)s)"
    )
    parser.add_argument(
        "--patience", type=float, default=60.0, help="seconds an attack may take (%(default)s)"
    )
    parser.add_argument(
        "--recovery", type=float, default=30.0, help="seconds to wait for recovery (%(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a table there")
    parser.add_argument(
        "--read",
        type=Path,
        action="append",
        metavar="FILE",
        help="attack nothing; print what --json has written (may be given several times)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
