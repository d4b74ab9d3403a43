"""Several pipelines in one process, each in a thread of its own, over one Spark session.

Invariant: a pipeline that fails ends alone; a signal ends all of them, each after its step.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from leporid.spark.pipelines.places import Place
from leporid.spark.pipelines.runner import Output, Pipeline, Run, exit_code_of, first, run, stopping
from leporid.spark.pipelines.status import EXIT_FAILED
from leporid.spark.pipelines.store import settings_of

log = logging.getLogger(__name__)

# So often the main thread looks whether a signal came.
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """One of the pipelines, and how it is run.

    Attributes:
        makes: the archive that it writes, if it is an archive of one stream.
        reads: the archive that it needs: if another job makes that, this one begins after it is
            there, or with `once` after that job has ended.
    """

    pipeline: Pipeline
    how: Run
    makes: Place | None = None
    reads: Place | None = None


class Lines:
    """Lets threads write lines to one file, none into another's; it is no terminal."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._lock = threading.Lock()

    def write(self, text: str, /) -> int:
        """Write lines."""
        with self._lock:
            return self._out.write(text)

    def flush(self) -> None:
        """Pass on what was written."""
        with self._lock:
            self._out.flush()

    def isatty(self) -> bool:
        """Return false: lines are not rewritten."""
        return False


def run_all(jobs: Sequence[Job], stop: threading.Event | None = None) -> dict[str, int]:
    """Run pipelines side by side to their ends; return the exit code of each, by name."""
    codes: dict[str, int] = {}
    makers: dict[Place, threading.Thread] = {}

    def work(job: Job, asked: threading.Event) -> None:
        # A thread that dies otherwise says nothing.
        codes[job.how.name] = EXIT_FAILED
        try:
            if job.reads is not None and job.reads in makers:
                _await_archive(job.reads, makers[job.reads], job.how.once, asked)
            run(job.pipeline, job.how, asked)
            codes[job.how.name] = 0
        except Exception as error:  # noqa: BLE001 - whatever it is, the other runs go on
            log.error("%s failed: %s", job.how.name, first(error))
            codes[job.how.name] = exit_code_of(error)

    with stopping(stop or threading.Event()) as asked:
        threads = [
            threading.Thread(target=work, args=(job, asked), name=job.how.name) for job in jobs
        ]
        made = zip(jobs, threads, strict=True)
        makers |= {job.makes: thread for job, thread in made if job.makes is not None}
        # Who reads an archive finds the thread that makes it running, or ended.
        for thread in sorted(threads, key=lambda thread: thread not in makers.values()):
            thread.start()
        # Signals are handled by this thread, between two waits.
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(LOOK_SECONDS / len(threads))
    return codes


def _await_archive(
    place: Place, maker: threading.Thread, once: bool, asked: threading.Event
) -> None:
    """Return when an archive is there; with `once`, when the run that makes it has ended."""
    while maker.is_alive() and not asked.is_set():
        if not once and settings_of(place):
            return
        asked.wait(LOOK_SECONDS)
