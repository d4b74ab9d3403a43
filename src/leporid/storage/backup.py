"""Backups: a copy of a data directory as of one generation, and a data directory made of a copy.

    BACKUPS/NAME.unfinished/    while it is being made, and what a crash leaves
    BACKUPS/NAME/               a data directory: definitions, log/, streams/; and backup.json

Responsible for what stands in a backup, and in which order it gets there. The copy is what a crash
between two generations would leave: every file that nobody writes to any more, the newest file of
each log up to its end at that moment, and the definitions as they were. Must not know what is in
the files, nor who asks.

Invariants: a name without `.unfinished` is of a whole backup, which is on disk. A segment of a
backup is never written to: it may be the same file as the broker's own (a hard link).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from leporid.storage import incarnation
from leporid.storage.definitions import Definitions, DefinitionsError, Reading, copy_path
from leporid.storage.lock import LOCK_NAME, DirectoryLock
from leporid.storage.segments import (
    NO_ROOM,
    NOT_OURS,
    NUMBER_MAX,
    Extent,
    SegmentFiles,
    sync_directory,
)
from leporid.storage.streams import StreamLogs
from leporid.storage.syncer import Rest

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What a backup may be called: one part of a path, never a hidden one."""
UNFINISHED: Final = ".unfinished"
MANIFEST: Final = "backup.json"
FORMAT: Final = 1
# What is read of a manifest at most; a damaged one may have any size.
MANIFEST_BYTES_MAX: Final = 4096
RESTORING: Final = "restore.unfinished"
"""Stands in a data directory that is being made of a backup; no broker starts on it."""
# Copied at a time; between two of them a backup can be stopped.
CHUNK_BYTES: Final = 8 * 1024 * 1024
DEFINITIONS: Final = "definitions.db"
PARTS: Final = ("log", "streams", copy_path(Path(DEFINITIONS)).name, DEFINITIONS)
"""What a backup has, beside its manifest, in the order in which it is put in place."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


class BackupError(Exception):
    """A backup was not made, or cannot be used; the message says why. Nothing is left of it."""


class BackupExists(BackupError):
    """There is a backup of that name."""


class BackupUnderWay(BackupError):
    """One is being made already."""


class Stopped(BackupError):
    """Nobody wants it any more."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is known of a whole backup.

    Attributes:
        made_at: UTC, as ISO 8601 has it.
        generation: the generation that it is a copy of.
        files, bytes: segments, and their bytes, of which many may be those of the broker's files.
        linked: how many of the files were hard links when it was made.
    """

    name: str
    made_at: str
    version: str
    generation: int
    files: int
    bytes: int
    linked: int


class _Item(NamedTuple):
    source: Path
    target: Path
    bytes: int
    closed: bool


class Backup:
    """One backup that is being made.

    `take` is called in the sync thread between two generations, `copy` in a thread of its own.

    Args:
        files, streams, definitions: the broker's.
        directory: where backups stand; made if it is not there.
        name: of this one.
        kept_free: so many bytes of the disk stay free.

    Raises:
        BackupError: the name is none.
        BackupExists: there is one.
    """

    def __init__(
        self,
        files: SegmentFiles,
        streams: StreamLogs,
        definitions: Definitions,
        directory: Path,
        name: str,
        *,
        kept_free: int = 0,
    ) -> None:
        check_name(name)
        self.directory, self.name = directory, name
        self.target = directory / name
        if self.target.exists():
            raise BackupExists(f"there is a backup '{name}' already")
        self.rest = Rest(self._take)
        self._unfinished = directory / f"{name}{UNFINISHED}"
        self._files, self._streams, self._definitions = files, streams, definitions
        self._kept_free = kept_free
        self._reading: Reading | None = None
        self._trouble: DefinitionsError | None = None
        self._end = Extent(0, 0)
        self._stream_ends: dict[int, Extent] = {}
        self._stop = False

    def __repr__(self) -> str:
        return f"<Backup {self.target}>"

    def stop(self) -> None:
        """Have `copy` end soon, with nothing left of the backup."""
        self._stop = True

    def _take(self) -> None:
        """Note where every log ends, and hold the definitions as they are."""
        try:
            self._reading = self._definitions.reading()
        except DefinitionsError as error:
            self._trouble = error
        self._end = self._files.end
        self._stream_ends = self._streams.ends()

    def copy(self, made_at: str, version: str, generation: int) -> Manifest:
        """Make the backup, after `_take`; returns when all of it is on disk.

        Raises:
            BackupError: it could not be made, and nothing is left of it.
        """
        try:
            return self._copy(made_at, version, generation)
        except (OSError, DefinitionsError) as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise BackupError(f"the disk of {self.directory} has no room for it") from error
            raise BackupError(str(error)) from error
        finally:
            self.rest.end()
            if self._reading is not None:
                self._reading.close()
            shutil.rmtree(self._unfinished, ignore_errors=True)

    def _copy(self, made_at: str, version: str, generation: int) -> Manifest:
        if self._trouble is not None or self._reading is None:
            raise BackupError(f"the definitions cannot be read: {self._trouble}")
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(self._unfinished, ignore_errors=True)
        self._unfinished.mkdir(mode=0o700)
        self._check_room(self._reading.bytes)
        # First of all: while it is read, SQLite's log of it only grows.
        self._reading.write(self._unfinished / DEFINITIONS)
        self._reading.close()
        items = list(self._items())
        links = self._can_link()
        self._check_room(sum(one.bytes for one in items if not (one.closed and links)))
        linked, copied, total = 0, [], 0
        for one in items:
            self._check_wanted()
            one.target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if one.closed and links:
                os.link(one.source, one.target)
                linked += 1
            else:
                self._copy_file(one)
                copied.append(one.target)
            total += one.bytes
        if self.rest.broken:
            raise BackupError("the disk is full, and the broker deleted what was to be copied")
        self.rest.end()
        found = Manifest(self.name, made_at, version, generation, len(items), total, linked)
        _write_manifest(self._unfinished / MANIFEST, found)
        sync_all(self._unfinished, copied)
        self._check_wanted()
        self._unfinished.rename(self.target)
        sync_directory(self.directory)
        return found

    def _items(self) -> Iterator[_Item]:
        """What a data directory as of the generation has in its logs."""
        target = self._unfinished / "log"
        target.mkdir(mode=0o700)
        yield from self._items_of(self._files, lambda: self._files, self._end, target)
        for stream_id in self._streams.ids():
            self._check_wanted()
            path = self._streams.path(stream_id)
            yield from self._items_of(
                SegmentFiles(path, sync_parent=False),
                partial(self._streams.known, stream_id),
                self._stream_ends.get(stream_id, Extent(0, 0)),
                self._unfinished / "streams" / path.name,
            )

    def _items_of(
        self,
        there: SegmentFiles,
        writer: Callable[[], SegmentFiles | None],
        end: Extent,
        target: Path,
    ) -> Iterator[_Item]:
        """What is there of one log.

        Args:
            there: lists its files.
            writer: who writes to them in this run; None of a stream that could not be made. Asked
                when the files were listed: whoever made one of them is known by then.
            end: of the log, at the moment of the backup.
            target: the log's directory in the backup.
        """
        numbers = there.numbers()
        writes = writer()
        closed_below = NUMBER_MAX + 1 if writes is None else writes.closed_below(end)
        for number in numbers:
            self._check_wanted()
            path = there.path(number)
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                continue  # deleted for a full disk, which is told when everything is copied
            if number < closed_below:
                yield _Item(path, target / path.name, size, closed=True)
            elif number == end.number:
                yield _Item(path, target / path.name, end.bytes, closed=False)

    def _can_link(self) -> bool:
        """Whether backups are on the log's file system, and it has hard links."""
        probe = self._unfinished / "link"
        try:
            os.link(self._unfinished / DEFINITIONS, probe)
        except OSError:
            return False
        probe.unlink()
        log, streams = self._files.directory, self._streams.directory
        there = {path.stat().st_dev for path in (log, streams) if path.exists()}
        return there == {self._unfinished.stat().st_dev}

    def _check_room(self, needed: int) -> None:
        there = os.statvfs(self.directory)
        free = there.f_bavail * there.f_frsize - self._kept_free
        if needed > free:
            raise BackupError(
                f"the disk of {self.directory} has no room for it: {needed} bytes are to be "
                f"copied, and {max(0, free)} are free beside those that stay so"
            )

    def _check_wanted(self) -> None:
        if self._stop:
            raise Stopped("the backup was stopped")

    def _copy_file(self, one: _Item) -> None:
        with one.source.open("rb") as source, one.target.open("xb") as target:
            done = 0
            while done < one.bytes:
                self._check_wanted()
                count = min(CHUNK_BYTES, one.bytes - done)
                sent = os.sendfile(target.fileno(), source.fileno(), done, count)
                if not sent:
                    raise BackupError(f"{one.source} is shorter than it was")
                done += sent


