import json
import os
from pathlib import Path

import pytest
from bench.attacks import entrance, moments, reading, target, trial
from bench.attacks.target import LEPORID, started
from bench.hostile import attacks, main

# So small that the figures mean nothing, and each attack is gone through all the same.
SMALL = ["--scale", "0.001", "--seconds", "0.1", "--load-seconds", "0.2", "--recovery", "5"]


@pytest.fixture(autouse=True)
def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For figures that mean nothing, the machine need not be quiet, nor the broker at rest."""
    monkeypatch.setattr("bench.hostile.BUSY_SECONDS", 0.01)
    monkeypatch.setattr(trial, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(trial, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(trial, "NICE", 0)
    monkeypatch.setattr(moments, "LEAD_SECONDS", 0.5)
    monkeypatch.setattr(moments, "DELAYS_SECONDS", 1.0)
    monkeypatch.setattr(entrance, "VOIDS_SECONDS", 0.1)
    monkeypatch.setattr(reading, "RETENTION_SECONDS", 0.1)
    # A broker starts a process for the first login with the other kind of hash.
    slow = target._leporid_hash
    monkeypatch.setattr(
        target,
        "_leporid_hash",
        lambda name, *, slowest: slow(name, slowest=True) if slowest else target._salted(name),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in attacks()])
def test_each_attack_is_made_and_judged(name: str, tmp_path: Path):
    output = tmp_path / "outcomes.json"
    main([*SMALL, "--only", name, "--json", str(output)])
    (found,) = json.loads(output.read_text())["outcomes"]
    assert found["skipped"] == found["ended"] == found["lost"] == ""
    assert found["seen"]["answers"] > 0
    assert found["memory_peak_bytes"] > 0


@pytest.mark.slow
def test_a_broker_that_runs_already_is_attacked_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output, page = tmp_path / "outcomes.json", tmp_path / "page.md"
    with started(LEPORID, 10**9) as target:
        assert target.http is not None
        # It has no user guest, which is what we log in as elsewhere.
        where = [
            *("--broker", ":".join(map(str, target.amqp))),
            *("--http", ":".join(map(str, target.http))),
            *("--pid", str(target.pid)),
        ]
        assert main([*SMALL, "--only", "purge,wrong-logins", *where, "--json", str(output)]) == 0
        assert target.pid is not None
        os.kill(target.pid, 0)
    outcomes = json.loads(output.read_text())["outcomes"]
    assert all(one["skipped"] for one in outcomes)
    assert main(["--read", str(output), "--markdown", str(page)]) == 0
    assert page.read_text().count("\n| `") == 2


def test_says_which_attacks_there_are(capsys: pytest.CaptureFixture[str]):
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [one.name for one in attacks()]
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "purge,nonsense"], "no attack 'nonsense'"),
        (["--broker", "kafka"], "neither HOST:PORT nor one of leporid, rabbitmq"),
    ],
)
def test_what_it_does_not_know_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        main(arguments)
    assert said in capsys.readouterr().err
