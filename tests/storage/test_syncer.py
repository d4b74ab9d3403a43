"""The sync thread: order, a full disk, and errors after which nothing is promised any more."""

import errno
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from leporid.broker.stored import StoredVhost
from leporid.durable import Change, Put
from leporid.storage import syncer as module
from leporid.storage.definitions import DefinitionsError
from leporid.storage.segments import Write
from leporid.storage.streams import SegmentSync, StreamWork
from leporid.storage.syncer import Job, Rest, Syncer, is_no_room

PATIENCE_S = 10.0
CHANGE: Change = Put(StoredVhost("v"))


class Disk:
    """Definitions and files that only note what is asked of them.

    Attributes:
        steps: everything that happened, in order.
        errors: raised by the step of that name, one at a time; None lets it pass.
        gates: steps of that name wait for theirs.
    """

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.errors: dict[str, list[BaseException | None]] = {}
        self.gates: dict[str, threading.Event] = {}
        self.happened: queue.SimpleQueue[str] = queue.SimpleQueue()

    def note(self, name: str, *details: Any) -> None:
        self.happened.put(name)
        if name in self.gates:
            assert self.gates[name].wait(PATIENCE_S)
        if self.errors.get(name) and (error := self.errors[name].pop(0)):
            self.steps.append(f"{name} fails")
            raise error
        self.steps.append((name, *details) if details else name)

    def commit(self, changes: Sequence[Change], /) -> None:
        self.note("definitions", list(changes))

    def write(self, writes: Iterable[Write], /) -> None:
        self.note("write", [number for number, *_ in writes])

    def sync(self, *, wait: bool) -> None:
        self.note("sync" if wait else "no sync")

    def drop(self, number: int, /, *, wait: bool) -> None:
        self.note("drop", number)

    @property
    def streams(self) -> "Streams":
        return Streams(self)

    def wait_for(self, name: str) -> None:
        while self.happened.get(timeout=PATIENCE_S) != name:
            pass


class Streams:
    """Streams' files that only note what is asked of them."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def store(
        self, works: Iterable[StreamWork], /, *, wait: bool, beside: SegmentSync | None
    ) -> None:
        assert beside is self._disk
        written = {
            stream: [number for number, *_ in writes] for stream, writes, _ in works if writes
        }
        self._disk.note("store" if wait else "store without sync", written)

    def numbers(self, stream_id: int, /) -> list[int]:
        return [8, 9]

    def drop(self, stream_id: int, number: int, /, *, wait: bool) -> None:
        self._disk.note("drop of stream", stream_id, number, wait)

    def delete(self, stream_id: int, /) -> None:
        self._disk.note("delete", stream_id)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def make(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Syncer]]:
    """Makes the thread; what it reports stands among the disk's steps."""
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    made = []

    def make(**options: bool) -> Syncer:
        syncer = Syncer(
            disk,
            disk,
            disk.streams,
            done=lambda job: disk.note("done", job.generation),
            no_room=lambda full: disk.note("full" if full else "room"),
            failed=lambda error: disk.note("failed", error),
            **options,
        )
        made.append(syncer)
        return syncer

    yield make
    for gate in disk.gates.values():
        gate.set()
    for syncer in made:
        syncer.stop()


def write(number: int) -> Write:
    return (number, 4096, 0, b"bytes")


def full(code: int = errno.ENOSPC) -> OSError:
    return OSError(code, "no room")


def test_definitions_then_the_log_then_it_is_done_then_files_go(
    disk: Disk, make: Callable[..., Syncer]
):
    syncer = make()
    syncer.submit(Job(1, [CHANGE], [write(3), write(4)], [2, 1]))
    syncer.stop()
    assert disk.steps == [
        ("definitions", [CHANGE]),
        ("write", [3, 4]),
        "sync",
        ("done", 1),
        ("drop", 1),
        ("drop", 2),
    ]


