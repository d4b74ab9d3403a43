"""What can happen to a log, and what must be found of it: one function per case, each drawn.

All begin with the same 24 messages in three segments (c is the empty COMMIT of the start):

    1  header c  0  1  2  3  4  5  6  7  8  9 10 ·    (the · are zeros up to the end of the file)
    2  header   11 12 13 14 15 16 17 18 19 20 21 ·
    3  header   22 23 ················

In the drawings x stands for what is damaged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.server.written_log import Run
from tests.storage.format_v1 import (
    HEADER_BYTES,
    PUBLISH,
    Header,
    Record,
    make_header,
    read_segment,
)

COUNT = 24
BODIES = [b"%02d" % index * 700 for index in range(COUNT)]


@dataclass
class Expected:
    """What must be found.

    Attributes:
        lost: messages that are not delivered any more.
        problems: what `leporid check` prints, without "damaged: ".
        notes: lines that it prints although nothing is lost.
        aside: names in quarantine/, and the bytes that they must have.
    """

    lost: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    aside: dict[str, bytes] = field(default_factory=dict)


class WrittenLog:
    """A data directory after a crash that left nothing half done."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        run = Run(directory)
        run.publish(*BODIES)
        run.sync()
        run.crash()
        self.places: dict[int, tuple[int, Record]] = {}
        for number in (1, 2, 3):
            _, records = read_segment(self.path(number))
            for record in records:
                if record.kind == PUBLISH:
                    self.places[len(self.places)] = number, record
        assert [number for number, _ in self.places.values()] == [1] * 11 + [2] * 11 + [3] * 2

    def path(self, number: int) -> Path:
        return self.directory / "log" / f"{number:08d}.segment"

    def place(self, message: int) -> tuple[int, Record]:
        """Segment number and record."""
        return self.places[message]

    def flip(self, number: int, offset: int, bits: int = 1) -> None:
        data = bytearray(self.path(number).read_bytes())
        data[offset] ^= bits
        self.path(number).write_bytes(data)

    def zero(self, number: int, start: int, end: int) -> None:
        data = bytearray(self.path(number).read_bytes())
        data[start:end] = bytes(end - start)
        self.path(number).write_bytes(data)

    def cut(self, number: int, size: int) -> None:
        self.path(number).write_bytes(self.path(number).read_bytes()[:size])

    # ------------------------------------------------------------- what must be found

    def unverified(self, number: int, offset: int, length: int, lost: set[int]) -> Expected:
        """A stretch before the last good record."""
        return Expected(
            lost,
            [f"{self.path(number)}: {length} bytes at {offset} fail their checksum"],
            aside=self._bytes(number, offset, length),
        )

    def torn(self, offset: int, length: int, lost: set[int]) -> Expected:
        """A stretch after the last good record of the newest segment."""
        note = (
            f"{self.path(3)}: {length} bytes at {offset} are no whole record: a write that did "
            "not finish (then nothing of it was confirmed)"
        )
        return Expected(lost, notes=[note], aside=self._bytes(3, offset, length))

    def shortened(self, number: int, offset: int, kept: int, missing: int) -> Expected:
        """An older segment that ends too early, with so many bytes of a record behind it."""
        problems = [
            f"the segment before {self.path(number + 1)} has lost {missing} bytes at its end"
        ]
        if kept:
            problems.insert(0, f"{self.path(number)}: {kept} bytes at {offset} are no whole record")
        lost = {
            index
            for index, (found, record) in self.places.items()
            if found == number and record.end > offset
        }
        return Expected(lost, problems, aside=self._bytes(number, offset, kept) if kept else {})

    def unreadable(self, number: int, why: str) -> Expected:
        """A file that is no segment of this log."""
        return Expected(
            {index for index, (found, _) in self.places.items() if found == number},
            [f"{self.path(number)}: segment {number}: {why}"],
            aside={self.path(number).name: self.path(number).read_bytes()},
        )

    def _bytes(self, number: int, offset: int, length: int) -> dict[str, bytes]:
        data = self.path(number).read_bytes()[offset : offset + length]
        return {f"{number:08d}-{offset}.bytes": data}


# ------------------------------------------------------------------ damage within a segment


def bit_in_a_body(log: WrittenLog) -> Expected:
    # 1  header c 0 1 2 3 4 x 6 7 8 9 10 ·
    number, record = log.place(5)
    log.flip(number, record.body_at + 100)
    return log.unverified(number, record.offset, record.size, {5})


def bit_in_each_field_of_a_record(log: WrittenLog) -> Expected:
    # 2  header 11 x x x x x x x x x 21 ·   (kind, flags, targets, lengths, time, check, queue, seq)
    offsets = (8, 9, 10, 12, 16, 24, 30, 32, 40)
    for message, offset in zip(range(12, 21), offsets, strict=True):
        number, record = log.place(message)
        log.flip(number, record.offset + offset)
    first, last = log.place(12)[1], log.place(20)[1]
    return log.unverified(2, first.offset, last.end - first.offset, set(range(12, 21)))


