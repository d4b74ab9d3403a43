"""The sync thread: the only one that writes and waits for the disk while the broker runs.

Responsible for the order in which a generation becomes durable: definitions, then the logs (that of
all queues, and those of its streams), then deletions. It does not know what is in them. Invariant:
`done` is called once for each job, in the order of the jobs, and only after its definitions and its
part of every log are on disk; a file is deleted only after `done` of the job that named it, and
after every file that was named before it.

Deletions promise nothing to anybody, so they wait while there is other work, but never so that
they pile up; and as long as a backup takes to have all files (`Rest`), unless the disk is full.

A full disk is not the end: the job is tried again until there is room. Any other error is: what a
failed sync left behind cannot be known (the kernel may drop dirty pages), so the process must end
before it confirms anything.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from leporid.durable import Change
from leporid.storage.definitions import DefinitionsError
from leporid.storage.segments import NO_ROOM, Write
from leporid.storage.streams import SegmentSync, StreamWork

RETRY_S: Final = 0.5  # a full disk is looked at again this often
# The second is what SQLite makes of ENOSPC when its index of the write-ahead log grows.
NO_ROOM_SQLITE: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
# Of the files that are to be deleted, one in so many goes after each job although others wait: a
# purge of 10 GiB then costs no job more than about 40 syncs of a directory.
DROPS_SHARE: Final = 16


class DefinitionsPort(Protocol):
    """What the thread needs of the definitions' store."""

    def commit(self, changes: Sequence[Change], /) -> None:
        """Make all changes in one transaction and return when they are on disk."""


class FilesPort(SegmentSync, Protocol):
    """What the thread needs of the commit log's files (`segments.SegmentFiles`)."""

    def write(self, writes: Iterable[Write], /) -> None:
        """Write bytes to their places."""

    def drop(self, number: int, /, *, wait: bool) -> None:
        """Delete a segment's file."""


class StreamsPort(Protocol):
    """What the thread needs of the streams' files (`streams.StreamLogs`)."""

    def store(
        self, works: Iterable[StreamWork], /, *, wait: bool, beside: SegmentSync | None
    ) -> None:
        """Write bytes to their places and sync them, and what is beside them."""

    def numbers(self, stream_id: int, /) -> list[int]:
        """Segments that a stream has."""

    def drop(self, stream_id: int, number: int, /, *, wait: bool) -> None:
        """Delete a segment's file."""

    def delete(self, stream_id: int, /) -> None:
        """Delete a stream's directory."""


@dataclass(slots=True)
class Job:
    """One generation's work.

    Attributes:
        drops: segments of the commit log whose files go, in the order in which they may.
        streams: for each stream that has something to do its id, writes and drops; with None for
            both, it is gone with all its files.
    """

    generation: int
    changes: list[Change] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    drops: list[int] = field(default_factory=list)
    streams: list[StreamWork] = field(default_factory=list)

    @property
    def log_bytes(self) -> int:
        """What it writes to the logs."""
        logs = [self.writes, *(writes for _, writes, _ in self.streams if writes is not None)]
        return sum(len(write[-1]) for writes in logs for write in writes)


class Rest:
    """From a moment between two jobs on no file is deleted, until `end` is called.

    Args:
        begin: called at that moment, in the sync thread, which it must not hold up; must not raise.

    Attributes:
        broken: files were deleted all the same, as the disk was full.
    """

    def __init__(self, begin: Callable[[], None]) -> None:
        self.begin = begin
        self.broken = False
        self._ended = False
        self._on_end: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        return f"<Rest ended={self.ended} broken={self.broken}>"

    @property
    def ended(self) -> bool:
        """Whether files may go again."""
        return self._ended or self.broken

    def end(self) -> None:
        """Let files go again; in any thread, and more than once if you like."""
        if not self._ended:
            self._ended = True
            self._on_end()


