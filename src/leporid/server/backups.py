"""Backups of the running broker: one at a time, below one directory, off the loop.

Responsible for joining a backup (`storage.backup`) to the sync thread and to a thread of its own,
and for ending it when nobody wants it any more. Must not know what is in one, nor who asks.
Invariant: whatever way a backup ends, files may be deleted again, and of one that did not succeed
nothing is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from leporid.server.niceness import yield_to_messages
from leporid.storage.backup import Backup, BackupUnderWay, Manifest, clear, listing
from leporid.storage.syncer import Rest

logger = logging.getLogger(__name__)

# A backup looks at whether it is wanted at least this often, unless the disk hangs.
STOP_S: Final = 10.0


class Backups:
    """What makes backups, and lists them.

    Args:
        directory: where they stand.
        version: of this broker.
        make: gives one of a name; raises BackupError.
        rest: begins a rest of the sync thread; returns the generation before it.
    """

    def __init__(
        self,
        directory: Path,
        version: str,
        make: Callable[[str], Backup],
        rest: Callable[[Rest], Awaitable[int]],
    ) -> None:
        self.directory = directory
        self._version = version
        self._make = make
        self._rest = rest
        self._under_way: Backup | None = None
        self._task: asyncio.Task[Manifest] | None = None
        self._thread = ThreadPoolExecutor(1, "backup", yield_to_messages)

    def __repr__(self) -> str:
        return f"<Backups in {self.directory}, under way: {self._under_way}>"

    def clear(self) -> None:
        """Delete what was left of a backup when the run before ended; at start-up."""
        for path in clear(self.directory):
            logger.info("%s was left of a backup that was not finished; removed", path)

    async def make(self, name: str) -> Manifest:
        """Make a backup; cancelled, it is given up.

        Raises:
            BackupUnderWay: another one is being made.
            BackupExists: there is one of that name.
            BackupError: it could not be made; nothing is left of it.
        """
        if self._under_way is not None:
            raise BackupUnderWay(f"backup '{self._under_way.name}' is being made")
        backup = self._under_way = self._make(name)
        task = self._task = asyncio.create_task(self._run(backup))
        try:
            # Not cancelled with who waits: it cleans up first.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            backup.stop()
            task.add_done_callback(_look_at)
            raise

    async def _run(self, backup: Backup) -> Manifest:
        loop = asyncio.get_running_loop()
        try:
            generation = await self._rest(backup.rest)
            made_at = datetime.now(UTC).isoformat(timespec="seconds")
            found = await loop.run_in_executor(
                self._thread, backup.copy, made_at, self._version, generation
            )
        finally:
            backup.rest.end()
            self._under_way = self._task = None
        logger.info(
            "backup %s made, as of generation %d: %d segments, of which %d are hard links",
            backup.target, found.generation, found.files, found.linked,
        )  # fmt: skip
        return found

    async def listing(self) -> list[Manifest]:
        """Return those that there are, by name."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, listing, self.directory)

    async def stop(self) -> None:
        """Give up what is under way."""
        task = self._task
        if self._under_way is not None and task is not None:
            self._under_way.stop()
            await asyncio.wait({task}, timeout=STOP_S)
        self._thread.shutdown(wait=False, cancel_futures=True)


def _look_at(task: asyncio.Task[Manifest]) -> None:
    """Nobody waits for it any more; asyncio would complain of what it raised."""
    if not task.cancelled():
        task.exception()
