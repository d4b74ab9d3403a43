"""`leporid check DIR`: verify a data directory that no broker is using, and change nothing.

Responsible for telling a person what is whole and what is not. The verification itself is the one
that start-up uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from leporid.engine.replay import Replay
from leporid.engine.reports import SegmentReport, SegmentTooNew, SegmentUnreadable
from leporid.storage import definitions
from leporid.storage.definitions import DefinitionsError
from leporid.storage.lock import DirectoryInUse, DirectoryLock
from leporid.storage.segments import SegmentFiles

OK: Final = 0
DAMAGED: Final = 1
WRONG_USE: Final = 2


@dataclass(slots=True)
class Findings:
    """What there is to tell.

    Attributes:
        problems: something is damaged or lost.
        notes: traces of a crash that did no harm.
    """

    segments: int = 0
    records: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(directory: Path, out: TextIO) -> int:
    """Verify every definition and every record.

    Returns:
        0 if all is whole, 1 if something is damaged, 2 if it cannot be checked.
    """
    if not (directory / "log").is_dir():
        print(f"{directory} is not a data directory: it has no log", file=out)
        return WRONG_USE
    try:
        with DirectoryLock(directory):
            found = _verify(directory)
    except (DirectoryInUse, DefinitionsError, SegmentTooNew, OSError) as error:
        print(f"cannot check: {error}", file=out)
        return WRONG_USE
    for note in found.notes:
        print(note, file=out)
    for problem in found.problems:
        print(f"damaged: {problem}", file=out)
    verdict = _counted(len(found.problems), "problem") if found.problems else "whole"
    read = f"{_counted(found.segments, 'segment')}, {_counted(found.records, 'record')}"
    print(f"{directory}: {read}, {verdict}", file=out)
    return DAMAGED if found.problems else OK


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _verify(directory: Path) -> Findings:
    found = Findings(problems=definitions.problems(directory / "definitions.db"))
    files = SegmentFiles(directory / "log")
    try:
        found.problems += [f"{path} is no segment of the log" for path in files.foreign()]
        work = Replay(None)
        numbers = files.numbers()
        for number in numbers:
            _verify_segment(work, files, number, found, is_newest=number == numbers[-1])
    finally:
        files.close()
    return found


def _verify_segment(
    work: Replay, files: SegmentFiles, number: int, found: Findings, *, is_newest: bool
) -> None:
    path = files.path(number)
    if files.is_empty(number):
        # What was made and never written to is the newest, and only for the time of a crash.
        if not is_newest:
            found.problems.append(f"{path}: the file is empty")
        return
    try:
        report = work.segment(number, files.map_whole(number))
    except SegmentTooNew:
        raise
    except SegmentUnreadable as error:
        if not is_newest or not files.is_blank(number):
            found.problems.append(f"{path}: {error}")
        return
    found.segments += 1
    found.records += report.records
    found.problems += _problems(path, report)
    if report.torn and is_newest:
        found.notes.append(
            f"{path}: {report.torn} bytes at {report.used} are no whole record: a write that did "
            "not finish (then nothing of it was confirmed)"
        )
    elif report.torn:
        found.problems.append(f"{path}: {report.torn} bytes at {report.used} are no whole record")


def _problems(path: Path, report: SegmentReport) -> list[str]:
    """What is wrong in a segment before its last good record, and before its first."""
    problems = [
        f"{path}: {length} bytes at {offset} fail their checksum"
        for offset, length in report.damaged
    ]
    if report.lost_before:
        problems.append(f"the segment before {path} has lost {report.lost_before} bytes at its end")
    return problems
