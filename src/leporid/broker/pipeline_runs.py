"""Runs of data pipelines, as the pipelines report them: the last of each, kept through restarts.

Responsible for keeping what was reported within limits, and for recording it. Must not know what a
pipeline does, nor what a report says beside whose it is, which run it is of, and when it came.
Invariants: a user's reports replace no other user's; of a pipeline the newest runs are kept, and
what they take is charged to the definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.memory import Memory
from leporid.broker.stored import Recorder, StoredPipelineRun

if TYPE_CHECKING:
    from leporid.broker.registry import Steps
    from leporid.engine.bounds.accounts import Account

PIPELINES_MAX: Final = 1000
"""Of a virtual host. They stay until somebody drops them; ten are usual."""
USER_PIPELINES_MAX: Final = 500
"""Of these, one user's: others report, too."""
RUNS_MAX: Final = 20
"""Of a pipeline: enough to see how often it fails. One that is started every minute by cron would
fill the disk otherwise."""
RUN_BYTES: Final = 2048
"""A run beside its texts, in memory."""


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

    @property
    def size(self) -> int:
        """What it takes in memory, in bytes."""
        texts = sum(len(fact) for fact in self.facts.values() if isinstance(fact, str))
        return RUN_BYTES + len(self.name) + texts


class PipelineRuns:
    """Those of one virtual host.

    Args:
        recorder: is told of each change.
        memory: what is kept is charged there.
    """

    def __init__(self, recorder: Recorder, memory: Memory) -> None:
        self._recorder = recorder
        self._memory = memory
        self._found: dict[tuple[str, str], dict[int, PipelineRun]] = {}
        self._charged: dict[tuple[str, str], Account] = {}

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
            PreconditionFailed: there are too many pipelines, of this user or of all, and this is
                none of them; or there is no room for another run.
        """
        key = run.user, run.name
        if key not in self._found:
            self._check_room_for(run.user)
        runs = self._found.get(key, {})
        if run.started_ms not in runs:
            title = f"run of pipeline '{run.name}' in vhost '{self._recorder.vhost}'"
            self._memory.check_definition(title, run.size, run.user)
        self._keep(run)
        self._recorder.put(StoredPipelineRun.of(self._recorder.vhost, run))
        while len(self._found[key]) > RUNS_MAX:
            self._forget(run.user, run.name, min(self._found[key]))

    def _check_room_for(self, user: str) -> None:
        whose = ""
        most = PIPELINES_MAX
        if len(self._found) < most:
            most, whose = USER_PIPELINES_MAX, f" of user '{user}'"
            if sum(owner == user for owner, _ in self._found) < most:
                return
        raise PreconditionFailed(
            f"vhost '{self._recorder.vhost}' has {most} pipelines{whose} that reported runs; "
            "delete some, or report under a name that is among them"
        )

    def _keep(self, run: PipelineRun) -> None:
        key = run.user, run.name
        runs = self._found.setdefault(key, {})
        before = runs.get(run.started_ms)
        account = self._charged.setdefault(key, self._memory.definitions_of(run.user))
        account.add(run.size)
        if before is not None:
            account.release(before.size)
        runs[run.started_ms] = run

    def restore(
        self, user: str, name: str, started_ms: int, reported_ms: int, facts: Mapping[str, Any]
    ) -> None:
        """Have a run that was recorded."""
        self._keep(PipelineRun(user, name, started_ms, reported_ms, facts))

    def drop(self, user: str, name: str) -> bool:
        """Forget a pipeline; returns whether there was one."""
        for started_ms in tuple(self._found.get((user, name), ())):
            self._forget(user, name, started_ms)
        self._charged.pop((user, name), None)
        return self._found.pop((user, name), None) is not None

    def _forget(self, user: str, name: str, started_ms: int) -> None:
        run = self._found[user, name].pop(started_ms)
        self._charged[user, name].release(run.size)
        self._recorder.drop(StoredPipelineRun, self._recorder.vhost, user, name, started_ms)

    def emptying(self) -> Steps:
        """Keep nothing any more, in steps; the virtual host is gone, with its records."""
        while self._found:
            key, runs = self._found.popitem()
            account = self._charged.pop(key)
            for run in runs.values():
                account.release(run.size)
            yield None
