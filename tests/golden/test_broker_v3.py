"""Data directories that an earlier version has written open, and clients see in them what they saw.

`broker-v3-stopped` was left by a broker that was stopped in order, `broker-v3-killed` by one that
was killed; `write_broker_v3.py` says how both were made.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.golden.broker_v3 import CONFIGURATION, VIEWS, plain, rows, seen

from leporid.broker.stored import KINDS
from leporid.durable import Put
from leporid.limits.log_lines import LogLines
from leporid.server.check import OK, check
from leporid.server.config import load
from leporid.server.node import Node
from leporid.server.reload import LoadedConfig
from leporid.server.sources import DEFAULT
from leporid.storage.definitions import Definitions

HERE = Path(__file__).parent
PATIENCE_S = 20.0
LATER_FIELDS = {"skipped_messages"}
LATER_READER_FIELDS = {"end", "lag", "lag_ms", "moved_ms", "next_offset", "since_ms", "user"}
LATER_KINDS = {kind for kind in KINDS if kind.TABLE.since > 3}


@dataclass
class Golden:
    """A directory as it was kept, unpacked, and what clients saw of it."""

    directory: Path
    seen: dict[str, Any]


@pytest.fixture(scope="module", params=["stopped", "killed"])
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """One that no test changes."""
    place = tmp_path_factory.mktemp(request.param)
    with tarfile.open(HERE / f"broker-v3-{request.param}.tar.xz") as archive:
        # Python 3.11.0 to 3.11.3 has no filters; the archive is ours.
        if hasattr(tarfile, "data_filter"):
            archive.extractall(place, filter="data")
        else:
            archive.extractall(place)
    return Golden(place / "data", json.loads((place / "seen.json").read_text()))


@pytest.fixture
def directory(golden: Golden, tmp_path: Path) -> Path:
    """A copy, to be opened."""
    return Path(shutil.copytree(golden.directory, tmp_path / "data"))


class Output(io.StringIO):
    """Standard output of a node, which says in one line that it is ready, and on which ports."""

    def __init__(self, ready: asyncio.Event) -> None:
        super().__init__()
        self._ready = ready

    def flush(self) -> None:
        if "ready" in self.getvalue():
            self._ready.set()

    def ports(self) -> list[int]:
        return [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", self.getvalue())]


async def live(directory: Path, meanwhile: Callable[[int, int], Any] | None = None) -> Any:
    """One life of a broker: it starts, clients do something, it stops in order."""
    configuration = directory.with_name("leporid.toml")
    configuration.write_text(CONFIGURATION)
    given = {"data_dir": str(directory), "amqp_port": 0, "http_port": 0, "metrics_port": -1}
    config = load(configuration, given)
    ready = asyncio.Event()
    output = Output(ready)
    with contextlib.redirect_stdout(output):
        async with asyncio.timeout(PATIENCE_S):
            reread = LoadedConfig(config, lambda key: DEFAULT)
            node = asyncio.create_task(
                Node(config, lambda: reread, LogLines(time.monotonic)).serve()
            )
            node.add_done_callback(lambda _: ready.set())
            await ready.wait()
            assert not node.done(), node
            try:
                return meanwhile and await asyncio.to_thread(meanwhile, *output.ports())
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                assert await node == 0


@pytest.fixture(scope="module")
def handlers() -> Iterator[None]:
    """What signals do is as before afterwards; a uvloop that was closed leaves its own handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def found(
    golden: Golden, tmp_path_factory: pytest.TempPathFactory, handlers: None
) -> dict[str, Any]:
    """What clients see after the directory was opened, closed, and opened once more."""
    directory = tmp_path_factory.mktemp("opened") / "data"
    shutil.copytree(golden.directory, directory)
    uvloop.run(live(directory))
    assert_whole(directory)
    found: dict[str, Any] = uvloop.run(live(directory, seen))
    assert_whole(directory)
    return found


def assert_whole(directory: Path) -> None:
    """Nothing is damaged, and there are no traces of a crash either."""
    out = io.StringIO()
    assert check(directory, out) == OK, out.getvalue()
    assert re.fullmatch(r".*: \d+ segments, \d+ records, whole\n", out.getvalue())


def test_it_is_whole(directory: Path):
    assert_whole(directory)


def test_the_definitions_are_what_was_written(directory: Path, golden: Golden):
    definitions = Definitions(directory / "definitions.db", KINDS)
    snapshot = definitions.load()
    definitions.close()
    assert definitions.report == ()
    expected = dict(golden.seen["definitions"])
    (state,) = expected.pop("state")
    assert snapshot.next_queue_id == state[2]
    found = {
        kind.TABLE.name: [plain(each.values()) for each in snapshot.of(kind)] for kind in KINDS
    }
    for kind in LATER_KINDS:
        assert found.pop(kind.TABLE.name) == []
    assert found == {
        table: [row[:-1] for row in each] for table, each in expected.items()
    }  # the last column is the checksum


def test_the_definitions_are_stored_as_they_were(golden: Golden, tmp_path: Path):
    """To the letter: an earlier version takes tables that were made in other words for damaged."""
    written = Definitions(tmp_path / "definitions.db", KINDS)
    with opened(golden.directory) as then:
        for kind in KINDS:
            if kind not in LATER_KINDS:
                query = f"SELECT {', '.join(kind.columns())} FROM {kind.TABLE.name}"
                written.commit([Put(kind(*row)) for row in then.execute(query)])
        written.close()
        with opened(tmp_path) as now:
            for pragma in ("application_id", "user_version", "journal_mode", "encoding"):
                query = f"PRAGMA {pragma}"
                assert now.execute(query).fetchone() == then.execute(query).fetchone(), pragma
            query = "SELECT name, sql FROM sqlite_schema ORDER BY name"
            assert now.execute(query).fetchall() == then.execute(query).fetchall()
    stored, kept = rows(tmp_path / "definitions.db"), golden.seen["definitions"]
    assert stored | {"state": None} == kept | {"state": None}


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[sqlite3.Connection]:
    """The definitions, to be read."""
    uri = f"{(directory / 'definitions.db').as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        yield connection


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_clients_see_what_they_saw(golden: Golden, found: dict[str, Any], view: str):
    assert without_later_fields(found[view]) == golden.seen[view]


def without_later_fields(value: Any) -> Any:
    """An answer over HTTP, as it was when the directory was written."""
    if isinstance(value, dict):
        later = LATER_FIELDS | (LATER_READER_FIELDS if "reader" in value else set())
        kept = {key: each for key, each in value.items() if key not in later}
        return {key: without_later_fields(each) for key, each in kept.items()}
    return [without_later_fields(each) for each in value] if isinstance(value, list) else value
