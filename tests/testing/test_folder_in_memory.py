"""Temporary folders of runs go, whatever ends a run; those of runs that go on stay."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from tests import folder_in_memory


def left(memory: Path, name: str, made_s: int) -> Path:
    folder = memory / f"leporid-{os.getuid()}-{name}"
    (folder / "files").mkdir(parents=True)
    os.utime(folder, (made_s, made_s))
    return folder


def test_of_what_ended_runs_left_the_newest_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder_in_memory, "MEMORY", tmp_path)
    old, running, newest = (left(tmp_path, name, at) for at, name in enumerate("abc"))
    (tmp_path / "others").mkdir()
    lock = os.open(running, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mine = folder_in_memory.hold()
    finally:
        os.close(lock)
    assert set(tmp_path.iterdir()) == {running, newest, mine, tmp_path / "others"}
    assert not old.exists()


def test_a_folder_is_held_by_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder_in_memory, "MEMORY", tmp_path)
    mine = folder_in_memory.hold()
    os.utime(mine, (0, 0))
    left(tmp_path, "later", 1)
    assert folder_in_memory.hold() != mine
    assert mine.exists()
