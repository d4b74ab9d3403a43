"""Mapped files: without a descriptor, and an error where the disk has one."""

import errno
import gc
import os
from pathlib import Path

import pytest

from leporid.storage import mapping as module
from leporid.storage.mapping import map_file

PAGE_BYTES = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"abc".ljust(3 * PAGE_BYTES, b"\0"))
    return path


def mapped(path: Path) -> int:
    """How often a file is mapped in this process."""
    gc.collect()
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(line.split()[-1].startswith(str(path)) for line in lines)


@pytest.mark.parametrize("whole", [False, True])
def test_the_bytes_are_those_of_the_file(path: Path, whole: bool):
    view = map_file(path, whole=whole)
    assert (len(view), memoryview(view).nbytes) == (3 * PAGE_BYTES, 3 * PAGE_BYTES)
    assert bytes(view) == path.read_bytes()
    with path.open("r+b") as file:
        file.write(b"x")
    assert bytes(view)[:3] == b"xbc"


def test_no_descriptor_stays_open(path: Path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    views = [map_file(path) for _ in range(10)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert len(views) == mapped(path)


def test_memory_stays_until_its_last_buffer_is_released(path: Path):
    view = map_file(path)
    part = memoryview(view)[1:3]
    del view
    assert (mapped(path), bytes(part)) == (1, b"bc")
    part.release()
    del part
    assert mapped(path) == 0


def test_the_garbage_collector_may_meet_one_that_is_in_use(path: Path):
    cycle: list[object] = [map_file(path)]
    cycle += [memoryview(cycle[0]), cycle]  # type: ignore[arg-type]
    del cycle
    assert mapped(path) == 0


def test_a_mapping_outlives_the_file(path: Path):
    view = map_file(path)
    path.unlink()
    assert bytes(view)[:3] == b"abc"


def test_what_the_disk_cannot_give_is_an_error_and_not_a_signal(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    # A page that cannot be read answers like one beyond the end of the file.
    real = module._libc.mmap

    def cut_afterwards(*arguments: int) -> object:
        address = real(*arguments)
        os.truncate(path, PAGE_BYTES)
        return address

    monkeypatch.setattr(module, "_libc", Libc(mmap=cut_afterwards))
    with pytest.raises(OSError, match="error") as caught:
        map_file(path, whole=True)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))


def test_an_old_kernel_that_cannot_read_ahead_is_no_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "POPULATE_READ", 12345)  # EINVAL
    assert bytes(map_file(path, whole=True))[:3] == b"abc"


@pytest.mark.parametrize(("name", "code"), [("missing", errno.ENOENT), ("empty", errno.EINVAL)])
def test_what_cannot_be_mapped(tmp_path: Path, name: str, code: int):
    (tmp_path / "empty").touch()
    with pytest.raises(OSError, match=name) as caught:
        map_file(tmp_path / name)
    assert caught.value.errno == code


class Libc:
    """The C library, with some of its functions replaced."""

    def __init__(self, **replaced: object) -> None:
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> object:
        return getattr(REAL, name)


REAL = module._libc
