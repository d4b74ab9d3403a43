"""The id of a data directory: made once, kept for ever."""

from pathlib import Path

import pytest

from leporid.storage.incarnation import incarnation

FIRST, SECOND = bytes(range(8)), bytes(range(8, 16))


def test_it_is_made_once(tmp_path: Path):
    assert incarnation(tmp_path, FIRST) == ("0001020304050607", None)
    assert incarnation(tmp_path, SECOND) == ("0001020304050607", None)
    assert [path.name for path in tmp_path.iterdir()] == ["incarnation"]


@pytest.mark.parametrize("content", [b"", b"0001020304050607", b"zz01020304050607\n", bytes(10**6)])
def test_one_that_is_damaged_is_set_aside(tmp_path: Path, content: bytes):
    path = tmp_path / "incarnation"
    path.write_bytes(content)
    found, trouble = incarnation(tmp_path, SECOND)
    assert found == SECOND.hex()
    assert trouble == (
        f"{path} holds no id; it is now {path}.damaged-1, and readers of streams begin anew"
    )
    assert (tmp_path / "incarnation.damaged-1").read_bytes() == content
    assert incarnation(tmp_path, FIRST) == (SECOND.hex(), None)


def test_a_start_that_was_cut_short_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def cut(fd: int) -> None:
        raise OSError(5, "power")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", cut)
        with pytest.raises(OSError, match="power"):
            incarnation(tmp_path, FIRST)
    assert incarnation(tmp_path, SECOND) == (SECOND.hex(), None)
