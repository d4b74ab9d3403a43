"""Start-up after a crash and after damage: the rest is kept, the damaged set aside and named.

`tests/server/damage.py` draws each kind of damage.
"""

import io
import itertools
import logging
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.damage import BODIES, CASES, Expected, WrittenLog, contents, make_newer
from tests.server.written_log import SEGMENT_BYTES, Message, Run
from tests.storage.format_v1 import (
    COMMIT,
    IN_TX,
    PUBLISH,
    SETTLE,
    Record,
    read_segment,
)

from leporid.engine.engine import Engine
from leporid.server.check import DAMAGED, OK, check
from leporid.server.recovery import LogRefused, replay
from leporid.storage.segments import SegmentFiles


@pytest.fixture
def log(tmp_path: Path) -> WrittenLog:
    return WrittenLog(tmp_path)


@pytest.fixture(autouse=True)
def _log_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Warnings and errors since the last time."""
    lines = [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING]
    caplog.clear()
    return lines


def quarantine(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / "quarantine").glob("*")}


def records(directory: Path, number: int = 1) -> list[Record]:
    return read_segment(directory / "log" / f"{number:08d}.segment")[1]


def is_whole(directory: Path) -> bool:
    return check(directory, io.StringIO()) == OK


# ------------------------------------------------------------------ damage


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_rest_is_kept_and_the_damaged_is_set_aside(
    log: WrittenLog, caplog: pytest.LogCaptureFixture, case: Callable[[WrittenLog], Expected]
):
    expected = case(log)
    rest = [body for index, body in enumerate(BODIES) if index not in expected.lost]

    run = Run(log.directory)
    lines = told(caplog)
    assert run.bodies() == rest
    assert quarantine(log.directory) == expected.aside
    assert len(lines) == len(expected.problems) + len(expected.notes)
    for name in expected.aside:
        assert any(f"quarantine/{name}" in line for line in lines)
    run.crash()

    # What was found once is not found again.
    assert is_whole(log.directory)
    again = Run(log.directory)
    assert told(caplog) == []
    assert again.bodies() == rest
    assert quarantine(log.directory) == expected.aside
    again.publish(b"and on it goes")
    again.sync()
    assert again.bodies() == [b"and on it goes"]
    again.crash()
    assert is_whole(log.directory)


def test_damage_is_an_error_and_an_unfinished_write_a_warning(
    log: WrittenLog, caplog: pytest.LogCaptureFixture
):
    number, record = log.place(5)
    log.flip(number, record.body_at)
    _, last = log.place(23)
    log.zero(3, last.end - 100, last.end)
    Run(log.directory).crash()
    levels = {line.levelname: line.getMessage() for line in caplog.records}
    torn = last.size - 100
    assert levels["ERROR"] == (
        f"damaged: {record.size} bytes at {record.offset} of {log.path(1)} fail their checksum; "
        f"kept as {log.directory}/quarantine/00000001-{record.offset}.bytes"
    )
    assert levels["WARNING"] == (
        f"torn end: {torn} bytes after the last whole record of {log.path(3)} cut off; "
        f"kept as {log.directory}/quarantine/00000003-{last.offset}.bytes"
    )


def test_damage_found_in_a_start_that_was_cut_short_is_set_aside_once(
    log: WrittenLog, caplog: pytest.LogCaptureFixture
):
    # The start ends before its first sync: what it copied forward is not on disk.
    number, record = log.place(5)
    log.flip(number, record.body_at)
    engine = Engine(1, durable_segment_bytes=SEGMENT_BYTES)
    files = SegmentFiles(log.directory / "log")
    replay(engine, files)
    files.close()
    first = quarantine(log.directory)
    assert len(first) == 1
    run = Run(log.directory)
    assert run.bodies() == [body for index, body in enumerate(BODIES) if index != 5]
    assert quarantine(log.directory) == first


def test_two_damages_at_the_same_place_are_both_kept(tmp_path: Path):
    # As when an old copy of the directory is put back, and damaged once more.
    for byte in (1, 2):
        log = WrittenLog(tmp_path / str(byte))
        number, record = log.place(5)
        log.flip(number, record.body_at, byte)
        if byte == 2:
            (tmp_path / "1" / "quarantine").rename(log.directory / "quarantine")
        Run(log.directory).crash()
    name = f"00000001-{record.offset}.bytes"
    assert sorted(quarantine(log.directory)) == [name, f"{name}.1"]


def test_a_damaged_settle_brings_its_messages_back_and_no_others(tmp_path: Path):
    # 1  header c 0 1 2 S(0) x(1) P(3)
    run = Run(tmp_path)
    run.publish(b"0", b"1", b"2")
    zero, one, _ = run.messages()
    run.ack(zero)
    run.sync()
    run.ack(one)
    run.sync()
    run.publish(b"3")
    run.sync()
    run.crash()
    path = run.files.path(1)
    settle = [record for record in records(tmp_path) if record.kind == SETTLE][1]
    data = bytearray(path.read_bytes())
    data[settle.body_at] ^= 1  # another queue
    path.write_bytes(data)
    run = Run(tmp_path)
    assert run.bodies() == [b"1", b"2", b"3"]
    run.crash()
    assert is_whole(tmp_path)
    assert Run(tmp_path).bodies() == [b"1", b"2", b"3"]


# ------------------------------------------------------------------ what is refused


def test_a_newer_format_is_refused_and_nothing_is_changed(
    log: WrittenLog, caplog: pytest.LogCaptureFixture
):
    # Segment 1 is damaged, segment 2 newer, and there is a foreign file: none of it is touched.
    log.flip(1, log.place(5)[1].body_at)
    make_newer(log.path(2))
    (log.directory / "log" / "notes.txt").write_bytes(b"milk")
    before = contents(log.directory)
    with pytest.raises(LogRefused, match="segment 2: format 2 is not known here"):
        Run(log.directory)
    assert contents(log.directory) == before
    assert told(caplog) == []


def test_a_damaged_version_is_damage_and_not_a_newer_format(log: WrittenLog):
    log.flip(2, 8, 2)
    assert Run(log.directory).bodies() == BODIES[:11] + BODIES[22:]


def test_a_log_about_unknown_queues_is_refused_and_nothing_is_changed(log: WrittenLog):
    # definitions.db is lost, or an old copy: nothing would refer to any message, and all would go.
    before = contents(log.directory)
    files = SegmentFiles(log.directory / "log")
    with pytest.raises(
        LogRefused, match="knows queue 1, but the definitions never had more than 0"
    ):
        replay(Engine(1), files, next_queue_id=1)
    files.close()
    assert contents(log.directory) == before


def test_messages_of_queues_that_were_deleted_are_not_kept(tmp_path: Path):
    Run(tmp_path, ("a", "b")).crash()
    run = Run(tmp_path, ("a", "b"))
    run.publish(*[b"x" * 3000] * 20, key="b")
    run.publish(b"kept", key="a")
    run.sync()
    run.crash()
    files = SegmentFiles(tmp_path / "log")
    assert replay(Engine(1), files, next_queue_id=3).publishes == 21
    files.close()
    run = Run(tmp_path, ("a",))
    assert run.bodies("a") == [b"kept"]
    assert len(run.files.numbers()) < 4


def test_each_segment_that_was_read_is_told_of(log: WrittenLog):
    files = SegmentFiles(log.directory / "log")
    read: list[None] = []
    found = replay(Engine(1), files, progress=lambda: read.append(None))
    files.close()
    assert len(read) == found.segments == 3


def test_an_empty_log_goes_with_any_definitions(tmp_path: Path):
    files = SegmentFiles(tmp_path / "log")
    found = replay(Engine(1), files, next_queue_id=1)
    files.close()
    assert (found.segments, found.records) == (0, 0)


def test_a_file_that_cannot_be_read_ends_the_start_and_nothing_is_changed(
    log: WrittenLog, monkeypatch: pytest.MonkeyPatch
):
    log.flip(1, log.place(5)[1].body_at)
    before = contents(log.directory)
    real = SegmentFiles.map_whole

    def dying(files: SegmentFiles, number: int) -> object:
        if number == 3:
            raise OSError(5, "Input/output error", str(files.path(number)))
        return real(files, number)

    monkeypatch.setattr(SegmentFiles, "map_whole", dying)
    with pytest.raises(OSError, match=r"00000003\.segment"):
        Run(log.directory)
    assert contents(log.directory) == before


# ------------------------------------------------------------------ transactions


@pytest.fixture
def transaction(tmp_path: Path) -> tuple[Path, list[Record]]:
    """1  header c < P(a) P(b) P(c) COMMIT >: the log, and the four of the transaction."""
    run = Run(tmp_path, segment_bytes=SEGMENT_BYTES * 16)  # a larger one has a segment of its own
    run.publish(b"<")
    run.commit(*(letter * 2000 for letter in (b"a", b"b", b"c")))
    run.publish(b">")
    run.sync()
    run.crash()
    inside = records(tmp_path)[2:6]
    assert [(record.kind, record.flags) for record in inside] == [
        *[(PUBLISH, IN_TX)] * 3,
        (COMMIT, 0),
    ]
    return run.files.path(1), inside


def letters(directory: Path) -> str:
    """First letters of what is left, after a recovery and after a second one."""
    found = []
    for _ in range(2):
        run = Run(directory)
        found.append("".join(body.decode()[0] for body in run.bodies()))
        run.crash()
    assert found[0] == found[1]
    return found[0]


def test_a_transaction_is_whole(transaction: tuple[Path, list[Record]], tmp_path: Path):
    assert letters(tmp_path) == "<abc>"


@pytest.mark.parametrize("written", range(4))
def test_a_transaction_that_was_not_written_whole_is_undone(
    transaction: tuple[Path, list[Record]], tmp_path: Path, written: int
):
    # 1  header c < P(a) P(b) x·······
    path, inside = transaction
    path.write_bytes(path.read_bytes()[: inside[written].end - 8].ljust(SEGMENT_BYTES, b"\0"))
    assert letters(tmp_path) == "<"


@pytest.mark.parametrize("missing", range(3))
def test_a_transaction_with_a_page_that_was_not_written_is_undone(
    transaction: tuple[Path, list[Record]], tmp_path: Path, missing: int
):
    # 1  header c < P(a) ····· P(c) COMMIT >   (pages reach the disk in any order)
    path, inside = transaction
    data = bytearray(path.read_bytes())
    start = -(-inside[missing].offset // 512) * 512
    data[start : start + 1024] = bytes(1024)
    path.write_bytes(data)
    assert letters(tmp_path) == "<>"


@pytest.mark.parametrize("damaged", range(3))
def test_a_transaction_with_a_flipped_bit_keeps_its_other_messages(
    transaction: tuple[Path, list[Record]],
    tmp_path: Path,
    damaged: int,
    caplog: pytest.LogCaptureFixture,
):
    # 1  header c < P(a) x P(c) COMMIT >   (it was confirmed: the rest must not be lost)
    path, inside = transaction
    data = bytearray(path.read_bytes())
    data[inside[damaged].body_at] ^= 1
    path.write_bytes(data)
    out, first = io.StringIO(), inside[0 if damaged else 1]
    assert check(tmp_path, out) == DAMAGED
    text = (
        f"damaged: {path}: the transaction at {first.offset} to {inside[3].offset} is not whole: "
        "what it settled is there again"
    )
    assert text in out.getvalue().splitlines()
    assert letters(tmp_path) == "<abc>".replace("abc"[damaged], "")
    assert text in told(caplog)


# ------------------------------------------------------------------ a log that is whole


def test_an_empty_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    run = Run(tmp_path)
    assert (run.found.segments, run.found.records) == (0, 0)
    assert run.bodies() == []
    assert told(caplog) == []


def test_what_is_found_is_counted(log: WrittenLog):
    found = Run(log.directory).found
    assert (found.segments, found.records, found.publishes, found.clean) == (3, 25, 24, False)


def test_after_a_crash_every_message_may_have_been_delivered(tmp_path: Path):
    run = Run(tmp_path)
    run.publish(b"0", b"1")
    run.sync()
    run.crash()
    run = Run(tmp_path)
    assert not run.found.clean
    assert run.messages() == [Message(1, True, b"0"), Message(2, True, b"1")]


def test_after_a_shutdown_only_what_was_delivered_is_marked(tmp_path: Path):
    run = Run(tmp_path)
    run.publish(b"0", b"1")
    run.messages()
    run.publish(b"2")
    run.stop()
    run = Run(tmp_path)
    assert run.found.clean
    assert run.messages() == [
        Message(1, True, b"0"),
        Message(2, True, b"1"),
        Message(3, False, b"2"),
    ]
    # This run appends nothing of its own, and yet its deliveries are remembered after a crash.
    run.crash()
    run = Run(tmp_path)
    assert not run.found.clean
    assert [message.redelivered for message in run.messages()] == [True] * 3


def test_when_the_newest_file_is_set_aside_the_shutdown_before_it_does_not_count(tmp_path: Path):
    # 1  header c 0 CLEAN
    # 2  xxxxxx c   (a run that delivered, and crashed)
    run = Run(tmp_path)
    run.publish(b"0")
    run.stop()
    run = Run(tmp_path)
    run.messages()
    run.crash()
    newest = run.files.path(run.files.numbers()[-1])
    assert newest != run.files.path(1)
    newest.write_bytes(b"x" * 100)
    run = Run(tmp_path)
    assert not run.found.clean
    assert run.messages() == [Message(1, True, b"0")]


def test_unused_space_is_given_back(tmp_path: Path):
    for index in range(3):
        run = Run(tmp_path, segment_bytes=1024 * 1024)
        run.publish(b"%d" % index)
        run.sync()
        run.crash()
    sizes = [path.stat().st_size for path in sorted((tmp_path / "log").iterdir())]
    assert sizes[-1] == 1024 * 1024
    assert len(sizes) == 3
    assert max(sizes[:-1]) < 1024
    assert Run(tmp_path).bodies() == [b"0", b"1", b"2"]
    assert is_whole(tmp_path)


def test_a_log_may_have_more_files_than_the_process_may_open(tmp_path: Path):
    bodies = [b"%03d" % index * 300 for index in range(60)]
    run = Run(tmp_path, segment_bytes=1024)
    run.publish(*bodies)
    run.sync()
    run.crash()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 20, limits[1]))
    try:
        assert Run(tmp_path, segment_bytes=1024).bodies() == bodies
        assert is_whole(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_the_order_of_a_queue_survives(tmp_path: Path):
    expected: list[bytes] = []
    counter = itertools.count()
    for _ in range(4):
        run = Run(tmp_path)
        assert [message.body for message in run.messages()] == expected
        run.crash()
        run = Run(tmp_path)
        for message in run.messages()[::2]:
            run.ack(message)
        expected = expected[1::2]
        new = [b"%04d" % next(counter) * 200 for _ in range(40)]
        run.publish(*new)
        expected += new
        run.sync()
        run.crash()
    assert Run(tmp_path).bodies() == expected


# ------------------------------------------------------------------ deletions and power cuts


def test_a_power_cut_between_deletions_brings_nothing_back(tmp_path: Path):
    """Segments go in the order of their numbers; any number of these deletions may survive."""
    run = Run(tmp_path)
    removed: dict[str, bytes] = {}
    drop = run.files.drop

    def remember(number: int, *, wait: bool = True) -> None:
        path = run.files.path(number)
        removed[path.name] = path.read_bytes()
        drop(number, wait=wait)

    run.files.drop = remember  # type: ignore[method-assign]
    kept = []
    for index in range(150):
        run.publish(b"%03d" % index * 400)
        for message in run.messages():
            if index % 10:
                run.ack(message)
            else:
                kept.append(message)
        run.sync()
    # One in ten is never settled: its segments were copied forward, some of them twice.
    for message in kept[:-1]:
        run.ack(message)
    run.sync()
    run.crash()
    assert len(removed) > 8
    for name, data in reversed(removed.items()):
        (tmp_path / "log" / name).write_bytes(data)
        copy = tmp_path / f"with-{name}"
        (copy / "log").mkdir(parents=True)
        for path in (tmp_path / "log").iterdir():
            (copy / "log" / path.name).write_bytes(path.read_bytes())
        assert Run(copy).bodies() == [kept[-1].body]
