import os
import signal
from collections.abc import Iterator

import pytest
from bench.attacks import trial
from bench.attacks.attack import Attack, Ground, NotApplicable, Plan, Steps
from bench.attacks.target import LEPORID, RABBITMQ, Target, started
from bench.attacks.trial import run

pytestmark = pytest.mark.slow

PLAN = Plan(patience_seconds=1.0, recovery_seconds=10.0)


@pytest.fixture(autouse=True)
def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(trial, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(trial, "LEAVE_SECONDS", 0.1)


@pytest.fixture
def target() -> Iterator[Target]:
    with started(LEPORID, 10**9) as running:
        yield running


def harmless(ground: Ground) -> Steps:
    with ground.peer():
        yield
        ground.note("was there")
        ground.figure("kept_mb", 3.0, 2.0)


def test_an_attack_is_prepared_made_and_over(target: Target):
    outcome = run(Attack(name="a", about="", run=harmless), target, PLAN)
    assert outcome.skipped == outcome.ended == outcome.lost == ""
    assert outcome.notes == ["was there"]
    assert outcome.figures == {"kept_mb": (3.0, 2.0)}
    assert outcome.recovery_seconds is not None
    assert outcome.seen["answers"] > 0
    assert outcome.memory_peak_bytes >= outcome.memory_before_bytes > 0


def test_what_does_not_apply_is_not_made(target: Target):
    def never(ground: Ground) -> Steps:
        if ground.leporid:
            raise NotApplicable("needs the moon")
        yield

    assert run(Attack(name="a", about="", run=never), target, PLAN).skipped == "needs the moon"
    elsewhere = Attack(name="a", about="", run=harmless, brokers=(RABBITMQ,))
    assert run(elsewhere, target, PLAN).skipped == "leporid has no such thing"


def test_an_attack_that_cannot_be_prepared_says_why(target: Target):
    def fails(ground: Ground) -> Steps:
        ground.note("refused")
        if ground.leporid:
            raise OSError("no way")
        yield

    skipped = run(Attack(name="a", about="", run=fails), target, PLAN).skipped
    assert "no way" in skipped
    assert "refused" in skipped


def test_an_attack_that_the_broker_stops_is_told(target: Target):
    def stopped(_: Ground) -> Steps:
        yield
        raise ConnectionResetError("cut")

    outcome = run(Attack(name="a", about="", run=stopped), target, PLAN)
    assert outcome.skipped == ""
    assert outcome.notes == ["ConnectionResetError: cut"]


def test_an_attack_without_an_end_is_ended(target: Target):
    def endless(_: Ground) -> Steps:
        yield
        signal.pause()

    outcome = run(Attack(name="a", about="", run=endless), target, PLAN)
    assert outcome.notes == ["the attacker was ended after 1 s"]
    assert outcome.recovery_seconds is not None


def test_a_broker_that_dies_is_told(target: Target):
    def deadly(ground: Ground) -> Steps:
        yield
        assert ground.target.pid is not None
        os.kill(ground.target.pid, signal.SIGKILL)

    outcome = run(Attack(name="a", about="", run=deadly), target, PLAN)
    assert outcome.ended == "it ended"
    assert outcome.recovery_seconds is None


def test_what_others_cannot_do_is_told(target: Target):
    def probe(ground: Ground) -> None:
        raise PermissionError("not for you")

    def holds(_: Ground) -> Steps:
        yield

    attack = Attack(name="a", about="", run=holds, probe=probe, probe_every_seconds=0.01)
    outcome = run(attack, target, Plan(recovery_seconds=0.2))
    assert outcome.probe_failures == ["PermissionError: not for you"]
    assert outcome.recovery_seconds is None
