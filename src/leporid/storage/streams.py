"""The logs of all streams: `DIR/streams/00000007/00000001.segment` and so on.

Responsible for one `SegmentFiles` per stream, for how many of their files are open at a time, and
for syncing many files at once. It does not know what is in them, nor which streams there should be.
Used by the sync thread while the broker runs (`map` by anybody), and at start-up before. Invariant:
when `store` returns, what was written is on disk, and so are the names that lead to it.
"""

from __future__ import annotations

import re
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from leporid.storage.mapping import Mapping, map_file
from leporid.storage.segments import (
    NO_ROOM,
    NOT_OURS,
    Extent,
    SegmentFiles,
    Write,
    move_aside,
    sync_directory,
)

NAME: Final = re.compile(r"(\d{8,10})")
# Ids from here on are of queues that a restart forgets; no stream is one.
ID_MAX: Final = 2**31 - 1
# Streams whose newest file stays open. Descriptors are for clients in the first place; opening a
# file again costs some microseconds, a hundredth of what syncing it does.
OPEN_MAX: Final = 256
# Files that are synced side by side. The file system writes one journal for all who wait at the
# same time: 100 files take 6 ms with 8 threads and 280 ms one after another (ext4 on a virtual
# disk); 16 threads gain nothing more.
SYNC_THREADS: Final = 8

# Stream id, then writes and segments to be deleted, as for the commit log; None for both: the
# stream is deleted, with all its files.
StreamWork = tuple[int, "list[Write] | None", "list[int] | None"]


class SegmentSync(Protocol):
    """Files that can be synced (`segments.SegmentFiles`)."""

    def sync(self, *, wait: bool) -> None:
        """Have everything written so far on disk, or (wait=False) on its way."""


