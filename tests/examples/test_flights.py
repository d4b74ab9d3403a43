"""The flights demo: that it reads, counts and compares rightly, and that it can fail."""

import importlib
import os
import random
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from leporid.testing.process import COMMAND_VARIABLE, default_command

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
HEADER = "year,dep_time,dep_delay,arr_delay,carrier,origin,dest"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """The demo's `dataset` and `audit`, imported as the demo imports them."""
    monkeypatch.syspath_prepend(FLIGHTS)
    return importlib.import_module("dataset"), importlib.import_module("audit")


@pytest.fixture
def flights_csv(tmp_path: Path) -> Path:
    """Three thousand flights that never were."""
    choose = random.Random(1)
    lines = [HEADER]
    for _ in range(3000):
        departure, late, delay = choose.choice(
            [("517", "5", "11"), ("617", "61", "40"), ("517", "60", "NA"), ("NA", "NA", "NA")]
        )
        carrier, origin = choose.choice(["UA", "DL", "B6"]), choose.choice(["JFK", "LGA", "EWR"])
        lines.append(f"2013,{departure},{late},{delay},{carrier},{origin},IAH")
    path = tmp_path / "flights.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_states(modules):
    dataset, _ = modules
    rows = ["517,14", "517,15", "517,-3", "517,NA", "517,", "NA,NA", ",", "NA,100"]
    header = "dep_time,arr_delay,dep_delay,carrier,origin"
    flights = dataset.parse([header, *[r + ",-3,UA,JFK\n" for r in rows]])
    states = [flight.state for flight in flights]
    assert states == ["ontime", "late", "ontime", "late", "late"] + ["cancelled"] * 3
    assert flights[0].routing_key == "flight.JFK.UA.ontime"
    assert flights[0].line == b"517,14,-3,UA,JFK"
    assert flights[0].dep_delay == -3
    assert dataset.parse([header, "NA,NA,NA,UA,JFK"])[0].dep_delay is None


def test_short_line_is_refused(modules):
    dataset, _ = modules
    with pytest.raises(dataset.DataError, match="line 3 has 2 fields, not 5"):
        dataset.parse(["dep_time,dep_delay,arr_delay,carrier,origin", "1,2,3,UA,JFK", "1,2"])


def test_audit_sees_what_is_missing_unexpected_and_double(modules):
    dataset, audit = modules
    flights = [dataset.Flight(origin, "UA", "late", b"") for origin in ("JFK", "LGA", "JFK", "JFK")]
    plan = audit.QueuePlan("jfk", ("flight.JFK.#",), lambda flight: flight.origin == "JFK")
    good = audit.audit(plan, flights, [0, 2, 3, 3, 3])
    assert (good.agrees, good.expected, good.received, good.duplicates) == (True, 3, 5, 2)
    bad = audit.audit(plan, flights, [0, 1, 3])
    assert (bad.agrees, bad.missing, bad.unexpected, bad.duplicates) == (False, 1, 1, 0)
    assert "1 MISSING, 1 UNEXPECTED" in audit.table([good, bad])
    assert not audit.audit(plan, flights, []).agrees


def run_demo(csv: Path, command: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run the demo on these flights with that broker."""
    return subprocess.run(
        [sys.executable, str(FLIGHTS / "demo.py"), "--csv", str(csv), *options],
        env=os.environ | {COMMAND_VARIABLE: " ".join(command)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("options", "scheme"), [((), "amqp"), (("--tls",), "amqps")])
def test_demo_succeeds(flights_csv, options, scheme):
    done = run_demo(flights_csv, default_command(), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"broker: {scheme}://" in done.stdout
    assert "killed the broker (SIGKILL)" in done.stdout
    assert "ALL COUNTS AGREE" in done.stdout
    assert "dep_delay > 60 AND origin = 'JFK'" in done.stdout


@pytest.mark.slow
def test_demo_fails_on_a_broker_that_forgets(flights_csv, tmp_path):
    """The same with a broker whose log is gone when it comes back."""
    forgetful = tmp_path / "forgetful"
    forgetful.write_text(f'#!/bin/sh\nrm -rf "$2/log"\nexec {" ".join(default_command())} "$@"\n')
    forgetful.chmod(forgetful.stat().st_mode | stat.S_IXUSR)
    done = run_demo(flights_csv, [str(forgetful)])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "COUNTS DIFFER" in done.stdout
    assert "MISSING" in done.stdout
