"""Format 1 stays readable: a data directory that was written when it was fixed still opens.

`log-v1` is as `write_log_v1.py` left it, each segment cut to what it used. `log-v2` has a segment
of a format that does not exist yet.
"""

import io
import shutil
from pathlib import Path

import pytest
from tests.server.damage import contents
from tests.server.written_log import Message, Run
from tests.storage.format_v1 import (
    CLEAN,
    COMMIT,
    DELIVERED,
    IN_TX,
    PUBLISH,
    SETTLE,
    Header,
    Record,
    read_segment,
)

from leporid.amqp.properties import Properties, decode_properties
from leporid.broker.stored import KINDS, StoredBinding, StoredExchange, StoredQueue, StoredVhost
from leporid.server.check import OK, WRONG_USE, check
from leporid.server.recovery import LogRefused
from leporid.storage.definitions import Definitions

HERE = Path(__file__).parent
EMPTY_TABLE = bytes(4)
WORK, AUDIT = 1, 3
LARGE = b"large " * 1000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A copy of the golden directory, to be opened."""
    return Path(shutil.copytree(HERE / "log-v1", tmp_path / "data"))


def segment(number: int) -> tuple[Header, list[Record]]:
    return read_segment(HERE / "log-v1" / "log" / f"{number:08d}.segment")


def names(exchange: str, key: str) -> bytes:
    return b"".join(bytes((len(text),)) + text.encode() for text in (exchange, key))


def test_the_files_are_what_the_page_draws():
    (first, records), (second, more) = segment(1), segment(2)
    assert (first.version, first.number, first.previous) == (1, 1, 0)
    assert (second.number, second.previous, second.previous_used) == (2, 1, records[-1].end)
    kinds = [(record.kind, record.flags) for record in records]
    assert kinds == [(COMMIT, 0), *[(PUBLISH, 0)] * 10, *[(SETTLE, 0)] * 5, *[(PUBLISH, 0)] * 3,
                     (CLEAN, 0)]  # fmt: skip
    kinds = [(record.kind, record.flags) for record in more]
    assert kinds == [(COMMIT, 0), (PUBLISH, IN_TX), (PUBLISH, IN_TX), (COMMIT, 0), (SETTLE, IN_TX),
                     (COMMIT, 0), (DELIVERED, 0), (CLEAN, 0)]  # fmt: skip


def test_every_field_of_a_message_is_where_the_page_says():
    message = segment(1)[1][16]
    assert message.targets == ((WORK, 10), (AUDIT, 0))
    assert message.names == names("events", "order.new")
    assert message.body == b"to both queues"
    assert message.timestamp_ms > 1_700_000_000_000
    assert decode_properties(message.properties) == Properties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"text": "grün", "number": -7, "nested": {"list": [1, "two", None]}},
        delivery_mode=2,
        priority=3,
        correlation_id="c-1",
        reply_to="answers",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="kind",
        user_id="guest",
        app_id="golden",
    )


def test_every_field_of_a_fact_is_where_the_page_says():
    settle, committed, delivered = segment(1)[1][11], segment(2)[1][3], segment(2)[1][6]
    assert (settle.queue, settle.ranges) == (WORK, [(1, 1, 0)])
    assert committed.body == b"\x02\0\0\0\0\0\0\0"
    assert (delivered.queue, delivered.ranges) == (WORK, [(1, 1, 6)])


def test_the_definitions_are_still_there(directory: Path):
    definitions = Definitions(directory / "definitions.db", KINDS)
    snapshot = definitions.load()
    definitions.close()
    assert definitions.report == ()
    assert snapshot.of(StoredVhost) == tuple(map(StoredVhost, ("/",)))
    assert [(queue.id, queue.name) for queue in snapshot.of(StoredQueue)] == [
        (WORK, "work"),
        (AUDIT, "audit"),
    ]
    assert snapshot.of(StoredQueue)[1].arguments.startswith(b"\0\0\0\x12\x0cx-max-length")
    assert [exchange.name for exchange in snapshot.of(StoredExchange) if exchange.name == "events"]
    assert set(snapshot.of(StoredBinding)) == {
        StoredBinding("/", "events", "audit", "queue", "#", EMPTY_TABLE),
        StoredBinding("/", "events", "work", "queue", "order.*", EMPTY_TABLE),
    }
    assert snapshot.next_queue_id == 4


def test_the_messages_are_still_there(directory: Path):
    run = Run(directory, ("work", "gone", "audit"))
    assert run.found.clean
    assert (run.found.segments, run.found.records) == (2, 28)
    assert run.messages("work") == [
        Message(1, True, b"plain 6"),
        Message(2, False, b"plain 7"),
        Message(3, False, b"plain 8"),
        Message(4, False, b"plain 9"),
        Message(5, False, b"to both queues"),
        Message(6, False, LARGE),
        Message(7, False, b"committed 1"),
    ]
    assert run.bodies("gone") == []
    assert run.bodies("audit") == [b"to both queues", b"", LARGE, b"committed 2"]
    run.crash()


def test_it_is_whole(directory: Path):
    Definitions(
        directory / "definitions.db", KINDS
    ).close()  # which makes the copy that is not kept here
    out = io.StringIO()
    assert check(directory, out) == OK
    assert out.getvalue() == f"{directory}: 2 segments, 28 records, whole\n"


def test_a_log_of_a_later_format_is_refused_and_left_alone(tmp_path: Path):
    directory = Path(shutil.copytree(HERE / "log-v2", tmp_path / "data"))
    before = contents(directory)
    with pytest.raises(LogRefused, match="format 2 is not known here"):
        Run(directory)
    out = io.StringIO()
    assert check(directory, out) == WRONG_USE
    assert "format 2 is not known here (this is 1)" in out.getvalue()
    assert contents(directory) == before