class Syncer:
    """Runs jobs one after another in a thread of its own.

    Args:
        done: called in the thread with each job that is on disk.
        no_room: called in the thread with True when the disk is full, False when it has room again.
        failed: called in the thread with an error after which nothing more is written.
        sync: False leaves out waiting for the disk (`durability = "written"`).
    """

    def __init__(
        self,
        files: FilesPort,
        definitions: DefinitionsPort,
        streams: StreamsPort,
        *,
        done: Callable[[Job], None],
        no_room: Callable[[bool], None],
        failed: Callable[[BaseException], None],
        sync: bool = True,
    ) -> None:
        self._files = files
        self._definitions = definitions
        self._streams = streams
        self._done = done
        self._no_room = no_room
        self._failed = failed
        self._sync = sync
        self._jobs: queue.SimpleQueue[Job | Rest | None] = queue.SimpleQueue()
        self._rest: Rest | None = None
        self._drops: deque[Callable[[], None]] = deque()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Have a job done after those that were given before."""
        self._jobs.put(job)

    def rest(self, rest: Rest) -> None:
        """Begin a rest after the jobs that were given before; the one before it must have ended."""
        # Whoever has nothing to do but deletions is told that they may go on.
        rest._on_end = lambda: self._jobs.put(rest)
        self._jobs.put(rest)

    def stop(self) -> None:
        """End the thread after the jobs that it has; a full disk is not waited for."""
        self._stopping.set()
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while (job := self._next()) is not None:
                if isinstance(job, Rest):
                    self._take(job)
                    continue
                if not self._complete(job):
                    return
                self._done(job)
                self._drops.extend(self._deletions(job))
                self._drop(-(-len(self._drops) // DROPS_SHARE))
            self._drop(len(self._drops))
        except BaseException as error:  # noqa: BLE001 - whatever it is, nothing is safe after it
            self._failed(error)

    def _take(self, rest: Rest) -> None:
        """Begin a rest; one that has ended already was put here to wake the thread."""
        if not rest.ended:
            self._rest = rest
            rest.begin()

    @property
    def _resting(self) -> bool:
        return self._rest is not None and not self._rest.ended

    def _next(self) -> Job | Rest | None:
        """The next job; until there is one, files go that are to be deleted."""
        while self._drops and not self._resting:
            try:
                return self._jobs.get_nowait()
            except queue.Empty:
                self._drop(1)
        return self._jobs.get()

    def _drop(self, count: int) -> None:
        if self._resting:
            return
        for _ in range(count):
            self._drops[0]()
            self._drops.popleft()

    def _deletions(self, job: Job) -> Iterator[Callable[[], None]]:
        """One call for each file that goes, in their order."""
        # A message is copied to a later segment, a settle stands after its publish: what a segment
        # depends on has a lower number.
        for number in sorted(job.drops):
            yield partial(self._files.drop, number, wait=self._sync)
        for stream_id, _, drops in job.streams:
            if drops is not None:
                # The oldest first, so that no power cut leaves a hole.
                for number in sorted(drops):
                    yield partial(self._streams.drop, stream_id, number, wait=self._sync)
                continue
            # File by file, as one that is large takes the file system a while; which of them a
            # power cut brings back does not matter, as the next start deletes them.
            for number in self._streams.numbers(stream_id):
                yield partial(self._streams.drop, stream_id, number, wait=False)
            yield partial(self._streams.delete, stream_id)

    def _complete(self, job: Job) -> bool:
        """Do the job, however long the disk stays full; False when told to stop meanwhile."""
        full = False
        while True:
            try:
                self._attempt(job)
            except (OSError, DefinitionsError) as error:
                if not is_no_room(error):
                    raise
                if self._rest is not None:
                    # A backup can be made once more; a broker without room is of no use.
                    self._rest.broken = True
            else:
                if full:
                    self._no_room(False)
                return True
            self._drop(len(self._drops))
            if not full:
                full = True
                self._no_room(True)
            if self._stopping.wait(RETRY_S):
                return False

    def _attempt(self, job: Job) -> None:
        if job.changes:
            self._definitions.commit(job.changes)
            job.changes = []
        # After a sync that found no room all of the job's bytes are written again: they are in
        # memory, whatever the kernel did with its pages.
        self._files.write(job.writes)
        if any(writes for _, writes, _ in job.streams):
            self._streams.store(job.streams, wait=self._sync, beside=self._files)
        else:
            self._files.sync(wait=self._sync)


def is_no_room(error: BaseException | None) -> bool:
    """Whether it only says that the disk is full."""
    if isinstance(error, DefinitionsError):
        return is_no_room(error.__cause__)
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    return getattr(error, "sqlite_errorcode", None) in NO_ROOM_SQLITE