class StreamLogs:
    """The directory of all streams' directories.

    Args:
        directory: made when the first stream is written to.
        open_max: of so many streams a file may stay open.
    """

    def __init__(self, directory: Path, *, open_max: int = OPEN_MAX) -> None:
        self.directory = directory
        self.quarantine = directory.parent / "quarantine"
        self.open_max = open_max
        self._logs: dict[int, SegmentFiles] = {}
        self._open: OrderedDict[int, SegmentFiles] = OrderedDict()  # least recently used first
        self._directory_changed = True  # the run before may not have come to syncing it
        self._pool: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return f"<StreamLogs {self.directory}>"

    def close(self) -> None:
        """Close every file; nothing is synced."""
        for files in self._open.values():
            files.close()
        self._open.clear()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def path(self, stream_id: int) -> Path:
        """Where a stream's directory is, or would be."""
        return self.directory / f"{stream_id:08d}"

    def ids(self) -> list[int]:
        """Streams that have a directory, in the order of their ids."""
        return sorted(number for _, number in self._found() if number)

    def foreign(self) -> list[Path]:
        """What is in the directory and is no stream's."""
        return sorted(path for path, number in self._found() if not number)

    def _found(self) -> Iterator[tuple[Path, int]]:
        """Everything in the directory, with the id of a stream or 0."""
        if not self.directory.exists():
            return
        for path in self.directory.iterdir():
            match = NAME.fullmatch(path.name)
            number = int(match[1]) if match else 0
            # 000000001 would be a second directory for stream 1.
            ours = number <= ID_MAX and path == self.path(number) and path.is_dir()
            if path.name not in NOT_OURS:
                yield path, number if ours else 0

    def files(self, stream_id: int) -> SegmentFiles:
        """The files of one stream, whose directory is made if it is not there."""
        files = self._logs.get(stream_id)
        if files is None:
            path = self.path(stream_id)
            if not path.exists():
                self._make(path)
            files = self._logs[stream_id] = SegmentFiles(
                path,
                quarantine=self.quarantine,
                prefix=f"stream-{path.name}-",
                sync_parent=False,
            )
        return files

    def _make(self, path: Path) -> None:
        if not self.directory.exists():
            self.directory.mkdir()
            sync_directory(self.directory.parent)
        path.mkdir()
        self._directory_changed = True

    def known(self, stream_id: int) -> SegmentFiles | None:
        """The files of a stream that was read or written in this run; None of any other."""
        return self._logs.get(stream_id)

    # ------------------------------------------------------------- in the sync thread

    def ends(self) -> dict[int, Extent]:
        """Where the logs end that were read or written in this run, by stream id."""
        return {stream_id: files.end for stream_id, files in self._logs.items()}

    def store(
        self, works: Iterable[StreamWork], *, wait: bool = True, beside: SegmentSync | None = None
    ) -> None:
        """Write bytes to their places; they are on disk when this returns, names included.

        Args:
            works: what is to be written; what is to be deleted is passed over.
            wait: False leaves it to the operating system when they get to the disk.
            beside: another log, written already, that is synced at the same time.

        Raises:
            OSError: ENOSPC and the like; nothing is lost by calling again with the same works.
        """
        writing = [(stream_id, writes) for stream_id, writes, _ in works if writes]
        for start in range(0, len(writing), self.open_max):
            part = writing[start : start + self.open_max]
            each: list[SegmentSync] = [beside] if beside is not None and not start else []
            for stream_id, _ in part:
                files = self._open[stream_id] = self.files(stream_id)
                self._open.move_to_end(stream_id)
                each.append(files)
            # Not one of this part: what was written stays open until it is synced, as nobody else
            # may be told what went wrong with it.
            while len(self._open) > self.open_max:
                self._open.popitem(last=False)[1].close()
            for stream_id, writes in part:
                self._open[stream_id].write(writes)
            self._side_by_side([partial(files.sync, wait=wait) for files in each])
        if writing and self._directory_changed and wait:
            sync_directory(self.directory)
            self._directory_changed = False

    def _side_by_side(self, calls: Sequence[Callable[[], None]]) -> None:
        """Call all of them, also when some fail, and then raise the worst of their errors."""
        if len(calls) == 1:
            calls[0]()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="sync")
        # Each thread has its share: handing files over one by one costs as much as some syncs.
        shares = [calls[start::SYNC_THREADS] for start in range(min(SYNC_THREADS, len(calls)))]
        errors = [error for found in self._pool.map(_call_all, shares) for error in found]
        if errors:
            raise max(errors, key=_is_final)

    def numbers(self, stream_id: int) -> list[int]:
        """Segments that a stream has, in their order."""
        return self.files(stream_id).numbers() if self.path(stream_id).exists() else []

    def drop(self, stream_id: int, number: int, *, wait: bool = True) -> None:
        """Delete a segment's file, as `SegmentFiles.drop` does; a missing one is no error."""
        if self.path(stream_id).exists():
            self.files(stream_id).drop(number, wait=wait)

    def delete(self, stream_id: int) -> None:
        """Delete a stream's directory with all that is in it.

        It promises nothing: if power goes, the next start deletes it again.
        """
        files = self._logs.pop(stream_id, None)
        if files is not None:
            files.close()
        self._open.pop(stream_id, None)
        path = self.path(stream_id)
        if path.exists():
            shutil.rmtree(path)

    def set_aside(self, path: Path) -> Path:
        """Move what is no stream's directory into quarantine; returns where it is now."""
        return move_aside(path, self.quarantine / f"streams-{path.name}")

    # ------------------------------------------------------------- reading

    def map(self, stream_id: int, number: int) -> Mapping:
        """A segment's bytes, read-only; in any thread."""
        return map_file(self.path(stream_id) / f"{number:08d}.segment")


def _call_all(calls: Sequence[Callable[[], None]]) -> list[Exception]:
    errors = []
    for call in calls:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - it is raised when all were called
            errors.append(error)
    return errors


def _is_final(error: Exception) -> bool:
    """Whether it says more than that the disk is full."""
    return not (isinstance(error, OSError) and error.errno in NO_ROOM)
