"""Compares passwords with argon2 hashes in processes of their own.

Responsible for those processes: started when there is a password to compare, kept while there are
more, and ended with the broker. Must not know users or logins.

Argon2 maps tens of megabytes of memory for each hash, and gives them back. Threads of one process
share the lock of its memory map and the interpreter's lock. So a hashing thread that stands back
behind others can lose the processor while it holds one of them, and the broker's own thread then
waits for it: 5 to 15 ms at one hash in a hundred, on two busy processors. A process has locks of
its own.

Invariants: whatever becomes of a process, the answer is right; then the password is hashed here.
There are no more processes than threads that ask at a time. None outlives the broker: its pipe ends
with it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import select
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from leporid.broker.access.passwords import Argon2Hash

logger = logging.getLogger(__name__)

ROOT: Final = Path(__file__).parents[2]
"""Where the package `leporid` is."""

IDLE_S: Final = 600.0
"""How long a process waits for another password. It takes about 30 MB while it waits."""

NICENESS: Final = 5
"""Of the processes, beside the broker, as `nice` counts. Less than of threads that encode tables: a
login has a deadline, on a machine that others keep busy, too."""

# The lengths of a hash's text and of a password; both follow.
_LENGTHS: Final = struct.Struct(">II")
_ANSWERS: Final = (b"\0", b"\1")
_MAIN: Final = (
    "import sys; sys.path[:0] = {path!r}; "
    "from leporid.server.password_hashing import main; main({idle_s!r})"
)

_Process = subprocess.Popen[bytes]


class PasswordHashing:
    """Processes that hash: as many as are asked at a time.

    Args:
        command: the interpreter that they run.
        idle_s: how long each waits for another password before it ends.
    """

    def __init__(self, command: Sequence[str] = (sys.executable,), idle_s: float = IDLE_S) -> None:
        # Those of the interpreter, too: it may find argon2 by what the broker was started with.
        path = [str(ROOT), *filter(None, sys.path)]
        self._command = [*command, "-I", "-c", _MAIN.format(path=path, idle_s=idle_s)]
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._stopped = False

    @property
    def pids(self) -> list[int]:
        """The processes that were not found ended."""
        return sorted(process.pid for process in tuple(self._all))

    def matches(self, stored: Argon2Hash, password: bytes) -> bool:
        """Hash and compare, as `stored` does; on a thread, which waits meanwhile."""
        while True:
            process = None
            with contextlib.suppress(IndexError):
                process = self._idle.pop()
            if process is not None:
                # It may have ended: nobody asked for a long time, or somebody killed it.
                with contextlib.suppress(OSError):
                    return self._ask(process, stored, password)
                continue
            try:
                return self._ask(self._spawn(), stored, password)
            except OSError as error:
                if self._stopped:
                    return False  # nobody is logged in any more
                logger.warning("a password is hashed by the broker itself: %s", error)
                return stored.matches(password)

    def stop(self) -> None:
        """End the processes; who asks meanwhile is told that the password is wrong."""
        self._stopped = True
        for process in tuple(self._all):
            process.kill()
        while self._idle:
            self._end(self._idle.pop())
        # Whoever asks one of the others finds it ended.

    def _spawn(self) -> _Process:
        process = subprocess.Popen(  # noqa: S603 - no word of it is anybody else's
            self._command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
        self._all.add(process)
        if self._stopped:
            process.kill()
        return process

    def _ask(self, process: _Process, stored: Argon2Hash, password: bytes) -> bool:
        """Ask a process, which is idle again afterwards; raises OSError, and then it has ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        text = stored.text.encode("ascii")
        question = memoryview(_LENGTHS.pack(len(text), len(password)) + text + password)
        try:
            while question:
                question = question[process.stdin.write(question) :]
            answer = process.stdout.read(1)
            if answer not in _ANSWERS:
                raise BrokenPipeError(f"process {process.pid} ended while it hashed")
        except (OSError, ValueError):  # the latter of a pipe that is closed
            self._end(process)
            raise BrokenPipeError(f"process {process.pid} ended") from None
        self._idle.append(process)
        if self._stopped:
            self.stop()
        return answer == _ANSWERS[True]

    def _end(self, process: _Process) -> None:
        self._all.discard(process)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


# ------------------------------------------------------------------ the process


def main(idle_s: float) -> None:
    """Be such a process."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would have passwords in it
    with os.fdopen(0, "rb", buffering=0) as questions, os.fdopen(1, "wb", buffering=0) as answers:
        serve(questions, answers, idle_s)


def serve(questions: IO[bytes], answers: IO[bytes], idle_s: float) -> None:
    """Answer until there are no more questions: the broker has ended, or asks nothing."""
    while select.select([questions], [], [], idle_s)[0]:
        head = _read(questions, _LENGTHS.size)
        if len(head) < _LENGTHS.size:
            return
        text, password = (_read(questions, length) for length in _LENGTHS.unpack(head))
        answers.write(_ANSWERS[Argon2Hash(text.decode("ascii")).matches(password)])


def _read(questions: IO[bytes], length: int) -> bytes:
    data = b""
    while len(data) < length and (part := questions.read(length - len(data))):
        data += part
    return data
