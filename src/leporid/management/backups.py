"""Backups over HTTP: make one by name, list what there is.

Responsible for these routes, which administrators alone use. Must not know how a backup is made. A
client gives a name and never a path: where backups stand is the configuration's. Invariant: 201 is
answered when the whole backup is on disk; a client that goes away before gives it up.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from leporid.management.answers import disconnected
from leporid.management.authorization import administrator
from leporid.management.parameters import Parameters
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal, bad
from leporid.storage.backup import BackupError, BackupExists, BackupUnderWay, Manifest, check_name

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.management.surroundings import Surroundings


class BackupRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def listing(self, request: Request) -> Response:
        """GET /api/backups: the whole ones, by name."""
        user = await administrator(self._around, request)
        Parameters(request, ())
        found = await self._around.backups.listing()
        self._around.check_unchanged(user)
        return self._around.listing(user, [self._shown(one) for one in found])

    async def put(self, request: Request) -> Response:
        """PUT /api/backups/{name}: make one; 201 when all of it is on disk.

        409 if there is one of that name, or another is being made.
        """
        user = await administrator(self._around, request)
        Parameters(request, ())
        name = name_of(request, "name")
        try:
            check_name(name)
        except BackupError as error:
            raise bad("name", str(error)) from None
        self._around.check_unchanged(user)
        making = asyncio.create_task(self._around.backups.make(name))
        gone = asyncio.create_task(disconnected(request.receive))
        try:
            await asyncio.wait({making, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (making, gone):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone
        return await self._answer(making)

    async def _answer(self, making: asyncio.Task[Manifest]) -> Response:
        try:
            found = await making
        except (BackupExists, BackupUnderWay) as conflict:
            raise Refusal(409, "conflict", str(conflict)) from None
        except BackupError as error:
            raise Refusal(503, "backup-failed", str(error)) from None
        except asyncio.CancelledError:
            # The client is gone; nobody reads this.
            raise Refusal(503, "backup-failed", "the client went away") from None
        return JSONResponse(self._shown(found), status_code=201)

    def _shown(self, manifest: Manifest) -> dict[str, Any]:
        directory = self._around.backups.directory / manifest.name
        return {**asdict(manifest), "directory": str(directory)}
