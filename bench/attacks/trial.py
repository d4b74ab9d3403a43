"""One attack on one broker: prepared, made, watched, over.

Responsible for the order of things: the attacker prepares in a process of its own; the canary
looks at the broker at rest; the attack is made; the attacker leaves; the canary says when nothing
is to be noticed any more. It does not know what attacks do. Invariant: when a trial returns, the
processes that it started have ended.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

from bench.attacks.attack import Attack, Ground, NotApplicable, Plan
from bench.attacks.canary import Canary, Shared, prefer, summary
from bench.attacks.target import Target
from bench.attacks.watch import SAMPLE_SECONDS, Watcher

SETUP_SECONDS = 300.0
READY_SECONDS = 30.0
IDLE_SECONDS = 2.0
# So long nothing may be noticed before we say that it is over.
QUIET_SECONDS = 1.0
# After its patience an attack gets so long to come to its own end.
LEAVE_SECONDS = 5.0
# Elsewhere attackers have processors of their own; here they get what others leave.
NICE = 10

IDLE, ATTACK = "idle", "attack"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of one attack. Times in the unit of their names; None: not known.

    Attributes:
        skipped: why the attack was not made; empty: it was.
        ended: why the broker lives no more; empty: it does.
        lost: why the canary lost its connection; empty: it did not.
        notes: what the broker said to the attacker.
        figures: what this attack measures by itself: value and bound.
        idle, seen: the canary's figures before the attack, and from its beginning on.
        recovery_seconds: from the attacker's end until nothing was to be noticed.
        waited_ms: for how long the broker was ready to run and did not get a processor.
    """

    attack: str
    broker: str
    skipped: str = ""
    ended: str = ""
    lost: str = ""
    notes: list[str] = field(default_factory=list)
    figures: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    idle: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    setup_seconds: float = 0.0
    attack_seconds: float = 0.0
    recovery_seconds: float | None = None
    memory_before_bytes: int = 0
    memory_peak_bytes: int = 0
    resident_peak_bytes: int = 0
    waited_ms: float = 0.0
    probe_ms: float | None = None
    probe_failures: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def run(attack: Attack, target: Target, plan: Plan) -> Outcome:
    """Make the attack and say what came of it."""
    outcome = Outcome(attack=attack.name, broker=target.kind)
    if target.kind not in attack.brokers:
        outcome.skipped = f"{target.kind} has no such thing"
        return outcome
    watcher = Watcher(target)
    with contextlib.ExitStack() as ending:
        attacker = ending.enter_context(_attacker(attack, target, plan))
        began = time.monotonic()
        if not watcher.until(attacker.told, SETUP_SECONDS) or attacker.take("ready") is None:
            outcome.skipped = watcher.ended or attacker.trouble or "its preparation took too long"
            return outcome
        outcome.setup_seconds = time.monotonic() - began
        probe = ending.enter_context(_prober(attack, target, plan))
        if probe is not None and not watcher.until(probe.is_ready, READY_SECONDS):
            outcome.skipped = watcher.ended or "its probe does not come to an end"
            return outcome
        canary = Canary(target, attack.bounds.stall_ms)
        ending.callback(canary.close)
        canary.ready(READY_SECONDS)
        canary.begin(IDLE)
        watcher.until(lambda: False, IDLE_SECONDS)
        outcome.memory_before_bytes = watcher.sample()
        watcher.begin()
        canary.begin(ATTACK)
        _attack(outcome, attacker, watcher, plan)
        left = time.monotonic()
        _recover(outcome, canary, probe, watcher, left, plan)
        _measured(outcome, canary, probe, watcher)
    return outcome


def _attack(outcome: Outcome, attacker: _Process, watcher: Watcher, plan: Plan) -> None:
    began = time.monotonic()
    attacker.say("go")
    came = watcher.until(attacker.told, plan.patience_seconds + LEAVE_SECONDS)
    if not came and not watcher.ended:
        outcome.notes.append(f"the attacker was ended after {plan.patience_seconds:.0f} s")
    left = attacker.take("left")
    attacker.end()
    outcome.attack_seconds = time.monotonic() - began
    if left is not None:
        notes, outcome.figures = left
        outcome.notes += notes
    elif attacker.trouble:
        outcome.notes.append(attacker.trouble)


def _recover(
    outcome: Outcome,
    canary: Canary,
    probe: _Probe | None,
    watcher: Watcher,
    left: float,
    plan: Plan,
) -> None:
    def last_bad() -> float:
        return max(canary.last_bad, probe.last_bad if probe is not None else 0.0, left)

    # A probe that comes seldom must have come once more.
    quiet = QUIET_SECONDS + (2 * probe.every_seconds if probe is not None else 0.0)
    quiet_again = watcher.until(
        lambda: time.monotonic() - last_bad() > quiet, plan.recovery_seconds + quiet
    )
    if quiet_again:
        outcome.recovery_seconds = last_bad() - left


