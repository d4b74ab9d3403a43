"""Backups over HTTP, with a fake of what makes them."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from tests.management.conftest import World
from tests.management.fake_backups import Backups

from leporid.storage.backup import BackupError, BackupExists, BackupUnderWay

SHOWN = {
    "name": "one",
    "made_at": "2026-01-01T00:00:00+00:00",
    "version": "1.0",
    "generation": 5,
    "files": 3,
    "bytes": 300,
    "linked": 2,
    "directory": "/backups/one",
}


@pytest.fixture
def backups(world: World) -> Backups:
    return world.backups


async def test_a_backup_is_made_and_listed(backups: Backups, client: httpx.AsyncClient):
    made = await client.put("/api/backups/one")
    assert (made.status_code, made.json()) == (201, SHOWN)
    assert backups.asked == ["one"]
    assert (await client.get("/api/backups")).json() == [SHOWN]


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_administrators_alone(method: str, backups: Backups, client: httpx.AsyncClient):
    path = "/api/backups" + ("/one" if method == "PUT" else "")
    answer = await client.request(method, path, auth=("reader", "secret"))
    assert (answer.status_code, answer.json()["error"]) == (401, "not_authorised")
    assert backups.asked == []


@pytest.mark.parametrize("name", ["..", ".hidden", "a%2Fb", "%2Fetc", "x.unfinished", "%00"])
async def test_a_path_is_no_name(name: str, backups: Backups, client: httpx.AsyncClient):
    # httpx would take the dots out of the path.
    answer = await client.put("/api/backups/" + name.replace("..", "%2E%2E"))
    assert (answer.status_code, answer.json()["parameter"]) == (400, "name")
    assert backups.asked == []


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (BackupExists("there is a backup 'one' already"), 409, "conflict"),
        (BackupUnderWay("backup 'two' is being made"), 409, "conflict"),
        (BackupError("the disk has no room for it"), 503, "backup-failed"),
    ],
)
async def test_what_goes_wrong_is_told(
    error: BackupError, status: int, word: str, backups: Backups, client: httpx.AsyncClient
):
    backups.error = error
    answer = await client.put("/api/backups/one")
    assert answer.status_code == status
    assert answer.json() == {"error": word, "reason": str(error)}


async def test_a_client_that_goes_away_gives_it_up(backups: Backups, client: httpx.AsyncClient):
    backups.ready.clear()
    with pytest.raises(httpx.ReadTimeout):
        await client.put("/api/backups/one", timeout=0.05)
    await asyncio.wait_for(backups.ended.wait(), 10)
    assert backups.asked == ["one"]
