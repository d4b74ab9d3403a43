"""The state of a run as a file: what it does, how far it came, how it ended.

For those who look after runs: a scheduler, a script, a person. Rewritten as a whole after each
step. Must not know what a pipeline does.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

EXIT_FAILED = 1
EXIT_WRONG_USE = 2

State = Literal["running", "retrying", "done", "stopped", "failed"]


@dataclass
class Status:
    """What the file says.

    Attributes:
        name: of the run.
        pipeline: which one it is.
        labels: stream, vhost and target.
        state: `retrying` after a failed step; `done` when nothing was left, `stopped` after a
            signal, `failed`.
        exit_code: 0, 1 or 2; None as long as it runs.
        error: the first line of what went wrong last; empty after a step that succeeded.
        failures: how many steps failed since it began.
    """

    name: str
    pipeline: str
    labels: Mapping[str, str]
    state: State = "running"
    exit_code: int | None = None
    error: str = ""
    records: int = 0
    put_aside: int = 0
    steps: int = 0
    failures: int = 0
    lag: int | None = None
    pid: int = field(default_factory=os.getpid)
    started_at: str = ""
    step_at: str | None = None
    ended_at: str | None = None

    @property
    def step_seconds(self) -> float | None:
        """When the last step succeeded, in seconds since 1970."""
        return None if self.step_at is None else datetime.fromisoformat(self.step_at).timestamp()

    def ended(self, state: State, exit_code: int, error: str = "") -> None:
        """Note the end."""
        self.state, self.exit_code, self.error, self.ended_at = state, exit_code, error, now()

    def save(self, path: Path) -> None:
        """Write the file; who reads it finds the old one or this one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        draft.replace(path)


def now(clock: Callable[[], float] = time.time) -> str:
    """Return the time, in ISO 8601."""
    return datetime.fromtimestamp(clock(), UTC).isoformat(timespec="milliseconds")
