"""Start-up of the streams: each log is read, and what is damaged in it is reported by offsets.

Responsible for every directory under `streams/`: those of streams that exist are replayed, those of
streams that were deleted are removed. Invariants as in `recovery`; and a message's offset is its
own for ever, so what is damaged stays in its place and the messages after it keep their numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from leporid.engine.log.reports import SegmentReport, SegmentUnreadable
from leporid.engine.stream.replay import StreamReplay
from leporid.engine.stream.stream import Stream
from leporid.server.recovery import (
    LogRefused,
    go_on_without,
    keep_the_rest,
    read_segment,
    set_foreign_aside,
)
from leporid.storage.segments import SegmentFiles
from leporid.storage.streams import StreamLogs

logger = logging.getLogger(__name__)

# A segment that ends here has nothing in it.
HEADER_BYTES = 64

Outcomes: TypeAlias = dict[int, SegmentReport | SegmentUnreadable]


@dataclass(slots=True)
class _Found:
    """One stream's log as it was read."""

    stream: Stream
    files: SegmentFiles
    work: StreamReplay
    outcomes: Outcomes


class StreamRecovery:
    """Reads every stream's log, then sets aside what is damaged.

    Args:
        logs: the directory of all of them.
        streams: those that exist, new and without messages.
        defined: ids of all queues of the definitions, those included that could not be made.
        next_queue_id: the lowest id that no queue of the definitions ever had.
        progress: called when the log of one more stream was read.

    Attributes:
        segments, messages: what was read.
    """

    def __init__(
        self,
        logs: StreamLogs,
        streams: Iterable[Stream],
        *,
        defined: Collection[int],
        next_queue_id: int,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._logs = logs
        self._streams = {stream.id: stream for stream in streams}
        self._defined = defined
        self._next_queue_id = next_queue_id
        self._progress = progress
        self._found: list[_Found] = []
        self.segments = 0
        self.messages = 0

    def read(self) -> None:
        """Verify and apply every log; nothing is changed on disk.

        Raises:
            LogRefused: a newer version wrote one, or it cannot belong to these definitions.
            OSError: a file cannot be read.
        """
        there = self._logs.ids()
        if there and there[-1] >= self._next_queue_id:
            # It would be taken for one that was deleted.
            raise LogRefused(
                f"{self._logs.path(there[-1])} is that of a stream, but the definitions never had "
                f"a queue above {self._next_queue_id - 1}: they are lost, or older than the "
                "stream; put them back, or start without the stream's directory"
            )
        for stream_id, stream in self._streams.items():
            work = StreamReplay(stream)
            if stream_id not in there:
                work.finish()
                continue
            files = self._logs.files(stream_id)
            outcomes = {number: read_segment(work, files, number) for number in files.numbers()}
            self._found.append(_Found(stream, files, work, outcomes))
            self._progress()
            reports = [one for one in outcomes.values() if isinstance(one, SegmentReport)]
            self.segments += len(reports)
            self.messages += sum(report.publishes for report in reports)

    def settle(self) -> None:
        """Open the streams for readers; set aside and report what is damaged."""
        for found in self._found:
            found.work.finish(lacks_its_newest(found.files, found.outcomes))
            _settle_one(found)
        for path in self._logs.foreign():
            logger.warning(
                "%s is no stream's directory; set aside as %s", path, self._logs.set_aside(path)
            )
        for stream_id in self._logs.ids():
            if stream_id in self._streams:
                continue
            path = self._logs.path(stream_id)
            if stream_id in self._defined:
                logger.error("%s belongs to no stream that could be made; it stays", path)
                continue
            self._logs.delete(stream_id)
            logger.info("%s was left of a stream that was deleted; removed", path)


def lacks_its_newest(files: SegmentFiles, outcomes: Outcomes) -> bool:
    """Whether the newest file has something in it, and nothing that can be read."""
    newest = max(outcomes, default=0)
    return isinstance(outcomes.get(newest), SegmentUnreadable) and not files.is_blank(newest)


def last_with_records(files: SegmentFiles, outcomes: Outcomes) -> int:
    """The segment after whose end nothing was ever confirmed; 0 if there is none.

    Those after it have nothing in them, or only what came after the beginning of a write that did
    not finish.
    """
    last = 0
    for number, outcome in outcomes.items():
        if isinstance(outcome, SegmentReport):
            has_something = outcome.used > HEADER_BYTES
        else:
            has_something = number != max(outcomes) or not files.is_blank(number)
        if has_something:
            last = number
    return last


def _settle_one(found: _Found) -> None:
    files, outcomes = found.files, found.outcomes
    set_foreign_aside(files)
    last = last_with_records(files, outcomes)
    for number, outcome in outcomes.items():
        if isinstance(outcome, SegmentUnreadable):
            go_on_without(files, number, outcome, is_newest=number == max(outcomes))
            continue
        keep_the_rest(files, outcome, is_newest=number >= last)
        for first, end in outcome.lost:
            logger.error(
                "damaged: stream %r has lost its messages %d to %d; the others keep their offsets",
                found.stream.name, first, end - 1,
            )  # fmt: skip
        if number > last:
            # An end that is behind another's would look like a loss at every later start.
            files.forget(number)