def bit_in_a_size(log: WrittenLog) -> Expected:
    # 1  header c 0 x 2 3 4 5 6 7 8 9 10 ·   (the record claims to reach into the next ones)
    number, record = log.place(1)
    log.flip(number, record.offset + 1, 0x20)
    return log.unverified(number, record.offset, record.size, {1})


def size_of_zero(log: WrittenLog) -> Expected:
    # 1  header c 0 1 2 x 4 5 6 7 8 9 10 ·   (as if the record were the end)
    number, record = log.place(3)
    log.zero(number, record.offset, record.offset + 4)
    return log.unverified(number, record.offset, record.size, {3})


def bit_in_the_padding(log: WrittenLog) -> Expected:
    # 2  header 11 x 13 14 15 16 17 18 19 20 21 ·
    number, record = log.place(12)
    log.flip(number, record.end - 1)
    return log.unverified(number, record.offset, record.size, {12})


def bit_in_the_first_record(log: WrittenLog) -> Expected:
    # 2  header x 12 13 14 15 16 17 18 19 20 21 ·
    number, record = log.place(11)
    assert record.offset == HEADER_BYTES
    log.flip(number, record.body_at)
    return log.unverified(number, record.offset, record.size, {11})


def page_of_zeros(log: WrittenLog) -> Expected:
    # 2  header 11 12 x x x x 17 18 19 20 21 ·   (a hole from 4096 to 8192, across four records)
    log.zero(2, 4096, 8192)
    hit = {
        index
        for index, (number, record) in log.places.items()
        if number == 2 and record.offset < 8192 and record.end > 4096
    }
    first, last = log.place(min(hit))[1], log.place(max(hit))[1]
    return log.unverified(2, first.offset, last.end - first.offset, hit)


def damage_in_every_segment(log: WrittenLog) -> Expected:
    # 1  header c 0 1 2 3 4 x 6 7 8 9 10 ·
    # 2  header 11 12 13 14 x 16 17 18 19 20 21 ·
    # 3  header x 23 ················
    expected = Expected()
    for message in (5, 15, 22):
        number, record = log.place(message)
        log.flip(number, record.body_at)
        found = log.unverified(number, record.offset, record.size, {message})
        expected.lost |= found.lost
        expected.problems += found.problems
        expected.aside |= found.aside
    return expected


# ------------------------------------------------------------------ damage at an end


def torn_tail(log: WrittenLog) -> Expected:
    # 3  header 22 2x················   (the second half of the record was not written)
    number, record = log.place(23)
    half = record.offset + record.size // 2
    log.zero(number, half, record.end)
    return log.torn(record.offset, half - record.offset, {23})


def torn_header(log: WrittenLog) -> Expected:
    # 3  header 22 x·················   (20 bytes of the record were written, the last one is 0)
    number, record = log.place(23)
    log.zero(number, record.offset + 20, record.end)
    data = log.path(number).read_bytes()[record.offset : record.offset + 20]
    return log.torn(record.offset, len(data.rstrip(b"\0")), {23})


def bit_in_the_newest_record(log: WrittenLog) -> Expected:
    # 3  header 22 x ···············   (nothing tells it from a write that did not finish)
    number, record = log.place(23)
    log.flip(number, record.body_at)
    written = len(log.path(number).read_bytes().rstrip(b"\0"))
    return log.torn(record.offset, written - record.offset, {23})


def bit_in_the_last_record_of_an_older_segment(log: WrittenLog) -> Expected:
    # 1  header c 0 1 2 3 4 5 6 7 8 9 x ·   (it was full long ago: this is no unfinished write)
    number, record = log.place(10)
    log.flip(number, record.body_at)
    written = len(log.path(number).read_bytes().rstrip(b"\0"))
    return log.shortened(number, record.offset, written - record.offset, record.size)


def newest_cut_in_a_record(log: WrittenLog) -> Expected:
    # 3  header 22 2x|
    number, record = log.place(23)
    log.cut(number, record.body_at + 10)
    return log.torn(record.offset, record.body_at + 10 - record.offset, {23})


def newest_cut_behind_a_record(log: WrittenLog) -> Expected:
    # 3  header 22|   (nothing shows that there was more)
    number, record = log.place(22)
    log.cut(number, record.end)
    return Expected({23})


def older_cut_in_a_record(log: WrittenLog) -> Expected:
    # 2  header 11 12 13 14 15 16 17 18 1x|
    number, record = log.place(19)
    log.cut(number, record.body_at + 10)
    kept = record.body_at + 10 - record.offset
    return log.shortened(number, record.offset, kept, log.place(21)[1].end - record.offset)


def older_cut_behind_a_record(log: WrittenLog) -> Expected:
    # 2  header 11 12 13 14 15|   (the header of segment 3 knows that there was more)
    number, record = log.place(15)
    log.cut(number, record.end)
    return log.shortened(number, record.end, 0, log.place(21)[1].end - record.end)