def test_jobs_are_done_in_their_order(disk: Disk, make: Callable[..., Syncer]):
    syncer = make()
    for generation in (1, 2, 3):
        syncer.submit(Job(generation, writes=[write(generation)]))
    syncer.stop()
    assert [step[1] for step in disk.steps if step[0] == "done"] == [1, 2, 3]


def test_a_job_without_changes_leaves_the_definitions_alone(
    disk: Disk, make: Callable[..., Syncer]
):
    make().submit(Job(1, writes=[write(1)]))
    disk.wait_for("done")
    assert "definitions" not in [step[0] for step in disk.steps]


def test_written_does_not_wait_for_the_disk(disk: Disk, make: Callable[..., Syncer]):
    syncer = make(sync=False)
    syncer.submit(Job(1, writes=[write(1)]))
    syncer.stop()
    assert disk.steps == [("write", [1]), "no sync", ("done", 1)]


# ------------------------------------------------------------------ rests


def test_from_a_rest_on_no_file_goes_until_it_ends(disk: Disk, make: Callable[..., Syncer]):
    syncer = make()
    rest = Rest(lambda: disk.note("rest"))
    disk.gates["done"] = threading.Event()
    syncer.submit(Job(1, writes=[write(1)], drops=[1]))
    disk.wait_for("done")
    syncer.rest(rest)
    syncer.submit(Job(2, writes=[write(2)], drops=[2]))
    disk.gates["done"].set()
    disk.wait_for("done")
    # That of the first job may go before the rest begins; never between its beginning and its end.
    begun = disk.steps.index("rest")
    assert ("drop", 2) not in disk.steps
    assert [step for step in disk.steps[begun:] if step[0] == "drop"] == []
    rest.end()
    rest.end()
    disk.wait_for("drop")
    syncer.stop()
    assert ("drop", 2) in disk.steps
    assert not rest.broken


def test_a_rest_begins_after_the_jobs_before_it(disk: Disk, make: Callable[..., Syncer]):
    syncer = make()
    disk.gates["write"] = threading.Event()
    syncer.submit(Job(1, writes=[write(1)]))
    rest = Rest(lambda: disk.note("rest"))
    syncer.rest(rest)
    disk.gates["write"].set()
    syncer.stop()
    assert disk.steps == [("write", [1]), "sync", ("done", 1), "rest"]
    rest.end()


def test_a_rest_that_ended_before_its_turn_never_begins(disk: Disk, make: Callable[..., Syncer]):
    syncer = make()
    disk.gates["write"] = threading.Event()
    syncer.submit(Job(1, writes=[write(1)], drops=[1]))
    rest = Rest(lambda: disk.note("rest"))
    syncer.rest(rest)
    rest.end()
    disk.gates["write"].set()
    syncer.stop()
    assert "rest" not in disk.steps
    assert ("drop", 1) in disk.steps


def test_a_full_disk_breaks_a_rest(disk: Disk, make: Callable[..., Syncer]):
    syncer = make()
    rest = Rest(lambda: disk.note("rest"))
    syncer.rest(rest)
    syncer.submit(Job(1, writes=[write(1)], drops=[1]))
    disk.wait_for("done")
    disk.errors["write"] = [full()]
    syncer.submit(Job(2, writes=[write(2)]))
    disk.wait_for("room")
    assert rest.broken
    assert disk.steps.index(("drop", 1)) < disk.steps.index("room")
    syncer.stop()


# ------------------------------------------------------------------ streams


def test_all_logs_of_a_generation_are_on_disk_before_it_is_done(
    disk: Disk, make: Callable[..., Syncer]
):
    syncer = make()
    streams: list[StreamWork] = [
        (7, [write(1), write(2)], [4, 3]),
        (8, [write(5)], []),
        (9, [], [1]),
        (6, None, None),
    ]
    syncer.submit(Job(1, [CHANGE], [write(3)], [2], streams))
    syncer.stop()
    assert disk.steps == [
        ("definitions", [CHANGE]),
        ("write", [3]),
        ("store", {7: [1, 2], 8: [5]}),
        ("done", 1),
        ("drop", 2),
        ("drop of stream", 7, 3, True),
        ("drop of stream", 7, 4, True),
        ("drop of stream", 9, 1, True),
        # A stream that is gone promises nothing: none of its files is waited for.
        ("drop of stream", 6, 8, False),
        ("drop of stream", 6, 9, False),
        ("delete", 6),
    ]


