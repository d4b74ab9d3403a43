"""Definitions that an earlier version of the schema has written."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.storage.test_definitions import (
    EVERYTHING,
    committed,
    drop,
    group,
    policy,
    queue,
    reader_offset,
    vhost,
)

from leporid.broker.stored import (
    KINDS,
    Stored,
    StoredBinding,
    StoredGroupRetries,
    StoredPipelineRun,
    StoredPolicy,
    StoredQueue,
    StoredReaderOffset,
    StoredReaderProgress,
)
from leporid.durable import Drop, Put
from leporid.storage.database import Database, DefinitionsError
from leporid.storage.definitions import Definitions, copy_path, problems

# What no version of the schema below 4 knows.
RETRIES = Put(StoredGroupRetries(7, "/", "s", "g"))
NO_RETRIES = drop(RETRIES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "definitions.db"


def as_version(number: int, path: Path) -> None:
    """Make both files what an earlier version of the schema was."""
    for one in (path, copy_path(path)):
        connection = sqlite3.connect(one)
        for kind in KINDS:
            if kind.TABLE.since > number:
                connection.execute(f"DROP TABLE IF EXISTS {kind.TABLE.name}")
        connection.execute(f"PRAGMA user_version = {number}")
        connection.close()


def versions(path: Path) -> tuple[int, int]:
    """What an earlier version of the broker looks at first, in the original and in the copy."""
    found = []
    for one in (path, copy_path(path)):
        with closing(sqlite3.connect(f"{one.as_uri()}?mode=ro", uri=True)) as connection:
            found.append(connection.execute("PRAGMA user_version").fetchone()[0])
    return found[0], found[1]


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


def test_a_file_keeps_the_schema_that_knows_all_its_rows(path: Path):
    committed(path, vhost("/"), queue(1, "s"), group("g"), policy("p"), NO_RETRIES)
    assert versions(path) == (3, 3)
    committed(path, drop(vhost("/")), vhost("/"))
    assert versions(path) == (3, 3)
    definitions = Definitions(path, KINDS)
    assert definitions.load().of(StoredGroupRetries) == ()
    definitions.commit([RETRIES])
    assert versions(path) == (4, 4)
    definitions.close()
    committed(path, Drop(StoredGroupRetries, (8,)))
    definitions = Definitions(path, KINDS)
    assert definitions.report == ()
    assert [one.id for one in definitions.load().of(StoredGroupRetries)] == [7]
    assert definitions.load().next_queue_id == 8
    definitions.close()
    assert problems(path, KINDS) == []


@pytest.mark.parametrize(
    "definition",
    [
        StoredReaderProgress("/", "s", "r", "ann", 5, 0),
        StoredPipelineRun("/", "ann", "p", 5, 6, "{}"),
    ],
)
def test_a_later_table_is_made_for_its_first_row(path: Path, definition: Stored):
    committed(path, vhost("/"), queue(1, "s"), drop(Put(definition)))
    assert versions(path) == (3, 3)
    committed(path, Put(definition))
    since = definition.TABLE.since
    assert versions(path) == (since, since)
    definitions = Definitions(path, KINDS)
    assert definitions.load().of(type(definition)) == (definition,)
    definitions.commit([drop(vhost("/"))])
    assert definitions.load().of(type(definition)) == ()
    definitions.close()
    assert problems(path, KINDS) == []


def test_both_files_have_a_schema_before_anything_needs_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The power goes just before the commit: no file alone is too new for an earlier version."""
    committed(path, queue(1, "s"))
    monkeypatch.setattr(Database, "apply", lambda *_: pytest.fail("power"))
    definitions = Definitions(path, KINDS)
    with pytest.raises(pytest.fail.Exception):
        definitions.commit([RETRIES])
    assert versions(path) == (4, 4)
    definitions.close()


def test_a_schema_that_reached_the_copy_only_goes_on(path: Path):
    committed(path, *EVERYTHING[:6])
    copy = Database(copy_path(path), KINDS, durable=False)
    copy.raise_to(4)
    copy.close()
    assert problems(path, KINDS) == []
    definitions = Definitions(path, KINDS)
    assert definitions.report == ()
    assert versions(path) == (3, 4)
    definitions.commit([RETRIES])
    definitions.close()
    assert versions(path) == (4, 4)
    assert problems(path, KINDS) == []


def test_a_copy_that_cannot_have_a_schema_goes(path: Path, monkeypatch: pytest.MonkeyPatch):
    definitions = Definitions(path, KINDS)
    definitions.commit([queue(1, "s")])
    raise_to = Database.raise_to

    def without_room(database: Database, version: int) -> None:
        if database.path == copy_path(path):
            raise DefinitionsError("database or disk is full")
        raise_to(database, version)

    monkeypatch.setattr(Database, "raise_to", without_room)
    definitions.commit([RETRIES])
    assert not copy_path(path).exists()
    definitions.close()
    definitions = Definitions(path, KINDS)
    snapshot = definitions.load()
    assert len(snapshot.of(StoredGroupRetries)) == len(snapshot.of(StoredQueue)) == 1
    definitions.close()
    assert versions(path) == (4, 4)


def test_a_schema_that_cannot_be_made_changes_nothing(path: Path):
    definitions = Definitions(path, KINDS)
    definitions.commit([queue(1, "s")])
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("CREATE TABLE group_retries (id)")
    with pytest.raises(DefinitionsError, match="already exists"):
        definitions.commit([RETRIES, queue(2, "t")])
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("DROP TABLE group_retries")
    assert [one.name for one in definitions.load().of(StoredQueue)] == ["s"]
    definitions.commit([RETRIES])
    definitions.close()
    assert versions(path) == (4, 4)
    assert problems(path, KINDS) == []
