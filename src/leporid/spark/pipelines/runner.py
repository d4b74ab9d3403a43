"""Running a pipeline: once or on and on, with progress to see, and a stop that is clean.

Knows nothing of what a pipeline does: it asks for a step, shows it, and waits for the next. A
signal (SIGTERM, SIGINT) lets the step under way come to its end; a second one does not wait.

Invariant: between two steps nothing is half done, so stopping there is stopping cleanly.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.places import check_file
from leporid.spark.pipelines.run_reports import Reports
from leporid.spark.pipelines.status import EXIT_FAILED, EXIT_WRONG_USE, Status, now

log = logging.getLogger(__name__)

# How long one wait may last, so that a stop is noticed.
WAIT_SECONDS_MAX = 1.0
# After a failed step; doubles up to the most. A broker that restarts is away for seconds.
PAUSE_SECONDS_FIRST = 1.0
PAUSE_SECONDS_MAX = 60.0
# So many failures in a row are nothing that passes.
FAILURES_MAX = 10


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did.

    Attributes:
        rows: how many records it handled.
        lag: how many are waiting; None if there is no telling.
        note: what else is worth saying.
        passed: how many it went through to find these, counted as `lag` is; None: as many.
        put_aside: how many of them it could not decode, and put aside.
    """

    rows: int
    lag: int | None = None
    note: str = ""
    passed: int | None = None
    put_aside: int = 0


class Output(Protocol):
    """Where progress is written: a terminal, or lines."""

    def write(self, text: str, /) -> int:
        """Write text."""

    def flush(self) -> None:
        """Pass on what was written."""

    def isatty(self) -> bool:
        """Whether a line can be written over."""


class Pipeline(Protocol):
    """What can be run.

    Attributes:
        name: what it is called.
        spark: the session; None until it is needed: making a pipeline refuses what is wrong with
            its arguments, which takes no Spark.
    """

    name: str
    spark: Any

    @property
    def labels(self) -> Mapping[str, str]:
        """Say which one of its kind it is, for metrics: stream, vhost, target."""

    @property
    def interval_seconds(self) -> float:
        """How long to wait between steps when nothing is left to do."""

    def check(self) -> None:
        """Refuse what the broker or the files refuse, before Spark is started.

        Raises:
            OptionError: the arguments name something that is not there.
            SparkSourceError: the broker refuses, or cannot be reached.
        """

    def describe(self) -> list[str]:
        """Say what a run would do, without doing it."""

    def step(self) -> Step:
        """Do some work, and return what is left."""

    def wait(self, seconds: float) -> None:
        """Return when there may be work, or after the time."""


