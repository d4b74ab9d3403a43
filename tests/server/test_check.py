"""`leporid check`: it finds exactly what is damaged, and changes nothing."""

import io
import re
import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.damage import CASES, Expected, WrittenLog, contents, make_newer
from tests.server.written_log import Run

from leporid.broker.stored import KINDS, StoredVhost
from leporid.durable import Put
from leporid.server.check import DAMAGED, OK, WRONG_USE, check
from leporid.storage.definitions import Definitions, copy_path
from leporid.storage.lock import DirectoryLock
from leporid.storage.segments import SegmentFiles


def checked(directory: Path) -> tuple[int, list[str]]:
    out = io.StringIO()
    code = check(directory, out)
    return code, out.getvalue().splitlines()


@pytest.fixture
def log(tmp_path: Path) -> WrittenLog:
    return WrittenLog(tmp_path)


def test_a_whole_log_is_whole(log: WrittenLog):
    before = contents(log.directory)
    assert checked(log.directory) == (
        OK,
        [f"{log.directory}: 3 segments, 25 records, whole"],
    )
    assert contents(log.directory) == before


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_exactly_the_damage_is_found(log: WrittenLog, case: Callable[[WrittenLog], Expected]):
    expected = case(log)
    before = contents(log.directory)
    code, lines = checked(log.directory)
    told = [f"damaged: {problem}" for problem in expected.problems]
    assert sorted(lines[:-1]) == sorted([*expected.notes, *told])
    plural = "" if len(told) == 1 else "s"
    verdict = f"{len(told)} problem{plural}" if told else "whole"
    assert re.search(rf" \d+ records?, {verdict}$", lines[-1])
    assert code == (DAMAGED if told else OK)
    assert contents(log.directory) == before


def test_a_newer_format_cannot_be_checked(log: WrittenLog):
    make_newer(log.path(2))
    code, lines = checked(log.directory)
    assert code == WRONG_USE
    assert lines == ["cannot check: segment 2: format 2 is not known here (this is 1)"]


def test_a_file_that_cannot_be_read_cannot_be_checked(
    log: WrittenLog, monkeypatch: pytest.MonkeyPatch
):
    def dying(files: SegmentFiles, number: int) -> None:
        raise OSError(5, "Input/output error", str(files.path(number)))

    monkeypatch.setattr(SegmentFiles, "map_whole", dying)
    code, lines = checked(log.directory)
    assert code == WRONG_USE
    assert lines == [f"cannot check: [Errno 5] Input/output error: '{log.path(1)}'"]


def test_a_directory_that_is_in_use_cannot_be_checked(log: WrittenLog):
    with DirectoryLock(log.directory):
        code, lines = checked(log.directory)
    assert code == WRONG_USE
    assert "in use" in lines[0]


def test_what_is_no_data_directory_cannot_be_checked(tmp_path: Path):
    code, lines = checked(tmp_path / "nothing")
    assert code == WRONG_USE
    assert lines == [f"{tmp_path / 'nothing'} is not a data directory: it has no log"]
    assert not (tmp_path / "nothing").exists()


def test_damaged_definitions_are_found(log: WrittenLog):
    path = log.directory / "definitions.db"
    definitions = Definitions(path, KINDS)
    definitions.commit([Put(StoredVhost("v"))])
    definitions.close()
    assert checked(log.directory)[0] == OK
    connection = sqlite3.connect(path)
    connection.execute("UPDATE vhosts SET name = 'w'")
    connection.commit()
    connection.close()
    code, lines = checked(log.directory)
    assert code == DAMAGED
    assert lines[0] == f"damaged: {path} vhosts: row 1 does not match its checksum"
    assert lines[1].endswith(" records, 1 problem")


def test_definitions_that_cannot_be_read_cannot_be_checked(log: WrittenLog):
    path = log.directory / "definitions.db"
    path.mkdir()
    copy_path(path).mkdir()
    code, lines = checked(log.directory)
    assert (code, lines[0][:14]) == (WRONG_USE, "cannot check: ")


@pytest.mark.memory
def test_large_files_are_not_read_into_memory(tmp_path: Path):
    run = Run(tmp_path, segment_bytes=32 * 1024 * 1024)
    run.publish(b"x" * 1000)
    run.sync()
    run.crash()
    path = run.files.path(1)
    path.with_name("00000002.segment").write_bytes(b"not a segment")
    with path.with_name("00000003.segment").open("wb") as file:
        file.truncate(32 * 1024 * 1024)  # blank
    limit = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + 8 * 1024 * 1024, limit[1]))
    try:
        code, lines = checked(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limit)
    assert code == DAMAGED
    assert len(lines) == 2
