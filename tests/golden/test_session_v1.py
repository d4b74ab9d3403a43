"""Today's broker writes what an earlier version reads: the bytes that that version would write.

`write_session_v1.py` is a session that gives the same bytes each time, and `session-v1.tar.xz` what
it gave with an earlier version. What differs on purpose is in `as_then`, with the reason why that
version reads it all the same. Where bytes differ that FORMAT.md leaves open (which segment is
cleaned when, in which order facts of one moment stand), have the earlier version open a directory
that was written by the new code before the golden file is made anew.
"""

import struct
import tarfile
from functools import cache
from pathlib import Path

import pytest
from tests.golden.write_session_v1 import session
from tests.storage.format_v1 import (
    CLEAN,
    COMMIT,
    DELIVERED,
    IN_TX,
    PUBLISH,
    SETTLE,
    Record,
    crc32c,
    read_header,
    read_records,
)

SYNCED, PRODUCER = 6, 7
PRODUCED = 2
# What a transaction is for: a message is stored anew.
REPLACES = struct.pack("<I", 1)


@pytest.fixture(scope="module")
def golden() -> dict[str, bytes]:
    with tarfile.open(Path(__file__).with_name("session-v1.tar.xz")) as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in files.items() if file is not None}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return session(tmp_path_factory.mktemp("session"))


@cache
def as_then(segment: bytes) -> bytes:
    """A segment with zeros where COMMIT says what for, which earlier versions do not read."""
    data = bytearray(segment)
    salt = read_header(segment).salt
    for record in read_records(segment):
        if record.kind == COMMIT:
            data[record.body_at + 4 : record.body_at + 8] = bytes(4)
            crc = crc32c(bytes(data[record.offset + 8 : record.end]), salt ^ record.offset)
            struct.pack_into("<I", data, record.offset + 4, crc)
    return bytes(data)


def records(files: dict[str, bytes]) -> list[Record]:
    return [record for data in files.values() for record in read_records(data)]


def test_the_session_has_every_kind_of_record(golden: dict[str, bytes]):
    assert {(record.kind, record.flags) for record in records(golden)} == {
        *((kind, 0) for kind in (PUBLISH, SETTLE, COMMIT, CLEAN, DELIVERED, SYNCED, PRODUCER)),
        (PUBLISH, IN_TX), (SETTLE, IN_TX), (PUBLISH, PRODUCED),
    }  # fmt: skip


def test_the_session_has_messages_that_were_copied(golden: dict[str, bytes]):
    def copies(life: int) -> list[int]:
        return [
            read_header(data).number
            for name, data in golden.items()
            for record in (read_records(data) if name.startswith(f"{life}/log/") else ())
            if record.body == b"to both"
        ]

    assert (copies(1), copies(2)) == ([1], [12])


def test_the_same_segments_are_written(golden: dict[str, bytes], written: dict[str, bytes]):
    assert list(written) == list(golden)


def test_the_same_bytes_are_written(golden: dict[str, bytes], written: dict[str, bytes]):
    for name, data in golden.items():
        found = as_then(written[name])
        # The records first: somebody can read them.
        assert found == data or read_records(found) == read_records(data), name
        assert found == data, name


def test_what_is_new_is_what_transactions_are_for(written: dict[str, bytes]):
    purposes = {record.body[4:] for record in records(written) if record.kind == COMMIT}
    assert purposes == {bytes(4), REPLACES}
