"""Passwords are hashed in processes of their own; whatever becomes of these, answers are right."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leporid.broker.access.passwords import Argon2Hash, hash_password
from leporid.server.password_hashing import NICENESS, PasswordHashing

STORED = hash_password("right", b"s" * 16)
PATIENCE_S = 30

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc and pidfd")


@pytest.fixture(scope="module")
def hashing() -> Iterator[PasswordHashing]:
    hashing = PasswordHashing()
    yield hashing
    (pid,) = hashing.pids
    hashing.stop()
    assert hashing.pids == []
    assert not is_there(pid)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_end(pid: int) -> None:
    """Return when a process has ended, which may be somebody else's."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([descriptor], [], [], PATIENCE_S)
    os.close(descriptor)
    assert ended, f"process {pid} has not ended"


def descriptors_of(process: str) -> list[str]:
    return sorted(path.name for path in Path(f"/proc/{process}/fd").iterdir())


def no_hash_here(_: Argon2Hash, password: bytes) -> bool:
    raise AssertionError("the password was hashed by this process")


def test_one_process_answers(hashing: PasswordHashing, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Argon2Hash, "matches", no_hash_here)
    assert hashing.matches(STORED, b"right")
    for wrong in (b"wrong", b"", b"right\0", b"r" * 200_000):
        assert not hashing.matches(STORED, wrong)
    assert hashing.matches(STORED, b"right")
    assert len(hashing.pids) == 1


def test_as_many_processes_as_are_asked_at_a_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Argon2Hash, "matches", no_hash_here)
    hashing = PasswordHashing()
    with ThreadPoolExecutor(2) as threads:
        words = [b"right", b"wrong"] * 4
        answers = [threads.submit(hashing.matches, STORED, word) for word in words]
        assert [each.result() for each in answers] == [True, False] * 4
    assert 1 <= len(hashing.pids) <= 2
    hashing.stop()


@needs_linux
def test_a_process_that_was_killed_is_replaced(
    hashing: PasswordHashing, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Argon2Hash, "matches", no_hash_here)
    assert hashing.matches(STORED, b"right")
    (before,) = hashing.pids
    descriptors = descriptors_of("self")
    os.kill(before, signal.SIGKILL)
    assert hashing.matches(STORED, b"right")
    assert not hashing.matches(STORED, b"wrong")
    (after,) = hashing.pids
    assert after != before
    assert len(descriptors_of("self")) == len(descriptors)


def test_a_process_that_ends_when_it_is_asked_leaves_the_answer_to_the_broker(
    caplog: pytest.LogCaptureFixture,
):
    hashing = PasswordHashing(command=("/bin/false",))
    assert hashing.matches(STORED, b"right")
    assert not hashing.matches(STORED, b"wrong")
    assert "a password is hashed by the broker itself: process" in caplog.text
    assert hashing.pids == []


def test_without_an_interpreter_the_broker_hashes(caplog: pytest.LogCaptureFixture):
    hashing = PasswordHashing(command=("/nowhere/python",))
    assert hashing.matches(STORED, b"right")
    assert not hashing.matches(STORED, b"wrong")
    assert "No such file" in caplog.text


def test_nobody_is_right_once_it_is_stopped():
    hashing = PasswordHashing()
    hashing.stop()
    assert not hashing.matches(STORED, b"right")
    assert hashing.pids == []


@needs_linux
def test_an_idle_process_ends_and_the_next_password_has_another():
    hashing = PasswordHashing(idle_s=0.2)
    assert hashing.matches(STORED, b"right")
    (idle,) = hashing.pids
    wait_for_end(idle)
    assert not hashing.matches(STORED, b"wrong")
    assert idle not in hashing.pids
    hashing.stop()


@needs_linux
def test_a_process_has_nothing_of_the_broker(hashing: PasswordHashing):
    assert hashing.matches(STORED, b"right")
    (pid,) = hashing.pids
    process = Path(f"/proc/{pid}")
    assert process.joinpath("environ").read_bytes() == b"LANG=C.UTF-8\0"
    assert descriptors_of(str(pid)) == ["0", "1", "2"]
    assert process.joinpath("cwd").resolve() == Path("/")
    limits = process.joinpath("limits").read_text().splitlines()
    (core,) = [limit.split()[4:6] for limit in limits if limit.startswith("Max core file size")]
    assert core == ["0", "0"]
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(niceness + NICENESS, 19)


ENDED = """
import os, signal
from leporid.broker.access.passwords import hash_password
from leporid.server.password_hashing import PasswordHashing

hashing = PasswordHashing()
assert hashing.matches(hash_password("right", b"s" * 16), b"right")
print(*hashing.pids, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_linux
def test_the_process_of_a_killed_broker_ends():
    killed = subprocess.run(
        [sys.executable, "-c", ENDED], stdout=subprocess.PIPE, timeout=PATIENCE_S, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    wait_for_end(int(killed.stdout))
