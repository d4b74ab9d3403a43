"""The definitions: what was committed is back, whichever of the two files is damaged."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.broker.stored import (
    KINDS,
    StoredBinding,
    StoredCache,
    StoredDelays,
    StoredExchange,
    StoredGroup,
    StoredGroupRetries,
    StoredPolicy,
    StoredQueue,
    StoredReaderOffset,
    StoredVhost,
)
from leporid.durable import Change, Drop, Durable, Put, Together, each_of
from leporid.storage.definitions import Definitions, DefinitionsError, Reading, copy_path, problems


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """The database of a test; after the test it must be whole, by the code of `leporid check`."""
    path = tmp_path / "definitions.db"
    yield path
    if path.exists() and not (tmp_path / "left-damaged").exists():
        assert problems(path, KINDS) == []


def vhost(name: str) -> Change:
    return Put(StoredVhost(name))


def exchange(name: str, **changed: Any) -> Change:
    return Put(replace(StoredExchange("/", name, "topic", False, True, b"\0\0\0\0"), **changed))


def queue(number: int, name: str, **changed: Any) -> Change:
    return Put(replace(StoredQueue(number, "/", name, True, b"\1\2"), **changed))


def binding(source: str, destination: str, key: str = "", **changed: Any) -> Change:
    return Put(replace(StoredBinding("/", source, destination, "queue", key, b""), **changed))


def reader_offset(stream: str, reader: str, offset: int, **changed: Any) -> Change:
    return Put(replace(StoredReaderOffset("/", stream, reader, offset), **changed))


def policy(name: str, **changed: Any) -> Change:
    return Put(replace(StoredPolicy("/", False, name, "^a", "queues", -3, b"\1\2"), **changed))


def cache(number: int, name: str, vhost: str = "/") -> Change:
    return Put(StoredCache(number, vhost, name))


def delays(number: int, name: str, vhost: str = "/") -> Change:
    return Put(StoredDelays(number, vhost, name))


def group(name: str, **changed: Any) -> Change:
    return Put(replace(StoredGroup("/", "s", name, 2**63 - 1, b"\1\2", 5), **changed))


def drop(change: Change) -> Drop:
    assert isinstance(change, Put)
    return Drop(type(change.definition), change.definition.identity)


def committed(path: Path, *changes: Change) -> None:
    definitions = Definitions(path, KINDS)
    definitions.commit(changes)
    definitions.close()


EVERYTHING = (
    vhost("/"),
    vhost("orders"),
    exchange("x"),
    exchange("x", vhost="orders", type="fanout", internal=False, auto_delete=True),
    queue(1, "q"),
    queue(9, "Ünïcode \0 name", vhost="orders", auto_delete=False),
    binding("x", "q", "a.#"),
    binding("x", "q", "a.#", arguments=b"\3"),
    binding("x", "y", kind="exchange"),
    reader_offset("q", "r", 2**63 - 1),
    reader_offset("s", "r", 0, vhost="orders"),
    cache(14, "x"),
    cache(11, "x", "orders"),
    policy("p"),
    policy("p", operator=True, vhost="orders", pattern=""),
    delays(12, "x"),
    delays(10, "x", "orders"),
    group("g"),
    Put(StoredGroupRetries(13, "/", "s", "g")),
)


def test_a_new_file_holds_nothing(path: Path):
    definitions = Definitions(path, KINDS)
    snapshot = definitions.load()
    assert [snapshot.of(kind) for kind in KINDS] == [()] * len(KINDS)
    assert snapshot.next_queue_id == 1
    assert definitions.report == ()
    assert repr(definitions) == f"<Definitions {path}>"
    definitions.close()


def test_what_was_committed_is_back_after_closing(path: Path):
    committed(path, *EVERYTHING)
    definitions = Definitions(path, KINDS)
    snapshot = definitions.load()
    definitions.close()
    assert snapshot.of(StoredVhost) == tuple(map(StoredVhost, ("/", "orders")))
    assert snapshot.of(StoredExchange) == (
        StoredExchange("/", "x", "topic", False, True, b"\0\0\0\0"),
        StoredExchange("orders", "x", "fanout", True, False, b"\0\0\0\0"),
    )
    assert snapshot.of(StoredQueue) == (
        StoredQueue(1, "/", "q", True, b"\1\2"),
        StoredQueue(9, "orders", "Ünïcode \0 name", False, b"\1\2"),
    )
    assert snapshot.of(StoredBinding) == (
        StoredBinding("/", "x", "q", "queue", "a.#", b""),
        StoredBinding("/", "x", "q", "queue", "a.#", b"\3"),
        StoredBinding("/", "x", "y", "exchange", "", b""),
    )
    assert snapshot.of(StoredReaderOffset) == (
        StoredReaderOffset("/", "q", "r", 2**63 - 1),
        StoredReaderOffset("orders", "s", "r", 0),
    )
    assert snapshot.of(StoredPolicy) == (
        StoredPolicy("/", False, "p", "^a", "queues", -3, b"\1\2"),
        StoredPolicy("orders", True, "p", "", "queues", -3, b"\1\2"),
    )
    assert snapshot.of(StoredPolicy)[0].operator is False
    assert snapshot.of(StoredCache) == (StoredCache(11, "orders", "x"), StoredCache(14, "/", "x"))
    assert snapshot.of(StoredDelays) == (
        StoredDelays(10, "orders", "x"),
        StoredDelays(12, "/", "x"),
    )
    assert snapshot.of(StoredGroup) == (StoredGroup("/", "s", "g", 2**63 - 1, b"\1\2", 5),)
    assert snapshot.of(StoredGroupRetries) == (StoredGroupRetries(13, "/", "s", "g"),)
    assert snapshot.next_queue_id == 15
    # True and not 1: rows go straight into the broker's own types.
    assert snapshot.of(StoredQueue)[0].auto_delete is True


def test_what_was_committed_is_back_after_a_kill(path: Path):
    program = (
        "import os, sys; from pathlib import Path;"
        "from leporid.storage.definitions import Definitions;"
        "from leporid.broker.stored import KINDS, StoredVhost;"
        "from leporid.durable import Put;"
        "d = Definitions(Path(sys.argv[1]), KINDS);"
        "d.commit([Put(StoredVhost('a'))]); d.commit([Put(StoredVhost('b'))]);"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -9
    definitions = Definitions(path, KINDS)
    assert definitions.load().of(StoredVhost) == tuple(map(StoredVhost, ("a", "b")))
    assert definitions.report == ()
    definitions.close()


def test_every_change_may_be_repeated(path: Path):
    drops: list[Change] = [
        drop(EVERYTHING[6]),
        Drop(StoredExchange, ("orders", "x")),
        Drop(StoredQueue, (1,)),
        Drop(StoredReaderOffset, ("/", "q", "r")),
        Drop(StoredPolicy, ("/", False, "p")),
        Drop(StoredCache, (14,)),
        Drop(StoredDelays, (12,)),
        Drop(StoredGroupRetries, (13,)),
        Drop(StoredGroup, ("/", "s", "g")),
    ]
    committed(path, *EVERYTHING, *EVERYTHING, *drops, *drops)
    definitions = Definitions(path, KINDS)
    snapshot = definitions.load()
    definitions.close()
    assert [one.name for one in snapshot.of(StoredQueue)] == ["Ünïcode \0 name"]
    assert len(snapshot.of(StoredBinding)) == 2
    assert [one.vhost for one in snapshot.of(StoredExchange)] == ["/"]
    assert [one.stream for one in snapshot.of(StoredReaderOffset)] == ["s"]
    assert [one.vhost for one in snapshot.of(StoredPolicy)] == ["orders"]


def test_a_vhost_goes_with_all_that_is_in_it(path: Path):
    inside = binding("x", "Ünïcode \0 name", vhost="orders")
    committed(path, *EVERYTHING, inside, Drop(StoredVhost, ("orders",)))
    definitions = Definitions(path, KINDS)
    snapshot = definitions.load()
    definitions.close()
    assert snapshot.of(StoredVhost) == tuple(map(StoredVhost, ("/",)))
    assert {one.vhost for one in snapshot.of(StoredExchange)} == {"/"}
    assert {one.vhost for one in snapshot.of(StoredQueue)} == {"/"}
    assert {one.vhost for one in snapshot.of(StoredBinding)} == {"/"}
    assert {one.vhost for one in snapshot.of(StoredReaderOffset)} == {"/"}
    assert {one.vhost for one in snapshot.of(StoredPolicy)} == {"/"}


def test_a_queue_id_is_never_given_twice(path: Path):
    committed(path, queue(7, "q"), Drop(StoredQueue, (7,)))
    committed(path, queue(3, "older"))
    definitions = Definitions(path, KINDS)
    assert definitions.load().next_queue_id == 8
    definitions.close()


def test_a_commit_that_fails_changes_nothing(path: Path):
    definitions = Definitions(path, KINDS)
    definitions.commit([queue(1, "q")])
    with pytest.raises(DefinitionsError, match="UNIQUE"):
        definitions.commit([vhost("new"), queue(2, "q")])
    definitions.commit([])
    definitions.commit([vhost("good")])
    assert definitions.load().of(StoredVhost) == tuple(map(StoredVhost, ("good",)))
    assert definitions.load().next_queue_id == 2
    definitions.close()


def test_commits_may_come_from_another_thread(path: Path):
    from concurrent.futures import ThreadPoolExecutor

    definitions = Definitions(path, KINDS)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(definitions.commit, [vhost("a")]).result()
    assert definitions.load().of(StoredVhost) == tuple(map(StoredVhost, ("a",)))
    definitions.close()


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("damage", ["deleted", "truncated", "garbage", "emptied"])
@pytest.mark.parametrize("which", ["original", "copy"])
def test_one_damaged_file_costs_nothing(path: Path, damage: str, which: str):
    committed(path, *EVERYTHING)
    victim = path if which == "original" else copy_path(path)
    if damage == "deleted":
        victim.unlink()
    elif damage == "truncated":
        victim.write_bytes(victim.read_bytes()[:5000])
    elif damage == "garbage":
        victim.write_bytes(b"not a database, " * 1000)
    else:
        victim.write_bytes(b"")
    definitions = Definitions(path, KINDS)
    assert len(definitions.load().of(StoredBinding)) == 3
    assert definitions.load().next_queue_id == 15
    lost_copy = which == "copy" and damage in ("deleted", "emptied")
    assert len(definitions.report) == (0 if lost_copy else 1)
    assert all(str(victim) in line for line in definitions.report)
    definitions.close()
    assert len(list(path.parent.glob("*.damaged-1"))) == (
        0 if damage == "deleted" or lost_copy else 1
    )
    # And it is whole again.
    again = Definitions(path, KINDS)
    assert again.report == ()
    again.close()


def flip(path: Path, offsets: Iterable[int]) -> None:
    """Flip two bits of one byte of the closed original at a time; nothing may get lost by it."""
    definitions = Definitions(path, KINDS)
    expected = definitions.load()
    definitions.close()
    whole = path.read_bytes()
    for at in offsets:
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        path.write_bytes(damaged)
        definitions = Definitions(path, KINDS)
        assert definitions.load() == expected, at
        definitions.close()
        for aside in path.parent.glob("*.damaged-*"):
            aside.unlink()


def test_a_flipped_byte_in_the_header_is_found_and_costs_nothing(path: Path):
    committed(path, *EVERYTHING)
    # In the first hundred bytes each has a meaning of its own.
    flip(path, range(0, 100, 2))


def test_a_flipped_byte_in_a_condition_of_a_table_is_found_and_costs_nothing(path: Path):
    committed(path, *EVERYTHING)
    at = path.read_bytes().index(b"CHECK (id > 0)")
    flip(path, range(at, at + len(b"CHECK (id > 0)")))


@pytest.mark.slow
def test_a_flipped_byte_anywhere_is_found_and_costs_nothing(path: Path):
    committed(path, *EVERYTHING)
    whole = path.read_bytes()
    # Nineteen in twenty bytes are zero, and belong to nothing.
    flip(path, [at for at, byte in enumerate(whole) if byte][::11])
    flip(path, range(1, len(whole), 199))


def test_a_flipped_byte_in_the_write_ahead_log_costs_nothing(path: Path, tmp_path: Path):
    definitions = Definitions(path, KINDS)
    for number in range(1, 20):
        definitions.commit([queue(number, f"q{number}")])
    # As a killed process leaves them: everything of importance still in the write-ahead logs.
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in tmp_path.glob("definitions*"):
        (killed / file.name).write_bytes(file.read_bytes())
    definitions.close()
    log = killed / "definitions.db-wal"
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    log.write_bytes(damaged)

    found = problems(killed / path.name, KINDS)
    assert "commits that its copy has" in found[0]
    definitions = Definitions(killed / path.name, KINDS)
    assert len(definitions.load().of(StoredQueue)) == 19
    assert "restored from" in definitions.report[0]
    definitions.close()
    assert problems(killed / path.name, KINDS) == []


def test_two_damaged_files_are_refused_and_left_alone(path: Path):
    committed(path, *EVERYTHING)
    (path.parent / "left-damaged").touch()
    for one in (path, copy_path(path)):
        one.write_bytes(b"not a database, " * 1000)
    before = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    with pytest.raises(DefinitionsError, match=r"definitions.db cannot be used \(file is not"):
        Definitions(path, KINDS)
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == before
    assert len(problems(path, KINDS)) == 2


def test_a_lone_damaged_copy_is_not_taken_for_a_first_start(path: Path):
    committed(path, *EVERYTHING)
    path.unlink()
    copy_path(path).write_bytes(b"not a database, " * 1000)
    with pytest.raises(DefinitionsError, match=r"\(is missing\), and neither can its copy"):
        Definitions(path, KINDS)


def test_a_newer_schema_is_refused_and_left_alone(path: Path):
    committed(path, *EVERYTHING)
    (path.parent / "left-damaged").touch()
    for one in (path, copy_path(path)):
        connection = sqlite3.connect(one)
        connection.execute("PRAGMA user_version = 9")
        connection.close()
    before = path.read_bytes()
    with pytest.raises(DefinitionsError, match=r"newer version \(schema 9; this one reads 8\)"):
        Definitions(path, KINDS)
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path):
    (path.parent / "left-damaged").touch()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(DefinitionsError, match="is a database of another program"):
        Definitions(path, KINDS)
    assert path.read_bytes() == before


def test_a_database_of_another_program_does_not_replace_ours(path: Path):
    committed(path, *EVERYTHING)
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    definitions = Definitions(path, KINDS)
    assert len(definitions.load().of(StoredQueue)) == 2
    assert "is a database of another program; it is now" in definitions.report[0]
    definitions.close()


def test_a_file_that_cannot_be_opened_is_not_called_damaged(path: Path):
    path.mkdir()
    with pytest.raises(DefinitionsError, match="cannot be read: "):
        Definitions(path, KINDS)
    path.rmdir()


def test_a_copy_that_can_no_longer_be_written_is_made_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    definitions = Definitions(path, KINDS)
    assert definitions._copy is not None
    definitions._copy._connection.execute("DROP TABLE vhosts")
    told: list[DefinitionsError] = []
    definitions.copy_failed = told.append
    definitions.commit([vhost("a")])
    definitions.commit([vhost("b")])
    assert [str(error) for error in told] == [f"{copy_path(path)}: no such table: vhosts"]
    definitions.close()
    definitions = Definitions(path, KINDS)
    assert definitions.load().of(StoredVhost) == tuple(map(StoredVhost, ("a", "b")))
    definitions.close()


# ---------------------------------------------------------------- model

names = st.text(max_size=3)
ids = st.integers(1, 4)
changes = st.one_of(
    st.builds(vhost, names),
    st.builds(exchange, names, vhost=names, arguments=st.binary(max_size=3)),
    st.builds(
        lambda number, flag: queue(number, f"q{number}", auto_delete=flag), ids, st.booleans()
    ),
    st.builds(binding, names, names, names, vhost=names, arguments=st.binary(max_size=3)),
    st.builds(reader_offset, names, names, st.integers(0, 9), vhost=names),
)
single = changes | changes.map(drop)


def together(some: list[Any]) -> Change:
    return Together(some)


@settings(max_examples=30)
@given(
    batches=st.lists(
        st.lists(single | st.lists(single, max_size=3).map(together), max_size=6), max_size=6
    )
)
def test_the_files_agree_with_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Change]]
):
    path = tmp_path_factory.mktemp("model") / "definitions.db"
    model: dict[tuple[type[Durable], tuple[Any, ...]], Durable] = {}
    highest = 0
    for batch in batches:
        for change in each_of(batch):
            if isinstance(change, Put):
                definition = change.definition
                model[type(definition), definition.identity] = definition
                highest = max(highest, getattr(definition, "id", 0))
                continue
            model.pop((change.kind, change.identity), None)
            if change.kind is StoredVhost:
                (name,) = change.identity
                for key in [key for key, one in model.items() if getattr(one, "vhost", "") == name]:
                    if key[0] is not StoredVhost:
                        del model[key]
        committed(path, *batch)
    definitions = Definitions(path, KINDS)
    snapshot = definitions.load()
    definitions.close()
    assert problems(path, KINDS) == []
    assert snapshot.next_queue_id == highest + 1
    found = [each for kind in KINDS for each in snapshot.of(kind)]
    assert sorted(found, key=repr) == sorted(model.values(), key=repr)


# ------------------------------------------------------------------ backups


def test_a_reading_is_of_its_moment(path: Path, tmp_path: Path):
    definitions = Definitions(path, KINDS)
    definitions.commit([vhost("before")])
    reading = definitions.reading()
    definitions.commit([vhost("after")])
    target = tmp_path / "backup" / "definitions.db"
    target.parent.mkdir()
    reading.write(target)
    reading.close()
    reading.close()
    assert reading.bytes > 0
    definitions.close()
    assert problems(target, KINDS) == []
    copied = Definitions(target, KINDS)
    assert copied.report == ()
    assert [each.name for each in copied.load().of(StoredVhost)] == ["before"]
    copied.close()


def test_a_reading_of_what_cannot_be_read(tmp_path: Path):
    (tmp_path / "definitions.db").mkdir()
    with pytest.raises(DefinitionsError, match="unable to open"):
        Reading(tmp_path / "definitions.db")
