"""The lock: one process per data directory, and a sentence for the second one."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from leporid.storage.lock import LOCK_NAME, DirectoryInUse, DirectoryLock

HOLD = (
    "import sys; from pathlib import Path; from leporid.storage.lock import DirectoryLock;"
    "lock = DirectoryLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


def test_the_directory_is_made_for_its_owner_alone(tmp_path: Path):
    directory = tmp_path / "some" / "where"
    with DirectoryLock(directory) as lock:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert (directory / LOCK_NAME).read_text() == f"{os.getpid()}\n"
        assert repr(lock) == f"<DirectoryLock {directory} held>"
    assert repr(lock) == f"<DirectoryLock {directory} released>"


def test_a_second_process_is_told_directory_and_pid(tmp_path: Path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUse) as refused:
            DirectoryLock(tmp_path)
        assert str(refused.value) == (
            f"the data directory {tmp_path} is in use by process {holder.pid}"
        )
        assert (refused.value.directory, refused.value.pid) == (tmp_path, holder.pid)
        # However the holder ends, its lock ends with it; the pid it leaves means nothing.
        holder.kill()
    DirectoryLock(tmp_path).release()


def test_a_lock_let_go_can_be_taken_again(tmp_path: Path):
    lock = DirectoryLock(tmp_path)
    with pytest.raises(DirectoryInUse):
        DirectoryLock(tmp_path)
    lock.release()
    lock.release()
    DirectoryLock(tmp_path).release()
    assert (tmp_path / LOCK_NAME).exists()


@pytest.mark.parametrize("content", [b"", b"not a pid\n", b"123456789012345678901234567890"])
def test_a_strange_lock_file_is_no_obstacle_and_no_owner(tmp_path: Path, content: bytes):
    (tmp_path / LOCK_NAME).write_bytes(content)
    lock = DirectoryLock(tmp_path)
    assert (tmp_path / LOCK_NAME).read_text() == f"{os.getpid()}\n"
    # The owner of a lock need not have written a pid there yet.
    (tmp_path / LOCK_NAME).write_bytes(content)
    with pytest.raises(DirectoryInUse, match="is in use by another process"):
        DirectoryLock(tmp_path)
    lock.release()


def test_a_lock_file_that_points_elsewhere_is_not_followed(tmp_path: Path):
    target = tmp_path / "precious"
    target.write_text("words")
    (tmp_path / LOCK_NAME).symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        DirectoryLock(tmp_path)
    assert target.read_text() == "words"


def test_a_file_in_the_place_of_the_directory_is_no_directory(tmp_path: Path):
    file = tmp_path / "data"
    file.write_text("something else")
    with pytest.raises(NotADirectoryError, match=r"Not a directory: .*data"):
        DirectoryLock(file)
    assert file.read_text() == "something else"
