"""Filter classes among the definitions."""

from pathlib import Path

from leporid.broker.stored import KINDS, StoredFilterClass, StoredVerdictQueue, StoredVhost
from leporid.durable import Change, Drop, Put
from leporid.storage.definitions import Definitions


def put(name: str, version: int = 1, source: bytes = b"\xff") -> Change:
    return Put(StoredFilterClass(name, version, "Filter", source))


def test_what_is_registered_is_back(tmp_path: Path):
    path = tmp_path / "definitions.db"
    definitions = Definitions(path, KINDS)
    definitions.commit([put("old"), put("gone"), put("big"), put("big", 2, b"")])
    definitions.commit([Drop(StoredFilterClass, ("gone",))])
    definitions.close()
    definitions = Definitions(path, KINDS)
    assert definitions.load().of(StoredFilterClass) == (
        StoredFilterClass("big", 2, "Filter", b""),
        StoredFilterClass("old", 1, "Filter", b"\xff"),
    )
    definitions.close()


def staging(number: int, vhost: str = "/") -> Change:
    return Put(StoredVerdictQueue(number, vhost, "f", "q", "queue", "k", b"\1"))


def test_where_messages_wait_is_back_and_goes_with_its_vhost(tmp_path: Path):
    path = tmp_path / "definitions.db"
    definitions = Definitions(path, KINDS)
    definitions.commit(
        [staging(3), staging(4), staging(5, "other"), Drop(StoredVerdictQueue, (4,))]
    )
    definitions.commit([Drop(StoredVhost, ("other",))])
    definitions.close()
    definitions = Definitions(path, KINDS)
    snapshot = definitions.load()
    assert snapshot.of(StoredVerdictQueue) == (
        StoredVerdictQueue(3, "/", "f", "q", "queue", "k", b"\1"),
    )
    assert snapshot.next_queue_id == 6
    definitions.close()
