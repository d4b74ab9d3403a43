"""A real broker in a process of its own, for tests, demos and benchmarks.

The broker is started by its command line and judged by it: the line `ready amqp=… http=… pid=…`
on standard output, signals, and exit codes. Nothing of the broker is imported here, so the same
code can drive another build of it, or another program that keeps the same contract: the command
comes from the environment variable LEPORID_TEST_COMMAND if that is set.

Invariant: a process that was started is ended and waited for, by `stop`, `kill` or `close`.
"""

import contextlib
import os
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Protocol, Self

COMMAND_VARIABLE = "LEPORID_TEST_COMMAND"

# A start replays the log; recovery of a test's data takes well under a second.
START_SECONDS = 60.0
# A clean stop drains and syncs.
STOP_SECONDS = 30.0
# How much of the broker's log an error message quotes.
LOG_TAIL_BYTES = 4000


class BrokerError(Exception):
    """The broker did not start, or did not end, as its command line promises."""


class Process(Protocol):
    """What is needed of a process that was started: what `subprocess.Popen` has."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def stdout(self) -> IO[bytes] | None:
        """What it writes, if that was asked for."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once there is one; raises `subprocess.TimeoutExpired`."""

    def send_signal(self, number: int, /) -> None:
        """Send a signal, unless it has ended."""

    def kill(self) -> None:
        """End it, whatever it does."""


def reserve_port() -> int:
    """Return a port on 127.0.0.1 that is free now and that no outgoing connection will take.

    The kernel gives outgoing connections their ports from the ephemeral range. A broker that is
    to come back on its old port must not have one of those: meanwhile a client's attempt to
    reconnect could be given that very port, and would then be connected to itself.
    """
    first_ephemeral, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    highest = int(first_ephemeral) - 1
    span = min(10_000, highest - 1024)
    # Processes that look for a port at the same time start at different places.
    start = (os.getpid() * 7919 + time.monotonic_ns()) % span
    for step in range(span):
        port = highest - (start + step) % span
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    message = "no free port below the ephemeral range"
    raise BrokerError(message)


def default_command() -> list[str]:
    """Return the command in front of the options: the variable's, or this environment's own."""
    given = os.environ.get(COMMAND_VARIABLE)
    if given:
        return shlex.split(given)
    return [str(Path(sys.executable).with_name("leporid")), "serve"]


