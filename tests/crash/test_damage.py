"""Damaged data directories, as whoever starts a broker on them sees it.

It starts, says what it set aside, and delivers the rest; or it says why it does not start, and
leaves everything as it is. `tests/server/damage.py` draws more kinds of damage.
"""

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from tests.crash.conftest import foreign
from tests.crash.load import PERSISTENT
from tests.server.damage import contents, make_newer
from tests.storage.format_v1 import PUBLISH, Record, read_segment

from leporid.testing import BrokerProcess

pytestmark = pytest.mark.skipif(foreign, reason="knows how Leporid stores what it keeps")

GOLDEN = Path(__file__).parents[1] / "golden"
QUEUE = "kept"
BODIES = [b"%03d " % index * 250 for index in range(20)]
LOG_LINE = re.compile(r"(WARNING|ERROR) \S+: (.*)")


class Owner:
    """Whoever runs the broker: starts it, reads its log, looks into its data directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = BrokerProcess(directory)
        self._read = 0

    @property
    def segment(self) -> Path:
        """The only segment file."""
        (path,) = (self.directory / "log").glob("*.segment")
        return path

    def records(self) -> list[Record]:
        """Of the messages, in their order."""
        return [record for record in read_segment(self.segment)[1] if record.kind == PUBLISH]

    def start(self) -> BlockingChannel:
        self.broker.start()
        return BlockingConnection(pika.URLParameters(self.broker.url)).channel()

    def start_refused(self) -> str:
        code, log = self.broker.start_refused(seconds=20)
        assert code == 1
        assert "Traceback" not in log
        return log

    def said(self) -> list[str]:
        """Warnings and errors of the log since the last time."""
        text = self.broker.log_path.read_text()
        new, self._read = text[self._read :], len(text)
        return [match[2] for match in LOG_LINE.finditer(new)]

    def checked(self) -> tuple[int, list[str]]:
        """Exit code of `leporid check`, and what it says before its verdict."""
        code, output = self.broker.check()
        return code, output.splitlines()[:-1]

    def aside(self) -> list[str]:
        return sorted(path.name for path in (self.directory / "quarantine").glob("*"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a queue of confirmed messages, whose broker was killed."""
    owner = Owner(tmp_path_factory.mktemp("killed") / "data")
    channel = owner.start()
    channel.confirm_delivery()
    channel.queue_declare(QUEUE, durable=True)
    for body in BODIES:
        channel.basic_publish("", QUEUE, body, PERSISTENT)
    owner.broker.kill()
    with contextlib.suppress(pika.exceptions.AMQPError):
        channel.connection.close()
    assert owner.checked() == (0, [])
    assert owner.said() == []
    return owner.directory


@pytest.fixture
def owner(killed: Path, tmp_path: Path) -> Iterator[Owner]:
    """The owner of a copy of that directory."""
    owner = Owner(tmp_path / "data")
    shutil.copytree(killed, owner.directory)
    yield owner
    owner.broker.close()


