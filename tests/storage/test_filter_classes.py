"""Filter classes among the definitions."""

from pathlib import Path

from leporid.storage.definitions import Change, Definitions, StoredFilterClass, StoredStaging


def put(name: str, version: int = 1, source: bytes = b"\xff") -> Change:
    fields = {"name": name, "version": version, "class_name": "Filter", "source": source}
    return ("put_filter_class", fields)


def test_what_is_registered_is_back(tmp_path: Path):
    path = tmp_path / "definitions.db"
    definitions = Definitions(path)
    definitions.commit([put("old"), put("gone"), put("big"), put("big", 2, b"")])
    definitions.commit([("drop_filter_class", {"name": "gone"})])
    definitions.close()
    definitions = Definitions(path)
    assert definitions.load().filter_classes == (
        StoredFilterClass("big", 2, "Filter", b""),
        StoredFilterClass("old", 1, "Filter", b"\xff"),
    )
    definitions.close()


def staging(number: int, vhost: str = "/") -> Change:
    fields = {"source": "f", "destination": "q", "kind": "queue", "key": "k", "arguments": b"\1"}
    return ("put_staging", {"id": number, "vhost": vhost, **fields})


def test_where_messages_wait_is_back_and_goes_with_its_vhost(tmp_path: Path):
    path = tmp_path / "definitions.db"
    definitions = Definitions(path)
    definitions.commit([staging(3), staging(4), staging(5, "other"), ("drop_staging", {"id": 4})])
    definitions.commit([("drop_vhost", {"name": "other"})])
    definitions.close()
    definitions = Definitions(path)
    snapshot = definitions.load()
    assert snapshot.stagings == (StoredStaging(3, "/", "f", "q", "queue", "k", b"\1"),)
    assert snapshot.next_queue_id == 6
    definitions.close()
