"""What makes backups, for tests of routes: it makes one when it is told to."""

from __future__ import annotations

import asyncio
from pathlib import Path

from leporid.storage.backup import BackupError, Manifest

ONE = Manifest("one", "2026-01-01T00:00:00+00:00", "1.0", 5, 3, 300, 2)


class Backups:
    """Makes one backup when told to."""

    def __init__(self) -> None:
        self.directory = Path("/backups")
        self.error: BackupError | None = None
        self.asked: list[str] = []
        self.ready = asyncio.Event()
        self.ready.set()
        self.ended = asyncio.Event()

    async def make(self, name: str) -> Manifest:
        self.asked.append(name)
        try:
            await self.ready.wait()
        finally:
            self.ended.set()
        if self.error is not None:
            raise self.error
        return ONE

    async def listing(self) -> list[Manifest]:
        return [ONE]
