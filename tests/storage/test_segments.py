"""Segment files: their space, their names, what is set aside; FORMAT.md says what is in them."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from leporid.storage.segments import NUMBER_MAX, Extent, SegmentFiles


@pytest.fixture
def files(tmp_path: Path) -> Iterator[SegmentFiles]:
    files = SegmentFiles(tmp_path / "log")
    yield files
    files.close()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the disk, in order; files and directories by name."""
    steps: list[str] = []

    def name_of(fd: int) -> str:
        return Path(f"/proc/self/fd/{fd}").readlink().name

    def watch(name: str, describe: object) -> None:
        real = getattr(os, name)

        def watched(*arguments: object, **options: object) -> object:
            steps.append(f"{name} {describe(*arguments)}")  # type: ignore[operator]
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, watched)

    watch("fsync", name_of)
    watch("fdatasync", name_of)
    watch("posix_fallocate", lambda fd, at, size: f"{name_of(fd)} {size}")
    watch("pwrite", lambda fd, data, at: f"{name_of(fd)} {at}+{len(data)}")
    watch("unlink", lambda path: Path(path).name)
    return steps


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


# ------------------------------------------------------------------ writing


def test_a_file_has_its_space_before_its_first_byte_and_its_name_before_sync_returns(
    files: SegmentFiles, steps: list[str]
):
    files.write([(1, 8192, 0, b"abc"), (2, 4096, 0, b"de")])
    files.sync()
    assert steps == [
        "posix_fallocate 00000001.segment 8192",
        "pwrite 00000001.segment 0+3",
        "posix_fallocate 00000002.segment 4096",
        "pwrite 00000002.segment 0+2",
        "fdatasync 00000001.segment",
        "fdatasync 00000002.segment",
        "fsync log",
    ]
    assert files.path(1).read_bytes() == b"abc".ljust(8192, b"\0")
    assert files.path(1).stat().st_mode & 0o777 == 0o600


def test_the_directory_is_synced_when_a_file_is_new_and_not_otherwise(
    files: SegmentFiles, steps: list[str]
):
    files.write([(1, 4096, 0, b"a")])
    files.sync()
    steps.clear()
    files.write([(1, 4096, 1, b"b")])
    files.sync()
    assert steps == ["pwrite 00000001.segment 1+1", "fdatasync 00000001.segment"]


def test_a_write_that_is_cut_short_goes_on(files: SegmentFiles, monkeypatch: pytest.MonkeyPatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:3], at))
    files.write([(1, 4096, 10, memoryview(b"0123456789"))])
    assert files.path(1).read_bytes()[:21] == bytes(10) + b"0123456789" + bytes(1)


@pytest.mark.parametrize("call", ["posix_fallocate", "pwrite", "fdatasync", "fsync"])
def test_an_error_says_which_file_it_is_about(
    files: SegmentFiles, monkeypatch: pytest.MonkeyPatch, call: str
):
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def store() -> None:
        files.write([(1, 4096, 0, b"a")])
        files.sync()

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="Input/output error") as caught:
        store()
    assert caught.value.filename == str(files.directory if call == "fsync" else files.path(1))


