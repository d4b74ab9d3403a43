"""Modes of a data directory, whatever they were."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from leporid.storage.private import make_private


def modes(directory: Path) -> dict[str, int]:
    found = [directory, *directory.rglob("*")]
    return {
        str(each.relative_to(directory)): stat.S_IMODE(each.lstat().st_mode)
        for each in found
        if not each.is_symlink()
    }


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    (directory / "log").mkdir(parents=True)
    for name in ("definitions.db", "log/1", "log/2"):
        (directory / name).write_bytes(b"")
    for each in (directory, *directory.rglob("*")):
        each.chmod(0o777 if each.is_dir() else 0o666)
    return directory


def test_everything_is_its_owners_alone(directory: Path):
    assert make_private(directory) == []
    private = {".": 0o700, "definitions.db": 0o600, "log": 0o700, "log/1": 0o600, "log/2": 0o600}
    assert modes(directory) == private
    assert make_private(directory) == []
    assert modes(directory) == private


def test_what_is_private_already_stays_as_it_is(directory: Path):
    make_private(directory)
    (directory / "definitions.db").chmod(0o400)
    make_private(directory)
    assert modes(directory)["definitions.db"] == 0o400


def test_links_are_not_followed(directory: Path, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "file").write_bytes(b"")
    before = modes(outside)
    (directory / "folder").symlink_to(outside)
    (directory / "file").symlink_to(outside / "file")
    assert make_private(directory) == []
    assert modes(outside) == before


def test_what_cannot_be_changed_is_told(directory: Path, monkeypatch: pytest.MonkeyPatch):
    chmod = os.chmod

    def refused(path: Path, mode: int, *, follow_symlinks: bool = True) -> None:
        if Path(path).name == "log":
            raise PermissionError(1, "Operation not permitted")
        chmod(path, mode, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "chmod", refused)
    said = f"{directory / 'log'} can be read by others: Operation not permitted"
    assert make_private(directory) == [said]
    # The rest is done all the same.
    assert modes(directory)["definitions.db"] == 0o600
    assert modes(directory)["log/2"] == 0o600


def test_what_is_not_ours_is_left_as_it_is(tmp_path: Path):
    tmp_path.chmod(0o755)
    (tmp_path / "ours").touch(0o644)
    (tmp_path / "bin").mkdir(0o755)
    (tmp_path / "bin" / "tool").touch(0o755)
    assert make_private(tmp_path, lambda name: name == "ours") == []
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"ours": 0o600, "bin": 0o755, "tool": 0o755}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
