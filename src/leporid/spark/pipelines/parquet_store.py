"""An archive as plain Parquet files by day, with a log of commits beside them.

    ROOT/date=2026-11-21/2026-11-21-<id>.parquet      what any reader of a folder finds
    ROOT/_leporid/files/2026-11-21-<id>.parquet       the same file (a hard link)
    ROOT/_leporid/log/00000000000000000012.json       commit 12: files in, files out, position
    ROOT/_leporid/settings.json                       the stream, the schema

A commit is one new file in `log`, linked into place under the next number: it is there or not, and
of two writers one fails. Only then are its files linked into the folders by day. Whoever reads by
the log (`table`) has a snapshot, and keeps it while compaction goes on, as a file that was replaced
leaves its day at once, and `files` only later (`vacuum`). Whoever reads the folders sees nothing
that is not committed, and between a commit and its links for a moment not all of it.

Readers of Spark, DuckDB, pandas and others leave out what begins with an underscore. Hard links
want one file system, local or a mounted one; for object stores use Delta or Iceberg.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from leporid.spark.offsets import Offsets, from_json, to_json
from leporid.spark.pipelines.files import DataFile, FileWriter, sync_folder
from leporid.spark.pipelines.store import ConflictError, StoreError, check_position, written

VERSION = 1

# Every so many commits one holds everything, so that opening an archive reads a few of them.
FULL_EVERY = 64


@dataclass(slots=True)
class Snapshot:
    """The table after a commit; number -1 is the empty table."""

    number: int = -1
    ends: Offsets = field(default_factory=dict)
    files: dict[str, DataFile] = field(default_factory=dict)


class ParquetStore:
    """A folder of Parquet files and its log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._own = root / "_leporid"
        self._log = self._own / "log"
        self._linked = False

    @property
    def folder(self) -> Path:
        """Where new files are written before they are committed."""
        return self._own / "files"

    # ------------------------------------------------------------ reading

    def snapshot(self) -> Snapshot:
        """Return the table as the last commit left it.

        Raises:
            StoreError: a commit is missing or damaged, or of a newer version.
        """
        numbers = sorted(
            int(path.stem) for path in self._log.glob("*.json") if path.stem.isdecimal()
        )
        # From the last one that holds everything; the commits before it may be gone.
        steps: list[tuple[int, dict[str, Any]]] = []
        for number in reversed(numbers):
            content = self._read(number)
            steps.append((number, content))
            if "files" in content:
                break
        found = Snapshot()
        for number, content in reversed(steps):
            if number != found.number + 1 and "files" not in content:
                raise StoreError(
                    f"{self._log}: commit {found.number + 1} is missing: restore it, "
                    f"or make a new archive"
                )
            self._apply(found, number, content)
        return found

    def _apply(self, to: Snapshot, number: int, content: dict[str, Any]) -> None:
        to.number = number
        to.ends = from_json(content["ends"])
        if "files" in content:
            to.files = {}
        for facts in content.get("files", content.get("added", [])):
            file = DataFile(**facts)
            to.files[file.name] = file
        for name in content.get("removed", []):
            to.files.pop(name, None)

    def _read(self, number: int) -> dict[str, Any]:
        path = self._log / f"{number:020}.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version = content["version"]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StoreError(f"{path} cannot be read ({error}): restore it") from error
        if version != VERSION:
            raise StoreError(
                f"{path} is of version {version}, and this leporid knows {VERSION}: "
                f"use the newer leporid that wrote it"
            )
        return content  # type: ignore[no-any-return]

    def ends(self) -> Offsets:
        """Return the position up to which records are in the table."""
        return self.snapshot().ends

    def state(
        self, first_us: int | None = None, last_us: int | None = None
    ) -> tuple[list[str], Offsets]:
        """Return the files to read, without those of other times, and the position they reach."""
        now = self.snapshot()
        return self.paths_of(now, first_us, last_us), now.ends

    def paths_of(
        self, snapshot: Snapshot, first_us: int | None = None, last_us: int | None = None
    ) -> list[str]:
        """Return the files of a snapshot."""
        return [
            str(self.folder / file.name)
            for file in sorted(snapshot.files.values(), key=lambda each: (each.first_us, each.name))
            if (first_us is None or file.last_us >= first_us)
            and (last_us is None or file.first_us < last_us)
        ]

    # ------------------------------------------------------------ writing

    def commit(self, files: Sequence[DataFile], before: Offsets, ends: Offsets) -> None:
        """Add files, and move the position."""
        now = self.snapshot()
        check_position(self.root, now.ends, before)
        self._commit(now, files, [], ends)

    def _commit(
        self, now: Snapshot, added: Sequence[DataFile], removed: Iterable[str], ends: Offsets
    ) -> None:
        gone = sorted(removed)
        number = now.number + 1
        facts = [file.to_json() for file in added]
        content: dict[str, Any] = {"version": VERSION, "ends": to_json(ends)}
        content |= {"time": time.time(), "added": facts, "removed": gone}
        if number % FULL_EVERY == 0:
            left = [file.to_json() for name, file in now.files.items() if name not in set(gone)]
            content["files"] = left + facts
        self._log.mkdir(parents=True, exist_ok=True)
        draft = written(self._own, json.dumps(content))
        try:
            os.link(draft, self._log / f"{number:020}.json")
        except FileExistsError:
            raise ConflictError(
                f"{self.root}: another process has archived here meanwhile"
            ) from None
        finally:
            draft.unlink()
        sync_folder(self._log)
        if not self._linked:
            self.show()
            return
        for file in added:
            self._link(file)
        for name in gone:
            (self._day(now.files[name].date) / name).unlink(missing_ok=True)

    def _day(self, date: str) -> Path:
        return self.root / f"date={date}"

    def _link(self, file: DataFile) -> None:
        day = self._day(file.date)
        day.mkdir(exist_ok=True)
        try:
            os.link(self.folder / file.name, day / file.name)
        except FileExistsError:
            pass

    def show(self) -> None:
        """Make the folders by day hold what the log says, wherever a writer was stopped."""
        now = self.snapshot()
        for path in self.root.glob("date=*/*.parquet"):
            if path.name not in now.files:
                path.unlink()
        for file in now.files.values():
            self._link(file)
        self._linked = True

    # ------------------------------------------------------------ tidying

    def compact(self, files_min: int, bytes_max: int) -> int:
        """Replace a day's small files by larger ones, if there are at least so many."""
        days: dict[str, list[DataFile]] = defaultdict(list)
        now = self.snapshot()
        for file in now.files.values():
            if file.bytes < bytes_max // 2:
                days[file.date].append(file)
        gone = 0
        for day in sorted(days):
            for group in groups(days[day], files_min, bytes_max):
                merged = merge(self.folder, day, group)
                now = self.snapshot()
                self._commit(now, [merged], [file.name for file in group], now.ends)
                gone += len(group)
        return gone

    def vacuum(self, keep_seconds: float) -> int:
        """Remove files that no day holds and commits that nobody needs, if they are older."""
        now = self.snapshot()
        until = time.time() - keep_seconds
        removed = 0
        for path in self.folder.glob("*.parquet"):
            if path.name not in now.files and path.stat().st_mtime < until:
                path.unlink()
                removed += 1
        last_full = now.number // FULL_EVERY * FULL_EVERY
        for path in self._log.glob("*.json"):
            old = path.stem.isdecimal() and int(path.stem) < last_full
            if old and path.stat().st_mtime < until:
                path.unlink()
        return removed


def groups(files: Iterable[DataFile], files_min: int, bytes_max: int) -> list[list[DataFile]]:
    """Return which files to merge: neighbours in time, up to a size, at least so many at once."""
    found: list[list[DataFile]] = [[]]
    size = 0
    for file in sorted(files, key=lambda each: (each.first_us, each.name)):
        if size + file.bytes > bytes_max and found[-1]:
            found.append([])
            size = 0
        found[-1].append(file)
        size += file.bytes
    # A group that is full is worth it however few they are.
    return [
        group
        for at, group in enumerate(found)
        if len(group) > 1 and (len(group) >= files_min or at < len(found) - 1)
    ]


def merge(folder: Path, day: str, files: Sequence[DataFile]) -> DataFile:
    """Write the rows of files into one; in memory is one row group."""
    first = pq.read_schema(folder / files[0].name)
    writer = FileWriter(folder, day, first)
    for file in files:
        with pq.ParquetFile(folder / file.name) as source:
            for batch in source.iter_batches(batch_size=65_536):
                writer.add(batch.cast(first) if batch.schema != first else batch)
    done = writer.close()
    sync_folder(folder)
    return done
