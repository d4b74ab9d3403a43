"""Filter classes among the definitions."""

from pathlib import Path

from leporid.storage.definitions import Change, Definitions, StoredFilterClass


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