def test_a_generation_without_messages_for_streams_syncs_the_log_as_ever(
    disk: Disk, make: Callable[..., Syncer]
):
    syncer = make()
    syncer.submit(Job(1, writes=[write(1)], streams=[(7, [], [])]))
    syncer.stop()
    assert disk.steps == [("write", [1]), "sync", ("done", 1)]


def test_written_does_not_wait_for_the_disk_of_streams(disk: Disk, make: Callable[..., Syncer]):
    syncer = make(sync=False)
    syncer.submit(Job(1, streams=[(7, [write(1)], [1])]))
    syncer.stop()
    assert disk.steps[1:] == [
        ("store without sync", {7: [1]}),
        ("done", 1),
        ("drop of stream", 7, 1, False),
    ]


def test_a_full_disk_of_streams_is_waited_for_with_everything_written_again(
    disk: Disk, make: Callable[..., Syncer]
):
    disk.errors["store"] = [full()]
    syncer = make()
    syncer.submit(Job(1, [CHANGE], [write(1)], streams=[(7, [write(2)], [])]))
    disk.wait_for("done")
    syncer.stop()
    assert disk.steps == [
        ("definitions", [CHANGE]),
        ("write", [1]),
        "store fails",
        "full",
        ("write", [1]),
        ("store", {7: [2]}),
        "room",
        ("done", 1),
    ]


def test_after_another_error_of_a_stream_nothing_is_done_any_more(
    disk: Disk, make: Callable[..., Syncer]
):
    error = OSError(errno.EIO, "the disk is dying")
    disk.errors["store"] = [error]
    syncer = make()
    syncer.submit(Job(1, streams=[(7, [write(2)], [])]))
    syncer.submit(Job(2))
    syncer.stop()
    assert disk.steps == [("write", []), "store fails", ("failed", error)]


# ------------------------------------------------------------------ deletions


def test_deletions_wait_for_other_work_but_do_not_pile_up(disk: Disk, make: Callable[..., Syncer]):
    syncer = make()
    disk.gates["write"] = threading.Event()
    syncer.submit(Job(1, writes=[write(99)], drops=list(range(1, 41))))
    for generation in (2, 3):
        syncer.submit(Job(generation))
    disk.gates["write"].set()
    syncer.stop()
    names = [step[1] for step in disk.steps if step[0] in ("done", "drop")]
    dropped = [step[1] for step in disk.steps if step[0] == "drop"]
    assert dropped == list(range(1, 41))
    # A share after each job, the rest when there is nothing else to do.
    assert names[:8] == [1, 1, 2, 3, 2, 4, 5, 6]


def test_a_file_goes_after_every_file_that_was_named_before_it(
    disk: Disk, make: Callable[..., Syncer]
):
    syncer = make()
    disk.gates["write"] = threading.Event()
    syncer.submit(Job(1, drops=[7, 6]))
    syncer.submit(Job(2, drops=[3]))
    disk.gates["write"].set()
    syncer.stop()
    assert [step[1] for step in disk.steps if step[0] == "drop"] == [6, 7, 3]


def test_an_idle_thread_deletes_without_being_asked_again(disk: Disk, make: Callable[..., Syncer]):
    make().submit(Job(1, drops=[1, 2, 3]))
    for _ in range(3):
        disk.wait_for("drop")


