"""Segment files of the durable log: `DIR/log/00000001.segment` and so on.

Responsible for the files' names, space and durability; it does not know what the bytes mean
(FORMAT.md draws them). Used by the sync thread while the broker runs, and at start-up before.
Invariant: a file has its whole size on disk before the first byte is written to it, and its name
is on disk before `sync` returns.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

NAME: Final = re.compile(r"(\d{8,10})\.segment")
Write = tuple[int, int, int, "memoryview | bytes"]  # number, file size, offset, bytes


class SegmentFiles:
    """The files of one log directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._open: dict[int, int] = {}
        self._touched: set[int] = set()
        self._directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self._directory_changed = True  # it may just have been made

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
        if self._directory_fd >= 0:
            os.close(self._directory_fd)
            self._directory_fd = -1

    def path(self, number: int) -> Path:
        return self.directory / f"{number:08d}.segment"

    def numbers(self) -> list[int]:
        """Segments that are there, in their order."""
        found = (NAME.fullmatch(path.name) for path in self.directory.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def foreign(self) -> list[Path]:
        """Files in the directory that are not segments."""
        return sorted(p for p in self.directory.iterdir() if not NAME.fullmatch(p.name))

    # ------------------------------------------------------------- in the sync thread

    def write(self, writes: Iterable[Write]) -> None:
        """Write bytes to their places; files that are new get their space first.

        Raises:
            OSError: ENOSPC and the like; nothing is lost by calling again with the same writes.
        """
        for number, size, offset, data in writes:
            fd = self._open.get(number)
            if fd is None:
                fd = self._create(number, size)
            self._touched.add(number)
            view = memoryview(data)
            while view:
                done = os.pwrite(fd, view, offset)
                offset += done
                view = view[done:]

    def _create(self, number: int, size: int) -> int:
        fd = os.open(self.path(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError:
            os.close(fd)
            self.path(number).unlink()  # an empty file would stand for an empty segment
            raise
        self._directory_changed = True
        self._open[number] = fd
        return fd

    def sync(self) -> None:
        """Everything written so far is on disk when this returns, file names included."""
        for number in self._touched:
            os.fdatasync(self._open[number])
        newest = max(self._touched, default=0)
        self._touched.clear()
        for number in [n for n in self._open if n < newest]:
            os.close(self._open.pop(number))  # the log only ever appends to its newest segment
        if self._directory_changed:
            os.fsync(self._directory_fd)
            self._directory_changed = False

    def drop(self, numbers: Iterable[int]) -> None:
        """Delete files that nothing refers to."""
        for number in numbers:
            fd = self._open.pop(number, None)
            if fd is not None:
                os.close(fd)
            self.path(number).unlink(missing_ok=True)
            self._directory_changed = True

    # ------------------------------------------------------------- reading

    def map(self, number: int) -> mmap.mmap:
        """The file's bytes, read-only."""
        with open(self.path(number), "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    # ------------------------------------------------------------- at start-up

    def cut(self, number: int, size: int) -> None:
        """Cut off what follows the last good record."""
        with open(self.path(number), "r+b") as file:
            file.truncate(size)
            os.fdatasync(file.fileno())

    def set_aside(self, number: int, data: bytes, offset: int) -> Path:
        """Keep bytes that do not verify where a person can look at them; returns the file."""
        quarantine = self.directory.parent / "quarantine"
        quarantine.mkdir(exist_ok=True)
        path = quarantine / f"{number:08d}-{offset}.bytes"
        path.write_bytes(data)
        return path

    def set_file_aside(self, path: Path) -> Path:
        """Move a whole file there; returns where it is now."""
        quarantine = self.directory.parent / "quarantine"
        quarantine.mkdir(exist_ok=True)
        target = quarantine / path.name
        attempt = 1
        while target.exists():
            target = quarantine / f"{path.name}.{attempt}"
            attempt += 1
        return path.rename(target)
