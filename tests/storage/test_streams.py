"""Streams' files: one directory each, few of them open, all on disk when `store` returns."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leporid.storage import streams as module
from leporid.storage.segments import SegmentFiles, Write
from leporid.storage.streams import StreamLogs, StreamWork


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[StreamLogs]:
    logs = StreamLogs(tmp_path / "streams", open_max=4)
    yield logs
    logs.close()


# Longer than a busy machine takes to start a thread; nobody waits so long if another one comes.
MEET_SECONDS = 10.0


class PowerCut:
    """Watches what is asked of the disk, and knows what a power cut would take.

    Attributes:
        dirty: files with bytes, and directories with names, that no sync waited for.
        errors: raised by the sync of the file or directory of that name, once each.
        open_files: descriptors of segment files.
        meeting: set when two threads beside the test's sync; the first of them waits for it.
    """

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = root
        self.dirty: set[str] = set()
        self.errors: dict[str, OSError] = {}
        self.syncs: list[str] = []
        self.threads: set[int] = set()
        self.beginner = threading.get_ident()
        self.meeting: threading.Event | None = None
        self._lock = threading.Lock()
        self._real = {name: getattr(os, name) for name in ("open", "pwrite", "mkdir")}
        self._fsync = os.fsync
        patch.setattr(os, "open", self._open)
        patch.setattr(os, "pwrite", self._pwrite)
        patch.setattr(os, "mkdir", self._mkdir)
        patch.setattr(os, "fsync", self._sync)
        patch.setattr(os, "fdatasync", self._sync)

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else "elsewhere"

    def _of(self, fd: int) -> str:
        return self._name(Path(f"/proc/self/fd/{fd}").readlink())

    def _open(self, path: Path, flags: int, *more: int, **named: int) -> int:
        if flags & os.O_CREAT:
            self.dirty.add(self._name(Path(path).parent))
        fd: int = self._real["open"](path, flags, *more, **named)
        return fd

    def _mkdir(self, path: Path, *more: int) -> None:
        self._real["mkdir"](path, *more)
        self.dirty.add(self._name(Path(path).parent))

    def _pwrite(self, fd: int, data: bytes, at: int) -> int:
        self.dirty.add(self._of(fd))
        done: int = self._real["pwrite"](fd, data, at)
        return done

    def _sync(self, fd: int) -> None:
        name = self._of(fd)
        with self._lock:
            self.threads.add(threading.get_ident())
            met = len(self.threads) > 2
        if self.meeting is not None:
            if met:
                self.meeting.set()
            elif threading.get_ident() != self.beginner:
                self.meeting.wait(MEET_SECONDS)
        with self._lock:
            self.syncs.append(name)
            if name in self.errors:
                raise self.errors.pop(name)
            self.dirty.discard(name)

    @property
    def open_files(self) -> int:
        # Other tests' files do not count, nor the descriptor that lists them.
        there = (fd.readlink() for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink())
        return sum(path.suffix == ".segment" and path.is_relative_to(self.root) for path in there)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PowerCut:
    return PowerCut(monkeypatch, tmp_path)


class Beside:
    """Stands for the commit log."""

    def __init__(self) -> None:
        self.synced: list[bool] = []

    def sync(self, *, wait: bool) -> None:
        self.synced.append(wait)


def work(stream: int, number: int = 1, at: int = 0, data: bytes = b"abc") -> StreamWork:
    return (stream, [(number, 4096, at, data)], [])


def content(logs: StreamLogs, stream: int, number: int = 1) -> bytes:
    return logs.files(stream).path(number).read_bytes().rstrip(b"\0")


# ------------------------------------------------------------------ writing


def test_a_stream_has_a_directory_of_its_own(logs: StreamLogs):
    logs.store([work(7), work(2**31 - 1, 12)])
    assert sorted(
        str(path.relative_to(logs.directory)) for path in logs.directory.rglob("*.*")
    ) == [
        "00000007/00000001.segment",
        "2147483647/00000012.segment",
    ]
    assert (content(logs, 7), content(logs, 2**31 - 1, 12)) == (b"abc", b"abc")
    assert logs.ids() == [7, 2**31 - 1]


def test_there_is_no_directory_before_the_first_message(logs: StreamLogs):
    assert (logs.ids(), logs.foreign(), logs.numbers(7)) == ([], [], [])
    logs.drop(7, 1)
    logs.delete(7)
    logs.store([(7, [], []), (8, None, None)])
    assert not logs.directory.exists()


def test_files_and_every_name_on_the_way_are_on_disk(logs: StreamLogs, disk: PowerCut):
    logs.store([work(7), work(8)])
    assert disk.dirty == set()
    assert sorted(disk.syncs) == [
        ".",
        "streams",
        "streams/00000007",
        "streams/00000007/00000001.segment",
        "streams/00000008",
        "streams/00000008/00000001.segment",
    ]


def test_names_are_synced_when_they_are_new_and_not_otherwise(logs: StreamLogs, disk: PowerCut):
    logs.store([work(7), work(8)])
    disk.syncs.clear()
    logs.store([work(7, at=3), work(8, at=3)])
    assert sorted(disk.syncs) == [
        "streams/00000007/00000001.segment",
        "streams/00000008/00000001.segment",
    ]
    assert content(logs, 7) == b"abcabc"


def test_a_directory_that_a_run_before_made_and_did_not_sync_is_synced(
    logs: StreamLogs, disk: PowerCut
):
    logs.path(7).mkdir(parents=True)
    logs.store([work(7)])
    assert disk.dirty <= {"."}
    assert "streams" in disk.syncs


def test_without_waiting_no_message_is_synced(logs: StreamLogs, disk: PowerCut):
    logs.store([work(7)])
    disk.syncs.clear()
    beside = Beside()
    logs.store([work(7, 2), work(8)], wait=False, beside=beside)
    logs.drop(7, 1, wait=False)
    assert (disk.syncs, beside.synced) == ([], [False])


@pytest.mark.parametrize("count", [1, 3, 4, 5, 9, 30])
def test_the_log_beside_is_synced_once_however_many_streams(logs: StreamLogs, count: int):
    beside = Beside()
    logs.store([work(stream) for stream in range(1, count + 1)], beside=beside)
    assert beside.synced == [True]


def test_many_files_are_synced_side_by_side_by_few_threads(tmp_path: Path, disk: PowerCut):
    logs = StreamLogs(tmp_path / "streams")
    disk.meeting = threading.Event()
    logs.store([work(stream) for stream in range(1, 101)])
    assert disk.dirty == set()
    syncing = disk.threads - {threading.get_ident()}
    assert 1 < len(syncing) <= module.SYNC_THREADS
    logs.close()
    assert not syncing & {thread.ident for thread in threading.enumerate()}


def test_one_file_is_synced_without_another_thread(logs: StreamLogs, disk: PowerCut):
    logs.store([work(7)])
    assert disk.threads == {threading.get_ident()}


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(1, 12), st.integers(0, 2)), max_size=12, unique_by=lambda p: p[0]
        ),
        max_size=5,
    )
)
def test_whatever_is_written_is_on_disk_and_few_files_are_open(
    tmp_path_factory: pytest.TempPathFactory, generations: list[list[tuple[int, int]]]
):
    """Streams write to their newest segment or begin others, in generations of any size."""
    root = tmp_path_factory.mktemp("streams")
    with pytest.MonkeyPatch.context() as patch:
        disk = PowerCut(patch, root)
        logs = StreamLogs(root / "streams", open_max=4)
        newest: dict[int, int] = {}
        expected: dict[tuple[int, int], bytes] = {}
        for generation, parts in enumerate(generations):
            works: list[StreamWork] = []
            for stream, begun in parts:
                first = newest.get(stream, 1)
                newest[stream] = first + begun
                writes: list[Write] = []
                for number in range(first, first + begun + 1):
                    before = expected.get((stream, number), b"")
                    data = b"%d," % generation
                    expected[stream, number] = before + data
                    writes.append((number, 4096, len(before), data))
                works.append((stream, writes, []))
            logs.store(works)
            assert disk.dirty == set()
            assert disk.open_files <= 4
        logs.close()
        assert disk.open_files == 0
    for (stream, number), data in expected.items():
        assert content(logs, stream, number) == data


def test_a_file_is_synced_before_it_is_closed(
    logs: StreamLogs, disk: PowerCut, monkeypatch: pytest.MonkeyPatch
):
    # What went wrong with pages of a file that is closed, nobody might be told.
    real = os.close

    def close(fd: int) -> None:
        assert disk._of(fd) not in disk.dirty
        real(fd)

    monkeypatch.setattr(os, "close", close)
    for _ in range(2):
        logs.store([work(stream) for stream in range(1, 12)])


# ------------------------------------------------------------------ errors


def name(stream: int) -> str:
    return f"streams/{stream:08d}/00000001.segment"


@pytest.mark.parametrize("streams", [1, 3, 11])
def test_a_full_disk_takes_the_same_writes_again(logs: StreamLogs, disk: PowerCut, streams: int):
    works = [work(stream) for stream in range(1, streams + 1)]
    for stream in range(1, streams + 1):
        disk.errors = {name(stream): OSError(errno.ENOSPC, "full")}
        with pytest.raises(OSError, match="full"):
            logs.store(works)
    logs.store(works)
    assert disk.dirty == set()
    assert [content(logs, stream) for stream in range(1, streams + 1)] == [b"abc"] * streams


def test_segments_that_were_begun_before_the_disk_was_full_are_written_again(
    logs: StreamLogs, disk: PowerCut
):
    # The first part of the generation is on disk, its full segments are closed, the second fails.
    works: list[StreamWork] = [
        (stream, [(1, 4096, 0, b"a"), (2, 4096, 0, b"b")], []) for stream in range(1, 9)
    ]
    disk.errors = {name(8): OSError(errno.ENOSPC, "full")}
    with pytest.raises(OSError, match="full"):
        logs.store(works)
    logs.store(works)
    assert disk.dirty == set()
    assert [content(logs, stream, 2) for stream in range(1, 9)] == [b"b"] * 8


def test_no_room_for_a_directory_or_a_file(
    logs: StreamLogs, disk: PowerCut, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    for call in ("mkdir", "posix_fallocate"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            for _ in range(2):
                with pytest.raises(OSError, match=r"full|No space left"):
                    logs.store([work(7), work(8)])
    logs.store([work(7), work(8)])
    assert disk.dirty == set()


@pytest.mark.parametrize("dying", [1, 2, 3])
def test_a_dying_disk_is_worse_than_a_full_one(logs: StreamLogs, disk: PowerCut, dying: int):
    # Who is told of the full disk only would write on.
    disk.errors = {name(stream): OSError(errno.ENOSPC, "full") for stream in (1, 2, 3)}
    disk.errors[name(dying)] = OSError(errno.EIO, "dying")
    with pytest.raises(OSError, match="dying"):
        logs.store([work(1), work(2), work(3)])
    assert len([one for one in disk.syncs if one.endswith(".segment")]) == 3


def test_a_name_that_could_not_be_synced_is_synced_by_the_next_call(
    logs: StreamLogs, disk: PowerCut
):
    for directory in ("streams/00000007", "streams"):
        disk.errors = {directory: OSError(errno.ENOSPC, "full")}
        with pytest.raises(OSError, match="full"):
            logs.store([work(7)])
    logs.store([work(7)])
    assert disk.dirty == set()


# ------------------------------------------------------------------ deleting


def test_segments_are_dropped_also_those_of_a_run_before(logs: StreamLogs, tmp_path: Path):
    logs.store([(7, [(number, 4096, 0, b"a") for number in (1, 2, 3)], [])])
    logs.drop(7, 1)
    again = StreamLogs(tmp_path / "streams")
    again.drop(7, 2)
    again.drop(7, 2)
    assert again.numbers(7) == [3]


def test_a_stream_is_deleted_with_all_that_is_in_its_directory(logs: StreamLogs, disk: PowerCut):
    logs.store([work(7), work(8)])
    (logs.path(7) / "notes.txt").write_bytes(b"milk")
    logs.delete(7)
    logs.delete(7)
    assert logs.ids() == [8]
    assert disk.open_files == 1
    logs.store([work(8, at=3)])
    assert content(logs, 8) == b"abcabc"


# ------------------------------------------------------------------ what is there


def test_streams_and_other_things(logs: StreamLogs):
    others = ["000000009", "00000000", f"{2**31}", "7", "notes"]
    for directory in ("00000009", "00000010", *others, "lost+found"):
        (logs.directory / directory).mkdir(parents=True)
    (logs.directory / "00000011").write_bytes(b"a file")
    assert logs.ids() == [9, 10]
    assert [path.name for path in logs.foreign()] == sorted([*others, "00000011"])


def test_what_is_set_aside_says_where_it_was(logs: StreamLogs, tmp_path: Path):
    logs.store([work(7)])
    (logs.directory / "notes").mkdir()
    files = logs.files(7)
    (logs.path(7) / "x").write_bytes(b"x")
    aside: list[Callable[[], Path]] = [
        lambda: files.set_aside(1, b"bytes", 64),
        lambda: files.set_file_aside(files.path(1)),
        lambda: files.set_file_aside(logs.path(7) / "x"),
        lambda: logs.set_aside(logs.directory / "notes"),
    ]
    assert [str(move().relative_to(tmp_path)) for move in aside] == [
        "quarantine/stream-00000007-00000001-64.bytes",
        "quarantine/stream-00000007-00000001.segment",
        "quarantine/stream-00000007-x",
        "quarantine/streams-notes",
    ]
    assert (logs.foreign(), logs.files(7).foreign()) == ([], [])


def test_a_mapping_outlives_the_stream(logs: StreamLogs):
    logs.store([work(7)])
    mapping = logs.map(7, 1)
    logs.delete(7)
    assert bytes(mapping)[:4] == b"abc\0"
    with pytest.raises(FileNotFoundError):
        logs.map(7, 1)


def test_a_log_is_the_same_as_the_commit_log(logs: StreamLogs):
    assert isinstance(logs.files(7), SegmentFiles)
    assert logs.files(7) is logs.files(7)