class BrokerProcess:
    """One broker on one data directory; it may be started and ended many times.

    Args:
        data_dir: where it keeps what it must not lose.
        amqp_port: 0 for another free one at each start.
        options: for the command line.
        config: what its configuration file holds; "" for none. Written beside the data directory.
        command: in front of the options; `default_command` without.

    Attributes:
        data_dir: where the broker keeps what it must not lose.
        log_path: the broker's standard error, of all its lives.
        amqp_port: where clients connect; known once started, the same after a restart if a port
            was asked for.
        http_port: where `/health` and `/metrics` are; known once started, 0 if there is none.
        metrics_port: where metrics are as well; likewise.
        amqps_port, https_port, metrics_https_port: the same over TLS; 0 without a certificate.
        launch: starts all processes of brokers, and those of `check`, called as `subprocess.Popen`
            is, which it is unless somebody who starts many knows a cheaper way.
    """

    launch: ClassVar[Callable[..., Process]] = subprocess.Popen

    def __init__(
        self,
        data_dir: Path,
        *,
        amqp_port: int = 0,
        options: Sequence[str] = (),
        config: str = "",
        command: Sequence[str] | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.log_path = data_dir.with_name(data_dir.name + ".log")
        self.amqp_port = amqp_port
        self.http_port = self.metrics_port = 0
        self.amqps_port = self.https_port = self.metrics_https_port = 0
        self._asked_port = amqp_port
        self._options = list(options)
        self._config = config
        self._command = list(command) if command is not None else default_command()
        self._process: Process | None = None

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self._process is not None else "not running"
        return f"<BrokerProcess {self.data_dir} port {self.amqp_port}, {state}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        if self._process is None:
            message = "the broker is not running"
            raise BrokerError(message)
        return self._process.pid

    @property
    def url(self) -> str:
        """The AMQP URL for the user guest and the vhost `/`."""
        return f"amqp://guest:guest@127.0.0.1:{self.amqp_port}/%2F"

    def start(self, seconds: float = START_SECONDS) -> None:
        """Start the broker and return when clients may connect."""
        if self._process is not None:
            message = "the broker is running already"
            raise BrokerError(message)
        self._process = self._spawn()
        try:
            self._read_addresses(self._read_ready_line(seconds))
        except BrokerError:
            self.close()
            raise

    def start_refused(self, seconds: float = START_SECONDS) -> tuple[int, str]:
        """Start one more broker on the same directory; return its exit code and its log.

        Raises:
            BrokerError: it did not end by itself.
        """
        arguments = self._arguments(0)
        with _runnable(arguments):
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        try:
            output, log = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            output, log = process.communicate()
            message = f"a second broker on {self.data_dir} kept running; it said {output!r}"
            raise BrokerError(message) from None
        return process.returncode, log.decode(errors="replace")

    def check(self) -> tuple[int, str]:
        """Run `leporid check` on the data directory; return its exit code and what it says."""
        if self._process is not None or self._command[-1:] != ["serve"]:
            message = "only a data directory of a stopped `leporid serve` can be checked"
            raise BrokerError(message)
        arguments = [*self._command[:-1], "check", str(self.data_dir)]
        with tempfile.TemporaryFile() as errors, _runnable(arguments):
            process = type(self).launch(
                arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
            # One that hangs is killed, and its exit code says so.
            timer = threading.Timer(START_SECONDS, process.kill)
            timer.start()
            try:
                assert process.stdout is not None
                output = process.stdout.read()
                code = self._reap(process, START_SECONDS)
            finally:
                timer.cancel()
            errors.seek(0)
            return code, (output + errors.read()).decode(errors="replace")

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            self._reap(process, STOP_SECONDS)

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """Ask the broker to end with SIGTERM, wait for it, and return its exit code."""
        process, self._process = self._process, None
        if process is None:
            message = "the broker is not running"
            raise BrokerError(message)
        process.send_signal(signal.SIGTERM)
        try:
            return self._reap(process, seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            self._reap(process, STOP_SECONDS)
            message = f"the broker was still there {seconds} s after SIGTERM\n{self.log_tail()}"
            raise BrokerError(message) from None

    def close(self) -> None:
        """End the broker if it runs, whatever its state. May be called twice."""
        self.kill()

    def log_tail(self) -> str:
        """Return the end of the broker's log, for error messages."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    # ------------------------------------------------------------------ private

    def _spawn(self) -> Process:
        arguments = self._arguments(self._asked_port)
        with self.log_path.open("ab") as log, _runnable(arguments):
            return type(self).launch(
                arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )

    def _arguments(self, amqp_port: int) -> list[str]:
        """Return the command line, and write the configuration that it names."""
        ours = {
            "--data-dir": str(self.data_dir),
            "--bind": "127.0.0.1",
            "--amqp-port": str(amqp_port),
            "--http-port": "0",
            "--metrics-port": "-1",
        }
        given = {option.partition("=")[0] for option in self._options}
        arguments = list(self._command)
        for option, value in ours.items():
            if option not in given:
                arguments += [option, value]
        arguments += self._options
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self._config:
            file = self.data_dir.with_name(self.data_dir.name + ".toml")
            file.write_text(self._config)
            arguments += ["--config", str(file)]
        return arguments

    @staticmethod
    def _reap(process: Process, seconds: float) -> int:
        code = process.wait(seconds)
        if process.stdout is not None:
            process.stdout.close()
        return code

    def _read_ready_line(self, seconds: float) -> str:
        assert self._process is not None
        stdout = self._process.stdout
        assert stdout is not None
        deadline = time.monotonic() + seconds
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    message = f"no ready line within {seconds} s\n{self.log_tail()}"
                    raise BrokerError(message)
                # One octet at a time: nothing after the line may be taken out of the pipe.
                octet = os.read(stdout.fileno(), 1)
                if not octet:
                    code = self._process.wait(STOP_SECONDS)
                    message = f"the broker ended with code {code}\n{self.log_tail()}"
                    raise BrokerError(message)
                line += octet
        return line.decode().strip()

    def _read_addresses(self, line: str) -> None:
        words = line.split()
        fields = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        if words[:1] != ["ready"] or "pid" not in fields:
            message = f"not a ready line: {line!r}"
            raise BrokerError(message)
        if int(fields["pid"]) != self.pid:
            message = f"the ready line names process {fields['pid']}, but {self.pid} was started"
            raise BrokerError(message)
        self.amqp_port = _port(fields.get("amqp", ""))
        self.http_port = _port(fields.get("http", ""))
        self.metrics_port = _port(fields.get("metrics", ""))
        self.amqps_port = _port(fields.get("amqps", ""))
        self.https_port = _port(fields.get("https", ""))
        self.metrics_https_port = _port(fields.get("metrics-https", ""))


@contextlib.contextmanager
def _runnable(arguments: Sequence[str]) -> Iterator[None]:
    """Say of a program that cannot be run which one it is; raises BrokerError."""
    try:
        yield
    except OSError as error:
        message = f"cannot run {arguments[0]}: {error}"
        raise BrokerError(message) from error


def _port(address: str) -> int:
    """Return the port of HOST:PORT; 0 of nothing."""
    return int(address.rpartition(":")[2] or 0)
