"""The definitions: what was committed is back, whichever of the two files is damaged."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.storage.definitions import (
    Change,
    Definitions,
    DefinitionsError,
    StoredBinding,
    StoredCache,
    StoredDelays,
    StoredExchange,
    StoredGroup,
    StoredGroupRetries,
    StoredPolicy,
    StoredQueue,
    StoredReaderOffset,
    copy_path,
    problems,
)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """The database of a test; after the test it must be whole, by the code of `leporid check`."""
    path = tmp_path / "definitions.db"
    yield path
    if path.exists() and not (tmp_path / "left-damaged").exists():
        assert problems(path) == []


def vhost(name: str) -> Change:
    return ("put_vhost", {"name": name})


def exchange(name: str, **changed: Any) -> Change:
    fields = {
        "vhost": "/",
        "name": name,
        "type": "topic",
        "auto_delete": False,
        "internal": True,
        "arguments": b"\0\0\0\0",
    }
    return ("put_exchange", fields | changed)


def queue(number: int, name: str, **changed: Any) -> Change:
    fields = {"id": number, "vhost": "/", "name": name, "auto_delete": True, "arguments": b"\1\2"}
    return ("put_queue", fields | changed)


def binding(source: str, destination: str, key: str = "", **changed: Any) -> Change:
    fields = {
        "vhost": "/",
        "source": source,
        "destination": destination,
        "kind": "queue",
        "key": key,
        "arguments": b"",
    }
    return ("put_binding", fields | changed)


def reader_offset(stream: str, reader: str, offset: int, **changed: Any) -> Change:
    fields = {"vhost": "/", "stream": stream, "reader": reader, "offset": offset}
    return ("put_reader_offset", fields | changed)


def policy(name: str, **changed: Any) -> Change:
    fields = {
        "vhost": "/",
        "operator": False,
        "name": name,
        "pattern": "^a",
        "apply_to": "queues",
        "priority": -3,
        "definition": b"\1\2",
    }
    return ("put_policy", fields | changed)


def cache(number: int, name: str, vhost: str = "/") -> Change:
    return ("put_cache", {"id": number, "vhost": vhost, "exchange": name})


def delays(number: int, name: str, vhost: str = "/") -> Change:
    return ("put_delays", {"id": number, "vhost": vhost, "exchange": name})


def group(name: str, **changed: Any) -> Change:
    fields = {"vhost": "/", "stream": "s", "name": name, "version": 2**63 - 1, "used_ms": 5}
    return ("put_group", fields | {"arguments": b"\1\2"} | changed)


def committed(path: Path, *changes: Change) -> None:
    definitions = Definitions(path)
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
    ("put_group_retries", {"id": 13, "vhost": "/", "stream": "s", "name": "g"}),
)


def test_a_new_file_holds_nothing(path: Path):
    definitions = Definitions(path)
    assert definitions.load() == ((), (), (), (), (), (), (), (), (), (), (), (), 1)
    assert definitions.report == ()
    assert repr(definitions) == f"<Definitions {path}>"
    definitions.close()


def test_what_was_committed_is_back_after_closing(path: Path):
    committed(path, *EVERYTHING)
    definitions = Definitions(path)
    snapshot = definitions.load()
    definitions.close()
    assert snapshot.vhosts == ("/", "orders")
    assert snapshot.exchanges == (
        StoredExchange("/", "x", "topic", False, True, b"\0\0\0\0"),
        StoredExchange("orders", "x", "fanout", True, False, b"\0\0\0\0"),
    )
    assert snapshot.queues == (
        StoredQueue(1, "/", "q", True, b"\1\2"),
        StoredQueue(9, "orders", "Ünïcode \0 name", False, b"\1\2"),
    )
    assert snapshot.bindings == (
        StoredBinding("/", "x", "q", "queue", "a.#", b""),
        StoredBinding("/", "x", "q", "queue", "a.#", b"\3"),
        StoredBinding("/", "x", "y", "exchange", "", b""),
    )
    assert snapshot.reader_offsets == (
        StoredReaderOffset("/", "q", "r", 2**63 - 1),
        StoredReaderOffset("orders", "s", "r", 0),
    )
    assert snapshot.policies == (
        StoredPolicy("/", False, "p", "^a", "queues", -3, b"\1\2"),
        StoredPolicy("orders", True, "p", "", "queues", -3, b"\1\2"),
    )
    assert snapshot.policies[0].operator is False
    assert snapshot.caches == (StoredCache(11, "orders", "x"), StoredCache(14, "/", "x"))
    assert snapshot.delays == (StoredDelays(10, "orders", "x"), StoredDelays(12, "/", "x"))
    assert snapshot.groups == (StoredGroup("/", "s", "g", 2**63 - 1, b"\1\2", 5),)
    assert snapshot.group_retries == (StoredGroupRetries(13, "/", "s", "g"),)
    assert snapshot.next_queue_id == 15
    # True and not 1: rows go straight into the broker's own types.
    assert snapshot.queues[0].auto_delete is True


def test_what_was_committed_is_back_after_a_kill(path: Path):
    program = (
        "import os, sys; from pathlib import Path;"
        "from leporid.storage.definitions import Definitions;"
        "d = Definitions(Path(sys.argv[1]));"
        "d.commit([('put_vhost', {'name': 'a'})]); d.commit([('put_vhost', {'name': 'b'})]);"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -9
    definitions = Definitions(path)
    assert definitions.load().vhosts == ("a", "b")
    assert definitions.report == ()
    definitions.close()


def test_every_change_may_be_repeated(path: Path):
    drops: list[Change] = [
        ("drop_binding", EVERYTHING[6][1]),
        ("drop_exchange", {"vhost": "orders", "name": "x"}),
        ("drop_queue", {"id": 1}),
        ("drop_reader_offset", {"vhost": "/", "stream": "q", "reader": "r"}),
        ("drop_policy", {"vhost": "/", "operator": False, "name": "p"}),
        ("drop_cache", {"id": 14}),
        ("drop_delays", {"id": 12}),
        ("drop_group_retries", {"id": 13}),
        ("drop_group", {"vhost": "/", "stream": "s", "name": "g"}),
    ]
    committed(path, *EVERYTHING, *EVERYTHING, *drops, *drops)
    definitions = Definitions(path)
    snapshot = definitions.load()
    definitions.close()
    assert [one.name for one in snapshot.queues] == ["Ünïcode \0 name"]
    assert len(snapshot.bindings) == 2
    assert [one.vhost for one in snapshot.exchanges] == ["/"]
    assert [one.stream for one in snapshot.reader_offsets] == ["s"]
    assert [one.vhost for one in snapshot.policies] == ["orders"]


def test_a_vhost_goes_with_all_that_is_in_it(path: Path):
    inside = binding("x", "Ünïcode \0 name", vhost="orders")
    committed(path, *EVERYTHING, inside, ("drop_vhost", {"name": "orders"}))
    definitions = Definitions(path)
    snapshot = definitions.load()
    definitions.close()
    assert snapshot.vhosts == ("/",)
    assert {one.vhost for one in snapshot.exchanges} == {"/"}
    assert {one.vhost for one in snapshot.queues} == {"/"}
    assert {one.vhost for one in snapshot.bindings} == {"/"}
    assert {one.vhost for one in snapshot.reader_offsets} == {"/"}
    assert {one.vhost for one in snapshot.policies} == {"/"}


def test_a_queue_id_is_never_given_twice(path: Path):
    committed(path, queue(7, "q"), ("drop_queue", {"id": 7}))
    committed(path, queue(3, "older"))
    definitions = Definitions(path)
    assert definitions.load().next_queue_id == 8
    definitions.close()


def test_a_commit_that_fails_changes_nothing(path: Path):
    definitions = Definitions(path)
    definitions.commit([queue(1, "q")])
    with pytest.raises(DefinitionsError, match="UNIQUE"):
        definitions.commit([vhost("new"), queue(2, "q")])
    with pytest.raises(KeyError):
        definitions.commit([vhost("new"), ("put_thing", {})])
    with pytest.raises(ValueError, match="unknown kind of change: set_vhost"):
        definitions.commit([vhost("new"), ("set_vhost", {"name": "x"})])
    definitions.commit([])
    definitions.commit([vhost("good")])
    assert definitions.load().vhosts == ("good",)
    assert definitions.load().next_queue_id == 2
    definitions.close()


def test_commits_may_come_from_another_thread(path: Path):
    from concurrent.futures import ThreadPoolExecutor

    definitions = Definitions(path)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(definitions.commit, [vhost("a")]).result()
    assert definitions.load().vhosts == ("a",)
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
    definitions = Definitions(path)
    assert len(definitions.load().bindings) == 3
    assert definitions.load().next_queue_id == 15
    lost_copy = which == "copy" and damage in ("deleted", "emptied")
    assert len(definitions.report) == (0 if lost_copy else 1)
    assert all(str(victim) in line for line in definitions.report)
    definitions.close()
    assert len(list(path.parent.glob("*.damaged-1"))) == (
        0 if damage == "deleted" or lost_copy else 1
    )
    # And it is whole again.
    again = Definitions(path)
    assert again.report == ()
    again.close()


def flip(path: Path, offsets: Iterable[int]) -> None:
    """Flip two bits of one byte of the closed original at a time; nothing may get lost by it."""
    definitions = Definitions(path)
    expected = definitions.load()
    definitions.close()
    whole = path.read_bytes()
    for at in offsets:
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        path.write_bytes(damaged)
        definitions = Definitions(path)
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
    flip(path, range(1, path.stat().st_size, 11))


def test_a_flipped_byte_in_the_write_ahead_log_costs_nothing(path: Path, tmp_path: Path):
    definitions = Definitions(path)
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

    found = problems(killed / path.name)
    assert "commits that its copy has" in found[0]
    definitions = Definitions(killed / path.name)
    assert len(definitions.load().queues) == 19
    assert "restored from" in definitions.report[0]
    definitions.close()
    assert problems(killed / path.name) == []


def test_two_damaged_files_are_refused_and_left_alone(path: Path):
    committed(path, *EVERYTHING)
    (path.parent / "left-damaged").touch()
    for one in (path, copy_path(path)):
        one.write_bytes(b"not a database, " * 1000)
    before = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    with pytest.raises(DefinitionsError, match=r"definitions.db cannot be used \(file is not"):
        Definitions(path)
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == before
    assert len(problems(path)) == 2


def test_a_lone_damaged_copy_is_not_taken_for_a_first_start(path: Path):
    committed(path, *EVERYTHING)
    path.unlink()
    copy_path(path).write_bytes(b"not a database, " * 1000)
    with pytest.raises(DefinitionsError, match=r"\(is missing\), and neither can its copy"):
        Definitions(path)


def test_a_newer_schema_is_refused_and_left_alone(path: Path):
    committed(path, *EVERYTHING)
    (path.parent / "left-damaged").touch()
    for one in (path, copy_path(path)):
        connection = sqlite3.connect(one)
        connection.execute("PRAGMA user_version = 7")
        connection.close()
    before = path.read_bytes()
    with pytest.raises(DefinitionsError, match=r"newer version \(schema 7; this one reads 4\)"):
        Definitions(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path):
    (path.parent / "left-damaged").touch()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(DefinitionsError, match="is a database of another program"):
        Definitions(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program_does_not_replace_ours(path: Path):
    committed(path, *EVERYTHING)
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    definitions = Definitions(path)
    assert len(definitions.load().queues) == 2
    assert "is a database of another program; it is now" in definitions.report[0]
    definitions.close()


def test_a_file_that_cannot_be_opened_is_not_called_damaged(path: Path):
    path.mkdir()
    with pytest.raises(DefinitionsError, match="cannot be read: "):
        Definitions(path)
    path.rmdir()


def test_a_copy_that_can_no_longer_be_written_is_made_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    definitions = Definitions(path)
    assert definitions._copy is not None
    definitions._copy._connection.execute("DROP TABLE vhosts")
    definitions.commit([vhost("a")])
    definitions.commit([vhost("b")])
    definitions.close()
    definitions = Definitions(path)
    assert definitions.load().vhosts == ("a", "b")
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
KEYS = {
    "vhost": ("name",),
    "exchange": ("vhost", "name"),
    "queue": ("id",),
    "binding": ("vhost", "source", "destination", "kind", "key", "arguments"),
    "reader_offset": ("vhost", "stream", "reader"),
}


def drop(change: Change) -> Change:
    kind, fields = change
    noun = kind.removeprefix("put_")
    return (f"drop_{noun}", {key: fields[key] for key in KEYS[noun]})


@settings(max_examples=30, deadline=None)
@given(batches=st.lists(st.lists(changes | changes.map(drop), max_size=6), max_size=6))
def test_the_files_agree_with_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Change]]
):
    path = tmp_path_factory.mktemp("model") / "definitions.db"
    model: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    highest = 0
    for batch in batches:
        for kind, fields in batch:
            action, noun = kind.split("_", 1)
            key = (noun, *(fields[one] for one in KEYS[noun]))
            if action == "put":
                model[key] = tuple(fields.values())
                highest = max(highest, fields.get("id", 0))
            else:
                model.pop(key, None)
            if kind == "drop_vhost":
                inside = ("exchange", "binding", "reader_offset")
                for other in [one for one in model if one[0] in inside]:
                    if other[1] == fields["name"]:
                        del model[other]
                if fields["name"] == "/":
                    model = {one: row for one, row in model.items() if one[0] != "queue"}
        committed(path, *batch)
    definitions = Definitions(path)
    snapshot = definitions.load()
    definitions.close()
    assert problems(path) == []
    assert snapshot.next_queue_id == highest + 1
    found = [
        *(("vhost", (name,)) for name in snapshot.vhosts),
        *(("exchange", tuple(one)) for one in snapshot.exchanges),
        *(("queue", tuple(one)) for one in snapshot.queues),
        *(("binding", tuple(one)) for one in snapshot.bindings),
        *(("reader_offset", tuple(one)) for one in snapshot.reader_offsets),
    ]
    assert sorted(found, key=repr) == sorted(
        ((noun, row) for (noun, *_), row in model.items()), key=repr
    )
