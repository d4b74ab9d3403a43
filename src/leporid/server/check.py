"""`leporid check DIR`: verify a data directory that no broker is using, and change nothing.

Responsible for telling a person what is whole and what is not. The verification itself is the one
that start-up uses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, TextIO

from leporid.engine.replay import Replay
from leporid.engine.reports import SegmentUnreadable
from leporid.storage import definitions
from leporid.storage.lock import DirectoryInUse, DirectoryLock
from leporid.storage.segments import SegmentFiles

OK: Final = 0
DAMAGED: Final = 1
WRONG_USE: Final = 2


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
            return _check(directory, out)
    except DirectoryInUse as error:
        print(f"cannot check: {error}", file=out)
        return WRONG_USE


def _check(directory: Path, out: TextIO) -> int:
    problems = list(definitions.problems(directory / "definitions.db"))
    files = SegmentFiles(directory / "log")
    problems += [f"{path} is no segment of the log" for path in files.foreign()]
    work = Replay(None)
    segments = records = 0
    for number in files.numbers():
        path = files.path(number)
        if not path.stat().st_size or not path.read_bytes().strip(b"\0"):
            continue  # allocated, never written
        try:
            report = work.segment(number, files.map(number))
        except SegmentUnreadable as error:
            problems.append(f"{path}: {error}")
            continue
        segments += 1
        records += report.records
        problems += [
            f"{path}: {length} bytes at {offset} fail their checksum"
            for offset, length in report.damaged
        ]
        if report.lost_before:
            problems.append(f"the segment before {path} has lost {report.lost_before} bytes")
        if report.torn:
            print(
                f"{path}: a write of {report.torn} bytes did not finish (no harm: none of it was "
                "confirmed)",
                file=out,
            )
    files.close()
    for problem in problems:
        print(f"damaged: {problem}", file=out)
    verdict = f"{len(problems)} problems" if problems else "whole"
    print(f"{directory}: {segments} segments, {records} records, {verdict}", file=out)
    return DAMAGED if problems else OK
