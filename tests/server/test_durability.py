"""Generations: what is durable reaches the disk in order, and nobody is told before it is there."""

import asyncio
import errno
import os
import struct
import threading
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.engine.slices import cut_often
from tests.server.written_log import Run

from leporid.amqp.constants import FRAME_METHOD
from leporid.amqp.methods import BasicAck
from leporid.amqp.methods import decode as decode_method
from leporid.broker.stored import KINDS, StoredQueue, StoredVhost
from leporid.durable import Drop, Put
from leporid.server import durability as module
from leporid.server.durability import Durability
from leporid.storage import syncer
from leporid.storage.definitions import Definitions
from leporid.storage.segments import SegmentFiles, Write

PATIENCE_S = 10.0
CONFIRMING = 3


class Files(SegmentFiles):
    """Segment files whose writes may be kept waiting, or fail."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.gate = threading.Event()
        self.gate.set()
        self.errors: list[OSError] = []
        self.full = False
        self.calls = 0

    def write(self, writes: Iterable[Write]) -> None:
        assert self.gate.wait(PATIENCE_S)
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        if self.full:
            raise OSError(errno.ENOSPC, "full")
        super().write(writes)


class Node:
    """An engine, its files and its definitions, joined by what is tested.

    Attributes:
        events: what was told on the loop, in order.
    """

    def __init__(self, directory: Path, streams: tuple[str, ...] = ("s",), **options: bool) -> None:
        self.directory = directory
        self.files = Files(directory / "log")
        self.run = Run(directory, files=self.files, streams=streams)
        self.streams = self.run.logs
        self.stream = self.run.streams["s"]
        self.engine = self.run.engine
        self.run.connection.open_channel(CONFIRMING).select_confirm()
        self.files.calls = 0
        self.definitions = Definitions(directory / "definitions.db", KINDS)
        self.events: list[Any] = []
        self._waiting: list[tuple[Any, asyncio.Future[None]]] = []
        self.durability = Durability(
            self.engine,
            self.files,
            self.definitions,
            self.streams,
            wake=lambda: self._note("synced"),
            no_room=lambda full: self._note("full" if full else "room"),
            failed=lambda error: self._note(error),
            **options,
        )

    def _note(self, event: object) -> None:
        self.events.append(event)
        for wanted, future in self._waiting:
            if wanted == event and not future.done():
                future.set_result(None)

    async def until(self, event: object) -> None:
        """Wait for the next such event."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((event, future))
        async with asyncio.timeout(PATIENCE_S):
            await future

    def confirmed(self) -> int:
        """Highest publish that was confirmed since the last time; 0: none."""
        self.engine.run()
        view = self.run.connection.output.outgoing()
        output = bytes(view) if view is not None else b""
        del view
        self.run.connection.sent(len(output))
        highest = at = 0
        while at < len(output):
            kind, _, size = struct.unpack_from(">BHI", output, at)
            assert kind == FRAME_METHOD
            method = decode_method(output[at + 7 : at + 7 + size])
            assert isinstance(method, BasicAck)
            highest = method.delivery_tag
            at += size + 8
        return highest

    def close(self) -> None:
        self.files.gate.set()
        self.durability.stop()
        self.files.close()
        self.streams.close()
        self.definitions.close()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A node on an empty directory."""
    node = Node(tmp_path)
    yield node
    node.close()


def vhost(name: str) -> Put:
    return Put(StoredVhost(name))


async def drained(node: Node) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await node.durability.drain()


# ------------------------------------------------------------------ generations


async def test_a_confirm_waits_for_the_disk(node: Node):
    node.files.gate.clear()
    node.run.publish(b"0", b"1", channel=CONFIRMING)
    node.durability.poll()
    assert node.confirmed() == 0
    node.files.gate.set()
    await node.until("synced")
    assert node.confirmed() == 2


async def test_there_is_one_sync_at_a_time_and_the_next_takes_all_that_came_meanwhile(node: Node):
    node.files.gate.clear()
    for body in (b"0", b"1", b"2", b"3"):
        node.run.publish(body, channel=CONFIRMING)
        node.durability.poll()
    node.files.gate.set()
    await node.until("synced")
    assert node.confirmed() == 1
    await node.until("synced")
    assert node.confirmed() == 4
    assert node.files.calls == 2


@pytest.mark.parametrize("drains", [False, True])
async def test_streams_of_a_sync_are_collected_turn_by_turn(tmp_path: Path, drains: bool):
    """Also if the broker stops meanwhile; and if the timer rings, nothing is closed beside it."""
    names = ("s", *(f"s{number}" for number in range(199)))
    node = Node(tmp_path, names)
    for name in names:
        node.run.publish(b"0", key=name, channel=CONFIRMING)
    cut_often(node.engine, units=8)
    node.durability.poll()
    assert (node.files.calls, node.engine.busy) == (0, True)
    node.durability._tick()
    assert node.engine.logs.generation == node.engine.logs.synced + 2
    if drains:
        await drained(node)
    polls = 0
    while any(stream.end == 0 for stream in node.run.streams.values()):
        node.engine.run()
        node.durability.poll()
        polls += 1
        await asyncio.sleep(0)
    assert polls > 10
    assert node.engine.logs.generation == node.engine.logs.synced + 1
    assert node.confirmed() == len(names)
    node.close()


async def test_what_nobody_waits_for_is_synced_soon(node: Node, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "IDLE_SYNC_S", 0.01)
    node.run.publish(b"0")
    node.durability.poll()
    assert (node.engine.logs.awaited, node.files.calls) == (False, 0)
    node.run.publish(b"1")
    node.durability.poll()
    await node.until("synced")
    assert node.files.calls == 1
    assert not node.engine.logs.dirty


async def test_with_nothing_to_do_nothing_is_done(node: Node):
    node.durability.poll()
    await drained(node)
    assert (node.files.calls, node.events) == (0, [])


async def test_definitions_are_part_of_the_generation(node: Node):
    node.files.gate.clear()
    generation = node.engine.logs.generation
    node.durability.record(vhost("a"))
    node.run.publish(b"0", channel=CONFIRMING)
    node.durability.poll()
    node.durability.record(vhost("b"))
    node.files.gate.set()
    await node.until("synced")
    assert node.engine.logs.synced == generation
    assert StoredVhost("a") in node.definitions.load().of(StoredVhost)
    await drained(node)
    assert node.engine.logs.synced == generation + 1
    assert node.definitions.load().of(StoredVhost) == tuple(map(StoredVhost, ("a", "b")))


async def test_after_drain_everything_is_there(node: Node):
    bodies = [b"%d" % index * 3000 for index in range(12)]
    for body in bodies:
        node.run.publish(body)
        node.durability.poll()
    node.durability.record(vhost("a"))
    await drained(node)
    node.close()
    again = Run(node.directory)
    assert again.bodies() == bodies
    again.crash()


async def test_segments_that_nobody_needs_are_deleted(node: Node):
    for index in range(20):
        node.run.publish(b"%d" % index * 2000)
    await drained(node)
    assert len(node.files.numbers()) > 2
    for message in node.run.messages():
        node.run.ack(message)
    for _ in range(3):
        node.engine.clock.now_ms += 1000
        node.engine.logs.note_change()
        await drained(node)
    node.durability.stop()
    assert len(node.files.numbers()) == 1


async def test_written_confirms_without_waiting_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    node = Node(tmp_path, sync=False)
    monkeypatch.setattr("os.fdatasync", None)
    node.run.publish(b"0", channel=CONFIRMING)
    node.durability.poll()
    await node.until("synced")
    assert node.confirmed() == 1
    node.close()


async def test_stop_leaves_no_timer(node: Node):
    node.run.publish(b"0")
    node.durability.poll()
    node.durability.stop()
    await asyncio.sleep(0)
    assert node.files.calls == 0


# ------------------------------------------------------------------ streams


async def test_a_confirm_waits_for_every_log_of_the_generation(node: Node):
    node.files.gate.clear()
    node.run.publish(b"0", key="q,s", channel=CONFIRMING)
    node.run.publish(b"1", key="s", channel=CONFIRMING)
    node.durability.poll()
    assert (node.confirmed(), node.stream.end, node.stream.next_offset) == (0, 0, 2)
    node.files.gate.set()
    await node.until("synced")
    assert (node.confirmed(), node.stream.end) == (2, 2)
    assert node.run.read() == {0: b"0", 1: b"1"}
    assert node.streams.ids() == [2]


async def test_streams_are_there_again_after_a_crash(node: Node):
    bodies = [b"%02d" % index * 1000 for index in range(30)]
    for body in bodies:
        node.run.publish(body, key="s")
    node.durability.poll()
    await drained(node)
    assert len(node.streams.numbers(2)) > 2
    node.close()
    again = Run(node.directory, streams=("s",))
    assert again.read() == dict(enumerate(bodies))
    again.crash()


async def test_segments_beyond_retention_are_deleted(node: Node):
    node.stream.set_retention(max_bytes=30_000, segment_bytes=8192)
    for index in range(30):
        node.run.publish(b"%02d" % index * 1000, key="s")
        await drained(node)
    node.engine.logs.note_change()
    await drained(node)
    node.durability.stop()
    numbers = node.streams.numbers(2)
    assert numbers[0] > 3
    assert min(node.run.read()) == node.stream.first > 10
    node.close()
    again = Run(node.directory, streams=("s",))
    assert (again.streams["s"].first, again.streams["s"].end) == (node.stream.first, 30)
    again.crash()


async def test_a_deleted_stream_leaves_no_files(node: Node):
    node.run.publish(b"0", key="s")
    await drained(node)
    assert node.streams.ids() == [2]
    node.stream.retire()
    node.durability.record(Drop(StoredQueue, (2,)))
    await drained(node)
    node.durability.stop()
    assert node.streams.ids() == []


async def test_a_full_disk_of_a_stream_holds_every_confirm_back(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(syncer, "RETRY_S", 0.001)
    real = os.fdatasync
    room = threading.Event()

    def full(fd: int) -> None:
        if "streams" in os.readlink(f"/proc/self/fd/{fd}") and not room.is_set():  # noqa: PTH115
            raise OSError(errno.ENOSPC, "full")
        real(fd)

    monkeypatch.setattr(os, "fdatasync", full)
    node.run.publish(b"0", channel=CONFIRMING)
    node.run.publish(b"1", key="s", channel=CONFIRMING)
    node.durability.poll()
    await node.until("full")
    assert (node.confirmed(), node.stream.end) == (0, 0)
    room.set()
    await node.until("synced")
    assert (node.confirmed(), node.stream.end) == (2, 1)
    assert node.events == ["full", "room", "synced"]


async def test_after_another_error_of_a_stream_nothing_is_confirmed(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    error = OSError(errno.EIO, "the disk is dying")
    real = os.fdatasync

    def dying(fd: int) -> None:
        if "streams" in os.readlink(f"/proc/self/fd/{fd}"):  # noqa: PTH115
            raise error
        real(fd)

    monkeypatch.setattr(os, "fdatasync", dying)
    node.run.publish(b"0", channel=CONFIRMING)
    node.run.publish(b"1", key="s", channel=CONFIRMING)
    node.durability.poll()
    await node.until(error)
    assert (node.confirmed(), node.stream.end, node.events) == (0, 0, [error])


# ------------------------------------------------------------------ when it goes wrong


async def test_a_full_disk_is_told_and_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(syncer, "RETRY_S", 0.001)
    node.files.full = True
    node.run.publish(b"0", channel=CONFIRMING)
    node.durability.poll()
    await node.until("full")
    assert node.confirmed() == 0
    node.files.full = False
    await node.until("synced")
    assert node.confirmed() == 1
    assert node.events == ["full", "room", "synced"]


async def test_after_any_other_error_nothing_is_confirmed(node: Node):
    error = OSError(errno.EIO, "the disk is dying")
    node.files.errors = [error]
    node.run.publish(b"0", channel=CONFIRMING)
    node.durability.poll()
    await node.until(error)
    node.run.publish(b"1", channel=CONFIRMING)
    node.durability.poll()
    await drained(node)
    assert node.confirmed() == 0
    assert node.events == [error]
    assert node.files.calls == 1


async def test_who_waits_is_told_that_the_disk_has_failed(node: Node):
    error = OSError(errno.EIO, "the disk is dying")
    node.files.errors = [error]
    generation = node.engine.logs.note_change()
    waiting = asyncio.create_task(node.durability.until(generation))
    await asyncio.sleep(0)
    node.durability.poll()
    await node.until(error)
    async with asyncio.timeout(PATIENCE_S):
        assert not await waiting
        assert not await node.durability.until(generation)  # who comes later, too


async def test_draining_ends_when_the_disk_fails_meanwhile(node: Node):
    node.files.gate.clear()
    node.files.errors = [OSError(errno.EIO, "the disk is dying")]
    node.run.publish(b"0")
    task = asyncio.create_task(drained(node))
    await asyncio.sleep(0)
    node.files.gate.set()
    await task
    assert node.engine.logs.synced < node.engine.logs.generation - 1


async def test_who_waits_for_a_generation_goes_on_when_it_is_on_disk(node: Node):
    node.files.gate.clear()
    generation = node.engine.logs.note_change()
    waiting = [asyncio.create_task(node.durability.until(generation)) for _ in range(3)]
    node.durability.poll()
    await asyncio.sleep(0)
    waiting[0].cancel()
    assert not any(task.done() for task in waiting[1:])
    node.files.gate.set()
    await node.durability.drain()
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.gather(*waiting[1:]) == [True, True]
    # What is there already is not waited for.
    assert await node.durability.until(generation)
