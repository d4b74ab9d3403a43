"""The example broker of the web UI: it has what it says, and ends when it is told to."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from leporid.client.management import Address, Management
from leporid.testing.process import COMMAND_VARIABLE, default_command

UI = Path(__file__).parents[2] / "examples" / "ui"
PATIENCE_S = 60
FLIGHTS = """year,dep_time,dep_delay,arr_delay,carrier,origin,dest
2013,517,2,11,UA,JFK,IAH
2013,533,80,90,UA,LGA,IAH
2013,542,20,33,AA,EWR,MIA
2013,NA,NA,NA,B6,JFK,BQN
"""


def awaited(api: Management, path: str, wanted: Any) -> list[dict[str, Any]]:
    """Ask until a list is as wanted."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        found: list[dict[str, Any]] = api.get(path)
        if wanted(found):
            return found
    raise AssertionError(f"{path}: {found}")


@pytest.mark.slow
def test_there_is_something_to_see(tmp_path: Path):
    csv = tmp_path / "flights.csv"
    csv.write_text(FLIGHTS)
    command = [sys.executable, str(UI / "living.py"), "--csv", str(csv), "--rate", "300"]
    with subprocess.Popen(
        command,
        env=os.environ | {COMMAND_VARIABLE: " ".join(default_command()), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            url = next(
                found[1] for line in lines if (found := re.search(r"web UI:\s+(\S+)/", line))
            )
            with Management(Address(url, "ann", "example")) as api:
                reasons = {"rejected", "maxlen", "delivery_limit"}
                awaited(
                    api,
                    "/api/dead-letters",
                    lambda rows: reasons <= {row["reason"] for row in rows},
                )
                readers = awaited(api, "/api/readers", lambda rows: len(rows) == 2)
                assert {each["reader"] for each in readers} == {"board", "audit"}
                (delays,) = api.get("/api/delays/%2F")["exchanges"]
                assert delays["waiting"] > 8
                awaited(api, "/api/queues/shop", lambda rows: sum(row["messages"] for row in rows))
                assert len(api.get("/api/users")) == 6
                assert len(api.get("/api/policies")) == 3
                paused = api.get("/api/queues/%2F/maintenance")
                assert (paused["state"], paused["messages"]) == ("paused", 30)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert (process.returncode, said) == (0, "")
    assert [each.name for each in tmp_path.iterdir()] == ["flights.csv"]


def test_a_rate_has_bounds():
    command = [sys.executable, str(UI / "living.py"), "--rate", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--rate: more than 0" in done.stderr
