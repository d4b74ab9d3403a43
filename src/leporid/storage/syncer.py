"""The sync thread: the only one that writes and waits for the disk while the broker runs.

Responsible for the order in which a generation becomes durable: definitions, then the log, then
deletions. It does not know what is in them. Invariant: `done` is called once for each job, in the
order of the jobs, and only after all of it is on disk. A full disk is not the end: the job is
tried again until there is room. Any other error is: what a failed sync left behind cannot be known
(the kernel may drop dirty pages), so the process must end before it confirms anything.
"""

from __future__ import annotations

import errno
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from leporid.storage.segments import SegmentFiles, Write

RETRY_S: Final = 0.5  # a full disk is looked at again this often
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Change = tuple[str, dict[str, Any]]


class DefinitionsPort(Protocol):
    """What the thread needs of the definitions' store."""

    def commit(self, changes: Sequence[Change]) -> None: ...


@dataclass(slots=True)
class Job:
    """One generation's work."""

    generation: int
    changes: list[Change] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    drops: list[int] = field(default_factory=list)


class Syncer:
    """Runs jobs one after another in a thread of its own.

    Args:
        done: called in the thread with each job that is on disk.
        no_room: called in the thread with True when the disk is full, False when it is not any more.
        failed: called in the thread with an error after which nothing more is written.
        sync: False leaves out waiting for the disk (`durability = "written"`).
    """

    def __init__(
        self,
        files: SegmentFiles,
        definitions: DefinitionsPort,
        *,
        done: Callable[[Job], None],
        no_room: Callable[[bool], None],
        failed: Callable[[BaseException], None],
        sync: bool = True,
    ) -> None:
        self._files = files
        self._definitions = definitions
        self._done = done
        self._no_room = no_room
        self._failed = failed
        self._sync = sync
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        """End the thread after the jobs that it has; a full disk is not waited for."""
        self._stopping.set()
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                if not self._complete(job):
                    return
                self._done(job)
        except BaseException as error:
            self._failed(error)

    def _complete(self, job: Job) -> bool:
        """Do the job, however long the disk stays full; False when told to stop meanwhile."""
        full = False
        while True:
            try:
                self._attempt(job)
            except (OSError, sqlite3.OperationalError) as error:
                if not is_no_room(error):
                    raise
            else:
                if full:
                    self._no_room(False)
                return True
            if not full:
                full = True
                self._no_room(True)
            if self._stopping.wait(RETRY_S):
                return False

    def _attempt(self, job: Job) -> None:
        if job.changes:
            self._definitions.commit(job.changes)
            job.changes = []
        self._files.write(job.writes)
        if self._sync:
            self._files.sync()
        self._files.drop(job.drops)


def is_no_room(error: Exception) -> bool:
    """Whether it only says that the disk is full."""
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
