"""A segment file, read as FORMAT.md draws it, with nothing but `struct`.

It shares no code with what it tests: if this and the engine agree, the page is true.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from pathlib import Path

PUBLISH, SETTLE, COMMIT, CLEAN, DELIVERED = 1, 2, 3, 4, 5
IN_TX = 1
HEADER_BYTES = 64
RECORD_BYTES = 32
HEADER = struct.Struct("<8sIIIII")
RECORD = struct.Struct("<IIBBHIQIHH")
TARGET = struct.Struct("<IQ")
RANGE = struct.Struct("<IIQ")


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = _table()


def crc32c(data: bytes, continued_from: int = 0) -> int:
    crc = continued_from ^ 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@dataclass(frozen=True)
class Header:
    version: int
    number: int
    salt: int
    previous: int
    previous_used: int


@dataclass(frozen=True)
class Record:
    offset: int
    size: int
    kind: int
    flags: int
    timestamp_ms: int
    targets: tuple[tuple[int, int], ...]  # queue id, sequence number
    names: bytes
    properties: bytes
    body: bytes

    @property
    def end(self) -> int:
        return self.offset + self.size

    @property
    def body_at(self) -> int:
        """Where the body is in the file."""
        before = TARGET.size * len(self.targets) + len(self.names) + len(self.properties)
        return self.offset + RECORD_BYTES + before

    @property
    def queue(self) -> int:
        """Of a SETTLE or DELIVERED: the queue id."""
        return int(struct.unpack_from("<I", self.body)[0])

    @property
    def ranges(self) -> list[tuple[int, int, int]]:
        """Of a SETTLE or DELIVERED: segment, count, first sequence number."""
        (count,) = struct.unpack_from("<I", self.body, 4)
        assert len(self.body) == 8 + count * RANGE.size
        return [RANGE.unpack_from(self.body, 8 + at * RANGE.size) for at in range(count)]


def read_header(data: bytes) -> Header:
    magic, *fields, crc = HEADER.unpack_from(data) + struct.unpack_from("<I", data, HEADER.size)
    assert magic == b"LEPSEG1\n"
    assert crc == crc32c(data[: HEADER.size])
    assert data[HEADER.size + 4 : HEADER_BYTES] == bytes(32)
    return Header(*fields)


def make_header(header: Header) -> bytes:
    fields = (header.version, header.number, header.salt, header.previous, header.previous_used)
    raw = HEADER.pack(b"LEPSEG1\n", *fields)
    return (raw + struct.pack("<I", crc32c(raw))).ljust(HEADER_BYTES, b"\0")


def read_record(data: bytes, offset: int, salt: int) -> Record:
    """The record at that place; every checksum, length and padding must be right."""
    size, crc, kind, flags, targets, properties_len, timestamp_ms, body_len, names_len, check = (
        RECORD.unpack_from(data, offset)
    )
    raw = data[offset : offset + size]
    seed = salt ^ offset
    assert check == crc32c(raw[:4] + raw[8:30], seed ^ 0xFFFFFFFF) & 0xFFFF
    assert crc == crc32c(raw[8:], seed)
    at = RECORD_BYTES + targets * TARGET.size
    ends = [at, at + names_len, at + names_len + properties_len]
    ends.append(ends[2] + body_len)
    assert size == -(-ends[3] // 8) * 8
    assert not any(raw[ends[3] :])
    return Record(
        offset,
        size,
        kind,
        flags,
        timestamp_ms,
        tuple(TARGET.iter_unpack(raw[RECORD_BYTES:at])),
        *(raw[start:end] for start, end in itertools.pairwise(ends)),
    )


def read_segment(path: Path) -> tuple[Header, list[Record]]:
    """A whole segment file; all of it must be as it is drawn."""
    data = path.read_bytes()
    header = read_header(data)
    assert path.name == f"{header.number:08d}.segment"
    return header, read_records(data)


def read_records(data: bytes) -> list[Record]:
    """All records of a segment file's content; behind them are zeros."""
    salt = read_header(data).salt
    records = []
    at = HEADER_BYTES
    while data[at : at + 4].strip(b"\0"):
        records.append(read_record(data, at, salt))
        at = records[-1].end
    assert not any(data[at:])
    return records


def used(path: Path) -> int:
    """Where the records of a segment file end."""
    _, records = read_segment(path)
    return records[-1].end if records else HEADER_BYTES


def make_record(
    offset: int,
    salt: int,
    kind: int,
    *,
    targets: tuple[tuple[int, int], ...] = (),
    names: bytes = b"",
    properties: bytes = b"",
    body: bytes = b"",
) -> bytes:
    """A record for that place, with every checksum and length right, whatever it says."""
    content = b"".join(TARGET.pack(*each) for each in targets) + names + properties + body
    size = -(-(RECORD_BYTES + len(content)) // 8) * 8
    head = struct.pack("<BBHIQIH", kind, 0, len(targets), len(properties), 1, len(body), len(names))
    seed = salt ^ offset
    check = crc32c(struct.pack("<I", size) + head, seed ^ 0xFFFFFFFF) & 0xFFFF
    rest = (head + struct.pack("<H", check) + content).ljust(size - 8, b"\0")
    return struct.pack("<II", size, crc32c(rest, seed)) + rest
