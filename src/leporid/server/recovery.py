"""Start-up: definitions and log become the state that was there, and damage is set aside.

Responsible for the order (definitions, then every segment, oldest first) and for saying what was
found. The engine verifies the bytes; this knows the files. Invariant: nothing is deleted: what does
not verify is moved or copied to `quarantine/` before it is cut off.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from leporid.engine.plane import Plane
from leporid.engine.replay import Replay
from leporid.engine.reports import SegmentReport, SegmentUnreadable
from leporid.storage.segments import SegmentFiles

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    """What replay found."""

    segments: int = 0
    records: int = 0
    clean: bool = True


def replay(plane: Plane, files: SegmentFiles) -> Recovered:
    """Apply the whole log to the plane, whose durable queues exist already."""
    found = Recovered()
    work = Replay(plane)
    for path in files.foreign():
        logger.warning("%s is no segment of the log; set aside as %s", path,
                       files.set_file_aside(path))  # fmt: skip
    for number in files.numbers():
        report = _segment(work, files, number)
        if report is not None:
            found.segments += 1
            found.records += report.records
    found.clean = work.finish()
    return found


def _segment(work: Replay, files: SegmentFiles, number: int) -> SegmentReport | None:
    path = files.path(number)
    if not path.stat().st_size:
        path.unlink()  # made and never written: there is nothing in it
        return None
    mapping = files.map(number)
    try:
        report = work.segment(number, mapping)
    except SegmentUnreadable as error:
        mapping.close()
        if not path.read_bytes().strip(b"\0"):
            path.unlink()  # space was allocated and nothing written before a crash
            return None
        logger.error("damaged: %s; set aside as %s", error, files.set_file_aside(path))
        return None
    for offset, length in report.damaged:
        kept = files.set_aside(number, bytes(mapping[offset : offset + length]), offset)
        logger.error(
            "damaged: %d bytes at %d of %s fail their checksum; kept as %s",
            length, offset, path, kept,
        )  # fmt: skip
    if report.torn:
        # Nothing after it was ever confirmed: a confirm waits for the whole write.
        kept = files.set_aside(
            number, bytes(mapping[report.used : report.used + report.torn]), report.used
        )
        logger.warning(
            "torn end: %d bytes after the last whole record of %s cut off; kept as %s",
            report.torn, path, kept,
        )  # fmt: skip
        files.cut(number, report.used)
    if report.undone:
        logger.info("%s: %d records of uncommitted transactions left out", path, report.undone)
    return report
