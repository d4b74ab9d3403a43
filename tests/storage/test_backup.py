"""Backups: what is in one, what is left of one that failed, and what can be restored."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from leporid.broker.stored import KINDS, StoredVhost
from leporid.durable import Put
from leporid.storage import backup as module
from leporid.storage.backup import (
    Backup,
    BackupError,
    BackupExists,
    Stopped,
    check_name,
    check_restored,
    clear,
    listing,
    read_manifest,
    restore,
)
from leporid.storage.definitions import Definitions
from leporid.storage.lock import DirectoryInUse, DirectoryLock
from leporid.storage.segments import SegmentFiles
from leporid.storage.streams import StreamLogs


class Data:
    """A data directory with two segments of the log, three streams, and one virtual host."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "streams" / "00000009").mkdir(parents=True)
        (directory / "streams" / "00000009" / "00000001.segment").write_bytes(b"not of this run")
        self.definitions = Definitions(directory / "definitions.db", KINDS)
        self.definitions.commit([Put(StoredVhost("before"))])
        self.files = SegmentFiles(directory / "log")
        self.files.write([(1, 100, 0, b"closed"), (2, 100, 0, b"open")])
        self.streams = StreamLogs(directory / "streams")
        (directory / "streams" / "00000008").mkdir()
        (directory / "streams" / "00000008" / "00000001.segment").write_bytes(b"of a run before")
        self.streams.files(8)
        self.streams.store([(7, [(1, 100, 0, b"old"), (2, 100, 0, b"new")], [])])

    def write_more(self) -> None:
        """What comes after the moment of a backup."""
        self.definitions.commit([Put(StoredVhost("after"))])
        self.files.write([(2, 100, 4, b" later"), (3, 100, 0, b"later")])
        self.streams.store([(7, [(2, 100, 3, b" later"), (3, 100, 0, b"later")], [])])
        self.streams.store([(8, [(2, 100, 0, b"later")], []), (10, [(1, 100, 0, b"later")], [])])

    def backup(self, name: str = "b", *, kept_free: int = 0) -> Backup:
        return Backup(
            self.files,
            self.streams,
            self.definitions,
            self.directory / "backups",
            name,
            kept_free=kept_free,
        )

    def close(self) -> None:
        self.files.close()
        self.streams.close()
        self.definitions.close()


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Data]:
    data = Data(tmp_path / "data")
    yield data
    data.close()


def contents(directory: Path) -> dict[str, bytes]:
    """All segments, by path; without the room behind what was written."""
    return {
        str(path.relative_to(directory)): path.read_bytes().rstrip(b"\0")
        for path in sorted(directory.rglob("*.segment"))
    }


AS_OF_THE_MOMENT = {
    "log/00000001.segment": b"closed",
    "log/00000002.segment": b"open",
    "streams/00000007/00000001.segment": b"old",
    "streams/00000007/00000002.segment": b"new",
    "streams/00000008/00000001.segment": b"of a run before",
    "streams/00000009/00000001.segment": b"not of this run",
}


def test_a_backup_is_of_the_moment_and_not_of_its_copying(data: Data):
    backup = data.backup()
    backup.rest.begin()
    data.write_more()
    found = backup.copy("2026-01-01T00:00:00+00:00", "1.0", 5)
    assert backup.rest.ended
    target = data.directory / "backups" / "b"
    assert contents(target) == AS_OF_THE_MOMENT
    # What is open has no room behind it, as after a crash.
    assert (target / "log" / "00000002.segment").read_bytes() == b"open"
    assert (found.files, found.linked, found.generation) == (6, 4, 5)
    assert read_manifest(target) == found
    assert listing(target.parent) == [found]
    definitions = Definitions(target / "definitions.db", KINDS)
    assert [each.name for each in definitions.load().of(StoredVhost)] == ["before"]
    definitions.close()
    assert os.listdir(target.parent) == ["b"]  # noqa: PTH208 - hidden ones, too


def test_what_is_closed_is_linked_and_what_is_open_is_not(data: Data):
    backup = data.backup()
    backup.rest.begin()
    backup.copy("", "", 0)
    target = data.directory / "backups" / "b"
    assert data.files.path(1).samefile(target / "log" / "00000001.segment")
    assert not data.files.path(2).samefile(target / "log" / "00000002.segment")


