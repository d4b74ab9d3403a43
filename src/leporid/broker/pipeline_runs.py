"""Runs of data pipelines, as the pipelines report them: the last of each, kept through restarts.

Responsible for keeping what was reported within limits, and for recording it. Must not know what a
pipeline does, nor what a report says beside whose it is, which run it is of, and when it came.
Invariants: a user's reports replace no other user's; of a pipeline the newest runs are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.stored import Recorder, StoredPipelineRun

PIPELINES_MAX: Final = 1000
"""Of a virtual host. They stay until somebody drops them; ten are usual."""
RUNS_MAX: Final = 20
"""Of a pipeline: enough to see how often it fails. One that is started every minute by cron would
fill the disk otherwise."""


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """A run, as it was reported last.

    Attributes:
        user: whose it is.
        name: of the pipeline, among those of that user.
        started_ms: when it began, which tells it from other runs.
        reported_ms: when it was reported.
        facts: the rest of the report, as JSON has it.
    """

    user: str
    name: str
    started_ms: int
    reported_ms: int
    facts: Mapping[str, Any]


class PipelineRuns:
    """Those of one virtual host.

    Args:
        recorder: is told of each change.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._found: dict[tuple[str, str], dict[int, PipelineRun]] = {}

    def __repr__(self) -> str:
        return f"<PipelineRuns of {len(self._found)} pipelines>"

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[list[PipelineRun]]:
        """Go through the pipelines: the runs of each, the newest first."""
        for user, name in tuple(self._found):
            runs = self.of(user, name)
            if runs:  # else dropped meanwhile
                yield runs

    def of(self, user: str, name: str) -> list[PipelineRun]:
        """Return the runs of a pipeline, the newest first; empty without one."""
        runs = self._found.get((user, name), {})
        return [runs[started_ms] for started_ms in sorted(runs, reverse=True)]

    def report(self, run: PipelineRun) -> None:
        """Keep a report, in the place of an earlier one of the same run.

        Raises:
            PreconditionFailed: there are too many pipelines, and this is none of them.
        """
        key = run.user, run.name
        if key not in self._found and len(self._found) >= PIPELINES_MAX:
            raise PreconditionFailed(
                f"vhost '{self._recorder.vhost}' has {PIPELINES_MAX} pipelines that reported runs; "
                "delete some, or report under a name that is among them"
            )
        runs = self._found.setdefault(key, {})
        runs[run.started_ms] = run
        self._recorder.put(StoredPipelineRun.of(self._recorder.vhost, run))
        while len(runs) > RUNS_MAX:
            self._forget(run.user, run.name, min(runs))

    def restore(
        self, user: str, name: str, started_ms: int, reported_ms: int, facts: Mapping[str, Any]
    ) -> None:
        """Have a run that was recorded."""
        run = PipelineRun(user, name, started_ms, reported_ms, facts)
        self._found.setdefault((user, name), {})[started_ms] = run

    def drop(self, user: str, name: str) -> bool:
        """Forget a pipeline; returns whether there was one."""
        for started_ms in tuple(self._found.get((user, name), ())):
            self._forget(user, name, started_ms)
        return self._found.pop((user, name), None) is not None

    def _forget(self, user: str, name: str, started_ms: int) -> None:
        del self._found[user, name][started_ms]
        self._recorder.drop(StoredPipelineRun, self._recorder.vhost, user, name, started_ms)