# ------------------------------------------------------------------ a full disk


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("step", ["write", "sync"])
def test_a_full_disk_is_waited_for(disk: Disk, make: Callable[..., Syncer], step: str, code: int):
    disk.errors[step] = [full(code), full(code)]
    syncer = make()
    syncer.submit(Job(1, [CHANGE], [write(1)]))
    disk.wait_for("done")
    syncer.stop()
    # The definitions are committed once; all bytes are written again before the next sync, since
    # nobody knows what the kernel did with those that it could not write.
    before = [] if step == "write" else [("write", [1])]
    assert disk.steps == [
        ("definitions", [CHANGE]),
        *before,
        f"{step} fails",
        "full",
        *before,
        f"{step} fails",
        ("write", [1]),
        "sync",
        "room",
        ("done", 1),
    ]


def test_definitions_that_find_no_room_are_tried_again(disk: Disk, make: Callable[..., Syncer]):
    disk.errors["definitions"] = [definitions_error(sqlite3.SQLITE_FULL)]
    syncer = make()
    syncer.submit(Job(1, [CHANGE]))
    disk.wait_for("done")
    syncer.stop()
    assert disk.steps[:3] == ["definitions fails", "full", ("definitions", [CHANGE])]


def test_a_full_disk_makes_room_by_deleting_what_may_go(disk: Disk, make: Callable[..., Syncer]):
    disk.gates["write"] = threading.Event()
    disk.errors["write"] = [None, full()]
    syncer = make()
    syncer.submit(Job(1, drops=list(range(1, 31))))
    syncer.submit(Job(2, writes=[write(99)], drops=[31]))
    disk.gates["write"].set()
    disk.wait_for("room")
    syncer.stop()
    assert [step for step in disk.steps if step != "sync"] == [
        ("write", []),
        ("done", 1),
        *(("drop", number) for number in (1, 2)),
        "write fails",
        *(("drop", number) for number in range(3, 31)),
        "full",
        ("write", [99]),
        "room",
        ("done", 2),
        ("drop", 31),  # not before its own job is on disk
    ]


def test_a_disk_that_stays_full_is_not_waited_for_at_the_end(
    disk: Disk, make: Callable[..., Syncer], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "RETRY_S", PATIENCE_S)
    disk.errors["write"] = [full() for _ in range(1000)]
    syncer = make()
    syncer.submit(Job(1, writes=[write(1)], drops=[1]))
    disk.wait_for("full")
    syncer.stop()
    assert disk.steps == ["write fails", "full"]


# ------------------------------------------------------------------ other errors


@pytest.mark.parametrize("step", ["definitions", "write", "sync", "drop"])
def test_after_any_other_error_nothing_is_done_any_more(
    disk: Disk, make: Callable[..., Syncer], step: str
):
    error = OSError(errno.EIO, "the disk is dying")
    disk.errors[step] = [error]
    syncer = make()
    syncer.submit(Job(1, [CHANGE], [write(1)], [1]))
    syncer.submit(Job(2, [CHANGE], [write(2)], [2]))
    syncer.stop()
    assert disk.steps[-2:] == [f"{step} fails", ("failed", error)]
    assert ("done", 2) not in disk.steps


def test_definitions_that_are_broken_are_no_full_disk(disk: Disk, make: Callable[..., Syncer]):
    error = definitions_error(sqlite3.SQLITE_CORRUPT)
    disk.errors["definitions"] = [error]
    syncer = make()
    syncer.submit(Job(1, [CHANGE], [write(1)]))
    syncer.stop()
    assert disk.steps == ["definitions fails", ("failed", error)]


def definitions_error(code: int) -> DefinitionsError:
    cause = sqlite3.OperationalError("as SQLite says it")
    cause.sqlite_errorcode = code
    error = DefinitionsError("definitions.db: as SQLite says it")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, ""), True),
        (OSError(errno.EIO, ""), False),
        (definitions_error(sqlite3.SQLITE_FULL), True),
        (definitions_error(sqlite3.SQLITE_IOERR_SHMSIZE), True),
        (definitions_error(sqlite3.SQLITE_IOERR_FSYNC), False),
        (DefinitionsError("without a cause"), False),
        (ValueError(), False),
    ],
)
def test_what_only_says_that_the_disk_is_full(error: Exception, expected: bool):
    assert is_no_room(error) is expected
