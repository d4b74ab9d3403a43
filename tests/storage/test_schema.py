"""Definitions that an earlier version of the schema has written."""

import sqlite3
from pathlib import Path

import pytest
from tests.storage.test_definitions import EVERYTHING, committed, policy, reader_offset

from leporid.broker.stored import (
    KINDS,
    StoredBinding,
    StoredPolicy,
    StoredQueue,
    StoredReaderOffset,
)
from leporid.storage.database import Database
from leporid.storage.definitions import Definitions, copy_path, problems


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "definitions.db"


def as_version(number: int, path: Path) -> None:
    """Make both files what an earlier version of the schema was."""
    for one in (path, copy_path(path)):
        connection = sqlite3.connect(one)
        for kind in KINDS:
            if kind.TABLE.since > number:
                connection.execute(f"DROP TABLE {kind.TABLE.name}")
        connection.execute(f"PRAGMA user_version = {number}")
        connection.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_earlier_version_is_taken_over(path: Path, version: int):
    committed(path, *EVERYTHING)
    as_version(version, path)
    assert problems(path, KINDS) == []
    before = path.read_bytes()
    assert problems(path, KINDS) == []
    assert path.read_bytes() == before
    definitions = Definitions(path, KINDS)
    assert definitions.report == ()
    snapshot = definitions.load()
    assert (len(snapshot.of(StoredQueue)), len(snapshot.of(StoredBinding))) == (2, 3)
    assert len(snapshot.of(StoredReaderOffset)) == (0 if version == 1 else 2)
    assert snapshot.of(StoredPolicy) == ()
    definitions.commit([reader_offset("q", "r", 5), policy("new")])
    definitions.close()
    definitions = Definitions(path, KINDS)
    assert definitions.load().of(StoredReaderOffset)[0].offset == 5
    assert [one.name for one in definitions.load().of(StoredPolicy)] == ["new"]
    definitions.close()


def test_a_take_over_that_reached_only_one_file_goes_on(path: Path):
    committed(path, *EVERYTHING)
    as_version(1, path)
    Database(path, KINDS, durable=True).close()
    definitions = Definitions(path, KINDS)
    assert definitions.report == ()
    assert len(definitions.load().of(StoredQueue)) == 2
    definitions.close()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_version_that_the_tables_contradict_costs_nothing(path: Path, version: int):
    committed(path, *EVERYTHING)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    assert f"does not belong to schema {version}" in problems(path, KINDS)[0]
    definitions = Definitions(path, KINDS)
    assert len(definitions.report) == 1
    assert len(definitions.load().of(StoredReaderOffset)) == 2
    definitions.close()