def check_name(name: str) -> None:
    """Raise BackupError if a backup cannot be called so."""
    if not NAME.fullmatch(name) or name.endswith(UNFINISHED):
        raise BackupError(
            f"{name[:100]!r} is no name of a backup: up to 100 letters, digits and . _ - , the "
            "first a letter or digit"
        )


def listing(directory: Path) -> list[Manifest]:
    """Return the whole backups in a directory, by name; what is none is passed over."""
    found = []
    if directory.is_dir():
        for path in sorted(directory.iterdir()):
            if NAME.fullmatch(path.name) and not path.name.endswith(UNFINISHED):
                manifest = read_manifest(path)
                if manifest is not None:
                    found.append(manifest)
    return found


def clear(directory: Path) -> list[Path]:
    """Delete what backups that were not finished have left; return what that was."""
    if not directory.is_dir():
        return []
    left = [path for path in directory.iterdir() if path.name.endswith(UNFINISHED)]
    left = [path for path in left if NAME.fullmatch(path.name) and path.is_dir()]
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
    return left


def read_manifest(backup: Path) -> Manifest | None:
    """Return what a backup says of itself; None if it is none."""
    try:
        with (backup / MANIFEST).open("rb") as file:
            found = json.loads(file.read(MANIFEST_BYTES_MAX))
        if found.pop("format") != FORMAT:
            return None
        manifest = Manifest(**found)
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
    return manifest