class Progress:
    """One line that says how far a run came: rewritten on a terminal, appended elsewhere."""

    def __init__(self, name: str, out: Output, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._out = out
        self._clock = clock
        self._begun = clock()
        self._wide = 0
        self.rows = 0
        self.steps = 0
        self.put_aside = 0
        self._passed = 0
        self.lag: int | None = None
        self._live = out.isatty()

    def add(self, step: Step) -> None:
        """Take a step in, and show it."""
        self.rows += step.rows
        self.steps += 1
        self.put_aside += step.put_aside
        self._passed += step.rows if step.passed is None else step.passed
        self.lag = step.lag
        if step.rows or self.steps == 1 or self._live:
            self._show(self.line(step))

    def line(self, step: Step) -> str:
        """Return the line after a step."""
        seconds = max(self._clock() - self._begun, 1e-9)
        parts = [f"{self._name}: {self.rows:,} records", f"{self.rows / seconds:,.0f}/s"]
        if step.lag is not None:
            whole = self._passed + step.lag
            share = self._passed / whole if whole else 1.0
            filled = int(share * 20)
            bar = "█" * filled + "·" * (20 - filled)
            parts.insert(1, f"[{bar}] {int(share * 100)} %")
            parts.append(f"lag {step.lag:,}")
        if step.note:
            parts.append(step.note)
        return "  ".join(parts)

    def _show(self, line: str) -> None:
        if self._live:
            self._out.write("\r" + line.ljust(self._wide))
            self._wide = len(line)
        else:
            self._out.write(line + "\n")
        self._out.flush()

    def close(self) -> None:
        """End the line."""
        if self._live and self.steps:
            self._out.write("\n")
            self._out.flush()


@dataclass
class Run:
    """How a pipeline is run.

    Attributes:
        once: end when nothing is left, instead of waiting for more.
        dry_run: only say what would be done.
        metrics: a file for Prometheus's textfile collector, rewritten after each step.
        out: for progress; None is standard output.
        status: a file that says how the run is, rewritten after each step.
        name: of the run; empty is that of the pipeline.
        reports: tells the broker how the run is; None: it is not told.
    """

    once: bool = False
    dry_run: bool = False
    metrics: Path | None = None
    out: Output | None = None
    status: Path | None = None
    name: str = ""
    reports: Reports | None = None


def run(pipeline: Pipeline, how: Run, stop: threading.Event | None = None) -> Progress:
    """Run a pipeline to its end; return what it did.

    Raises:
        Exception: a step failed (with `once`), or too often in a row.
    """
    out = how.out or sys.stdout
    progress = Progress(how.name or pipeline.name, out)
    if how.dry_run:
        out.write("".join(f"{line}\n" for line in pipeline.describe()))
        return progress
    account = Account(pipeline, how, progress)
    with stopping(stop or threading.Event()) as asked:
        try:
            account.write()
            _loop(pipeline, how, account, asked)
            account.status.ended("stopped" if asked.is_set() else "done", 0)
        except BaseException as error:
            account.status.ended("failed", exit_code_of(error), first(error))
            raise
        finally:
            progress.close()
            account.write()
    return progress


def check(pipeline: Pipeline, how: Run, passing: tuple[type[Exception], ...] = ()) -> None:
    """Refuse what can be refused before Spark starts; a run that is refused has failed.

    What is `passing` will be otherwise when the run begins, and is no reason to refuse.

    Raises what `Pipeline.check` raises, and PlaceError for metrics or a status that cannot be
    written.
    """
    for file in (how.metrics, how.status):
        if file is not None:
            check_file(file)
    try:
        pipeline.check()
    except passing:
        pass
    except Exception as error:
        if not how.dry_run:
            account = Account(pipeline, how, Progress(how.name or pipeline.name, sys.stdout))
            account.status.ended("failed", exit_code_of(error), first(error))
            account.write()
        raise


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a run that ended so."""
    return EXIT_WRONG_USE if isinstance(error, OptionError | ValueError) else EXIT_FAILED


class Account:
    """What is told of a run while it runs: its progress, its status and its metrics."""

    def __init__(self, pipeline: Pipeline, how: Run, progress: Progress) -> None:
        self._pipeline = pipeline
        self._how = how
        self.progress = progress
        self.seconds = 0.0
        name = how.name or pipeline.name
        self.status = Status(name, pipeline.name, dict(pipeline.labels), started_at=now())

    def succeeded(self, step: Step, seconds: float) -> None:
        """Take a step in."""
        self.seconds = seconds
        self.progress.add(step)
        self.status.state, self.status.error, self.status.step_at = "running", "", now()
        self.write()

    def failed(self, error: Exception) -> None:
        """Take a step in that failed and is tried again."""
        self.status.failures += 1
        self.status.state, self.status.error = "retrying", first(error)
        self.write()

    def write(self) -> None:
        """Rewrite the files."""
        status, progress = self.status, self.progress
        status.records, status.put_aside = progress.rows, progress.put_aside
        status.steps, status.lag = progress.steps, progress.lag
        if self._how.status is not None:
            status.save(self._how.status)
        if self._how.metrics is not None:
            write_metrics(self._how.metrics, self._pipeline, progress, self.seconds, status)
        if self._how.reports is not None:
            self._how.reports.send(status)


def _loop(pipeline: Pipeline, how: Run, account: Account, stop: threading.Event) -> None:
    failures = 0
    while not stop.is_set():
        begun = time.monotonic()
        try:
            step = pipeline.step()
        except OptionError:
            raise
        except Exception as error:
            failures += 1
            if how.once or failures >= FAILURES_MAX:
                raise
            account.failed(error)
            pause = min(PAUSE_SECONDS_FIRST * 2 ** (failures - 1), PAUSE_SECONDS_MAX)
            name = account.status.name
            log.warning("%s failed, trying again in %.0f s: %s", name, pause, first(error))
            stop.wait(pause)
            continue
        failures = 0
        account.succeeded(step, time.monotonic() - begun)
        if how.once:
            if not step.lag:
                return
        elif not step.lag or not step.rows:
            _rest(pipeline, begun + pipeline.interval_seconds, stop)


def _rest(pipeline: Pipeline, until: float, stop: threading.Event) -> None:
    """Wait for the time of the next step, and then for something to do."""
    stop.wait(max(0.0, until - time.monotonic()))
    if not stop.is_set():
        try:
            pipeline.wait(WAIT_SECONDS_MAX)
        except Exception as error:  # noqa: BLE001 - the next step meets the same, and counts it
            log.debug("waiting failed: %s", first(error))


def first(error: BaseException) -> str:
    """Return an exception's first line; Spark's are long.

    Py4J's first line only names the call, and the exception in Java stands in the second.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        return lines[1].removeprefix(": ")
    return lines[0]


@contextmanager
def stopping(stop: threading.Event) -> Iterator[threading.Event]:
    """Let SIGTERM and SIGINT set the event; a second one interrupts at once."""

    def handle(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        log.info("stopping after this step (%s)", signal.Signals(number).name)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True, eq=False)
class Metrics:
    """What Prometheus is told of a run."""

    pipeline: Pipeline
    progress: Progress
    seconds: float
    status: Status

    def collect(self) -> Iterator[Metric]:
        """Give the metrics; asked for by prometheus_client."""
        labels = {"pipeline": self.pipeline.name, **self.pipeline.labels}
        names, values = list(labels), list(labels.values())
        progress = self.progress
        found: list[tuple[type[Any], str, str, float | None]] = [
            (CounterMetricFamily, "records", "Records handled since the run began", progress.rows),
            (
                CounterMetricFamily,
                "put_aside_records",
                "Records that could not be decoded and were put aside, since the run began",
                progress.put_aside,
            ),
            (CounterMetricFamily, "steps", "Steps since the run began", progress.steps),
            (
                CounterMetricFamily,
                "failed_steps",
                "Steps that failed since the run began, and were tried again",
                self.status.failures,
            ),
            (
                GaugeMetricFamily,
                "running",
                "Whether it runs; 0 after its end",
                self.status.exit_code is None,
            ),
            (
                GaugeMetricFamily,
                "exit_code",
                "Of a run that has ended: 0, 1 after a failure, 2 for wrong arguments",
                self.status.exit_code,
            ),
            (GaugeMetricFamily, "step_seconds", "Length of the last step", self.seconds),
            (
                GaugeMetricFamily,
                "last_step_timestamp_seconds",
                "When the last step ended, in seconds since 1970",
                self.status.step_seconds,
            ),
            (GaugeMetricFamily, "lag_records", "Records that wait to be handled", progress.lag),
        ]
        for family, name, text, value in found:
            if value is not None:
                metric = family(f"leporid_pipeline_{name}", text, labels=names)
                metric.add_metric(values, float(value))
                yield metric


def write_metrics(
    path: Path, pipeline: Pipeline, progress: Progress, seconds: float, status: Status
) -> None:
    """Rewrite the file of metrics, in one go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    registry = CollectorRegistry()
    registry.register(Metrics(pipeline, progress, seconds, status))
    write_to_textfile(str(path), registry)
