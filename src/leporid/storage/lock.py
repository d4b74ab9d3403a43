"""One process per data directory.

Responsible for the file `lock` in the data directory: the process that holds an exclusive flock
on it owns the directory, and its pid stands in the file for people to read. Must not know what
else is in the directory.

Invariant: the lock ends with the process, however that ends, because the kernel holds it. So the
file is never deleted (whoever deletes it lets two owners lock two files of the same name), and
the pid in it means something only while the lock is held.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

LOCK_NAME = "lock"

# What is read of the file to find the pid.
READ_BYTES_MAX = 64
# Linux gives no pid above 2**22.
PID_MAX = 2**22


class DirectoryInUse(Exception):
    """Another process owns the data directory."""

    def __init__(self, directory: Path, pid: int | None) -> None:
        self.directory = directory
        self.pid = pid
        owner = f"process {pid}" if pid else "another process"
        super().__init__(f"the data directory {directory} is in use by {owner}")


class DirectoryLock:
    """The right to use a data directory, from construction to `release`.

    Makes the directory if there is none, for its owner alone: it will hold other people's
    messages.

    Args:
        directory: the data directory.

    Raises:
        DirectoryInUse: another process has it.
        OSError: the directory or the file cannot be made or locked.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(
                errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)
            ) from None
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(directory / LOCK_NAME, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _read_pid(descriptor)
            os.close(descriptor)
            raise DirectoryInUse(directory, pid) from None
        except OSError:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        self._descriptor: int | None = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "held" if self._descriptor is not None else "released"
        return f"<DirectoryLock {self.directory} {state}>"

    def release(self) -> None:
        """Let another process have the directory; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _read_pid(descriptor: int) -> int | None:
    """Return the pid in the file; None when its owner has not written it yet."""
    text = os.pread(descriptor, READ_BYTES_MAX, 0).strip()
    return int(text) if text.isdigit() and int(text) <= PID_MAX else None
