"""Brokers forked from a process that has loaded their modules, for the brokers of tests.

Loading is most of the processor time of a start, and the suite starts hundreds of brokers. This
file is both ends: `Preloaded`, and the process that it runs, which forks itself for each start. The
fork takes on the command line, the environment, the directory and the standard streams that it is
given, and goes on as `leporid` does. Signals reach it by its process id; its exit code comes over a
pipe from the process that forked it.

It must not be told what a broker is. A test is not to notice that its broker was forked: what
depends on a new interpreter, such as variables that it reads at its start, has the command run.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, NoReturn

MODULES: Final = (
    "leporid.cli.serve",
    "leporid.server.node",
    "leporid.server.http_services",
    "leporid.management.incoming",
    "leporid.server.rabbitmq_environment",
    "uvicorn.protocols.http.h11_impl",
    "leporid.cli.backup",
    "leporid.server.check",
)
"""What a broker loads until its ports are open, and right after; and what checks its data."""
READ_AT_START: Final = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "ARROW_", "OPENSSL_", "SSL_")
"""Beginnings of variables that count when an interpreter, or a library, is loaded."""
SOURCE: Final = str(Path(__file__).resolve().parents[1] / "src")
REQUEST_BYTES_MAX: Final = 128 * 1024


def read_at_start() -> dict[str, str]:
    """Return the variables that a forked process would not look at.

    What the package itself sets when it is imported by tests counts as if it were not set, as a
    broker does the same: else all brokers after that would be started by the command.
    """
    found = {name: text for name, text in os.environ.items() if name.startswith(READ_AT_START)}
    # Of `leporid.management.tables`.
    found.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Of `leporid.spark.session`: where this package is.
    parts = found.pop("PYTHONPATH", "").split(os.pathsep)
    found["PYTHONPATH"] = os.pathsep.join(part for part in parts if part != SOURCE)
    return found


class Forked:
    """A forked process, with what `subprocess.Popen` has of one.

    Attributes:
        pid: its process id.
        returncode: None while it is not known to have ended.
        stdout: what it writes, if that was asked for.
    """

    def __init__(self, arguments: Sequence[str], told: int, stdout: IO[bytes] | None) -> None:
        self.args = arguments
        self.returncode: int | None = None
        self.stdout = stdout
        # First the process id, then how it ended.
        self._told = os.fdopen(told, "rb", buffering=0)
        self.pid = self._number()

    def _number(self) -> int:
        line = self._told.readline()
        if not line:
            raise RuntimeError("the process that forks brokers is gone")
        return int(line)

    def poll(self) -> int | None:
        """Return the exit code, or None if it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once there is one; raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = os.waitstatus_to_exitcode(self._number())
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, whatever it does."""
        self.send_signal(signal.SIGKILL)


class Preloaded:
    """Starts processes of `leporid`, in place of `subprocess.Popen`.

    Args:
        program: the path of `leporid`; other commands are run.
    """

    def __init__(self, program: str) -> None:
        self._program = program
        self._environment = read_at_start()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def __call__(
        self, arguments: Sequence[str], *, stdin: int, stdout: int, stderr: Any
    ) -> Forked | subprocess.Popen[bytes]:
        """Start a process; the arguments are those of `subprocess.Popen`."""
        same = arguments[0] == self._program and read_at_start() == self._environment
        if not same:
            return subprocess.Popen(arguments, stdin=stdin, stdout=stdout, stderr=stderr)
        if self._requests is None:
            self._load()
        assert self._requests is not None
        request = {
            "arguments": list(arguments),
            "environment": dict(os.environ),
            "directory": os.getcwd(),  # noqa: PTH109 - as os.chdir takes it
        }
        told, tells = os.pipe()
        given, takes = os.pipe()
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            streams = [nothing.fileno(), takes, stderr.fileno(), tells]
            socket.send_fds(self._requests, [json.dumps(request).encode()], streams)
        os.close(takes)
        os.close(tells)
        return Forked(arguments, told, os.fdopen(given, "rb", buffering=0))

    def _load(self) -> None:
        self._requests, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )

    def close(self) -> None:
        """End the process that forks; what it has forked goes on."""
        if self._requests is not None and self._process is not None:
            self._requests.close()
            self._process.wait()
            self._requests = None


class _Forks:
    """The process that forks.

    Args:
        requests: where requests come from; at its end this process ends.
    """

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._tells: dict[int, int] = {}
        # Written to by Python, for each signal.
        self._signalled, self._signals = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(self._signalled, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._signals)
        # The terminal's Ctrl-C is for the tests, which then let go of us.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def next(self) -> list[str]:
        """Return the arguments of a request, in a process that was forked for it."""
        while True:
            ready, _, _ = select.select([self._requests.fileno(), self._signalled], [], [])
            if self._signalled in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._signalled, 4096)
                self._reap()
            if self._requests.fileno() in ready:
                said, streams, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES_MAX, 4)
                if not said:
                    sys.exit()
                request = json.loads(said)
                pid = os.fork()
                if pid == 0:
                    return self._taken_on(request, streams)
                self._tells[pid] = streams[-1]
                os.write(streams[-1], b"%d\n" % pid)
                for each in streams[:-1]:
                    os.close(each)

    def _reap(self) -> None:
        for pid, tells in list(self._tells.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del self._tells[pid]
                # Whoever waited for it may be gone.
                with contextlib.suppress(BrokenPipeError):
                    os.write(tells, b"%d\n" % status)
                os.close(tells)

    def _taken_on(self, request: dict[str, Any], streams: list[int]) -> list[str]:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._requests.close()
        for number, each in enumerate(streams[:-1]):
            os.dup2(each, number)
        for each in (self._signals, self._signalled, *streams, *self._tells.values()):
            os.close(each)
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        os.chdir(request["directory"])
        arguments: list[str] = request["arguments"]
        return arguments


def _main() -> NoReturn:
    for name in MODULES:
        importlib.import_module(name)
    # A broker makes grammars at its start: 40 ms each time.
    importlib.import_module("leporid.filters.parser").prepare()
    # And compresses the pages of the web UI right after: 60 ms.
    importlib.import_module("leporid.server.web_pages").WebPages().pack()
    # Else each process would copy what the collector only looks at.
    gc.freeze()
    sys.argv = _Forks(socket.socket(fileno=int(sys.argv[1]))).next()
    from leporid.cli.main import main

    sys.exit(main())


if __name__ == "__main__":
    _main()
