"""Backups of a running broker: one at a time, and given up when nobody wants them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.server.written_log import Run

from leporid.broker.stored import KINDS
from leporid.server.backups import Backups
from leporid.server.durability import Durability
from leporid.storage import backup as module
from leporid.storage.backup import Backup, BackupExists, BackupUnderWay, Stopped
from leporid.storage.definitions import Definitions
from leporid.storage.segments import SegmentFiles

PATIENCE_S = 10.0


class Node:
    """An engine, its files, and what backs them up."""

    def __init__(self, directory: Path) -> None:
        self.files = SegmentFiles(directory / "log")
        self.run = Run(directory, files=self.files, streams=("s",))
        self.definitions = Definitions(directory / "definitions.db", KINDS)
        self.durability = Durability(
            self.run.engine,
            self.files,
            self.definitions,
            self.run.logs,
            wake=lambda: None,
            no_room=lambda full: None,
            failed=lambda error: None,
        )
        self.directory = directory / "backups"
        self.backups = Backups(self.directory, "1.0", self._make, self.durability.rest)

    def _make(self, name: str) -> Backup:
        return Backup(self.files, self.run.logs, self.definitions, self.directory, name)

    def left(self) -> list[str]:
        there = self.directory.iterdir() if self.directory.exists() else ()
        return sorted(path.name for path in there)

    async def close(self) -> None:
        await self.backups.stop()
        self.durability.stop()
        self.files.close()
        self.run.logs.close()
        self.definitions.close()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(tmp_path)
    yield node
    await node.close()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """What a backup waits for before its files are synced, if it is cleared."""
    gate = threading.Event()
    gate.set()
    real = module.sync_all

    def gated(directory: Path, written: list[Path]) -> None:
        assert gate.wait(PATIENCE_S)
        real(directory, written)

    monkeypatch.setattr(module, "sync_all", gated)
    return gate


async def until(condition: object) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.001)


async def test_a_backup_is_made_and_listed(node: Node):
    found = await node.backups.make("one")
    assert (found.name, found.version) == ("one", "1.0")
    assert await node.backups.listing() == [found]
    with pytest.raises(BackupExists):
        await node.backups.make("one")
    await node.backups.make("two")
    assert node.left() == ["one", "two"]


async def test_one_is_made_at_a_time(node: Node, gate: threading.Event):
    gate.clear()
    making = asyncio.create_task(node.backups.make("one"))
    await until(lambda: node.left() == ["one.unfinished"])
    with pytest.raises(BackupUnderWay, match="'one'"):
        await node.backups.make("two")
    gate.set()
    await making
    await node.backups.make("two")


async def test_nobody_wants_it_any_more(node: Node, gate: threading.Event):
    gate.clear()
    making = asyncio.create_task(node.backups.make("one"))
    await until(lambda: node.left() == ["one.unfinished"])
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    gate.set()
    await until(lambda: not node.left())
    # The next one waits for nothing that the first has left.
    await until(lambda: "under way: None" in repr(node.backups))
    await node.backups.make("one")


async def test_the_broker_stops(node: Node, gate: threading.Event):
    gate.clear()
    making = asyncio.create_task(node.backups.make("one"))
    await until(lambda: node.left() == ["one.unfinished"])
    stopping = asyncio.create_task(node.backups.stop())
    await asyncio.sleep(0)
    gate.set()
    await stopping
    with pytest.raises(Stopped):
        await making
    assert node.left() == []


async def test_what_a_crash_left_is_removed(node: Node, caplog: pytest.LogCaptureFixture):
    (node.directory / "one.unfinished").mkdir(parents=True)
    caplog.set_level("INFO")
    node.backups.clear()
    assert node.left() == []
    assert "one.unfinished was left of a backup that was not finished" in caplog.text
