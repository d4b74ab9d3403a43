"""What the process uses of the machine."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from leporid.server import resources as module
from leporid.server.resources import Resources, open_descriptors


def test_what_is_used(tmp_path: Path):
    alarms: set[str] = set()
    resources = Resources(
        tmp_path,
        limits=SimpleNamespace(memory_bytes_max=1000, disk_free_min=2000),
        sockets=lambda: 3,
        sockets_max=lambda: 4,
        alarms=alarms,
    )
    used = resources.now()
    assert (used.memory_bytes_max, used.disk_free_bytes_min) == (1000, 2000)
    assert (used.sockets, used.sockets_max) == (3, 4)
    assert used.memory_bytes > 2**20
    assert used.disk_free_bytes > 0
    assert 0 < used.descriptors <= used.descriptors_max
    assert used.cpu_seconds > 0
    assert used.alarms == frozenset()
    alarms.add("disk")
    later = resources.now()
    assert later.alarms == {"disk"}
    assert later.uptime_seconds > used.uptime_seconds
    assert used.alarms == frozenset(), "what was counted stays as it was"


@pytest.mark.parametrize("older", [False, True])
def test_descriptors_are_counted(older: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if older:  # the directory has no size
        empty = tmp_path / "fd"
        empty.touch()
        monkeypatch.setattr(module, "DESCRIPTORS", empty)
    before = open_descriptors()
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(50)]
    assert open_descriptors() >= before + 40
    for each in held:
        os.close(each)
    assert open_descriptors() < before + 40