class FullDisk:
    """Stands for `posix_fallocate` on a disk with so much room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.real = os.posix_fallocate

    def __call__(self, fd: int, at: int, size: int) -> None:
        if size > self.room:
            # As ext4 does: what there was is taken all the same.
            self.real(fd, at, max(self.room, 1))
            raise OSError(errno.ENOSPC, "full")
        self.real(fd, at, size)
        self.room -= size


def test_a_full_disk_is_an_error_before_the_first_byte(
    files: SegmentFiles, monkeypatch: pytest.MonkeyPatch
):
    disk = FullDisk(4095)
    monkeypatch.setattr(os, "posix_fallocate", disk)
    monkeypatch.setattr(os, "pwrite", None)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left") as caught:
            files.write([(1, 65536, 0, b"a" * 100)])
        assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    files.write([(1, 65536, 0, b"a" * 100)])
    files.sync()
    assert files.path(1).read_bytes() == (b"a" * 100).ljust(65536, b"\0")


def test_on_a_disk_that_is_nearly_full_a_file_grows_as_it_must(
    files: SegmentFiles, monkeypatch: pytest.MonkeyPatch
):
    disk = FullDisk(10_000)  # that is two blocks
    monkeypatch.setattr(os, "posix_fallocate", disk)
    sizes = []
    for offset in (0, 2000, 4000, 6000):
        files.write([(1, 65536, offset, b"a" * 2000)])
        sizes.append(files.path(1).stat().st_size)
    assert sizes == [4096, 4096, 8192, 8192]
    with pytest.raises(OSError, match="No space left"):
        files.write([(1, 65536, 8000, b"a" * 2000)])
    assert files.path(1).stat().st_size == 8192
    disk.room = 100_000
    files.write([(1, 65536, 8000, b"a" * 2000)])
    files.sync()
    assert files.path(1).read_bytes() == (b"a" * 10_000).ljust(65536, b"\0")


def test_another_error_than_a_full_disk_is_not_tried_again(
    files: SegmentFiles, monkeypatch: pytest.MonkeyPatch
):
    attempts = []

    def broken(fd: int, at: int, size: int) -> None:
        attempts.append(size)
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "posix_fallocate", broken)
    with pytest.raises(OSError, match="broken"):
        files.write([(1, 65536, 0, b"a")])
    assert attempts == [65536]


def test_a_file_that_is_there_already_is_not_written_over(files: SegmentFiles):
    files.path(1).write_bytes(b"something")
    with pytest.raises(FileExistsError):
        files.write([(1, 4096, 0, b"a")])
    assert files.path(1).read_bytes() == b"something"


@pytest.mark.parametrize("wait", [True, False])
def test_files_that_are_full_are_closed(files: SegmentFiles, wait: bool):
    before = descriptors()
    for number in range(1, 20):
        files.write([(number, 4096, 0, b"a")])
        files.sync(wait=wait)
    assert descriptors() == before + 1


def test_files_that_were_closed_are_written_on(files: SegmentFiles):
    before = descriptors()
    files.write([(1, 4096, 0, b"a"), (2, 4096, 0, b"b")])
    files.close()
    assert descriptors() == before
    files.sync()
    files.write([(1, 4096, 1, b"c")])
    files.write([(2, 8192, 5000, b"d")])
    files.sync()
    assert files.path(1).read_bytes() == b"ac".ljust(4096, b"\0")
    assert files.path(2).read_bytes() == (b"b".ljust(5000, b"\0") + b"d").ljust(8192, b"\0")


def test_a_file_that_vanished_is_not_made_again(files: SegmentFiles):
    files.write([(1, 4096, 0, b"a")])
    files.close()
    files.path(1).unlink()
    with pytest.raises(FileNotFoundError):
        files.write([(1, 4096, 1, b"b")])


def test_full_files_are_written_again_when_another_log_found_no_room(files: SegmentFiles):
    # The generation is on several disks' worth of files: this one's are synced, another's are not,
    # and then all of it is written again.
    writes = [(number, 4096, 0, b"a") for number in (1, 2)]
    files.write(writes)
    files.sync()
    files.write(writes)
    files.sync()
    assert [files.path(number).read_bytes()[:2] for number in (1, 2)] == [b"a\0"] * 2


def test_without_waiting_nothing_is_synced(files: SegmentFiles, steps: list[str]):
    files.write([(1, 4096, 0, b"a")])
    files.sync(wait=False)
    files.drop(1, wait=False)
    assert [step for step in steps if "sync" in step] == []


def test_what_could_not_be_synced_is_synced_by_the_next_call(
    files: SegmentFiles, monkeypatch: pytest.MonkeyPatch, steps: list[str]
):
    files.write([(1, 4096, 0, b"a")])

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(OSError, match="full"):
            files.sync()
    steps.clear()
    files.sync()
    assert steps == ["fdatasync 00000001.segment", "fsync log"]


# ------------------------------------------------------------------ dropping


def test_each_deletion_is_on_disk_before_the_next(files: SegmentFiles, steps: list[str]):
    files.write([(number, 4096, 0, b"a") for number in (1, 2)])
    files.sync()
    steps.clear()
    for number in (1, 2):
        files.drop(number)
    assert steps == ["unlink 00000001.segment", "fsync log", "unlink 00000002.segment", "fsync log"]
    assert files.numbers() == []


def test_dropping_closes_the_file_and_a_missing_one_is_no_error(files: SegmentFiles):
    before = descriptors()
    files.write([(1, 4096, 0, b"a")])
    files.drop(1)
    files.drop(1)
    files.sync()
    assert descriptors() == before


def test_a_number_that_was_dropped_may_be_given_again(files: SegmentFiles):
    # All of a log was settled, and a later start begins at 1.
    files.write([(1, 8192, 0, b"a")])
    files.drop(1)
    files.write([(1, 4096, 0, b"b")])
    files.sync()
    assert files.path(1).read_bytes() == b"b".ljust(4096, b"\0")


# ------------------------------------------------------------------ what is there


def test_segments_and_other_files(files: SegmentFiles):
    for name in ("00000010.segment", "00000009.segment", f"{NUMBER_MAX}.segment"):
        (files.directory / name).touch()
    others = [
        "000000009.segment",  # a second name for segment 9
        "00000000.segment",
        f"{NUMBER_MAX + 1}.segment",
        "00000011.segment.bak",
        "notes.txt",
    ]
    for name in others:
        (files.directory / name).touch()
    (files.directory / "00000012.segment").mkdir()
    (files.directory / "lost+found").mkdir()  # the log may be a file system of its own
    assert files.numbers() == [9, 10, NUMBER_MAX]
    assert [path.name for path in files.foreign()] == sorted([*others, "00000012.segment"])


def test_blank_files(files: SegmentFiles):
    contents = {1: b"", 2: bytes(3_000_000), 3: bytes(3_000_000) + b"a", 4: b"a"}
    for number, content in contents.items():
        files.path(number).write_bytes(content)
    assert [number for number in contents if files.is_blank(number)] == [1, 2]
    assert [number for number in contents if files.is_empty(number)] == [1]


def test_a_mapping_outlives_the_file(files: SegmentFiles):
    files.write([(1, 4096, 0, b"abc")])
    for mapping in (files.map(1), files.map_whole(1)):
        files.drop(1)
        assert bytes(mapping)[:4] == b"abc\0"


# ------------------------------------------------------------------ setting aside


def test_cut(files: SegmentFiles):
    files.write([(1, 4096, 0, b"abc")])
    files.cut(1, 2)
    assert files.path(1).read_bytes() == b"ab"


def test_bytes_set_aside_are_on_disk_and_nothing_is_overwritten(
    files: SegmentFiles, steps: list[str]
):
    first = files.set_aside(7, b"bad", 64)
    assert first == files.quarantine / "00000007-64.bytes"
    assert steps[-2:] == ["fsync 00000007-64.bytes", "fsync quarantine"]
    second = files.set_aside(7, b"other", 64)
    assert (first.read_bytes(), second.read_bytes()) == (b"bad", b"other")
    # A start that was cut short between setting aside and cutting off does it again.
    assert files.set_aside(7, b"bad", 64) == first
    assert len(list(files.quarantine.iterdir())) == 2


def test_a_file_set_aside_keeps_its_name_if_that_is_free(files: SegmentFiles, steps: list[str]):
    moved = []
    for content in (b"a", b"b", b"b"):
        files.path(3).write_bytes(content)
        moved.append(files.set_file_aside(files.path(3)))
    assert [path.name for path in moved] == [
        "00000003.segment",
        "00000003.segment.1",
        "00000003.segment.2",
    ]
    assert [path.read_bytes() for path in moved] == [b"a", b"b", b"b"]
    assert steps[-2:] == ["fsync quarantine", "fsync log"]
    assert files.numbers() == []


def test_a_directory_can_be_set_aside(files: SegmentFiles):
    (files.directory / "sub").mkdir()
    (files.directory / "sub" / "file").write_bytes(b"x")
    target = files.set_file_aside(files.directory / "sub")
    assert (target / "file").read_bytes() == b"x"
    assert files.foreign() == []


# ------------------------------------------------------------------ backups


def test_where_a_log_ends_and_what_is_closed(files: SegmentFiles):
    files.path(3).write_bytes(b"before")
    assert files.end == Extent(0, 0)
    assert files.closed_below(files.end) == NUMBER_MAX + 1
    before = files.end
    files.write([(4, 4096, 0, b"abc"), (5, 4096, 0, b"de")])
    assert files.end == Extent(5, 2)
    assert files.closed_below(files.end) == 5
    # As of a moment before this run wrote anything: its first file was not there.
    assert files.closed_below(before) == 4
    # After a full disk the same bytes are written once more.
    files.write([(4, 4096, 0, b"abc"), (5, 4096, 0, b"de"), (5, 4096, 2, b"f")])
    assert files.end == Extent(5, 3)


def test_cutting_a_file_with_two_names_leaves_the_other_as_it_was(
    files: SegmentFiles, tmp_path: Path
):
    files.path(1).write_bytes(b"whole" + bytes(100))
    other = tmp_path / "backup.segment"
    other.hardlink_to(files.path(1))
    files.cut(1, 5)
    assert files.path(1).read_bytes() == b"whole"
    assert other.read_bytes() == b"whole" + bytes(100)
    assert files.foreign() == []
    # It is the log's own now.
    assert files.path(1).stat().st_nlink == 1
    files.cut(1, 2)
    assert files.path(1).read_bytes() == b"wh"