def _measured(outcome: Outcome, canary: Canary, probe: _Probe | None, watcher: Watcher) -> None:
    outcome.waited_ms = watcher.waited_ms()
    outcome.resident_peak_bytes = watcher.resident_peak_bytes()
    outcome.memory_peak_bytes = watcher.peak_bytes
    sightings = canary.stop()
    outcome.ended = watcher.ended
    outcome.lost = sightings.lost
    outcome.idle = dict(summary(sightings.phases[IDLE]))
    outcome.seen = dict(summary(sightings.phases[ATTACK]))
    if probe is not None:
        outcome.probe_ms, outcome.probe_failures = probe.stop()


# ------------------------------------------------------------------ the attacker's process


class _Process:
    """A process that says one thing at a time."""

    def __init__(self, process: ForkProcess, pipe: Connection) -> None:
        self._process = process
        self._pipe = pipe
        self.trouble = ""

    def told(self) -> bool:
        """Whether it has said something, or ended."""
        return self._pipe.poll() or not self._process.is_alive()

    def take(self, name: str) -> Any:
        """What it said under that name; None: something else, or nothing."""
        try:
            said, what = self._pipe.recv() if self._pipe.poll() else ("", None)
        except EOFError:
            self.trouble = "the process ended; its reason stands above"
            return None
        if said == "trouble":
            self.trouble = str(what)
        return what if said == name else None

    def say(self, what: object) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send(what)

    def end(self) -> None:
        if self._process.is_alive():
            self._process.join(SAMPLE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()


@contextlib.contextmanager
def _attacker(attack: Attack, target: Target, plan: Plan) -> Iterator[_Process]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_play, args=(attack, target, plan, theirs), daemon=True)
    process.start()
    theirs.close()
    attacker = _Process(process, ours)
    try:
        yield attacker
    finally:
        attacker.end()
        ours.close()


def _play(attack: Attack, target: Target, plan: Plan, pipe: Connection) -> None:
    os.nice(NICE)
    # What was there before the fork is not collected here, which would copy all of it.
    gc.freeze()
    ground = Ground(target, plan)
    try:
        steps = attack.run(ground)
        next(steps)
    except NotApplicable as why:
        pipe.send(("trouble", str(why)))
        return
    except Exception as error:  # noqa: BLE001 - the report says it
        pipe.send(("trouble", f"it could not be prepared: {error!r}; {'; '.join(ground.notes)}"))
        return
    gc.collect()
    pipe.send(("ready", True))
    pipe.recv()
    try:
        next(steps, None)
    except Exception as error:  # noqa: BLE001 - what a broker does to defend itself, or its end
        ground.note(f"{type(error).__name__}: {error}")
    steps.close()  # type: ignore[attr-defined]
    pipe.send(("left", (ground.notes, ground.figures)))


# ------------------------------------------------------------------ the probe's process


class _Probe:
    """What an innocent does again and again while the attack runs."""

    def __init__(self, process: _Process, last_bad: Shared, every_seconds: float) -> None:
        self._process = process
        self._last_bad = last_bad
        self.every_seconds = every_seconds

    def is_ready(self) -> bool:
        """Whether it has loaded what it needs; asked until it says so."""
        return self._process.take("ready") is not None

    @property
    def last_bad(self) -> float:
        """The last moment (monotonic, seconds) at which it failed or took too long."""
        return float(self._last_bad.value)

    def stop(self) -> tuple[float | None, list[str]]:
        """End it: the longest that it took in milliseconds, and how it failed."""
        self._process.say("stop")
        deadline = time.monotonic() + READY_SECONDS
        while not self._process.told() and time.monotonic() < deadline:
            time.sleep(SAMPLE_SECONDS)
        found: tuple[float, list[str]] | None = self._process.take("probed")
        return found or (None, ["it never came to an end"])


@contextlib.contextmanager
def _prober(attack: Attack, target: Target, plan: Plan) -> Iterator[_Probe | None]:
    if attack.probe is None:
        yield None
        return
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    last_bad = context.RawValue("d", 0.0)
    arguments = (attack, Ground(target, plan), last_bad, theirs)
    process = context.Process(target=_probe, args=arguments, daemon=True)
    process.start()
    theirs.close()
    running = _Process(process, ours)
    try:
        yield _Probe(running, last_bad, attack.probe_every_seconds)
    finally:
        running.end()
        ours.close()


def _probe(attack: Attack, ground: Ground, last_bad: Shared, pipe: Connection) -> None:
    assert attack.probe is not None
    # The first time imports what it needs: at the priority of what is measured, that would take
    # the processor from the broker.
    with contextlib.suppress(Exception):
        attack.probe(ground)
    prefer()
    pipe.send(("ready", True))
    worst = 0.0
    failures: list[str] = []
    while not pipe.poll(attack.probe_every_seconds):
        began = time.monotonic()
        try:
            attack.probe(ground)
        except Exception as error:  # noqa: BLE001 - the report says it
            last_bad.value = time.monotonic()
            text = f"{type(error).__name__}: {error}"
            if text not in failures:
                failures.append(text)
        took = 1000 * (time.monotonic() - began)
        worst = max(worst, took)
        if took > attack.bounds.probe_ms:
            last_bad.value = time.monotonic()
    pipe.send(("probed", (worst, failures)))
