"""Start-up: definitions and log become the state that was there, and damage is set aside.

Responsible for the order (definitions, then every segment, oldest first, then the streams) and for
saying what was found. The engine verifies the bytes; this knows the files. Invariants: nothing is
changed before everything was read, so that a log that this version must not touch stays as it is;
and nothing is deleted: what does not verify is moved or copied to `quarantine/` before it is cut
off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from leporid.engine.engine import Engine
from leporid.engine.log.replay import Replay
from leporid.engine.log.reports import SegmentReport, SegmentTooNew, SegmentUnreadable
from leporid.storage.segments import SegmentFiles

logger = logging.getLogger(__name__)

# A segment that was not full when its broker ended keeps its unused space; more than this much is
# given back. Otherwise a broker that is restarted often would fill the disk with nothing.
SLACK_BYTES_MAX: Final = 64 * 1024


class LogRefused(OSError):
    """The log is not damaged, but this broker must not start on it; nothing was changed."""


@dataclass(slots=True)
class Recovered:
    """What replay found."""

    segments: int = 0
    records: int = 0
    publishes: int = 0
    clean: bool = True


class Beside(Protocol):
    """Other logs that are read with this one (`stream_recovery.StreamRecovery`)."""

    def read(self) -> None:
        """Read everything and change nothing; may raise LogRefused."""

    def settle(self) -> None:
        """Set aside what is damaged."""


def replay(
    engine: Engine,
    files: SegmentFiles,
    *,
    next_queue_id: int | None = None,
    beside: Beside | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Recovered:
    """Apply the whole log to the engine, whose durable queues exist already.

    Args:
        engine: new, with the durable queues of the definitions.
        files: of the log.
        next_queue_id: the lowest id that no queue of the definitions ever had, if that is known.
        beside: other logs, which are read after this one and before anything is changed.
        progress: called when one more segment was read.

    Raises:
        LogRefused: a newer version wrote it, or it cannot belong to these definitions.
        OSError: a file cannot be read.
    """
    work = Replay(engine.logs)
    found = Recovered()
    outcomes: dict[int, SegmentReport | SegmentUnreadable] = {}
    for number in files.numbers():
        outcomes[number] = read_segment(work, files, number)
        progress()
    for outcome in outcomes.values():
        if isinstance(outcome, SegmentReport):
            found.segments += 1
            found.records += outcome.records
            found.publishes += outcome.publishes
    if next_queue_id is not None and work.highest_queue_id >= next_queue_id:
        # Nobody would need its messages, so all of them would be deleted.
        raise LogRefused(
            f"{files.directory} knows queue {work.highest_queue_id}, but the definitions never had "
            f"more than {next_queue_id - 1}: they are lost, or older than the log; put them back, "
            "or start without the log"
        )
    if beside is not None:
        beside.read()
    set_foreign_aside(files)
    newest = max(outcomes, default=0)
    missing = False
    for number, outcome in outcomes.items():
        if isinstance(outcome, SegmentReport):
            keep_the_rest(files, outcome, is_newest=number == newest)
        else:
            missing |= go_on_without(files, number, outcome, is_newest=number == newest)
    found.clean = work.finish(missing)
    if beside is not None:
        beside.settle()
    return found


def set_foreign_aside(files: SegmentFiles) -> None:
    """Move everything that is no segment into quarantine."""
    for path in files.foreign():
        logger.warning(
            "%s is no segment of the log; set aside as %s", path, files.set_file_aside(path)
        )


def read_segment(
    work: Replay, files: SegmentFiles, number: int
) -> SegmentReport | SegmentUnreadable:
    """Verify and apply one segment; the file stays as it is."""
    if files.is_empty(number):
        return SegmentUnreadable(f"segment {number}: the file is empty")
    mapping = files.map_whole(number)
    try:
        return work.segment(number, mapping)
    except SegmentTooNew as error:
        raise LogRefused(f"{files.path(number)}: {error}; a newer version wrote it") from error
    except SegmentUnreadable as error:
        return error


def keep_the_rest(files: SegmentFiles, report: SegmentReport, *, is_newest: bool) -> None:
    """Set aside what did not verify in a segment, and say so."""
    path = files.path(report.number)
    for offset, length in report.damaged:
        logger.error(
            "damaged: %d bytes at %d of %s fail their checksum; kept as %s",
            length, offset, path, _copy_aside(files, report.number, offset, length),
        )  # fmt: skip
    for text in report.broken_transactions(path):
        logger.error("damaged: %s", text)
    if report.lost_before:
        logger.error(
            "damaged: the segment before %s has lost %d bytes at its end", path, report.lost_before
        )
    if report.torn:
        kept = _copy_aside(files, report.number, report.used, report.torn)
        # The newest bytes may be those of a write that did not finish. Nothing of it was ever
        # confirmed: a confirm waits for the whole write.
        logger.log(
            logging.WARNING if is_newest else logging.ERROR,
            "%s: %d bytes after the last whole record of %s cut off; kept as %s",
            "torn end" if is_newest else "damaged", report.torn, path, kept,
        )  # fmt: skip
    if report.torn or path.stat().st_size - report.used > SLACK_BYTES_MAX:
        files.cut(report.number, report.used)
    if report.undone:
        logger.info("%s: %d records of uncommitted transactions left out", path, report.undone)


def _copy_aside(files: SegmentFiles, number: int, offset: int, length: int) -> Path:
    data = memoryview(files.map(number))[offset : offset + length].tobytes()
    return files.set_aside(number, data, offset)


def go_on_without(
    files: SegmentFiles, number: int, error: SegmentUnreadable, *, is_newest: bool
) -> bool:
    """Go on without a file; returns whether there may have been something in it."""
    path = files.path(number)
    if is_newest and files.is_blank(number):
        logger.info("%s was made and never written to; deleted", path)
        files.forget(number)
        return False
    logger.error("damaged: %s; set aside as %s", error, files.set_file_aside(path))
    return True