def older_cut_behind_its_header(log: WrittenLog) -> Expected:
    # 2  header|
    log.cut(2, HEADER_BYTES)
    return log.shortened(2, HEADER_BYTES, 0, log.place(21)[1].end - HEADER_BYTES)


def zeros_at_the_end_of_an_older_segment(log: WrittenLog) -> Expected:
    # 1  header c 0 1 2 3 4 5 6 x x x x ·
    number, record = log.place(7)
    log.zero(number, record.offset, log.place(10)[1].end)
    return log.shortened(number, record.offset, 0, log.place(10)[1].end - record.offset)


def zeros_at_the_end_of_the_newest(log: WrittenLog) -> Expected:
    # 3  header 22 ··················   (nothing shows that there was more)
    number, record = log.place(23)
    log.zero(number, record.offset, record.end)
    return Expected({23})


# ------------------------------------------------------------------ damage to whole files


def bit_in_a_file_header(log: WrittenLog) -> Expected:
    # 2  xxxxxx 11 12 13 14 15 16 17 18 19 20 21 ·   (without its salt no record verifies)
    log.flip(2, 16)
    return log.unreadable(2, "its header is damaged")


def header_cut_short(log: WrittenLog) -> Expected:
    # 2  hea|
    log.cut(2, 30)
    return log.unreadable(2, "not a segment of Leporid's log")


def zeros_instead_of_a_header(log: WrittenLog) -> Expected:
    # 3  ······ 22 23 ················
    log.zero(3, 0, HEADER_BYTES)
    return log.unreadable(3, "not a segment of Leporid's log")


def segment_of_another_number(log: WrittenLog) -> Expected:
    # 2  a copy of 1
    log.path(2).write_bytes(log.path(1).read_bytes())
    return log.unreadable(2, "the file is that of segment 1")


def file_of_another_program(log: WrittenLog) -> Expected:
    # 3  %PDF-1.4 …
    log.path(3).write_bytes(b"%PDF-1.4 " * 1000)
    return log.unreadable(3, "not a segment of Leporid's log")


def older_file_emptied(log: WrittenLog) -> Expected:
    # 2  |
    log.cut(2, 0)
    expected = log.unreadable(2, "")
    expected.problems = [f"{log.path(2)}: the file is empty"]
    return expected


def older_file_all_zeros(log: WrittenLog) -> Expected:
    # 2  ·································
    log.zero(2, 0, log.path(2).stat().st_size)
    return log.unreadable(2, "not a segment of Leporid's log")


def newest_file_emptied(log: WrittenLog) -> Expected:
    # 3  |   (as if the power went while it was made)
    log.cut(3, 0)
    return Expected({22, 23})


def newest_file_all_zeros(log: WrittenLog) -> Expected:
    # 3  ·································   (as if the power went before its first sync)
    log.zero(3, 0, log.path(3).stat().st_size)
    return Expected({22, 23})


def file_missing(log: WrittenLog) -> Expected:
    # 2 is gone   (as it would be after all of its messages had been settled)
    log.path(2).unlink()
    return Expected(set(range(11, 22)))


def foreign_file(log: WrittenLog) -> Expected:
    # log/notes.txt
    path = log.directory / "log" / "notes.txt"
    path.write_text("remember the milk")
    return Expected(
        problems=[f"{path} is no segment of the log"], aside={path.name: b"remember the milk"}
    )


CASES: list[Callable[[WrittenLog], Expected]] = [
    bit_in_a_body,
    bit_in_each_field_of_a_record,
    bit_in_a_size,
    size_of_zero,
    bit_in_the_padding,
    bit_in_the_first_record,
    page_of_zeros,
    damage_in_every_segment,
    torn_tail,
    torn_header,
    bit_in_the_newest_record,
    bit_in_the_last_record_of_an_older_segment,
    newest_cut_in_a_record,
    newest_cut_behind_a_record,
    older_cut_in_a_record,
    older_cut_behind_a_record,
    older_cut_behind_its_header,
    zeros_at_the_end_of_an_older_segment,
    zeros_at_the_end_of_the_newest,
    bit_in_a_file_header,
    header_cut_short,
    zeros_instead_of_a_header,
    segment_of_another_number,
    file_of_another_program,
    older_file_emptied,
    older_file_all_zeros,
    newest_file_emptied,
    newest_file_all_zeros,
    file_missing,
    foreign_file,
]


def make_newer(path: Path) -> None:
    """Make a segment file one of format 2, whole but for what is unknown today."""
    header, _ = read_segment(path)
    data = path.read_bytes()
    newer = Header(2, header.number, header.salt, header.previous, header.previous_used)
    path.write_bytes(make_header(newer) + data[HEADER_BYTES:])


def contents(directory: Path) -> dict[str, bytes]:
    """Every file of a data directory but the lock, by its path."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock"
    }
