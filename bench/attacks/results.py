"""What attacks came to: judged, and as tables for people, for a page, and for programs.

It does not know how anything was measured. Invariant: an outcome passes only if nothing of what its
bounds name is beyond them, and what could not be measured does not pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.attacks.attack import Attack, Bounds
from bench.attacks.trial import Outcome

# Below this, "five times idle" would judge the scheduler.
IDLE_P99_MS_MIN = 0.5

# Below this, a decimal tells a value from its bound.
SMALL = 20.0

HEAD = (
    "attack",
    "broker",
    "stall ms",
    "p99 ms",
    "p99.9 ms",
    "idle p99",
    "health ms",
    "memory MB",
    "recovery s",
    "blocked s",
    "cpu wait s",
    "alive",
    "beyond its bounds",
)


def beyond(outcome: Outcome, bounds: Bounds) -> list[str]:
    """What is not within the bounds, each with its figure; empty: the broker has passed."""
    seen = outcome.seen
    found: list[str] = []
    if outcome.ended:
        found.append(f"broker: {outcome.ended}")
    if outcome.lost:
        found.append(f"canary: {outcome.lost}")
    if not seen:
        return found or ["nothing was measured"]

    def judge(what: str, value: float, most: float | None) -> None:
        if most is not None and value > most:
            found.append(f"{what} {value:,.{1 if value < SMALL else 0}f} > {most:,.0f}")

    judge("stall", seen["stall_ms"], bounds.stall_ms)
    judge("p99.9", seen["p999_ms"], bounds.p999_ms)
    judge("p99", seen["p99_ms"], _p99_most(outcome, bounds))
    judge("health", seen["health_ms"], bounds.health_ms)
    judge("memory MB", outcome.memory_peak_bytes / 1e6, bounds.memory_bytes / 1e6)
    if outcome.recovery_seconds is None:
        if not outcome.ended:
            found.append("recovery: not within the time")
    else:
        judge("recovery s", outcome.recovery_seconds, bounds.recovery_seconds)
    if outcome.probe_failures:
        found.append(f"others: {outcome.probe_failures[0]}")
    if outcome.probe_ms is not None:
        judge("others ms", outcome.probe_ms, bounds.probe_ms)
    for name, (value, limit) in outcome.figures.items():
        judge(name.replace("_", " "), value, limit)
    return found


def _p99_most(outcome: Outcome, bounds: Bounds) -> float | None:
    """What 99 of 100 answers may take; None: that is not judged."""
    if bounds.p99_factor is None:
        return None
    return bounds.p99_factor * max(float(outcome.idle["p99_ms"]), IDLE_P99_MS_MIN)


def row(outcome: Outcome, bounds: Bounds) -> list[str]:
    """The cells of an outcome, in the order of HEAD."""
    if outcome.skipped:
        return [outcome.attack, outcome.broker, *["–"] * (len(HEAD) - 3), outcome.skipped]
    seen, idle = outcome.seen, outcome.idle
    recovery = outcome.recovery_seconds
    return [
        outcome.attack,
        outcome.broker,
        _number(seen.get("stall_ms")),
        _number(seen.get("p99_ms"), 1),
        _number(seen.get("p999_ms"), 1),
        _number(idle.get("p99_ms"), 1),
        _number(seen.get("health_ms")),
        _number(outcome.memory_peak_bytes / 1e6),
        "–" if recovery is None else _number(recovery, 1),
        _number(seen.get("blocked_seconds"), 1),
        _number(outcome.waited_ms / 1000, 1),
        "no" if outcome.ended else "yes",
        "; ".join(beyond(outcome, bounds)) or "passed",
    ]


def _number(value: float | None, decimals: int = 0) -> str:
    return "–" if value is None else f"{value:,.{decimals}f}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns for people; the first two and the last stand left."""
    lines = [list(HEAD), *map(list, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEAD) - 1)]
    texts = []
    for line in lines:
        cells = [
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line[:-1], widths, strict=True))
        ]
        texts.append("  ".join([*cells, line[-1]]))
    texts.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(texts)


def markdown(outcomes: Mapping[str, Sequence[Outcome]], attacks: Mapping[str, Attack]) -> str:
    """A table for a page: one line per attack, the brokers side by side; bold is beyond a bound.

    Args:
        outcomes: by attack.
        attacks: what each is, with its bounds.
    """
    brokers = list(dict.fromkeys(one.broker for each in outcomes.values() for one in each))
    head = ["Attack"]
    for name in brokers:
        head += [f"{name}: stall", "p99.9", "health", "memory", "recovery", "others"]
    lines = [head, ["---", *["--:"] * (len(head) - 1)]]
    for name, each in outcomes.items():
        cells = [f"`{name}`: {attacks[name].about}" if name in attacks else f"`{name}`"]
        by_broker = {one.broker: one for one in each}
        for broker in brokers:
            bounds = attacks[name].bounds if name in attacks else Bounds()
            cells += _short_cells(by_broker.get(broker), bounds)
        lines.append(cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _short_cells(outcome: Outcome | None, bounds: Bounds) -> list[str]:
    if outcome is None or outcome.skipped or not outcome.seen:
        return ["–"] * 6
    stall, p999, health = (outcome.seen[name] for name in ("stall_ms", "p999_ms", "health_ms"))
    memory, recovery = outcome.memory_peak_bytes, outcome.recovery_seconds
    if outcome.ended:
        last = _marked(outcome.ended, beyond=True)
    elif recovery is None:
        last = _marked("not in time", beyond=True)
    else:
        last = _marked(f"{recovery:.1f} s", recovery > bounds.recovery_seconds)
    return [
        _marked(f"{_number(stall)} ms", _is_over(stall, bounds.stall_ms)),
        _marked(f"{_number(p999, 1)} ms", _is_over(p999, bounds.p999_ms)),
        _marked(f"{_number(health)} ms", _is_over(health, bounds.health_ms)),
        _marked(f"{_number(memory / 1e6)} MB", memory > bounds.memory_bytes),
        last,
        "; ".join(_of_its_own(outcome, bounds)),
    ]


def _of_its_own(outcome: Outcome, bounds: Bounds) -> list[str]:
    """What only this attack measures, in a few words each."""
    found = []
    if (most := _p99_most(outcome, bounds)) is not None:
        p99_ms = outcome.seen["p99_ms"]
        found.append(_marked(f"p99 {_number(p99_ms, 1)} ms", p99_ms > most))
    if outcome.probe_failures:
        found.append(_marked("refused", beyond=True))
    elif outcome.probe_ms is not None:
        found.append(_marked(f"{_number(outcome.probe_ms)} ms", outcome.probe_ms > bounds.probe_ms))
    for name, (value, limit) in outcome.figures.items():
        text = f"{name.replace('_', ' ')} {_number(value)}"
        found.append(_marked(text, limit is not None and value > limit))
    return found


def _is_over(value: float, most: float | None) -> bool:
    return most is not None and value > most


def _marked(text: str, beyond: bool) -> str:
    return f"**{text}**" if beyond else text


def from_json(found: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """Outcomes as they were written."""
    return [Outcome(**one) for one in found]
