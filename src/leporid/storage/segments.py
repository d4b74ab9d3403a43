"""Segment files of one log: `DIR/log/00000001.segment` and so on.

Responsible for the files' names, space and durability; it does not know what the bytes mean
(FORMAT.md draws them), nor whether the log is the commit log or a stream's. Used by the sync thread
while the broker runs, and at start-up before. Invariant: bytes have their space on disk before the
first of them is written; a file's name is on disk before `sync` returns; and no file is gone from
the disk before one that was dropped earlier, unless nobody waits for it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from leporid.storage.mapping import Mapping, map_file

NAME: Final = re.compile(r"(\d{8,10})\.segment")
# The upper bit of a segment's number says something else in a position (engine/log/log.pxd).
NUMBER_MAX: Final = 2**31 - 1
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# What file systems keep in the directory at their root; the log may have one of its own.
NOT_OURS: Final = frozenset({"lost+found"})
# What a file grows by when the disk has no room for all of it; file systems allocate such blocks.
BLOCK_BYTES: Final = 4096
# Read at a time where a file is looked at that need not be a segment at all.
CHUNK_BYTES: Final = 1024 * 1024

Write = tuple[int, int, int, "memoryview | bytes"]  # number, file size, offset, bytes


class Extent(NamedTuple):
    """Where a log ends.

    Attributes:
        number: of the newest file that was written to in this run; 0: none was.
        bytes: of that file, what was written.
    """

    number: int
    bytes: int


class SegmentFiles:
    """The files of one log directory.

    Args:
        directory: made if it is not there.
        quarantine: where to keep what does not verify; beside the directory unless it is said.
        prefix: what the names in there begin with.
        sync_parent: have the directory's own name on disk when this returns; whoever says False
            sees to it.

    Attributes:
        end: where the log ends.
    """

    def __init__(
        self,
        directory: Path,
        *,
        quarantine: Path | None = None,
        prefix: str = "",
        sync_parent: bool = True,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        if sync_parent:
            sync_directory(directory.parent)
        self.directory = directory
        self.quarantine = quarantine or directory.parent / "quarantine"
        self._prefix = prefix
        self._open: dict[int, int] = {}
        self._space: dict[int, int] = {}  # of the files made in this run: bytes that are allocated
        self._touched: set[int] = set()
        self._first_made: int | None = None  # in this run
        self.end = Extent(0, 0)
        self._directory_changed = True  # it may just have been made

    def __repr__(self) -> str:
        return f"<SegmentFiles {self.directory}>"

    def close(self) -> None:
        """Close every file; nothing is synced. A later write opens what it needs again."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    def path(self, number: int) -> Path:
        """Where a segment's file is, or would be."""
        return self.directory / f"{number:08d}.segment"

    def numbers(self) -> list[int]:
        """Segments that are there, in their order."""
        return sorted(number for _, number in self._found() if number)

    def foreign(self) -> list[Path]:
        """What is in the directory and is no segment."""
        return sorted(path for path, number in self._found() if not number)

    def _found(self) -> Iterator[tuple[Path, int]]:
        """Everything in the directory, with the number of a segment or 0."""
        for path in self.directory.iterdir():
            match = NAME.fullmatch(path.name)
            number = int(match[1]) if match else 0
            # 000000001.segment would be a second file for segment 1.
            ours = number <= NUMBER_MAX and path == self.path(number) and path.is_file()
            if path.name not in NOT_OURS:
                yield path, number if ours else 0

    # ------------------------------------------------------------- in the sync thread

    def write(self, writes: Iterable[Write]) -> None:
        """Write bytes to their places, for which space is allocated first.

        Raises:
            OSError: ENOSPC and the like; nothing is lost by calling again with the same writes.
        """
        for number, size, offset, data in writes:
            fd = self._descriptor(number)
            view = memoryview(data)
            self._allocate(number, size, offset + len(view))
            self._touched.add(number)
            done = 0
            with Naming(self.path(number)):
                while done < len(view):
                    done += os.pwrite(fd, view[done:], offset + done)
            # After a full disk, what was written is written again.
            self.end = max(self.end, Extent(number, offset + len(view)))

    def _descriptor(self, number: int) -> int:
        fd = self._open.get(number)
        if fd is None:
            flags = os.O_RDWR | os.O_CLOEXEC
            is_new = number not in self._space
            if is_new:
                # Start-up knows every file and takes a number above all of them: nothing that was
                # there before this run is ever overwritten.
                flags |= os.O_CREAT | os.O_EXCL
                if self._first_made is None:
                    self._first_made = number  # before anybody can see the file
            fd = self._open[number] = os.open(self.path(number), flags, 0o600)
            if is_new:
                self._space[number] = 0
                self._directory_changed = True
        return fd

    def _allocate(self, number: int, size: int, end: int) -> None:
        """Have space for a whole file, or at least up to `end`.

        A full disk has room for a few settles yet, after which whole segments can be deleted.
        """
        have = self._space[number]
        if end > have and not self._grow(number, have, size):
            end += -end % BLOCK_BYTES
            if not self._grow(number, have, end):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path(number)))

    def _grow(self, number: int, have: int, size: int) -> bool:
        """Allocate a file's bytes from `have` to `size`; False if there is no room for them."""
        fd = self._open[number]
        try:
            with Naming(self.path(number)):
                os.posix_fallocate(fd, have, size - have)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            os.ftruncate(fd, have)  # the attempt may have taken what there was
            return False
        self._space[number] = size
        return True

    def sync(self, *, wait: bool = True) -> None:
        """Everything written so far is on disk when this returns, file names included.

        Args:
            wait: False leaves it to the operating system when that happens.

        Raises:
            OSError: some of it may be on disk. After ENOSPC all of it must be written again before
                the next call: the kernel may have dropped pages it could not write, and says so
                once only.
        """
        if wait:
            for number in self._touched:
                with Naming(self.path(number)):
                    os.fdatasync(self._descriptor(number))
        newest = max(self._touched, default=0)
        self._touched.clear()
        for number in [n for n in self._open if n < newest]:
            # The log only ever appends to its newest segment. (After a full disk it may have to
            # write to an older one once more.)
            os.close(self._open.pop(number))
        if self._directory_changed and wait:
            sync_directory(self.directory)
            self._directory_changed = False

    def drop(self, number: int, *, wait: bool = True) -> None:
        """Delete a file that nothing refers to, for good when this returns.

        Why it waits: a message of one segment may have been copied to a later one, and a settle
        names the segment of the copy. If the later file went and a power cut brought the earlier
        one back, its messages would be there and nothing that settles them. Every file system with
        a journal keeps unlinks in one directory in their order, but POSIX does not promise it, and
        16 MiB of log pay for one sync of a directory.

        Args:
            number: the segment.
            wait: False leaves it to the operating system when that happens.
        """
        fd = self._open.pop(number, None)
        if fd is not None:
            os.close(fd)
        self._space.pop(number, None)
        self._touched.discard(number)
        self.path(number).unlink(missing_ok=True)
        self._directory_changed = True
        if wait:
            sync_directory(self.directory)
            self._directory_changed = False

    def closed_below(self, end: Extent) -> int:
        """The number below which nothing is written any more, as of a moment.

        What was there before this run is never written to, and in this run only the newest file is.
        To be asked after `numbers`, in any thread.

        Args:
            end: of the log, at that moment.
        """
        if end.number:
            return end.number
        return NUMBER_MAX + 1 if self._first_made is None else self._first_made

    # ------------------------------------------------------------- reading

    def map(self, number: int) -> Mapping:
        """The file's bytes, read-only."""
        return map_file(self.path(number))

    def map_whole(self, number: int) -> Mapping:
        """The same, read from the disk before this returns.

        Raises:
            OSError: a part of the file cannot be read.
        """
        return map_file(self.path(number), whole=True)

    def is_empty(self, number: int) -> bool:
        """Whether the file has no bytes at all; such a file cannot be mapped."""
        return not self.path(number).stat().st_size

    def is_blank(self, number: int) -> bool:
        """Whether the file is empty or has nothing but zeros: made, and never written to."""
        with self.path(number).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                if chunk.count(0) != len(chunk):
                    return False
        return True

    # ------------------------------------------------------------- at start-up

    def cut(self, number: int, size: int) -> None:
        """Cut off what follows the last good record.

        A file that a backup has, too, stays as it is, and is one of the log's own from now on.
        """
        path = self.path(number)
        if path.stat().st_nlink > 1:
            unshared = path.with_name(f"{path.name}.cut")
            with path.open("rb") as shared, unshared.open("wb") as file:
                shutil.copyfileobj(shared, file, CHUNK_BYTES)
                file.truncate(size)
                file.flush()
                with Naming(unshared):
                    os.fsync(file.fileno())
            unshared.rename(path)
            sync_directory(self.directory)
            return
        with path.open("r+b") as file:
            file.truncate(size)
            with Naming(path):
                os.fdatasync(file.fileno())

    def forget(self, number: int) -> None:
        """Delete a file in which there is nothing."""
        self.path(number).unlink()

    def set_aside(self, number: int, data: bytes, offset: int) -> Path:
        """Keep bytes that do not verify where a person can look at them; returns the file.

        It is on disk when this returns, so that the bytes may be cut off where they were.
        """
        path = _free_name(self.quarantine / f"{self._prefix}{number:08d}-{offset}.bytes", data)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            with Naming(path):
                os.fsync(file.fileno())
        sync_directory(self.quarantine)
        return path

    def set_file_aside(self, path: Path) -> Path:
        """Move a whole file there; returns where it is now."""
        return move_aside(path, self.quarantine / f"{self._prefix}{path.name}")


def move_aside(path: Path, wanted: Path) -> Path:
    """Move what is at a path into quarantine, under the name that is wanted or one like it."""
    target = _free_name(wanted)
    # The log may be a file system of its own; then this copies.
    shutil.move(path, target)
    sync_directory(target.parent)
    sync_directory(path.parent)
    return target


def _free_name(wanted: Path, same: bytes | None = None) -> Path:
    """A path in quarantine that is not taken, or whose file has these very bytes.

    The latter is from a start before this one, which may have been cut short between setting aside
    and cutting off.
    """
    quarantine = wanted.parent
    if not quarantine.exists():
        quarantine.mkdir()
        sync_directory(quarantine.parent)
    target = wanted
    attempt = 1
    while target.exists() and (same is None or target.read_bytes() != same):
        target = quarantine / f"{wanted.name}.{attempt}"
        attempt += 1
    return target


def sync_directory(directory: Path) -> None:
    """The names in it are on disk when this returns."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with Naming(directory):
            os.fsync(fd)
    finally:
        os.close(fd)


class Naming:
    """Have errors say which file they are about: those of calls with a descriptor do not.

    A class, since a generator would cost a microsecond for each write.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(self._path)