def test_where_there_are_no_links_everything_is_copied(data: Data, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(module, "CHUNK_BYTES", 2)
    backup = data.backup()
    backup.rest.begin()
    data.write_more()
    assert backup.copy("", "", 0).linked == 0
    assert contents(data.directory / "backups" / "b") == AS_OF_THE_MOMENT


# ------------------------------------------------------------------ failing


def nothing_is_left(data: Data, backup: Backup) -> bool:
    directory = data.directory / "backups"
    return backup.rest.ended and (not directory.exists() or not list(directory.iterdir()))


def test_a_disk_without_room(data: Data):
    backup = data.backup(kept_free=2**62)
    backup.rest.begin()
    with pytest.raises(BackupError, match=r"has no room for it: [0-9]+ bytes are to be copied"):
        backup.copy("", "", 0)
    assert nothing_is_left(data, backup)


def test_a_disk_that_gets_full(data: Data, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "sendfile", full)
    backup = data.backup()
    backup.rest.begin()
    with pytest.raises(BackupError, match="has no room for it"):
        backup.copy("", "", 0)
    assert nothing_is_left(data, backup)


def test_files_that_were_deleted_as_the_disk_was_full(data: Data):
    backup = data.backup()
    backup.rest.begin()
    backup.rest.broken = True
    data.files.drop(1)
    with pytest.raises(BackupError, match="the broker deleted what was to be copied"):
        backup.copy("", "", 0)
    assert nothing_is_left(data, backup)


def test_a_backup_that_is_stopped(data: Data):
    backup = data.backup()
    backup.rest.begin()
    backup.stop()
    with pytest.raises(Stopped):
        backup.copy("", "", 0)
    assert nothing_is_left(data, backup)


def test_definitions_that_cannot_be_read(data: Data, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(data.definitions, "path", data.directory)
    backup = data.backup()
    backup.rest.begin()
    with pytest.raises(BackupError, match=r"the definitions cannot be read: .*unable to open"):
        backup.copy("", "", 0)
    assert nothing_is_left(data, backup)


def test_one_of_that_name_is_there(data: Data):
    backup = data.backup()
    backup.rest.begin()
    backup.copy("", "", 0)
    with pytest.raises(BackupExists, match="'b'"):
        data.backup()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/a", "-a", ".a", "a\0", "a\n", "ä", "x" * 101, "a.unfinished"]
)
def test_names_that_are_none(name: str, data: Data):
    with pytest.raises(BackupError, match="is no name of a backup"):
        check_name(name)
    with pytest.raises(BackupError):
        data.backup(name)


def test_what_a_crash_left_is_cleared_and_never_listed(data: Data):
    directory = data.directory / "backups"
    assert clear(directory) == []
    assert listing(directory) == []
    backup = data.backup()
    backup.rest.begin()
    backup.copy("", "", 0)
    (directory / "b").rename(directory / "b.unfinished")
    (directory / "mine").mkdir()
    assert listing(directory) == []
    assert clear(directory) == [directory / "b.unfinished"]
    assert [path.name for path in directory.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2}', '{"format": 1}', '{"format": 1, "x": 1}']
)
def test_a_manifest_that_is_none(text: str, tmp_path: Path):
    (tmp_path / "backup.json").write_text(text)
    assert read_manifest(tmp_path) is None


# ------------------------------------------------------------------ restoring


@pytest.fixture
def made(data: Data) -> Path:
    backup = data.backup()
    backup.rest.begin()
    backup.copy("", "", 0)
    return data.directory / "backups" / "b"


def no_check() -> None:
    """Everything is as it should be."""


def test_a_backup_is_restored_and_stays_as_it_is(made: Path, tmp_path: Path):
    (made / "lock").touch()
    (made / "definitions.db-wal").touch()
    before = contents(made)
    target = tmp_path / "deep" / "restored"
    restore(made, target, no_check)
    assert contents(target) == contents(made) == before
    names = {path.name for path in target.iterdir()}
    assert names == {"definitions.db", "definitions.copy.db", "log", "streams", "lock"}
    assert not (target / "log" / "00000001.segment").samefile(made / "log" / "00000001.segment")
    check_restored(target)


def test_no_broker_starts_on_a_backup(made: Path):
    with pytest.raises(BackupError, match=r"is a backup, .*`leporid restore "):
        check_restored(made)


def test_an_empty_volume_is_restored_to(made: Path, tmp_path: Path):
    target = tmp_path / "volume"
    (target / "lost+found").mkdir(parents=True)
    restore(made, target, no_check)
    assert contents(target) == contents(made)


def test_what_is_there_is_never_touched(made: Path, data: Data, tmp_path: Path):
    (tmp_path / "file").touch()
    full = tmp_path / "full"
    (full / "log").mkdir(parents=True)
    for target, reason in (
        (full, "is not empty: log is in it"),
        (tmp_path / "file", "no directory"),
    ):
        with pytest.raises(BackupError, match=reason):
            restore(made, target, no_check)
    assert os.listdir(full) == ["log"]  # noqa: PTH208


def test_what_is_no_backup(made: Path, tmp_path: Path):
    target = tmp_path / "restored"
    with pytest.raises(BackupError, match=re.escape("it has no backup.json")):
        restore(tmp_path, target, no_check)
    (made / "incarnation").touch()
    with pytest.raises(BackupError, match="a broker was started on"):
        restore(made, target, no_check)
    assert not target.exists()


def test_a_damaged_backup_is_not_restored(made: Path, tmp_path: Path):
    def damaged() -> None:
        raise BackupError("damaged")

    with pytest.raises(BackupError, match="damaged"):
        restore(made, tmp_path / "restored", damaged)
    assert not (tmp_path / "restored").exists()


def test_a_directory_in_use(made: Path, tmp_path: Path):
    with DirectoryLock(tmp_path / "restored"), pytest.raises(DirectoryInUse):
        restore(made, tmp_path / "restored", no_check)


def test_no_broker_starts_on_a_part(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    target = tmp_path / "restored"
    monkeypatch.setattr(module, "sync_all", killed)
    with pytest.raises(KeyboardInterrupt):
        restore(made, target, no_check)
    with pytest.raises(BackupError, match="only a part of a backup"):
        check_restored(target)


def test_a_disk_that_gets_full_leaves_nothing(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    target = tmp_path / "restored"
    monkeypatch.setattr(module, "sync_all", full)
    with pytest.raises(OSError, match="No space"):
        restore(made, target, no_check)
    assert os.listdir(target) == ["lock"]  # noqa: PTH208
    json.loads((made / "backup.json").read_text())
