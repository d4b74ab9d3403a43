"""Start-up of streams: what is damaged is named by offset, and every other message keeps its own.

All begin with the same 24 messages, synced eight at a time (s is the SYNCED of each), in three
segments:

    1  header  0  1  2  3  4  5  6  7  s  8  9 10 ·   (the · are zeros up to the end of the file)
    2  header 11 12 13 14 15  s 16 17 18 19 20 21 ·
    3  header 22 23  s ················

In the drawings x stands for what is damaged.
"""

import io
import logging
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.damage import contents, make_newer
from tests.server.written_log import NEXT_QUEUE_ID, Run
from tests.storage.format_v1 import HEADER_BYTES, PUBLISH, Record, read_segment

from leporid.broker.stored import KINDS
from leporid.server.check import DAMAGED, OK, WRONG_USE, check
from leporid.server.recovery import LogRefused
from leporid.storage.definitions import Definitions
from leporid.storage.streams import StreamLogs

SYNCED = 6
BODIES = [b"%02d" % index * 700 for index in range(24)]


def run_of(directory: Path, streams: tuple[str, ...] = ("s",), **options: tuple[int, ...]) -> Run:
    return Run(directory, (), streams=streams, **options)  # type: ignore[arg-type]


class WrittenStream:
    """A data directory with one stream, after a crash that left nothing half done."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        run = run_of(directory)
        for start in range(0, len(BODIES), 8):
            run.publish(*BODIES[start : start + 8], key="s")
            run.sync()
        run.crash()
        self.places: list[tuple[int, Record]] = []
        for number in (1, 2, 3):
            _, records = read_segment(self.path(number))
            self.places += [(number, record) for record in records if record.kind == PUBLISH]
        assert [number for number, _ in self.places] == [1] * 11 + [2] * 11 + [3] * 2

    def path(self, number: int) -> Path:
        return self.directory / "streams" / "00000001" / f"{number:08d}.segment"

    def change(self, number: int, offset: int, data: bytes) -> None:
        content = bytearray(self.path(number).read_bytes())
        content[offset : offset + len(data)] = data
        self.path(number).write_bytes(content)

    def flip(self, message: int) -> Record:
        number, record = self.places[message]
        self.change(number, record.body_at + 100, b"\xff")
        return record


@pytest.fixture
def log(tmp_path: Path) -> WrittenStream:
    return WrittenStream(tmp_path)


@pytest.fixture(autouse=True)
def _log_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def told(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """Warnings and errors since the last time."""
    lines = [line.getMessage() for line in caplog.records if line.levelno >= level]
    caplog.clear()
    return lines


def quarantine(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / "quarantine").glob("*")}


def checked(directory: Path) -> tuple[int, list[str]]:
    out = io.StringIO()
    code = check(directory, out)
    return code, out.getvalue().splitlines()


def without(*lost: int) -> dict[int, bytes]:
    return {offset: body for offset, body in enumerate(BODIES) if offset not in lost}


# ------------------------------------------------------------------ whole streams


def test_everything_is_there_again(log: WrittenStream, caplog: pytest.LogCaptureFixture):
    for _ in range(3):
        run = run_of(log.directory)
        assert run.read() == without()
        run.crash()
    assert told(caplog) == []
    assert checked(log.directory)[0] == OK
    run = run_of(log.directory)
    run.publish(b"and on it goes", key="s")
    run.sync()
    assert run.read()[24] == b"and on it goes"


def test_streams_do_not_mix(tmp_path: Path):
    names = ("a", "b", "c")
    for life in range(3):
        run = run_of(tmp_path, names)
        for name in names:
            assert run.read(name) == {at: f"{name}{at}".encode() for at in range(life * 2)}
        for offset in (2 * life, 2 * life + 1):
            run.publish(*(), key="a")
            for name in names:
                run.publish(f"{name}{offset}".encode(), key=name)
            run.sync()
        run.crash()


def test_unused_space_is_given_back(log: WrittenStream):
    run = run_of(log.directory)
    run.publish(b"x", key="s")
    run.sync()
    run.crash()
    run = Run(log.directory, (), streams=("s",), segment_bytes=1024 * 1024)
    run.publish(b"x", key="s")
    run.sync()
    run.crash()
    newest = log.path(max(run.logs.numbers(1)))
    assert newest.stat().st_size == 1024 * 1024
    run_of(log.directory).crash()
    assert newest.stat().st_size < 4096
    assert checked(log.directory)[0] == OK


def test_there_may_be_more_streams_than_files_that_the_process_may_open(tmp_path: Path):
    names = tuple(f"s{number}" for number in range(60))
    run = run_of(tmp_path, names)
    in_use = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 10, limits[1]))
    try:
        for _ in range(2):
            run.publish(b"to all", key=",".join(names))
            run.sync()
        run.crash()
        run = run_of(tmp_path, names)
        assert all(run.read(name) == {0: b"to all", 1: b"to all"} for name in names)
        run.crash()
        assert checked(tmp_path)[0] == OK
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


# ------------------------------------------------------------------ damage


def test_a_damaged_message_is_lost_and_the_others_keep_their_offsets(
    log: WrittenStream, caplog: pytest.LogCaptureFixture
):
    # 1  header  0  1  2  3  4  x  6  7  s  8  9 10 ·
    record = log.flip(5)
    damaged = log.path(1).read_bytes()
    name = f"stream-00000001-00000001-{record.offset}.bytes"
    problems = [
        f"damaged: {log.path(1)}: {record.size} bytes at {record.offset} fail their checksum",
        f"damaged: {log.path(1)}: the messages 5 to 5 before its end are lost",
    ]
    assert checked(log.directory)[1][:-1] == problems
    for _ in range(2):
        # It stays where it is, and is told of until it is too old: the offset stays lost.
        run = run_of(log.directory)
        assert run.read() == without(5)
        place = f"{record.size} bytes at {record.offset} of {log.path(1)}"
        kept = f"{log.directory}/quarantine/{name}"
        assert told(caplog) == [
            f"damaged: {place} fail their checksum; kept as {kept}",
            "damaged: stream 's' has lost its messages 5 to 5; the others keep their offsets",
        ]
        run.crash()
        assert quarantine(log.directory) == {name: damaged[record.offset : record.end]}
        assert log.path(1).read_bytes() == damaged
        code, lines = checked(log.directory)
        assert (code, lines[:-1]) == (DAMAGED, problems)


def a_file_that_is_no_segment(log: WrittenStream) -> None:
    # 2  xxxxxx 11 12 13 14 15  s 16 17 18 19 20 21 ·
    log.change(2, 0, b"x")


def a_file_that_is_empty(log: WrittenStream) -> None:
    log.path(2).write_bytes(b"")


def a_file_that_is_missing(log: WrittenStream) -> None:
    log.path(2).unlink()


@pytest.mark.parametrize(
    "case", [a_file_that_is_no_segment, a_file_that_is_empty, a_file_that_is_missing]
)
def test_messages_of_a_file_that_cannot_be_used_are_lost(
    log: WrittenStream,
    caplog: pytest.LogCaptureFixture,
    case: Callable[[WrittenStream], None],
):
    case(log)
    moved = log.path(2).exists()
    problem = f"damaged: {log.path(3)}: the messages 11 to 21 before its end are lost"
    expected = without(*range(11, 22))
    for life in range(2):
        assert problem in checked(log.directory)[1]
        run = run_of(log.directory)
        assert run.read() == expected
        lines = told(caplog)
        assert len(lines) == (2 if moved and life == 0 else 1)
        assert lines[-1] == (
            "damaged: stream 's' has lost its messages 11 to 21; the others keep their offsets"
        )
        run.publish(b"next", key="s")
        run.sync()
        expected[24 + life] = b"next"
        run.crash()
    assert list(quarantine(log.directory)) == ["stream-00000001-00000002.segment"] * moved


def test_an_older_segment_without_its_end_has_lost_messages(
    log: WrittenStream, caplog: pytest.LogCaptureFixture
):
    # 1  header  0  1  2  3  4  5  6  7  s  8  xxxxx
    _, record = log.places[9]
    log.path(1).write_bytes(log.path(1).read_bytes()[: record.offset + 100])
    assert checked(log.directory)[0] == DAMAGED
    run = run_of(log.directory)
    assert run.read() == without(9, 10)
    lines = told(caplog)
    assert [line[:9] for line in lines] == ["damaged: "] * 3
    assert lines[-1].endswith("has lost its messages 9 to 10; the others keep their offsets") or (
        lines[-2].endswith("has lost its messages 9 to 10; the others keep their offsets")
    )


# ------------------------------------------------------------------ writes that did not finish


def test_the_end_of_a_write_that_did_not_finish_is_cut_off(
    log: WrittenStream, caplog: pytest.LogCaptureFixture
):
    # 3  header 22 23  xx·············
    run = run_of(log.directory)
    run.publish(b"a" * 1400, b"b" * 1400, key="s")
    run.sync()
    run.crash()
    path = log.path(max(run.logs.numbers(1)))
    _, records = read_segment(path)
    data = bytearray(path.read_bytes())
    data[records[1].offset + 600 :] = bytes(len(data) - records[1].offset - 600)
    path.write_bytes(data)
    code, lines = checked(log.directory)
    assert (code, len(lines)) == (OK, 2)
    run = run_of(log.directory)
    assert run.read() == without() | {24: b"a" * 1400}
    (line,) = told(caplog)
    assert line.startswith("torn end: 600 bytes")
    # Nobody was told of it: the offset is still to be given.
    run.publish(b"c", key="s")
    run.sync()
    assert run.read()[25] == b"c"
    run.crash()
    assert checked(log.directory)[0] == OK


def test_a_write_over_several_segments_is_given_up_from_its_first_loss_on(
    log: WrittenStream, caplog: pytest.LogCaptureFixture
):
    # 4  header 24 25 ···· 27 28 29 30 31 32 33 34 ·    (pages reach the disk in any order)
    # 5  header 35 36 37 38 39 40 41 42 43 44 45 ·
    # 6  header 46 47  s ·
    run = run_of(log.directory)
    run.publish(*BODIES, key="s")
    run.sync()
    run.crash()
    path = log.path(4)
    _, records = read_segment(path)
    log.change(4, records[2].offset, bytes(records[2].size))
    run = run_of(log.directory)
    assert run.read() == without() | {24: BODIES[0], 25: BODIES[1]}
    lines = told(caplog)
    assert [line.split(":")[0] for line in lines] == ["torn end"] * len(lines)
    run.publish(b"c", key="s")
    run.sync()
    assert run.read()[26] == b"c"
    run.crash()
    assert checked(log.directory) == (
        OK,
        [f"{log.directory}: 6 segments, {checked(log.directory)[1][0].split(', ')[1]}, whole"],
    )
    assert max(run_of(log.directory).read()) == 26
    assert told(caplog) == []


def test_a_write_whose_last_fact_begins_a_segment_is_given_up_without_a_trace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    # 1  header  0  s  1  2  x  4  5  6  7  8  9 10 11
    # 2  header  s ·
    size = 1416  # eleven of them fill the segment
    run = run_of(tmp_path)
    for bodies in ([b"0"], [b"x" * size] * 11):
        run.publish(*bodies, key="s")
        run.sync()
    run.crash()
    path = run.logs.files(1).path
    (_, first), (_, second) = read_segment(path(1)), read_segment(path(2))
    assert ([record.kind for record in second], len(first)) == ([SYNCED], 13)
    data = bytearray(path(1).read_bytes())
    data[first[4].offset : first[4].end] = bytes(first[4].size)
    path(1).write_bytes(data)
    run = run_of(tmp_path)
    assert list(run.read()) == [0, 1, 2]
    assert [line.split(":")[0] for line in told(caplog)] == ["torn end"] * 2
    run.publish(b"c", key="s")
    run.sync()
    run.crash()
    assert checked(tmp_path)[0] == OK
    assert list(run_of(tmp_path).read()) == [0, 1, 2, 3]
    assert told(caplog) == []


def test_a_file_that_was_made_and_never_written_to_is_deleted(
    log: WrittenStream, caplog: pytest.LogCaptureFixture
):
    log.path(4).write_bytes(bytes(4096))
    assert checked(log.directory)[0] == OK
    run = run_of(log.directory)
    assert run.read() == without()
    assert told(caplog) == []
    assert not log.path(4).exists()


# ------------------------------------------------------------------ directories


def test_what_is_left_of_a_deleted_stream_is_removed(
    log: WrittenStream, caplog: pytest.LogCaptureFixture
):
    definitions = Definitions(log.directory / "definitions.db", KINDS)
    definitions.close()
    left = log.path(1).parent
    assert checked(log.directory) == (
        OK,
        [
            f"{left} is left of a stream that was deleted: the next start removes it",
            f"{log.directory}: 1 segment, 1 record, whole",
        ],
    )
    run_of(log.directory, ()).crash()
    assert list((log.directory / "streams").iterdir()) == []
    assert quarantine(log.directory) == {}
    assert told(caplog) == []


def test_a_deleted_stream_takes_its_directory_with_it(log: WrittenStream):
    run = run_of(log.directory, ("s", "t"))
    run.publish(b"x", key="t")
    run.sync()
    run.streams["s"].retire()
    run.sync()
    assert run.logs.ids() == [2]
    assert run.read("t") == {0: b"x"}


def test_the_messages_of_a_stream_that_cannot_be_made_stay(
    log: WrittenStream, caplog: pytest.LogCaptureFixture
):
    # Its definition does not fit this version, say; the next one may know it.
    before = contents(log.directory / "streams")
    run_of(log.directory, (), unmade=(1,)).crash()
    assert contents(log.directory / "streams") == before
    (line,) = told(caplog)
    assert line == f"{log.path(1).parent} belongs to no stream that could be made; it stays"


def test_other_things_are_set_aside(log: WrittenStream, caplog: pytest.LogCaptureFixture):
    (log.directory / "streams" / "notes.txt").write_bytes(b"milk")
    (log.path(1).parent / "more.txt").write_bytes(b"bread")
    assert checked(log.directory)[1][:-1] == [
        f"damaged: {log.directory}/streams/notes.txt is no stream's directory",
        f"damaged: {log.path(1).parent}/more.txt is no segment of the log",
    ]
    assert run_of(log.directory).read() == without()
    assert len(told(caplog)) == 2
    assert quarantine(log.directory) == {
        "streams-notes.txt": b"milk",
        "stream-00000001-more.txt": b"bread",
    }


# ------------------------------------------------------------------ what is refused


def test_streams_that_the_definitions_never_had_are_refused(log: WrittenStream):
    # definitions.db is lost, or an old copy: all of the stream would be taken for a leftover.
    path = log.directory / "streams" / f"{NEXT_QUEUE_ID:08d}"
    path.mkdir()
    log.flip(5)
    (log.directory / "log" / "notes.txt").write_bytes(b"milk")
    before = contents(log.directory)
    with pytest.raises(LogRefused, match=r"00000100 is that of a stream, but the definitions"):
        run_of(log.directory)
    assert contents(log.directory) == before


def test_a_newer_format_is_refused_and_nothing_is_changed(
    log: WrittenStream, caplog: pytest.LogCaptureFixture
):
    log.flip(5)
    make_newer(log.path(2))
    (log.directory / "log" / "notes.txt").write_bytes(b"milk")
    (log.directory / "streams" / "00000099").mkdir()
    before = contents(log.directory)
    with pytest.raises(LogRefused, match="segment 2: format 2 is not known here"):
        run_of(log.directory)
    assert contents(log.directory) == before
    assert told(caplog) == []
    assert checked(log.directory)[0] == WRONG_USE


def test_a_file_that_cannot_be_read_ends_the_start_and_nothing_is_changed(
    log: WrittenStream, monkeypatch: pytest.MonkeyPatch
):
    log.flip(5)
    before = contents(log.directory)
    real = StreamLogs.files

    def dying(logs: StreamLogs, stream_id: int) -> object:
        files = real(logs, stream_id)
        monkeypatch.setattr(files, "map_whole", lambda number: fail(files.path(number)))
        return files

    monkeypatch.setattr(StreamLogs, "files", dying)
    with pytest.raises(OSError, match=r"00000001\.segment"):
        run_of(log.directory)
    assert contents(log.directory) == before
    assert checked(log.directory)[0] == WRONG_USE


def fail(path: Path) -> None:
    raise OSError(5, "Input/output error", str(path))


def test_segments_have_headers_of_that_size(log: WrittenStream):
    # What `stream_recovery` takes for a segment without records.
    assert log.places[0][1].offset == HEADER_BYTES