def _write_manifest(path: Path, manifest: Manifest) -> None:
    values: dict[str, Any] = {field: getattr(manifest, field) for field in Manifest.__slots__}
    path.write_text(json.dumps({"format": FORMAT, **values}, indent=2) + "\n", encoding="utf-8")


def sync_all(directory: Path, written: list[Path]) -> None:
    """Everything in a directory is on disk when this returns.

    Args:
        directory: in which much was made: one call for its file system takes what thousands of
            directories would take one after another.
        written: files with new bytes. Before Linux 5.8 that call says nothing of failed writes.

    Raises:
        OSError: it may not be.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _libc.syncfs(descriptor):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(directory))
    finally:
        os.close(descriptor)
    for path in written:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---------------------------------------------------------------- restore


def restore(backup: Path, target: Path, checked: Callable[[], None]) -> Manifest:
    """Make a data directory of a backup, which stays as it is; its files are copied.

    It has no incarnation, so that the next start gives it another one: what is appended to a stream
    from now on has offsets that other messages had after the backup.

    Args:
        backup: a whole one.
        target: made if it is not there; nothing may be in it.
        checked: verifies the backup, before anything is copied; raises what it likes.

    Raises:
        BackupError: it is no backup, or the target cannot be used; nothing was changed.
        DirectoryInUse: a broker uses the target.
        OSError: it cannot be copied; the target is left without what was copied.
    """
    manifest = read_manifest(backup)
    if manifest is None:
        raise BackupError(f"{backup} is no whole backup: it has no {MANIFEST} of this version")
    if (backup / incarnation.NAME).exists():
        raise BackupError(
            f"a broker was started on {backup}, so it is no longer what was backed up"
        )
    if target.exists() and not target.is_dir():
        raise BackupError(f"{target} is no directory")
    if target.exists() and (there := _in_the_way(target)):
        raise BackupError(f"{target} is not empty: {there[0].name} is in it")
    checked()
    with DirectoryLock(target):
        stage = target / RESTORING
        try:
            _fill(backup, target, stage)
        except OSError:
            shutil.rmtree(stage, ignore_errors=True)
            raise
    return manifest


def _in_the_way(target: Path) -> list[Path]:
    return [one for one in target.iterdir() if one.name not in {LOCK_NAME, *NOT_OURS}]


def _fill(backup: Path, target: Path, stage: Path) -> None:
    stage.mkdir(mode=0o700)
    sync_directory(target)
    # Not what else may be there by now: a lock, and SQLite's companions.
    names = [name for name in PARTS if (backup / name).exists()]
    copied: list[Path] = []

    def copy(source: str, into: str) -> None:
        shutil.copyfile(source, into)
        copied.append(Path(into))

    for name in names:
        if (backup / name).is_dir():
            shutil.copytree(backup / name, stage / name, copy_function=copy)
        else:
            copy(str(backup / name), str(stage / name))
    sync_all(stage, copied)
    # As long as the stage is there, no broker starts: nobody takes a part for the whole.
    for name in names:
        (stage / name).rename(target / name)
    sync_directory(target)
    stage.rmdir()
    sync_directory(target)


def check_restored(directory: Path) -> None:
    """Raise BackupError if a data directory is a backup, or only a part of one."""
    if (directory / MANIFEST).exists():
        raise BackupError(
            f"{directory} is a backup, which a broker that runs on it would change: "
            f"`leporid restore {directory} DIR` makes a data directory of it"
        )
    if (directory / RESTORING).exists():
        raise BackupError(
            f"{directory} is only a part of a backup: `leporid restore` did not finish; empty the "
            "directory and restore once more"
        )