@pytest.fixture(autouse=True)
def _close_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what the tests opened, whether or not somebody is still at the other end."""
    opened: list[BlockingConnection] = []
    real = BlockingConnection.__init__

    def remember(connection: BlockingConnection, *arguments: object, **options: object) -> None:
        real(connection, *arguments, **options)
        opened.append(connection)

    monkeypatch.setattr(BlockingConnection, "__init__", remember)
    yield
    for connection in opened:
        try:
            connection.close()
        except pika.exceptions.AMQPError:
            pass


def take(channel: BlockingChannel, queue: str = QUEUE) -> list[bytes]:
    """Everything that is in a queue; it stays unsettled."""
    bodies: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue)
        if method is None:
            return bodies
        bodies.append(body)


def write(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def flip(path: Path, offset: int) -> None:
    data = path.read_bytes()[offset]
    write(path, offset, bytes((data ^ 1,)))


# ------------------------------------------------------------------ the log


def recovers(owner: Owner, lost: set[int]) -> list[str]:
    """Start on the damage, and once more after a kill; returns what the first start said."""
    rest = [body for index, body in enumerate(BODIES) if index not in lost]
    assert take(owner.start()) == rest
    said = owner.said()
    owner.broker.kill()
    aside = owner.aside()
    # It is said once. The second start finds a log that is whole.
    assert owner.checked() == (0, [])
    channel = owner.start()
    assert take(channel) == rest
    assert owner.said() == []
    assert owner.aside() == aside
    # And the broker is one that works.
    channel.confirm_delivery()
    channel.basic_publish("", QUEUE, b"new", PERSISTENT)
    assert take(channel) == [b"new"]
    owner.broker.kill()
    return said


def body(owner: Owner, record: Record) -> None:
    # header c 0 1 2 3 4 5 6 x 8 … 19 ····
    flip(owner.segment, record.body_at + 500)


def size(owner: Owner, record: Record) -> None:
    # the same; the record claims to reach into the next ones
    flip(owner.segment, record.offset + 1)


def target(owner: Owner, record: Record) -> None:
    # the same; the record names another queue
    flip(owner.segment, record.offset + 32)


def hole(owner: Owner, record: Record) -> None:
    # the same; the whole record is zeros
    write(owner.segment, record.offset, bytes(record.size))


@pytest.mark.parametrize("damage", [body, size, target, hole])
def test_one_damaged_message_costs_this_message(
    owner: Owner, damage: Callable[[Owner, Record], None]
):
    record = owner.records()[7]
    path = owner.segment
    damage(owner, record)
    data = path.read_bytes()[record.offset : record.end]
    stretch = f"{record.size} bytes at {record.offset}"
    assert owner.checked() == (1, [f"damaged: {path}: {stretch} fail their checksum"])
    kept = owner.directory / "quarantine" / f"00000001-{record.offset}.bytes"
    assert recovers(owner, {7}) == [
        f"damaged: {stretch} of {path} fail their checksum; kept as {kept}"
    ]
    assert kept.read_bytes() == data


def test_a_torn_end_costs_what_was_not_written(owner: Owner):
    # header c 0 1 … 18 1x·········
    record = owner.records()[-1]
    path = owner.segment
    write(path, record.end - 300, bytes(300))
    code, (note,) = owner.checked()
    assert (code, "a write that did not finish" in note) == (0, True)
    kept = owner.directory / "quarantine" / f"00000001-{record.offset}.bytes"
    (said,) = recovers(owner, {19})
    assert said == (
        f"torn end: {record.size - 300} bytes after the last whole record of {path} cut off; "
        f"kept as {kept}"
    )


def test_a_damaged_file_header_costs_the_file_and_not_the_broker(owner: Owner):
    # xxxxxx c 0 1 … 19 ····
    path = owner.segment
    flip(path, 17)
    data = path.read_bytes()
    said = recovers(owner, set(range(20)))
    kept = owner.directory / "quarantine" / path.name
    assert said == [f"damaged: segment 1: its header is damaged; set aside as {kept}"]
    assert kept.read_bytes() == data


def test_an_empty_file_and_a_foreign_one_do_no_harm(owner: Owner):
    # 1  header c 0 1 … 19 ····
    # 2  |
    # notes.txt
    notes = owner.segment.with_name("notes.txt")
    notes.write_text("remember the milk")
    owner.segment.with_name("00000002.segment").touch()
    kept = owner.directory / "quarantine" / "notes.txt"
    assert recovers(owner, set()) == [f"{notes} is no segment of the log; set aside as {kept}"]


def test_a_missing_file_costs_its_messages_and_not_the_broker(owner: Owner):
    owner.segment.unlink()
    assert recovers(owner, set(range(20))) == []


def test_a_crash_of_a_run_that_wrote_nothing_still_marks_what_it_delivered(owner: Owner):
    owner.start().connection.close()
    assert owner.broker.stop() == 0
    channel = owner.start()
    take(channel)
    owner.broker.kill()
    channel = owner.start()
    method, _, found = channel.basic_get(QUEUE)
    assert (found, method.redelivered) == (BODIES[0], True)


# ------------------------------------------------------------------ what is refused


def test_a_newer_format_is_refused_and_left_alone(owner: Owner):
    make_newer(owner.segment)
    before = contents(owner.directory / "log")
    log = owner.start_refused()
    assert "cannot start: " in log
    assert "segment 1: format 2 is not known here (this is 1); a newer version wrote it" in log
    assert contents(owner.directory / "log") == before
    assert not owner.aside()


def test_lost_definitions_are_noticed_and_the_messages_left_alone(owner: Owner):
    for path in owner.directory.glob("definitions*"):
        path.rename(owner.directory.parent / path.name)
    before = owner.segment.read_bytes()
    for _ in range(2):  # the first start has made new definitions
        log = owner.start_refused()
        assert "knows queue 1, but the definitions never had more than 0" in log
    assert owner.segment.read_bytes() == before
    for path in owner.directory.parent.glob("definitions*"):
        path.rename(owner.directory / path.name)
    assert take(owner.start()) == BODIES


# ------------------------------------------------------------------ definitions


def test_damaged_definitions_are_restored_from_their_copy(owner: Owner):
    path = owner.directory / "definitions.db"
    write(path, 0, b"x" * 100)
    channel = owner.start()
    assert take(channel) == BODIES
    said = owner.said()
    assert len(said) == 1
    assert "restored from" in said[0]
    owner.broker.kill()
    assert owner.checked() == (0, [])


# ------------------------------------------------------------------ format 1


def test_a_directory_of_format_1_opens(tmp_path: Path):
    shutil.copytree(GOLDEN / "log-v1", tmp_path / "data")
    owner = Owner(tmp_path / "data")
    channel = owner.start()
    method, properties, found = channel.basic_get("work")
    assert (found, method.redelivered) == (b"plain 6", True)
    assert take(channel, "work")[3:4] == [b"to both queues"]
    method, properties, found = channel.basic_get("audit")
    assert (found, method.redelivered) == (b"to both queues", False)
    assert properties.headers == {
        "text": "grün",
        "number": -7,
        "nested": {"list": [1, "two", None]},
    }
    assert (properties.priority, properties.app_id) == (3, "golden")
    # The binding is there, and the queue that was deleted is not.
    channel.basic_publish("events", "order.x", b"new")
    assert take(channel, "work") == [b"new"]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        channel.queue_declare("gone", passive=True)
    channel.connection.close()
    assert owner.broker.stop() == 0
    assert owner.checked() == (0, [])
    assert owner.said() == []
