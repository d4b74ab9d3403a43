"""`leporid check DIR`: verify a data directory that no broker is using, and change nothing.

Responsible for telling a person what is whole and what is not. The verification itself is the one
that start-up uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from leporid.broker.stored import KINDS, StoredQueue
from leporid.engine.engine import Engine
from leporid.engine.log.replay import Replay
from leporid.engine.log.reports import SegmentReport, SegmentTooNew, SegmentUnreadable
from leporid.engine.stream.replay import StreamReplay
from leporid.server.stream_recovery import Outcomes, last_with_records
from leporid.storage import definitions
from leporid.storage.definitions import DefinitionsError
from leporid.storage.lock import DirectoryInUse, DirectoryLock
from leporid.storage.segments import SegmentFiles
from leporid.storage.streams import StreamLogs

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


class CannotCheckError(Exception):
    """A directory cannot be verified; the message says why."""


def verify(directory: Path) -> Findings:
    """Verify every definition and every record.

    Raises:
        CannotCheckError: it is no data directory, it is in use, or it cannot be read.
    """
    if not (directory / "log").is_dir():
        raise CannotCheckError(f"{directory} is not a data directory: it has no log")
    try:
        with DirectoryLock(directory):
            return _verify(directory)
    except (DirectoryInUse, DefinitionsError, SegmentTooNew, OSError) as error:
        raise CannotCheckError(f"cannot check: {error}") from error


def check(directory: Path, out: TextIO) -> int:
    """Verify a data directory, and say what was found.

    Returns:
        0 if all is whole, 1 if something is damaged, 2 if it cannot be checked.
    """
    try:
        found = verify(directory)
    except CannotCheckError as error:
        print(error, file=out)
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
    found = Findings(problems=definitions.problems(directory / "definitions.db", KINDS))
    files = SegmentFiles(directory / "log")
    outcomes = _read_all(Replay(None), files, found)
    for number in outcomes:
        _tell(files, outcomes, number, found, is_newest=number == max(outcomes))
    _verify_streams(directory, found)
    return found


def _verify_streams(directory: Path, found: Findings) -> None:
    logs = StreamLogs(directory / "streams")
    defined = definitions.numbers(directory / "definitions.db", KINDS, StoredQueue)
    found.problems += [f"{path} is no stream's directory" for path in logs.foreign()]
    for stream_id in logs.ids():
        if defined is not None and stream_id not in defined:
            found.notes.append(
                f"{logs.path(stream_id)} is left of a stream that was deleted: the next start "
                "removes it"
            )
            continue
        files = logs.files(stream_id)
        work = StreamReplay(Engine().stream(stream_id, f"{stream_id}"))
        outcomes = _read_all(work, files, found)
        work.finish()
        last = last_with_records(files, outcomes)
        for number, outcome in outcomes.items():
            _tell(files, outcomes, number, found, is_newest=number >= last)
            if isinstance(outcome, SegmentReport):
                found.problems += [
                    f"{files.path(number)}: the messages {first} to {end - 1} before its end are "
                    "lost"
                    for first, end in outcome.lost
                ]


def _read_all(work: Replay, files: SegmentFiles, found: Findings) -> Outcomes:
    """Verify every segment of one log."""
    found.problems += [f"{path} is no segment of the log" for path in files.foreign()]
    return {number: _read(work, files, number) for number in files.numbers()}


def _read(work: Replay, files: SegmentFiles, number: int) -> SegmentReport | SegmentUnreadable:
    if files.is_empty(number):
        return SegmentUnreadable("the file is empty")
    try:
        return work.segment(number, files.map_whole(number))
    except SegmentTooNew:
        raise
    except SegmentUnreadable as error:
        return error


def _tell(
    files: SegmentFiles, outcomes: Outcomes, number: int, found: Findings, *, is_newest: bool
) -> None:
    path, report = files.path(number), outcomes[number]
    if isinstance(report, SegmentUnreadable):
        # What was made and never written to is the newest, and only for the time of a crash.
        if number != max(outcomes) or not files.is_blank(number):
            found.problems.append(f"{path}: {report}")
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
    problems += report.broken_transactions(path)
    if report.lost_before:
        problems.append(f"the segment before {path} has lost {report.lost_before} bytes at its end")
    return problems
